r"""The W1 projection as a linear program: the slow path that a row takes when the fast one gives up.

With cumulative sums P and Q, P_i - Q_i = u_i - v_i and u, v >= 0,

    minimise \sum_i (u_i + v_i)   subject to   p unimodal with mode m,  P_K = Q_K,

and, among its solutions (the variables and constraints whose multipliers are not zero stay where
they are), minimise \sum_i r_i (u_i + v_i), the tie-break of `ties`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from unimodal.projection import ties

Vector = NDArray[np.float64]

_TOLERANCE = 1e-10
_ACTIVE = 1e-8


def nearest_row(q: Vector, mode: int) -> tuple[Vector, float, Vector]:
    """The nearest distribution to one row, its distance, and the distance's gradient."""
    n_classes = len(q)
    inner = n_classes - 1
    cumulative = sparse.csr_array(np.tri(n_classes))
    gap = sparse.eye_array(n_classes, inner)
    equal: Any = sparse.hstack([cumulative, -gap, gap])
    rising = np.where(np.arange(inner) < mode, 1.0, -1.0)
    order = rising[:, None] * (np.eye(inner, n_classes) - np.eye(inner, n_classes, 1))
    ordered: Any = sparse.csr_array(np.hstack([order, np.zeros((inner, 2 * inner))]))
    cost = np.r_[np.zeros(n_classes), np.ones(2 * inner)]

    first = _solve(cost, ordered, equal, np.cumsum(q), np.full(len(cost), np.inf))
    slope = np.cumsum(first.eqlin.marginals[::-1])[::-1]
    tight = first.ineqlin.marginals < -_ACTIVE
    free = first.lower.marginals <= _ACTIVE
    # HiGHS may have found either of the two optima of a tie; the second program decides.
    second = _solve(
        np.r_[np.zeros(n_classes), np.tile(ties.weights(n_classes)[1:-1], 2)],
        ordered[~tight],
        sparse.vstack([equal, ordered[tight]]),
        np.r_[np.cumsum(q), np.zeros(tight.sum())],
        np.where(free, np.inf, 0.0),
    )
    nearest = second.x[:n_classes]
    return nearest, float(np.abs(np.cumsum(nearest - q)[:-1]).sum()), slope


def _solve(cost: Vector, ordered: Any, equal: Any, target: Vector, upper: Vector) -> Any:
    result: Any = linprog(
        cost,
        A_ub=ordered,
        b_ub=np.zeros(ordered.shape[0]),
        A_eq=equal,
        b_eq=target,
        bounds=np.c_[np.zeros(len(cost)), upper],
        method="highs-ds",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if result.status != 0:
        raise RuntimeError(f"the linear program of the W1 projection failed: {result.message}")
    return result
