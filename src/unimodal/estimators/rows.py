"""Rows in an order of their own: what is learnt depends on which rows there are, not on how they are listed.

Equal rows with equal labels are merged and their weights added, rows of weight zero are left out, and the
rest is sorted. So a row of weight 3 is the same as the row listed three times, to the last bit, and no row
has a twin on the other side of a split.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Canonical(NamedTuple):
    """Which rows stand for all, in order, and their weights."""

    rows: Int[np.ndarray, " m"]
    weight: Float[np.ndarray, " m"]


def canonical(
    X: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Canonical:
    """Merge and sort the rows of a matrix, in which NaN equals NaN."""
    kept = np.flatnonzero(weight > 0)
    values = np.column_stack([X[kept], y[kept]]) + 0.0  # -0.0 is 0.0
    values[np.isnan(values)] = np.nan  # of which there are many, to the bit
    keys = np.ascontiguousarray(values).view(np.dtype((np.void, values.itemsize * values.shape[1])))
    _, first, group = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    return Canonical(kept[first], np.bincount(group.ravel(), weights=weight[kept]))


def stratified_folds(
    y: Int[np.ndarray, " n"], n_folds: int, rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """The fold of each row: every class is spread evenly, and folds differ by one row at most."""
    shuffled = rng.permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    folds = np.empty(len(y), dtype=np.int64)
    folds[by_class] = (np.arange(len(y)) + rng.integers(n_folds)) % n_folds
    return folds


def balanced(
    y: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"], n_classes: int
) -> Float[np.ndarray, " K"]:
    """What gives every class that occurs the same total weight, and leaves the sum over all rows as it is."""
    totals = np.bincount(y, weights=weight, minlength=n_classes)
    present = totals > 0
    result = np.ones(n_classes)
    result[present] = totals.sum() / (present.sum() * totals[present])
    return result
