"""The engine of the CPU: compiled kernels over rows in numpy arrays."""

import numpy as np

from unimodal.projection import modes, pivoting, ties
from unimodal.projection.compiled import Flags, Floats, Ints, over_rows
from unimodal.projection.pooling import pooled

__all__ = ["best_mode_solve", "pooled", "solve", "xp"]

xp = np


def solve(q: Floats, mode: Ints) -> tuple[Floats, Floats, Floats, Flags]:
    """The nearest distributions, their distances, the distances' slopes, and which rows are certified."""
    nearest, value, slope, certified = _results(q)
    weights = ties.weights(q.shape[1])
    over_rows(pivoting.solve_rows, *_work(q), q, mode, weights, nearest, slope, value, certified)
    return nearest, value, slope, certified


def best_mode_solve(q: Floats) -> tuple[Floats, Floats, Floats, Ints, Flags]:
    """As `solve`, for the mode with the least distance, the lowest one of those that are equally good."""
    nearest, value, slope, certified = _results(q)
    mode = np.empty(len(q), dtype=np.int64)
    weights = ties.weights(q.shape[1])
    over_rows(modes.solve_rows, *_work(q), q, weights, nearest, slope, value, mode, certified)
    return nearest, value, slope, mode, certified


def _results(q: Floats) -> tuple[Floats, Floats, Floats, Flags]:
    return np.empty_like(q), np.empty(len(q)), np.empty_like(q), np.empty(len(q), dtype=np.bool_)


def _work(q: Floats) -> tuple[int, int]:
    """How many rows, and about how many elementary steps each: a few pivots of a few passes over K."""
    n_rows, n_classes = q.shape
    return n_rows, 60 * n_classes + 2 * n_classes**2
