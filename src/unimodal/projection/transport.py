r"""The nearest unimodal distribution for any cost of moving mass: the linear program of the paper.

t_ij >= 0 is the mass that class i of p receives from class j of q (Cardoso, Cruz, Albuquerque, IEEE TAI 2025;
the print has the indices of the second line wrong):

    minimise \sum_ij c_ij t_ij   subject to   \sum_i t_ij = q_j   and
    \sum_j t_ij <= \sum_j t_{i+1,j} before the mode, >= from it on,

with p_i = \sum_j t_ij. The slope of the least cost in q is the vector of multipliers of the first
constraints. There may be several nearest distributions; the solver's own is returned. One HiGHS model for
each mode is kept and started from the solution of the row before it. With c_ij = |i-j| this is W1,
for which `project` has a faster way; c_ij = (i-j)^2 gives the squared W2 distance.
"""

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unimodal.projection.rows import Solution

Matrix = NDArray[np.float64]

_TOLERANCE = 1e-10
_SAME_COST = 1e-9


def solve(q: Matrix, mode: NDArray[np.int64] | None, cost: Matrix) -> Solution:
    """Project every row of q (n, K); without modes on the cheapest one, the lowest of equally cheap ones."""
    n_rows, n_classes = q.shape
    nearest, slope = np.empty_like(q), np.empty_like(q)
    value, chosen = np.full(n_rows, np.inf), np.zeros(n_rows, dtype=np.int64)
    for candidate in range(n_classes):
        rows = np.arange(n_rows) if mode is None else np.flatnonzero(mode == candidate)
        if not len(rows):
            continue
        program = _Program(cost, candidate)
        for row in rows:
            p, price, multipliers = program.nearest(q[row])
            if price < value[row] - _SAME_COST:
                nearest[row], value[row], slope[row], chosen[row] = p, price, multipliers, candidate
    return Solution(nearest, value, slope, chosen)


class _Program:
    """The linear program of one mode, solved for one q after another."""

    def __init__(self, cost: Matrix, mode: int) -> None:
        n_classes = len(cost)
        leaving = sparse.kron(np.ones((1, n_classes)), sparse.eye_array(n_classes))
        arriving = sparse.kron(sparse.eye_array(n_classes), np.ones((1, n_classes)))
        sign = np.where(np.arange(n_classes - 1) < mode, 1.0, -1.0)[:, None]
        steps = sparse.csr_array(
            sign * (np.eye(n_classes - 1, n_classes) - np.eye(n_classes - 1, n_classes, 1))
        )
        matrix = sparse.csc_array(sparse.vstack([leaving, steps @ arriving]))

        program = highspy.HighsLp()
        program.num_row_, program.num_col_ = matrix.shape
        program.col_cost_ = cost.ravel()
        program.col_lower_ = np.zeros(cost.size)
        program.col_upper_ = np.full(cost.size, highspy.kHighsInf)
        program.row_lower_ = np.r_[np.zeros(n_classes), np.full(n_classes - 1, -highspy.kHighsInf)]
        program.row_upper_ = np.zeros(2 * n_classes - 1)
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = matrix.indptr
        program.a_matrix_.index_ = matrix.indices
        program.a_matrix_.value_ = matrix.data

        self.n_classes = n_classes
        self.solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, setting in {
            "output_flag": False,
            "threads": 1,
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        }.items():
            self.solver.setOptionValue(option, setting)
        self.solver.passModel(program)

    def nearest(self, q: Matrix) -> tuple[Matrix, float, Matrix]:
        """The nearest distribution, its cost, and the multipliers of q."""
        for j, mass in enumerate(q):
            self.solver.changeRowBounds(j, mass, mass)
        self.solver.run()
        status = self.solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(
                f"the transport program was not solved: {self.solver.modelStatusToString(status)}"
            )
        solution = self.solver.getSolution()
        plan = np.array(solution.col_value).reshape(self.n_classes, self.n_classes)
        multipliers = np.array(solution.row_dual)[: self.n_classes]
        return plan.clip(min=0).sum(axis=1), self.solver.getObjectiveValue(), multipliers
