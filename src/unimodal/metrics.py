"""Metrics for ordered classes: pure functions of true labels y and predictions p that return a float.

p is either one distribution per sample, shape (n, K), of which the class metrics judge the mode, or one
class per sample, shape (n,). Arrays, tensors and lists are equally welcome. Shares are fractions of 1,
never percentages. The number of classes is K or `n_classes`; classes that do not occur are normal.
What is undefined is nan (an agreement with a constant, the sensitivity of an absent class), and what
is infinite is inf: nothing is replaced or averaged away.

All metrics of decided classes are functions of the confusion table N, N_ij = #{y = i, decided j}, of
which one pass over the samples is enough:

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, SupportsIndex, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from unimodal.decision import decide
from unimodal.simplex import Values, as_distribution, as_integers, is_unimodal

Labels: TypeAlias = Int[np.ndarray, " n"]
Proba: TypeAlias = Float[np.ndarray, "n K"]
Table: TypeAlias = Int[np.ndarray, "K K"]

_PUBLISHED_FLOOR = 1e-8


class ClassMetric(Protocol):
    """A metric of decided classes."""

    def __call__(self, y: Values, p: Values, *, n_classes: SupportsIndex | None = None) -> float:
        """Compare labels with probabilities (n, K) or with classes (n,)."""


@dataclass(frozen=True)
class Metric:
    """How to read a metric: its function, its direction, and whether classes alone are enough for it."""

    function: Callable[..., float]
    greater_is_better: bool | None
    """None: best near zero."""
    needs_proba: bool


_TABLE_FORMULAS: dict[str, Callable[[Table], float]] = {}


def confusion(y: Values, p: Values, *, n_classes: SupportsIndex | None = None) -> Table:
    """Count the samples of true class i (rows) that were decided as class j (columns)."""
    labels, _, decisions, count = _checked(y, p, n_classes)
    return _table(labels, decisions, count)


def _of_table(formula: Callable[[Table], float]) -> ClassMetric:
    """Make a formula of the confusion table a metric of labels and predictions."""

    def metric(y: Values, p: Values, *, n_classes: SupportsIndex | None = None) -> float:
        return formula(confusion(y, p, n_classes=n_classes))

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(metric, attribute, getattr(formula, attribute))
    _TABLE_FORMULAS[formula.__name__] = formula
    return metric


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


def nll(y: Values, p: Values, *, n_classes: SupportsIndex | None = None, published: bool = False) -> float:
    """Mean of -log p_y; inf when a true class was given probability 0.

    Parameters
    ----------
    y : n labels
        True classes.
    p : array or tensor, shape (n, K)
        Probabilities.
    n_classes : int, optional
        K, to check p against.
    published : bool
        Leave out the samples with p_y ≤ 1e-8, as the paper's tables do; nan if none remains.
    """
    labels, proba = _checked_proba(y, p, n_classes)
    likelihood = proba[np.arange(len(labels)), labels]
    if published:
        likelihood = likelihood[likelihood > _PUBLISHED_FLOOR]
    if not len(likelihood):
        return math.nan
    with np.errstate(divide="ignore"):
        return float(np.log(1 / likelihood).mean())


def unimodal_share(
    y: Values, p: Values, *, n_classes: SupportsIndex | None = None, published: bool = False
) -> float:
    """Share of predicted distributions that are unimodal.

    Parameters
    ----------
    y : n labels
        True classes; only checked.
    p : array or tensor, shape (n, K)
        Probabilities.
    n_classes : int, optional
        K, to check p against.
    published : bool
        Judge as the paper's tables do: round the steps of 0, p_0 ... p_{K-1}, 0 to two decimals and count
        at most one change of sign among those left. Otherwise exact, by `simplex.is_unimodal`.
    """
    _, proba = _checked_proba(y, p, n_classes)
    if published:
        return float(np.mean([_published_unimodal(steps) for steps in np.diff(proba, prepend=0, append=0)]))
    return float(np.mean(is_unimodal(p)))


def rps(y: Values, p: Values, *, n_classes: SupportsIndex | None = None) -> float:
    """Ranked probability score, mean of Σ_{k<K-1} (P_k - [y ≤ k])²: a plain sum, not divided by K-1."""
    labels, proba = _checked_proba(y, p, n_classes)
    reached = labels[:, None] <= np.arange(proba.shape[1] - 1)
    return float(((proba.cumsum(axis=1)[:, :-1] - reached) ** 2).sum(axis=1).mean())


def ece(y: Values, p: Values, *, n_classes: SupportsIndex | None = None, n_bins: int = 15) -> float:
    """Top-label expected calibration error (Guo et al., ICML 2017).

    Mean over the samples' bins of |accuracy - mean confidence|, with confidence the highest
    probability and accuracy that of the mode.

    Parameters
    ----------
    y : n labels
        True classes.
    p : array or tensor, shape (n, K)
        Probabilities.
    n_classes : int, optional
        K, to check p against.
    n_bins : int
        How many bins of equal width divide (0, 1]; each contains its upper end.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    labels, proba = _checked_proba(y, p, n_classes)
    confidence = proba.max(axis=1)
    surplus = (proba.argmax(axis=1) == labels) - confidence
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=surplus)).sum() / len(labels))


def mean_w1_violation(y: Values, p: Values, *, n_classes: SupportsIndex | None = None) -> float:
    """Mean Wasserstein distance (cost |i-j|) from the predictions to the nearest unimodal distribution."""
    from unimodal.projection import distance  # compiles kernels: only for those who ask

    _, proba = _checked_proba(y, p, n_classes)
    return float(distance(proba, mode=None).mean())


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
    y: Values,
    p: Values,
    pred: Values | None = None,
    n_classes: SupportsIndex | None = None,
    published: bool = False,
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
    labels, proba, decisions, count = _checked(y, p, n_classes)
    if pred is not None:
        if proba is None:
            raise ValueError("pred must be left out when p holds classes already")
        decisions = _labels(pred, "pred", count, len(labels))
    table = _table(labels, decisions, count)
    scores = {name: formula(table) for name, formula in _TABLE_FORMULAS.items()}
    if proba is not None:
        scores |= {
            "nll": nll(y, p, published=published),
            "rps": rps(y, p),
            "ece": ece(y, p),
            "unimodal_share": unimodal_share(y, p, published=published),
            "mean_w1_violation": mean_w1_violation(y, p),
        }
    return {name: scores.get(name, math.nan) for name in METRICS}


def _checked(
    y: Values, p: Values, n_classes: SupportsIndex | None
) -> tuple[Labels, Proba | None, Labels, int]:
    """Labels, probabilities (if p holds them), decisions and the number of classes, all valid."""
    count = None if n_classes is None else n_classes.__index__()
    if count is not None and count < 1:
        raise ValueError(f"n_classes must be at least 1, got {count}")
    if np.ndim(p) == 1:
        labels = _labels(y, "y", count)
        decisions = _labels(p, "p", count, len(labels))
        return labels, None, decisions, count or int(max(labels.max(), decisions.max())) + 1
    proba = as_distribution(p)
    if proba.ndim != 2:
        raise ValueError(f"p must have shape (n, K) or (n,), got {proba.shape}")
    if count not in (None, proba.shape[1]):
        raise ValueError(f"p must have n_classes = {count} columns, got {proba.shape[1]}")
    labels = _labels(y, "y", proba.shape[1])
    _require_rows("p", len(proba), len(labels))
    return labels, proba, decide(proba), proba.shape[1]


def _checked_proba(y: Values, p: Values, n_classes: SupportsIndex | None) -> tuple[Labels, Proba]:
    labels, proba, _, _ = _checked(y, p, n_classes)
    if proba is None:
        raise ValueError("p must hold probabilities, of shape (n, K), got one class per sample")
    return labels, proba


def _labels(values: Values, name: str, n_classes: int | None, rows: int | None = None) -> Labels:
    if np.ndim(values) != 1:
        raise ValueError(f"{name} must hold one class per sample, of shape (n,), got {np.shape(values)}")
    labels = as_integers(values, name, high=None if n_classes is None else n_classes - 1)
    if not len(labels):
        raise ValueError(f"{name} must not be empty")
    if rows is not None:
        _require_rows(name, len(labels), rows)
    return labels


def _require_rows(name: str, got: int, rows: int) -> None:
    if got != rows:
        raise ValueError(f"{name} must have as many rows as y ({rows}), got {got}")


def _table(labels: Labels, decisions: Labels, n_classes: int) -> Table:
    return np.bincount(labels * n_classes + decisions, minlength=n_classes**2).reshape(n_classes, n_classes)


def _errors(table: Table) -> Table:
    """Decided - true, for each cell."""
    classes = np.arange(len(table))
    return classes - classes[:, None]


def _has_constant_side(table: Table) -> bool:
    return any(np.count_nonzero(table.sum(axis=axis)) < 2 for axis in (0, 1))


def _mae_of_present_classes(table: Table) -> Float[np.ndarray, " present"]:
    present = table[table.any(axis=1)]
    errors = np.abs(_errors(table))[table.any(axis=1)]
    means: Float[np.ndarray, " present"] = (errors * present).sum(axis=1) / present.sum(axis=1)
    return means


def _increasing_pairs(table: Table) -> int:
    """Count the pairs of samples of which one is higher in both label and decision."""
    at_or_beyond = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return int((table[:-1, :-1] * at_or_beyond[1:, 1:]).sum())


def _untied_pairs(counts: Int[np.ndarray, " K"]) -> int:
    return (int(counts.sum()) ** 2 - int((counts**2).sum())) // 2


def _published_unimodal(steps: Float[np.ndarray, " steps"]) -> bool:
    signs = np.sign(np.round(steps, 2))
    return np.count_nonzero(np.diff(signs[signs != 0])) <= 1
