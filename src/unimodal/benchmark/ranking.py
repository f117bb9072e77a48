"""From scores in folds to a ranking, and to the model to take.

A method with a lambda is scored in each fold with the lambda that did best in the other folds of the same
deal, so that no score was used to choose what it scores. (The networks that were scored in those others have
learnt from this one's rows; to choose without that would take a search within each fold.) Every other model
is compared with the one of the best mean by the corrected test of `statistics`, Holm over all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from unimodal.benchmark.statistics import Estimate, estimate, holm
from unimodal.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEVEL", "Model", "Ranked", "Take", "rank", "take"]

LEVEL = 0.05
"""Differences are significant if their adjusted p-value is below this."""


class Model(NamedTuple):
    """What is compared.

    Attributes
    ----------
    kind : {"method", "ensemble", "peer"}
        A network of a method, the ensemble of them, or somebody else's model.
    always_unimodal : bool
        Whether all its distributions have one peak.
    """

    kind: str
    always_unimodal: bool


@dataclass(frozen=True)
class Ranked:
    """A line of the ranking.

    Attributes
    ----------
    lam : float or None
        The lambda that did best over all folds, if the method has one.
    scores : dict
        The mean of every metric over the folds.
    estimate : Estimate
        Of the metric that models are ranked by.
    difference : Estimate or None
        To the best one; None for the best one.
    p : float
        Of the difference, adjusted for the number of comparisons; NaN if it could not be tested.
    """

    name: str
    model: Model
    lam: float | None
    scores: dict[str, float]
    estimate: Estimate
    difference: Estimate | None
    p: float

    @property
    def is_worse(self) -> bool:
        """Whether it is significantly worse than the best one."""
        return self.difference is not None and self.p < LEVEL


class Take(NamedTuple):
    """The model to take, and why."""

    name: str
    why: str


def rank(frame: "pd.DataFrame", models: Mapping[str, Model], metric: str, n_folds: int) -> list[Ranked]:
    """Rank models by the mean of a metric, best first; of equal ones those first that are always unimodal.

    Parameters
    ----------
    frame : DataFrame
        A row for each model, lam, seed and fold, with every metric; the column `chosen` is filled in.
    models : mapping
        What they are.
    metric : str
        A key of `unimodal.metrics.METRICS`.
    n_folds : int
        Into how many folds the rows were dealt for each seed.
    """
    frame["chosen"] = True
    values: dict[str, np.ndarray] = {}
    lams: dict[str, float | None] = {}
    for name in models:
        own = frame[frame["model"] == name]
        lams[name] = None
        if own["lam"].notna().any():
            worth = own.assign(worth=_worth(own[metric].to_numpy(), metric))
            lams[name] = _best(worth)
            frame.loc[own.index, "chosen"] = _chosen(worth)
        own = frame[(frame["model"] == name) & frame["chosen"]].sort_values(["seed", "fold"])
        values[name] = _ranked_values(own[metric].to_numpy(), metric)
    means = np.array([_worth(values[name].mean(keepdims=True), metric)[0] for name in models])
    can_peak_twice = np.array([not model.always_unimodal for model in models.values()])
    names = [list(models)[i] for i in np.lexsort((can_peak_twice, -means))]
    with np.errstate(invalid="ignore"):  # of infinite scores the difference is undefined
        differences = {name: estimate(values[name] - values[names[0]], n_folds) for name in names[1:]}
    adjusted = dict(zip(differences, holm(np.array([each.p for each in differences.values()])), strict=True))
    return [
        Ranked(
            name,
            models[name],
            lams[name],
            _mean_scores(frame, name),
            estimate(values[name], n_folds),
            differences.get(name),
            float(adjusted.get(name, np.nan)),
        )
        for name in names
    ]


def take(ranked: list[Ranked], metric: str) -> Take:
    """Choose the best of the models that are always unimodal, unless another is significantly better."""
    best = ranked[0]
    has_best = f"{best.name} has the best mean {metric}"
    if len(ranked) == 1:
        return Take(best.name, f"{best.name} is the only one.")
    if not np.isfinite(best.estimate.mean):
        why = f"no model has a finite mean {metric}, so that it does not tell which is better"
        return Take(best.name, f"{why}; choose another metric.")
    alike = [each for each in ranked[1:] if each.p >= LEVEL]
    n_unknown = sum(bool(np.isnan(each.p)) for each in ranked[1:])
    unknown = f"; not comparable: {n_unknown}" if n_unknown else ""
    if best.model.always_unimodal:
        others = f"not significantly worse: {len(alike)} of {len(ranked) - 1} others"
        tested = f"{others}{unknown}" if alike or unknown else "all others are significantly worse"
        return Take(best.name, f"{has_best} and is always unimodal; {tested}.")
    for each in alike:
        if each.model.always_unimodal:
            why = f"{has_best}, but {each.name} is always unimodal, and the difference is not significant"
            return Take(each.name, f"{why} (p = {each.p:.2f}).")
    hard = [each for each in ranked if each.model.always_unimodal]
    worse = "are significantly worse" + " or not comparable" * (not all(each.is_worse for each in hard))
    why = f"; all that are always unimodal {worse}" if hard else ""
    return Take(best.name, f"{has_best}{why}.")


def _ranked_values(values: Float[np.ndarray, " n"], metric: str) -> Float[np.ndarray, " n"]:
    """What is best near zero is ranked by how far it is from it."""
    return np.abs(values) if METRICS[metric].greater_is_better is None else values


def _worth(values: Float[np.ndarray, " n"], metric: str) -> Float[np.ndarray, " n"]:
    """Greater is better, and what is undefined is worst."""
    values = _ranked_values(values, metric)
    worth = values if METRICS[metric].greater_is_better else -values
    return np.where(np.isnan(worth), -np.inf, worth)


def _best(own: "pd.DataFrame") -> float:
    """The lambda of the best mean; the first of several."""
    return float(own.groupby("lam", sort=False)["worth"].mean().idxmax())


def _chosen(own: "pd.DataFrame") -> Float[np.ndarray, " n"] | np.ndarray:
    """Which rows have the lambda that did best in the other folds of their seed."""
    chosen = np.zeros(len(own), dtype=bool)
    for seed, fold in own[["seed", "fold"]].drop_duplicates().itertuples(index=False):
        others = own[(own["seed"] == seed) & (own["fold"] != fold)]
        lam = _best(others)
        chosen |= ((own["seed"] == seed) & (own["fold"] == fold) & (own["lam"] == lam)).to_numpy()
    return chosen


def _mean_scores(frame: "pd.DataFrame", name: str) -> dict[str, float]:
    own = frame[(frame["model"] == name) & frame["chosen"]]
    return {metric: float(own[metric].to_numpy().mean()) for metric in METRICS}
