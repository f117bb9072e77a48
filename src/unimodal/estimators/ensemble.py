"""What stands behind the estimators: networks that vote, and a forest that they may be mixed with.

Members. The rows are dealt into as many folds as there are members. Each member learns from the other folds
and stops where its loss on its own fold was least. So no row is lost, and every row has a prediction by a
network that has not seen it.

Fewer than eight members leave rows over, which all of them have seen. These say nothing about new rows.

Mixture. p = (1 - a) mean of the members + a forest. The share a is the one that gives the other rows the
highest likelihood, each predicted by the member that has not seen it, and by the trees that have not. The
log-likelihood is concave in a.

Unimodal. A mean of unimodal distributions may have several peaks. The nearest unimodal distribution is taken
(`unimodal.projection`), in the Kullback-Leibler divergence KL(q || p), which never makes a class impossible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from numpy.typing import NDArray
from torch import Tensor

from unimodal.estimators.forest import Forest
from unimodal.estimators.rows import stratified_folds
from unimodal.projection import project
from unimodal.training import Data, Networks, OnProgress, Recipe, Run, train

_LEAST_SPLIT = 8
"""Members of an ensemble of one or two leave out as small a part of the rows as this many would."""
_UNIMODAL = "kl"


@dataclass(frozen=True)
class Settings:
    """How an ensemble is trained.

    Attributes
    ----------
    recipe : Recipe
        How its networks are trained.
    method, params
        As for `make_method`.
    members, trees : int
        How many networks and trees.
    unimodal : bool
        Whether the mixture is made unimodal.
    """

    recipe: Recipe
    method: str = "un"
    params: Mapping[str, Any] = field(default_factory=dict)
    members: int = 8
    trees: int = 0
    unimodal: bool = True


@dataclass(frozen=True)
class Table:
    """Rows to learn from: for networks, for trees, and what is known about them."""

    inputs: Float32[np.ndarray, "n inputs"]
    raw: Float[np.ndarray, "n features"]
    y: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    n_classes: int


class Ensemble:
    """Networks and trees that predict together.

    Parameters
    ----------
    networks : Networks
        Whose predictions are averaged.
    forest : Forest, optional
        What is mixed in.
    share : float
        The part of the forest in the mixture.
    unimodal : bool
        Whether the mixture is made unimodal.
    """

    def __init__(self, networks: Networks, forest: Forest | None, share: float, unimodal: bool) -> None:
        self.networks = networks
        self.forest = forest
        self.share = share
        self.unimodal = unimodal

    def proba(
        self, inputs: Float32[np.ndarray, "n inputs"], raw: Float[np.ndarray, "n features"] | None
    ) -> Float[np.ndarray, "n K"]:
        """The distributions of rows; `raw` is for the forest."""
        mean = self.networks.log_prob(with_ones(inputs)).exp().mean(0).numpy()
        forest = self.forest.predict(raw) if self.forest is not None and raw is not None else None
        return mixed(mean, forest, self.share, self.unimodal)


def fit(
    table: Table,
    settings: Settings,
    seed: int,
    n_jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Ensemble, Float[np.ndarray, "n K"], Bool[np.ndarray, " n"]]:
    """Train an ensemble; return it with what it says of each row without having seen it.

    The flags say of which rows that is true: those that all members have seen are predicted by all of them.
    """
    rng = np.random.default_rng(seed)
    n = len(table.y)
    n_folds = min(max(settings.members, _LEAST_SPLIT), n)
    folds = stratified_folds(table.y, n_folds, rng)
    runs = [
        member_run(
            settings, np.flatnonzero(folds != m % n_folds), np.flatnonzero(folds == m % n_folds), seed + m
        )
        for m in range(settings.members)
    ]
    trained = train(
        as_data(table.inputs[None], table.y, table.weight),
        table.n_classes,
        runs,
        settings.recipe,
        n_jobs=n_jobs,
        on_progress=on_progress,
    )
    networks = Networks.of(trained, settings.params)
    unseen = _predicted_unseen(networks, table.inputs, folds, n_folds)
    is_unseen = (folds < settings.members) & (n_folds > 1)
    if not settings.trees:
        alone = Ensemble(networks, None, 0.0, settings.unimodal)
        return alone, mixed(unseen, None, 0.0, settings.unimodal), is_unseen
    forest, out_of_bag = Forest.grow(
        table.raw, table.y, table.weight, table.n_classes, n_trees=settings.trees, seed=seed, n_jobs=n_jobs
    )
    share = best_share(unseen[is_unseen], out_of_bag[is_unseen], table.y[is_unseen], table.weight[is_unseen])
    missing = np.isnan(out_of_bag).any(axis=1)
    out_of_bag[missing] = unseen[missing]
    mixture = mixed(unseen, out_of_bag, share, settings.unimodal)
    return Ensemble(networks, forest, share, settings.unimodal), mixture, is_unseen


def member_run(
    settings: Settings,
    rows: Int[np.ndarray, " m"],
    held_out: Int[np.ndarray, " v"],
    seed: int,
    source: int = 0,
) -> Run:
    """Train on these rows and stop early on those held out; with a single row to learn from, on itself."""
    has_both = len(rows) > 0 and len(held_out) > 0
    return Run(
        rows if len(rows) else held_out,
        seed=seed,
        method=settings.method,
        params=settings.params,
        validation=held_out if has_both else None,
        source=source,
    )


def with_ones(inputs: Float32[np.ndarray, "... n inputs"]) -> Tensor:
    """Inputs as networks read them, with a column of ones at the end."""
    ones = np.ones((*inputs.shape[:-1], 1), dtype=np.float32)
    return torch.from_numpy(np.concatenate([inputs, ones], axis=-1))


def as_data(
    inputs: Float32[np.ndarray, "sources n inputs"], y: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Data:
    """What training reads."""
    return Data(with_ones(inputs), torch.from_numpy(y.copy()), torch.from_numpy(weight.astype(np.float32)))


def _predicted_unseen(
    networks: Networks, inputs: Float32[np.ndarray, "n inputs"], folds: Int[np.ndarray, " n"], n_folds: int
) -> Float[np.ndarray, "n K"]:
    p = networks.log_prob(with_ones(inputs)).exp().numpy()
    result: NDArray[np.float64] = p.mean(axis=0)
    of_member = np.arange(len(p)) % n_folds
    for fold in range(n_folds):
        if (of_member == fold).any():
            rows = folds == fold
            result[rows] = p[of_member == fold][:, rows].mean(axis=0)
    return result


def best_share(
    p: Float[np.ndarray, "n K"],
    other: Float[np.ndarray, "n K"],
    y: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> float:
    """The part of `other` that gives the labels the highest likelihood; rows where it is NaN are left out."""
    of_label = np.arange(len(y)), y
    mine, theirs = p[of_label], other[of_label]
    known = np.isfinite(theirs) & (mine + theirs > 0)
    mine, theirs, weight = mine[known], theirs[known], weight[known]
    low, high = 0.0, 1.0
    for _ in range(30):
        share = (low + high) / 2
        with np.errstate(divide="ignore"):
            slope = (weight * (theirs - mine) / ((1 - share) * mine + share * theirs)).sum()
        low, high = (share, high) if slope > 0 else (low, share)
    return low


def mixed(
    p: Float[np.ndarray, "n K"], other: Float[np.ndarray, "n K"] | None, share: float, unimodal: bool
) -> Float[np.ndarray, "n K"]:
    """Mix, and make unimodal if that is wanted."""
    mixture: NDArray[np.float64] = p if other is None else (1 - share) * p + share * other
    mixture = mixture / mixture.sum(axis=1, keepdims=True)
    if unimodal:
        mixture = project(mixture, metric=_UNIMODAL)
    return mixture
