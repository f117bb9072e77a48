"""Rows in an order of their own: what is learnt depends on which rows there are, not on how they are listed.

A row of weight 3 is the same as the row listed three times, to the last bit. Equal rows with equal labels
are merged and their weights added, rows of weight zero are left out, and the rest is sorted. Then weights
that are whole numbers become copies again: where rows recur in the data they will recur, and what is known of
a copy that was held out is known of the next one too. Weights that are not whole, or very many, stay weights.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_MOST_COPIES = 8
"""Copies of a row, on average, that are not worth merging."""


class Canonical(NamedTuple):
    """Which rows to learn from, in order, and their weights."""

    rows: Int[np.ndarray, " m"]
    weight: Float[np.ndarray, " m"]


def canonical(
    X: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Canonical:
    """Sort the rows of a matrix, in which NaN equals NaN, and make weights copies or copies weights."""
    kept = np.flatnonzero(weight > 0)
    values = np.column_stack([X[kept], y[kept]]) + 0.0  # -0.0 is 0.0
    values[np.isnan(values)] = np.nan  # of which there are many, to the bit
    keys = np.ascontiguousarray(values).view(np.dtype((np.void, values.itemsize * values.shape[1])))
    _, first, group = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    rows = kept[first]
    ascending = weight[kept].argsort(kind="stable")  # sums of fractions depend on their order
    total = np.bincount(group.ravel()[ascending], weights=weight[kept][ascending])
    if (total == np.round(total)).all() and total.sum() <= _MOST_COPIES * len(rows):
        rows = rows.repeat(total.astype(np.int64))
        return Canonical(rows, np.ones(len(rows)))
    return Canonical(rows, total)


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
