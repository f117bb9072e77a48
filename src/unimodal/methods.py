"""THE table: every method as a head, an objective, a family and a citation.

Whatever offers a choice of methods iterates over `METHODS`. To add one, write its head or objective
in a file of its own and add a line here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unimodal import decision
from unimodal.heads import (
    Binomial,
    CumulativeLink,
    Head,
    OrderedAdjacentCategories,
    OrdinalEncoding,
    Poisson,
    Softmax,
    StickBreaking,
    UnimodalNet,
    UnorderedThresholds,
    VShapedStereotype,
)
from unimodal.heads.base import from_end
from unimodal.objectives import (
    BinaryLikelihood,
    ClassDistanceWeighted,
    NearestUnimodal,
    NegativeLogLikelihood,
    Objective,
    OrderPenalty,
    UnimodalRegularisation,
)

Family = Literal["non-unimodal", "hard", "soft"]


class OrdinalMethod(nn.Module):
    """A head and an objective: all that a network's outputs need, from training to decision.

    Parameters
    ----------
    head : Head
        What distribution the outputs mean.
    objective : Objective
        What training penalises.
    """

    def __init__(self, head: Head, objective: Objective) -> None:
        super().__init__()
        self.head = head
        self.objective = objective

    @property
    def n_classes(self) -> int:
        """The number of ordered classes K."""
        return self.head.n_classes

    @property
    def n_outputs(self) -> int:
        """How many values per sample the network must return."""
        return self.head.n_outputs

    @property
    def always_unimodal(self) -> bool:
        """Whether every distribution of this method has one peak, whatever the outputs."""
        return self.head.always_unimodal

    def forward(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        return self.log_prob(outputs, dim)

    def log_prob(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        """Log-probabilities of the classes, normalised and finite.

        Parameters
        ----------
        outputs : Tensor
            The network's outputs, `n_outputs` values along `dim`; the other axes are free.
        dim : int
            The class axis.

        Returns
        -------
        Tensor
            `n_classes` values along `dim`, in float32 or better.
        """
        return self.head.log_prob(outputs, dim)

    def loss(self, outputs: Tensor, y: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        """One loss per sample; take the mean yourself.

        Parameters
        ----------
        outputs : Tensor
            As for `log_prob`.
        y : Tensor
            Integer labels in 0..K-1, shaped like `outputs` without the class axis.
        dim : int
            The class axis.
        """
        labels = checked_labels(y, outputs, self.n_classes, dim)
        loss: Tensor = self.objective(self.head, outputs, labels, dim)
        return loss

    def predict(self, outputs: Tensor, rule: str | None = None, dim: int = -1) -> Int[Tensor, "..."]:
        """The predicted class of each sample.

        Parameters
        ----------
        outputs : Tensor
            As for `log_prob`.
        rule : {"mode", "median", "mean"}, optional
            The decision rule; by default the one of the method's own paper.
        dim : int
            The class axis.
        """
        if rule is None:
            return self.head.native_decision(outputs, dim)
        return decision.decide(self.log_prob(outputs, dim).exp(), rule, dim)


def checked_labels(y: Tensor, outputs: Tensor, n_classes: int, dim: int) -> Int[Tensor, "..."]:
    """Return int64 labels after checking dtype, shape and range."""
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise ValueError(f"y must hold integer labels, got {y.dtype}")
    shape = list(outputs.shape)
    if shape:
        del shape[from_end(dim, outputs)]
    if list(y.shape) != shape:
        raise ValueError(
            f"y must have the shape of outputs without dim {dim}, {tuple(shape)}, got {tuple(y.shape)}"
        )
    if not _is_traced(y) and y.numel():
        low, high = (int(bound) for bound in torch.aminmax(y))
        if low < 0 or high >= n_classes:
            row = tuple(((y < 0) | (y >= n_classes)).nonzero()[0].tolist())
            where = row[0] if len(row) == 1 else row
            raise ValueError(f"y must lie in [0, {n_classes - 1}], got {int(y[row])} at row {where}")
    return y.long()


def _is_traced(y: Tensor) -> bool:
    """Under vmap, compile and export there are no values to look at."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(y)


@dataclass(frozen=True)
class Method:
    """One line of the table.

    Attributes
    ----------
    name, symbol, title : str
        The key, the paper's abbreviation, and what it stands for.
    family : {"non-unimodal", "hard", "soft"}
        Whether unimodality is ignored, built in, or penalised.
    reference : str
        Where the method was proposed.
    """

    name: str
    symbol: str
    title: str
    family: Family
    reference: str
    head: type[Head] = Softmax
    objective: type[Objective] = NegativeLogLikelihood
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)

    @property
    def always_unimodal(self) -> bool:
        """Whether the head guarantees one peak."""
        return self.head.always_unimodal

    @property
    def default_params(self) -> dict[str, Any]:
        """The keyword parameters that `make_method` takes for this method, with their defaults."""
        params = {**_keywords(self.head), **_keywords(self.objective), **self.defaults}
        return {name: value for name, value in params.items() if name not in self.fixed}

    @property
    def per_run(self) -> frozenset[str]:
        """The parameters that may be tensors, with one number for each of several runs."""
        return frozenset(
            name
            for component in (self.head, self.objective)
            for name, parameter in signature(component).parameters.items()
            if Tensor in get_args(parameter.annotation) and name in self.default_params
        )

    @property
    def as_published(self) -> "Method":
        """The variant that the paper's numbers came from; the method itself where there is no other."""
        return replace(self, **self.published)

    def build(self, n_classes: int, **params: Any) -> OrdinalMethod:
        """Make the module, from the defaults and `params`."""
        known = self.default_params
        for name in params:
            if name not in known:
                takes = ", ".join(known) or "no parameters"
                raise ValueError(f"{name!r} is not a parameter of method {self.name!r}, which takes {takes}")
        values = {**known, **params, **self.fixed}
        return OrdinalMethod(
            self.head(n_classes, **{k: values[k] for k in _keywords(self.head)}),
            self.objective(**{k: values[k] for k in _keywords(self.objective)}),
        )


def _keywords(component: type[nn.Module]) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in signature(component).parameters.items()
        if parameter.default is not Parameter.empty
    }


CARDOSO = "Cardoso, Cruz, Albuquerque (IEEE TAI 2025), doi:10.1109/TAI.2025.3549740"
ALBUQUERQUE_2021 = "Albuquerque, Cruz, Cardoso (PeerJ CS 2021), doi:10.7717/peerj-cs.457"
ALBUQUERQUE_2022 = "Albuquerque, Cruz, Cardoso (Mathematics 2022), doi:10.3390/math10060980"
YAMASAKI = "Yamasaki (TMLR 2022), Unimodal likelihood models for ordinal data"

_LINES = (
    Method("ce", "CE", "cross-entropy", "non-unimodal", "the multinomial likelihood"),
    Method(
        "pom", "POM", "proportional odds (cumulative link)", "non-unimodal",
        "McCullagh (JRSS B 1980), doi:10.1111/j.2517-6161.1980.tb01109.x",
        head=CumulativeLink,
        published={"head": UnorderedThresholds, "objective": BinaryLikelihood},
    ),
    Method(
        "oe", "OE", "ordinal encoding", "non-unimodal",
        "Frank, Hall (ECML 2001); Cheng, Wang, Pollastri (IJCNN 2008)",
        head=OrdinalEncoding, objective=BinaryLikelihood,
    ),
    Method(
        "cdw", "CDW", "class distance weighted cross-entropy", "non-unimodal",
        "Polat et al. (MIUA 2022), doi:10.1007/978-3-031-12053-4_12",
        objective=ClassDistanceWeighted,
    ),
    Method(
        "oll", "OLL", "ordinal log loss", "non-unimodal",
        "Castagnos, Mihelich, Dognin (COLING 2022)",
        objective=ClassDistanceWeighted, defaults={"alpha": 1.5},
    ),
    Method(
        "stick", "SB", "stick breaking", "non-unimodal",
        "Liu et al. (Neurocomputing 2020), doi:10.1016/j.neucom.2020.01.025",
        head=StickBreaking,
    ),
    Method(
        "bu", "BU", "binomial", "hard",
        "da Costa, Alonso, Cardoso (Neural Networks 2008), doi:10.1016/j.neunet.2007.10.003",
        head=Binomial,
    ),
    Method("pu", "PU", "Poisson", "hard", "Beckham, Pal (ICML 2017), arXiv:1705.05278", head=Poisson),
    Method(
        "ord-acl", "ORD-ACL", "ordered adjacent-categories logit", "hard", YAMASAKI,
        head=OrderedAdjacentCategories,
    ),
    Method("vs-sl", "VS-SL", "V-shaped stereotype logit", "hard", YAMASAKI, head=VShapedStereotype),
    Method("un", "UN", "UnimodalNet", "hard", CARDOSO, head=UnimodalNet),
    Method(
        "ur", "UR", "unimodal regularisation", "soft",
        "Liu et al. (Neurocomputing 2020), doi:10.1016/j.neucom.2020.01.025",
        objective=UnimodalRegularisation,
        fixed={"published": False}, published={"fixed": {"published": True}},
    ),
    Method(
        "co", "CO", "cross-entropy and order", "soft", ALBUQUERQUE_2021,
        objective=OrderPenalty, fixed={"delta": 0.0, "base": "nll"},
    ),
    Method(
        "co2", "CO2", "cross-entropy and order with margin", "soft", ALBUQUERQUE_2021,
        objective=OrderPenalty, fixed={"base": "nll"},
    ),
    Method(
        "ho2", "HO2", "entropy and order with margin", "soft", ALBUQUERQUE_2021,
        objective=OrderPenalty, fixed={"base": "entropy"},
    ),
    Method(
        "qul-ce", "QUL-CE", "cross-entropy and quasi-unimodality", "soft", ALBUQUERQUE_2022,
        objective=OrderPenalty, fixed={"base": "nll", "penalty": "qul"},
    ),
    Method(
        "qul-ho", "QUL-HO", "entropy and quasi-unimodality", "soft", ALBUQUERQUE_2022,
        objective=OrderPenalty, fixed={"base": "entropy", "penalty": "qul"},
    ),
    Method(
        "wu-kl", "WU-KLDiv", "Wasserstein regularisation, KL penalty", "soft", CARDOSO,
        objective=NearestUnimodal, defaults={"penalty": "reverse-kl"},
    ),
    Method(
        "wu-wass", "WU-Wass", "Wasserstein regularisation", "soft", CARDOSO,
        objective=NearestUnimodal,
    ),
)  # fmt: skip

METHODS: Mapping[str, Method] = MappingProxyType({line.name: line for line in _LINES})


def make_method(name: str, n_classes: int, *, published: bool = False, **params: Any) -> OrdinalMethod:
    """Make a method of the table for K classes.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    n_classes : int
        The number of ordered classes, at least 2.
    published : bool
        The variant that the paper's numbers came from, where it differs from the cited source.
    **params
        Parameters of the method, such as `lam`, `alpha`, `eta`, `delta`, `tau` or `link`; see
        `METHODS[name].default_params`. Numbers may be tensors that broadcast against the loss,
        one value per run.

    Returns
    -------
    OrdinalMethod
        A module with `log_prob`, `loss` and `predict`.
    """
    if name not in METHODS:
        raise ValueError(f"name must be one of {', '.join(METHODS)}, got {name!r}")
    method = METHODS[name].as_published if published else METHODS[name]
    return method.build(n_classes, **params)
