"""The engine of the CPU: compiled kernels over rows in numpy arrays."""

import numpy as np

from unimodal.projection import modes, pivoting, ties
from unimodal.projection.compiled import Flags, Floats, Ints, kernel, over_rows
from unimodal.projection.pooling import pooled

__all__ = ["best_mode_solve", "pooled", "solve", "xp"]

xp = np


def solve(q: Floats, mode: Ints) -> tuple[Floats, Floats, Floats, Flags]:
    """The nearest distributions, their distances, the distances' slopes, and which rows are certified."""
    nearest, value, slope, certified = _results(q)
    weights = ties.weights(q.shape[1])
    over_rows(
        pivoting.solve_rows,
        q.shape,
        row_time(q.shape[1]),
        q,
        mode,
        weights,
        nearest,
        slope,
        value,
        certified,
    )
    return nearest, value, slope, certified


def best_mode_solve(q: Floats) -> tuple[Floats, Floats, Floats, Ints, Flags]:
    """As `solve`, for the mode with the least distance, the lowest one of those that are equally good."""
    nearest, value, slope, certified = _results(q)
    mode = np.empty(len(q), dtype=np.int64)
    weights = ties.weights(q.shape[1])
    over_rows(
        modes.solve_rows,
        q.shape,
        row_time(q.shape[1]),
        q,
        weights,
        nearest,
        slope,
        value,
        mode,
        certified,
    )
    return nearest, value, slope, mode, certified


def are_distributions(rows: Floats, sum_error: float) -> bool:
    """Whether no row has a negative number or NaN, and all sum to 1: for the price of reading them once."""
    return bool(_are_distributions(rows, sum_error))


@kernel
def _are_distributions(rows: Floats, sum_error: float) -> bool:
    valid = True
    for row in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            valid &= rows[row, j] >= 0.0
            total += rows[row, j]
        valid &= abs(total - 1.0) <= sum_error
    return valid


def _results(q: Floats) -> tuple[Floats, Floats, Floats, Flags]:
    return np.empty_like(q), np.empty(len(q)), np.empty_like(q), np.empty(len(q), dtype=np.bool_)


def row_time(n_classes: int) -> int:
    """About how many nanoseconds a row takes, as measured: a few pivots of a few passes over K."""
    return n_classes * min(6 * n_classes, 100 + n_classes // 3)
