"""Metrics for ordered classes: pure functions of true labels y and predictions p that return a float.

p is either one distribution per sample, shape (n, K), of which the class metrics judge the mode, or one
class per sample, shape (n,). Arrays, tensors and lists are equally welcome. Shares are fractions of 1,
never percentages. The number of classes is K or `n_classes`; classes that do not occur are normal.
What is undefined is nan (an agreement with a constant, the sensitivity of an absent class), and what
is infinite is inf: nothing is replaced or averaged away.

Every metric is a formula of sums over the samples, so batches and processes add up and nobody needs to
keep the samples: `statistics` sums, `scores` applies the formulas. A metric of probabilities is a mean over
the samples (but `ece`, whose sums are those of its bins); a metric of decided classes is a formula of
the confusion table N, N_ij = #{y = i, decided j}:

    qwk   1 - Σ (i-j)² N_ij / Σ (i-j)² E_ij,  E the table of independent rows and columns
          (Cohen, Psychological Bulletin 70, 1968)
    τ_b   (C - D) / sqrt(#{pairs with different y} #{pairs with different predictions}), where a
          pair is concordant (C) if one cell is below and right of the other, and discordant (D) if below and
          left; cumulative sums of the table count both in O(K²) (Kendall, Biometrika 33, 1945)
    amae, mmae   mean and maximum over the present classes of their mean absolute errors (Baccianella,
          Esuli and Sebastiani, ISDA 2009; Cruz-Ramírez et al., Neurocomputing 135, 2014)

`published=True` computes two of them as the tables of Cardoso, Cruz and Albuquerque
(doi:10.1109/TAI.2025.3549740) did: see `nll` and `unimodal_share`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import index
from types import MappingProxyType
from typing import Any, Protocol, SupportsIndex, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from unimodal.decision import decide
from unimodal.simplex import Values, as_distribution, as_integers, is_unimodal

Count: TypeAlias = SupportsIndex | None
Labels: TypeAlias = Int[np.ndarray, " n"]
Proba: TypeAlias = Float[np.ndarray, "n K"]
Table: TypeAlias = Int[np.ndarray, "K K"]
Sums: TypeAlias = Int[np.ndarray, "*sums"] | Float[np.ndarray, "*sums"]
PerSample: TypeAlias = Float[np.ndarray, " n"] | Bool[np.ndarray, " n"]

_N_BINS = 15


@runtime_checkable
class SimpleMetric(Protocol):
    """A metric without options."""

    def __call__(self, y: Values, p: Values, *, n_classes: Count = None) -> float: ...


@dataclass(frozen=True)
class Metric:
    """How to read a metric: its function, its direction, and whether classes alone are enough for it."""

    function: Callable[..., float]
    greater_is_better: bool | None  # None: best near zero
    needs_proba: bool


@dataclass(frozen=True)
class Samples:
    """Labels and predictions that `check` found valid."""

    labels: Labels
    decisions: Labels
    n_classes: int
    p: Values  # as given: its dtype sets the tolerance of unimodality
    distributions: Proba | None  # None if p holds classes

    @property
    def proba(self) -> Proba:
        if self.distributions is None:
            raise ValueError("p must hold probabilities, of shape (n, K), got one class per sample")
        return self.distributions


_FORMULAS: dict[str, Callable[[Any], float]] = {}
_SUMS: dict[str, Callable[[Samples], Sums]] = {}


def _metric(described: Callable[..., Any]) -> SimpleMetric:
    """Make what was registered under the name of `described` a function of labels and predictions."""

    def metric(y: Values, p: Values, *, n_classes: Count = None) -> float:
        return _score(described.__name__, y, p, n_classes)

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(metric, attribute, getattr(described, attribute))
    return metric


def _of_table(formula: Callable[[Table], float]) -> SimpleMetric:
    """Make a formula of the confusion table a metric."""
    _FORMULAS[formula.__name__] = formula
    return _metric(formula)


def _total(values: PerSample) -> Sums:
    return np.array([values.sum(), len(values)], dtype=np.float64)


def _mean(total: Float[np.ndarray, "2"]) -> float:
    return float(total[0] / total[1])


def _mean_of(values: Callable[[Samples], PerSample]) -> SimpleMetric:
    """Make values per sample a metric, their mean."""
    _FORMULAS[values.__name__] = _mean
    _SUMS[values.__name__] = lambda samples: _total(values(samples))
    return _metric(values)


def confusion(y: Values, p: Values, *, n_classes: Count = None) -> Table:
    """Count the samples of true class i (rows) that were decided as class j (columns)."""
    return _confusion(check(y, p, n_classes=n_classes))


@_of_table
def accuracy(table: Table) -> float:
    """Share of samples decided as their own class."""
    return float(table.trace() / table.sum())


@_of_table
def mae(table: Table) -> float:
    """Mean distance |decided - true|."""
    return float((np.abs(_errors(table)) * table).sum() / table.sum())


@_of_table
def mean_error(table: Table) -> float:
    """Mean of decided - true: above 0 where predictions are too high on average."""
    return float((_errors(table) * table).sum() / table.sum())


@_of_table
def off_by_one(table: Table) -> float:
    """Share of samples decided as their own class or as a neighbour of it."""
    return float(table[np.abs(_errors(table)) <= 1].sum() / table.sum())


@_of_table
def qwk(table: Table) -> float:
    """Quadratically weighted kappa; nan if the labels or the decisions are constant."""
    if _has_constant_side(table):
        return math.nan
    weights = _errors(table).astype(np.float64) ** 2
    expected = table.sum(axis=1) @ weights @ table.sum(axis=0) / table.sum()
    return float(1 - (weights * table).sum() / expected)


@_of_table
def kendall_tau(table: Table) -> float:
    """Kendall's rank correlation τ_b; nan if the labels or the decisions are constant."""
    if _has_constant_side(table):
        return math.nan
    surplus = _increasing_pairs(table) - _increasing_pairs(table[:, ::-1])
    return surplus / math.sqrt(_untied_pairs(table.sum(axis=1)) * _untied_pairs(table.sum(axis=0)))


@_of_table
def amae(table: Table) -> float:
    """Mean over the classes present in y of their mean absolute errors."""
    return float(_mae_of_present_classes(table).mean())


@_of_table
def mmae(table: Table) -> float:
    """Largest mean absolute error among the classes present in y."""
    return float(_mae_of_present_classes(table).max())


@_of_table
def gmsec(table: Table) -> float:
    """Geometric mean of the sensitivities of the two extreme classes; nan if one is absent from y."""
    totals = table.sum(axis=1)[[0, -1]]
    if not totals.all():
        return math.nan
    return math.sqrt(math.prod((table.diagonal()[[0, -1]] / totals).tolist()))


def nll(y: Values, p: Values, *, n_classes: Count = None, published: bool = False) -> float:
    """Mean of -log p_y; inf when a true class was given probability 0.

    The paper's tables leave out the samples with p_y ≤ 1e-8, and so does `published`; nan if none remains.
    """
    return _score("nll", y, p, n_classes, published)


def unimodal_share(y: Values, p: Values, *, n_classes: Count = None, published: bool = False) -> float:
    """Share of predicted distributions that are unimodal, by `simplex.is_unimodal`; y is only checked.

    The paper's tables, and `published`, round the steps of 0, p_0 ... p_{K-1}, 0 to two decimals and allow
    one change of sign among those left: that refuses nothing unimodal, and admits what is not.
    """
    return _score("unimodal_share", y, p, n_classes, published)


@_mean_of
def rps(samples: Samples) -> PerSample:
    """Ranked probability score, mean of Σ_{k<K-1} (P_k - [y ≤ k])²: a plain sum, not divided by K-1."""
    reached = samples.labels[:, None] <= np.arange(samples.n_classes - 1)
    return np.asarray(((samples.proba.cumsum(axis=1)[:, :-1] - reached) ** 2).sum(axis=1))


def ece(y: Values, p: Values, *, n_classes: Count = None, n_bins: int = _N_BINS) -> float:
    """Top-label expected calibration error (Guo et al., ICML 2017).

    Mean over the samples' bins of |accuracy - mean confidence|, with confidence the highest probability
    and accuracy that of the mode. The bins divide (0, 1] evenly; each contains its upper end.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    return _calibration_error(_calibration(check(y, p, n_classes=n_classes), n_bins))


@_mean_of
def mean_w1_violation(samples: Samples) -> PerSample:
    """Mean Wasserstein distance (cost |i-j|) from the predictions to the nearest unimodal distribution."""
    from unimodal.projection import distance  # compiles kernels: only for those who ask

    # A distribution of half precision sums to 1 only roughly.
    return np.asarray(distance(samples.proba / samples.proba.sum(axis=1, keepdims=True)))


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "accuracy": Metric(accuracy, greater_is_better=True, needs_proba=False),
        "mae": Metric(mae, greater_is_better=False, needs_proba=False),
        "qwk": Metric(qwk, greater_is_better=True, needs_proba=False),
        "kendall_tau": Metric(kendall_tau, greater_is_better=True, needs_proba=False),
        "mean_error": Metric(mean_error, greater_is_better=None, needs_proba=False),
        "amae": Metric(amae, greater_is_better=False, needs_proba=False),
        "mmae": Metric(mmae, greater_is_better=False, needs_proba=False),
        "off_by_one": Metric(off_by_one, greater_is_better=True, needs_proba=False),
        "gmsec": Metric(gmsec, greater_is_better=True, needs_proba=False),
        "nll": Metric(nll, greater_is_better=False, needs_proba=True),
        "rps": Metric(rps, greater_is_better=False, needs_proba=True),
        "ece": Metric(ece, greater_is_better=False, needs_proba=True),
        "unimodal_share": Metric(unimodal_share, greater_is_better=True, needs_proba=True),
        "mean_w1_violation": Metric(mean_w1_violation, greater_is_better=False, needs_proba=True),
    }
)


def evaluate(
    y: Values, p: Values, pred: Values | None = None, n_classes: Count = None, published: bool = False
) -> dict[str, float]:
    """Compute every metric of `METRICS`, by name.

    Parameters
    ----------
    y : n labels
        True classes.
    p : array or tensor, shape (n, K) or (n,)
        Probabilities; or classes, which leave the metrics of probabilities undefined (nan).
    pred : n classes, optional
        The decisions that the class metrics judge; the modes of p by default.
    n_classes : int, optional
        K; by default p's second dimension, or one more than the highest class.
    published : bool
        Compute `nll` and `unimodal_share` as the paper's tables do.
    """
    return scores(statistics(check(y, p, pred, n_classes), published=published))


def statistics(samples: Samples, names: Iterable[str] = (), published: bool = False) -> dict[str, Sums]:
    """Sum over the samples what these metrics, or else all that are defined, are formulas of."""
    names = names or (["confusion"] if samples.distributions is None else _SUMS)
    sums = _SUMS | _PUBLISHED_SUMS if published else _SUMS
    return {name: sums[name](samples) for name in dict.fromkeys(map(_statistic, names))}


def scores(sums: Mapping[str, Sums], names: Iterable[str] = ()) -> dict[str, float]:
    """Apply the formulas of these metrics, or else of all, to statistics; nan without samples."""
    found = {name: sums.get(_statistic(name), np.zeros(1)) for name in names or METRICS}
    return {name: _FORMULAS[name](total) if total.any() else math.nan for name, total in found.items()}


def check(y: Values, p: Values, pred: Values | None = None, n_classes: Count = None) -> Samples:
    """Read labels, predictions and other decisions than the modes, or say what is wrong with them."""
    count = None if n_classes is None else index(n_classes)
    if count is not None and count < 1:
        raise ValueError(f"n_classes must be at least 1, got {count}")
    proba: Proba | None = None
    if len(_shape(p, "p")) == 1:
        if pred is not None:
            raise ValueError("pred must be left out when p holds classes already")
        decisions = _labels(p, "p", count)
    else:
        proba = as_distribution(p)
        if proba.ndim != 2:
            raise ValueError(f"p must have shape (n, K) or (n,), got {proba.shape}")
        if count not in (None, proba.shape[1]):
            raise ValueError(f"p must have n_classes = {count} columns, got {proba.shape[1]}")
        count = proba.shape[1]
        decisions = decide(proba) if pred is None else _labels(pred, "pred", count)
    labels = _labels(y, "y", count)
    for name, rows in (("p", len(p)), ("pred", len(decisions))):
        if rows != len(labels):
            raise ValueError(f"{name} must have as many rows as y ({len(labels)}), got {rows}")
    return Samples(labels, decisions, count or int(max(labels.max(), decisions.max())) + 1, p, proba)


def _shape(values: Values, name: str) -> tuple[int, ...]:
    try:
        return tuple(np.shape(values))
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array: {error}") from None


def _labels(values: Values, name: str, n_classes: int | None) -> Labels:
    shape = _shape(values, name)
    if len(shape) != 1:
        raise ValueError(f"{name} must hold one class per sample, of shape (n,), got {shape}")
    labels = as_integers(values, name, high=None if n_classes is None else n_classes - 1)
    if not len(labels):
        raise ValueError(f"{name} must not be empty")
    return labels


def _confusion(samples: Samples) -> Table:
    K = samples.n_classes
    return np.bincount(samples.labels * K + samples.decisions, minlength=K**2).reshape(K, K)


def _errors(table: Table) -> Table:
    """Decided - true, for each cell."""
    classes = np.arange(len(table))
    return classes - classes[:, None]


def _has_constant_side(table: Table) -> bool:
    return any(np.count_nonzero(table.sum(axis=axis)) < 2 for axis in (0, 1))


def _mae_of_present_classes(table: Table) -> Float[np.ndarray, " present"]:
    present = table.any(axis=1)
    return np.asarray((np.abs(_errors(table)) * table).sum(axis=1)[present] / table.sum(axis=1)[present])


def _increasing_pairs(table: Table) -> int:
    """Count the pairs of samples of which one is higher in both label and decision."""
    at_or_beyond = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return int((table[:-1, :-1] * at_or_beyond[1:, 1:]).sum())


def _untied_pairs(counts: Int[np.ndarray, " K"]) -> int:
    return (int(counts.sum()) ** 2 - int((counts**2).sum())) // 2


def _surprises(samples: Samples, above: float = -1.0) -> PerSample:
    likelihood = samples.proba[np.arange(len(samples.labels)), samples.labels]
    with np.errstate(divide="ignore"):
        return np.asarray(0 - np.log(likelihood[likelihood > above]))  # unlike -log, 0 and not -0 at 1


def _published_unimodal(samples: Samples) -> PerSample:
    steps = np.round(np.diff(samples.proba, prepend=0, append=0), 2)
    up, down = steps > 0, steps < 0
    up_again = up & np.logical_or.accumulate(down, axis=1)
    down_again = down & np.logical_or.accumulate(up, axis=1)
    return np.logical_not(up_again.any(axis=1) & down_again.any(axis=1))  # both: more than one change of sign


def _calibration(samples: Samples, n_bins: int = _N_BINS) -> Sums:
    """Sum accuracy - confidence over each bin; the last place counts the samples."""
    confidence = samples.proba.max(axis=1)
    surplus = (samples.proba.argmax(axis=1) == samples.labels) - confidence
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return np.append(np.bincount(bins, weights=surplus, minlength=n_bins), len(bins))


def _calibration_error(sums: Float[np.ndarray, " places"]) -> float:
    return float(np.abs(sums[:-1]).sum() / sums[-1])


_FORMULAS |= {"nll": _mean, "unimodal_share": _mean, "ece": _calibration_error}
_SUMS |= {"confusion": _confusion, "ece": _calibration}
_SUMS["nll"] = lambda samples: _total(_surprises(samples))
_SUMS["unimodal_share"] = lambda samples: _total(np.broadcast_to(is_unimodal(samples.p), len(samples.proba)))
_PUBLISHED_SUMS: dict[str, Callable[[Samples], Sums]] = {
    "nll": lambda samples: _total(_surprises(samples, above=1e-8)),
    "unimodal_share": lambda samples: _total(_published_unimodal(samples)),
}


def _statistic(name: str) -> str:
    return name if name in _SUMS else "confusion"


def _score(name: str, y: Values, p: Values, n_classes: Count, published: bool = False) -> float:
    return scores(statistics(check(y, p, n_classes=n_classes), [name], published), [name])[name]
