r"""The nearest unimodal distribution in W1, exactly: a dual simplex that starts from the pooled solution.

Number the gaps between classes by nodes i = 0 ... K, node i lying before class i, and let P and Q be
cumulative sums, so that P_0 = Q_0 = 0, P_K = Q_K and W1 = \sum_i |P_i - Q_i|. With mode m, p must not fall
at the nodes i <= m (sign s_i = 1) and must not rise at the others (s_i = -1), taking p_{-1} = p_K = 0. The
dual has one multiplier lambda_i = s_i mu_i >= 0 for each of these order constraints:

    maximise  \sum_i mu_i (q_{i-1} - q_i)   subject to   w_i = mu_{i-1} - 2 mu_i + mu_{i+1},  |w_i| <= 1.

Its 2K variables are lambda_0 ... lambda_K and w_1 ... w_{K-1}. A basis has one nonbasic variable at each node
("column") and one basic variable at each inner node ("row"). In primal terms: where lambda_i is nonbasic p
may step, where w_i is nonbasic P may leave Q, at its bound w_i = -+1 as P lies below or above Q. The
reduced cost of lambda_i is s_i (p_{i-1} - p_i), that of w_i is P_i - Q_i.

Start. Pool adjacent violators. At the ends of the blocks lambda is nonbasic, inside them w is, at -1 left of the
mode and at +1 right of it. There P is a convex minorant of Q, or a concave majorant, so all reduced costs
have the right sign, and what is left to mend are basic variables out of their bounds: a dual simplex
with long steps (bound flipping) needs one pivot for every few classes. The tableau T, basic =
T nonbasic, is known in closed form at the start: inside a block from a to b it is the Green's function of
the second difference, G_ik = (min(i, k) - a)(b - max(i, k)) / (b - a). Every pivot adds a rank-one term; rows
and columns are formed when they are needed and T never is.

Ties. The bounds of w_i are 1 + epsilon r_i with infinitesimal epsilon and the r_i of `ties`: each basic
value is a pair (value, tie), compared lexicographically. The optimum is then the W1 minimiser
with the smallest \sum_i r_i |P_i - Q_i|, of which there is exactly one.

Each row is certified before it is returned: the dual solution is feasible, and its value is the
distance of the primal one. The gradient of the distance in q is psi_j = mu_{j+1} - mu_j.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unimodal.projection.compiled import kernel
from unimodal.projection.pooling import pool, settle

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEASIBLE = 1e-9
"""How far a basic variable may lie beyond its bound."""
_PIVOT = 1e-10
"""The smallest entry of the tableau that is taken for one."""
CERTIFIED = 1e-11
ROUNDING = 1e-15
"""The gap and the violations that a certified row may have: CERTIFIED + ROUNDING * (largest multiplier)."""


class Work(NamedTuple):
    """Scratch space of one thread. Variables are numbered lambda_i -> i and w_i -> K + 1 + i."""

    ends: Ints
    sums: Floats
    counts: Floats
    before: Ints  # first node of the block around an inner node; for a block's end, the previous end
    after: Ints  # last node of that block; for a block's end, the next end
    is_end: NDArray[np.bool_]
    basic: Ints
    nonbasic: Ints
    value: Floats  # of the basic variables
    tie: Floats  # their infinitesimal part
    cost: Floats  # reduced costs of the nonbasic variables
    side: Floats  # +1 for a nonbasic variable at its lower bound, -1 at the upper one
    row: Floats
    column: Floats
    flips: Floats
    flips_tie: Floats
    ratio: Floats
    eligible: Ints
    left: Floats  # the rank-one terms: T = T_start + sum_t left[t] right[t]'
    right: Floats


@kernel
def workspace(n_classes):  # type: ignore[no-untyped-def]
    """Scratch space for rows of `n_classes`; the pivots that fit in are far more than are ever seen."""
    n, pivots = n_classes + 1, 2 * n_classes + 50
    return Work(
        np.empty(n, np.int64), np.empty(2 * n), np.empty(2 * n),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_),
        np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n),
        np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty((pivots, n)), np.empty((pivots, n)),
    )  # fmt: skip


@kernel
def solve_rows(q, mode, weights, p, slope, value, solved, first, last):  # type: ignore[no-untyped-def]
    """Project the rows from `first` to `last`; `solved` says which are certified."""
    work = workspace(q.shape[1])
    for row in range(first, last):
        solved[row] = solve_row(q[row], mode[row], weights, p[row], slope[row], value[row : row + 1], work)


@kernel
def solve_row(q, mode, weights, p, slope, value, work):  # type: ignore[no-untyped-def]
    """Project one row into `p`, with its distance and its gradient; False if that was not certified."""
    if rises_and_falls(q, mode):
        p[:] = q
        slope[:] = 0.0
        value[0] = 0.0
        return True
    _start(q, mode, weights, p, work)
    n_terms = 0
    while True:
        row = _leaving(weights, work)
        if row < 0:
            return _read_off(q, mode, p, slope, value, work)
        if n_terms == len(work.left) or not _pivot(row, mode, weights, n_terms, work):
            return False
        n_terms += 1


@kernel
def rises_and_falls(q, mode):  # type: ignore[no-untyped-def]
    """Whether q is unimodal with this mode already."""
    for j in range(1, mode + 1):
        if not q[j - 1] <= q[j]:
            return False
    for j in range(mode + 1, len(q)):
        if not q[j - 1] >= q[j]:
            return False
    return True


@kernel
def _start(q, mode, weights, p, work):  # type: ignore[no-untyped-def]
    """Pool, and set up the basis of the pooled solution."""
    n_classes = len(q)
    n_blocks = pool(q, mode, p, work.ends, work.sums, work.counts)
    for e in range(n_blocks + 1):
        i = work.ends[e]
        work.is_end[i] = True
        work.before[i] = work.ends[max(e - 1, 0)]
        work.after[i] = work.ends[min(e + 1, n_blocks)]
        work.basic[i] = n_classes + 1 + i
        work.nonbasic[i] = i
        work.side[i] = 1.0
        step = (p[i - 1] if i > 0 else 0.0) - (p[i] if i < n_classes else 0.0)
        work.cost[i] = min(step if i <= mode else -step, 0.0)
        work.value[i] = 0.0
        work.tie[i] = 0.0
    for e in range(n_blocks):
        _start_block(q, mode, weights, p, work.ends[e], work.ends[e + 1], work)


@kernel
def _start_block(q, mode, weights, p, a, b, work):  # type: ignore[no-untyped-def]
    """Set up the inner nodes of the block from a to b: mu with mu_a = mu_b = 0 and w at its bounds."""
    excess = rise = rise_tie = mu = mu_tie = 0.0
    for i in range(a + 1, b):
        work.is_end[i] = False
        work.before[i] = a
        work.after[i] = b
        work.basic[i] = i
        work.nonbasic[i] = len(q) + 1 + i
        excess += p[i - 1] - q[i - 1]
        if i <= mode:
            work.side[i] = 1.0
            work.cost[i] = min(excess, 0.0)
        else:
            work.side[i] = -1.0
            work.cost[i] = max(excess, 0.0)
        mu += rise
        mu_tie += rise_tie
        work.value[i] = mu
        work.tie[i] = mu_tie
        rise -= work.side[i]
        rise_tie -= work.side[i] * weights[i]
    tilt, tilt_tie = (mu + rise) / (b - a), (mu_tie + rise_tie) / (b - a)
    for i in range(a + 1, b):
        work.value[i] -= tilt * (i - a)
        work.tie[i] -= tilt_tie * (i - a)
    if b - a > 1:
        for end, beside in ((a, a + 1), (b, b - 1)):
            work.value[end] += work.value[beside]
            work.tie[end] += work.tie[beside]
    for i in range(max(a, mode) + 1, b):
        work.value[i] = -work.value[i]
        work.tie[i] = -work.tie[i]


@kernel
def _leaving(weights, work):  # type: ignore[no-untyped-def]
    """The row that lies farthest beyond its bound, or -1 if none does."""
    n = len(work.value)
    worst = worst_tie = FEASIBLE
    row = row_tie = -1
    for i in range(1, n - 1):
        over, over_tie = -work.value[i], -work.tie[i]
        variable = work.basic[i]
        if variable >= n:
            if over < 0.0:
                over, over_tie = -over, -over_tie
            over -= 1.0
            over_tie -= weights[variable - n]
        if over > worst:
            worst = over
            row = i
        if over > -FEASIBLE and over_tie > worst_tie:
            worst_tie = over_tie
            row_tie = i
    return row if row >= 0 else row_tie


@kernel
def _pivot(row, mode, weights, n_terms, work):  # type: ignore[no-untyped-def]
    """Let the variable of `row` leave for the bound it has crossed; False if no variable can enter."""
    n = len(work.value)
    leaving = work.basic[row]
    bound = bound_tie = 0.0
    if leaving >= n:
        bound = 1.0 if work.value[row] > 0.0 else -1.0
        bound_tie = bound * weights[leaving - n]
    direction = -1.0 if bound > 0.0 else 1.0
    step, step_tie = bound - work.value[row], bound_tie - work.tie[row]
    _form_row(row, mode, n_terms, work)
    entering, n_eligible, n_flips = _entering(direction, step, step_tie, weights, work)
    if entering < 0:
        return False
    if n_flips:
        _flip(n_eligible, n_flips, mode, weights, n_terms, work)
        step, step_tie = bound - work.value[row], bound_tie - work.tie[row]
    _form_column(entering, mode, n_terms, work)

    pivot = work.row[entering]
    step /= pivot
    step_tie /= pivot
    for i in range(1, n - 1):
        work.value[i] += work.column[i] * step
        work.tie[i] += work.column[i] * step_tie
    variable = work.nonbasic[entering]
    work.basic[row] = variable
    work.value[row] = step
    work.tie[row] = step_tie
    if variable >= n:
        work.value[row] -= work.side[entering]
        work.tie[row] -= work.side[entering] * weights[variable - n]
    work.nonbasic[entering] = leaving
    work.side[entering] = direction

    slide = work.cost[entering] / pivot
    left, right = work.left[n_terms], work.right[n_terms]
    for j in range(n):
        cost = work.cost[j] - slide * work.row[j]
        work.cost[j] = min(cost, 0.0) if work.side[j] > 0.0 else max(cost, 0.0)
        left[j] = work.column[j]
        right[j] = -work.row[j] / pivot
    work.cost[entering] = slide
    left[row] += 1.0
    right[entering] = 1.0 / pivot - 1.0
    return True


@kernel
def _entering(direction, step, step_tie, weights, work):  # type: ignore[no-untyped-def]
    """Choose the column that enters, by smallest ratio, flipping bounds for as long as that helps.

    Returns the column or -1, the length of the rest of `work.eligible`, and how many columns behind
    it are to be flipped.
    """
    n = len(work.value)
    n_eligible = n_flips = 0
    for j in range(n):
        if work.row[j] * work.side[j] * direction > _PIVOT:
            work.ratio[n_eligible] = abs(work.cost[j] / work.row[j])
            work.eligible[n_eligible] = j
            n_eligible += 1
    left, left_tie = abs(step), step_tie * direction
    while n_eligible > 0:
        best = 0
        for k in range(1, n_eligible):
            if work.ratio[k] < work.ratio[best] or (
                work.ratio[k] == work.ratio[best]
                and abs(work.row[work.eligible[k]]) > abs(work.row[work.eligible[best]])
            ):
                best = k
        column = work.eligible[best]
        variable = work.nonbasic[column]
        if variable < n:  # has no other bound to flip to
            return column, n_eligible, n_flips
        gain = 2.0 * abs(work.row[column])
        left -= gain
        left_tie -= gain * weights[variable - n]
        if not (left > FEASIBLE or (left > -FEASIBLE and left_tie > FEASIBLE)):
            return column, n_eligible, n_flips
        n_eligible -= 1
        n_flips += 1
        work.ratio[best] = work.ratio[n_eligible]
        work.eligible[best] = work.eligible[n_eligible]
        work.eligible[n_eligible] = column
    return -1, n_eligible, n_flips


@kernel
def _flip(n_eligible, n_flips, mode, weights, n_terms, work):  # type: ignore[no-untyped-def]
    """Move the chosen nonbasic variables w from one bound to the other."""
    n = len(work.value)
    change, change_tie = work.flips, work.flips_tie
    change[:] = 0.0
    change_tie[:] = 0.0
    for k in range(n_eligible, n_eligible + n_flips):
        column = work.eligible[k]
        weight = weights[work.nonbasic[column] - n]
        _add_start_column(column, 2.0 * work.side[column], mode, work, change)
        _add_start_column(column, 2.0 * work.side[column] * weight, mode, work, change_tie)
    for t in range(n_terms):
        factor = factor_tie = 0.0
        for k in range(n_eligible, n_eligible + n_flips):
            column = work.eligible[k]
            size = 2.0 * work.side[column] * work.right[t, column]
            factor += size
            factor_tie += size * weights[work.nonbasic[column] - n]
        left = work.left[t]
        for i in range(n):
            change[i] += factor * left[i]
            change_tie[i] += factor_tie * left[i]
    for i in range(n):
        work.value[i] += change[i]
        work.tie[i] += change_tie[i]
    for k in range(n_eligible, n_eligible + n_flips):
        work.side[work.eligible[k]] *= -1.0


@kernel
def _form_row(i, mode, n_terms, work):  # type: ignore[no-untyped-def]
    """Form row i of the tableau in `work.row`."""
    row = work.row
    row[:] = 0.0
    a, b = work.before[i], work.after[i]
    if work.is_end[i]:
        sign = 1.0 if i <= mode else -1.0
        below, above = 1.0 / (i - a), 1.0 / (b - i)
        row[i] = -sign * (below + above)
        row[a] = below if a <= mode else -below
        row[b] = above if b <= mode else -above
        for k in range(a + 1, i):
            row[k] = -below * (k - a)
        for k in range(i + 1, b):
            row[k] = -above * (b - k)
    else:
        sign = 1.0 if i <= mode else -1.0
        below, above = sign * (b - i) / (b - a), sign * (i - a) / (b - a)
        row[a] = below if a <= mode else -below
        row[b] = above if b <= mode else -above
        for k in range(a + 1, i + 1):
            row[k] = -below * (k - a)
        for k in range(i + 1, b):
            row[k] = -above * (b - k)
    for t in range(n_terms):
        factor = work.left[t, i]
        if factor != 0.0:
            right = work.right[t]
            for j in range(len(row)):
                row[j] += factor * right[j]


@kernel
def _form_column(j, mode, n_terms, work):  # type: ignore[no-untyped-def]
    """Form column j of the tableau in `work.column`; entries outside of 1 ... K-1 mean nothing."""
    column = work.column
    column[:] = 0.0
    _add_start_column(j, 1.0, mode, work, column)
    for t in range(n_terms):
        factor = work.right[t, j]
        if factor != 0.0:
            left = work.left[t]
            for i in range(len(column)):
                column[i] += factor * left[i]


@kernel
def _add_start_column(j, factor, mode, work, out):  # type: ignore[no-untyped-def]
    """Add `factor` times column j of the starting tableau."""
    a, b = work.before[j], work.after[j]
    if work.is_end[j]:
        sign = factor if j <= mode else -factor
        if a < j:
            below = sign / (j - a)
            out[a] += below
            out[j] -= below
            for i in range(a + 1, j):
                out[i] += below * (i - a) if i <= mode else -below * (i - a)
        if j < b:
            above = sign / (b - j)
            out[b] += above
            out[j] -= above
            for i in range(j + 1, b):
                out[i] += above * (b - i) if i <= mode else -above * (b - i)
    else:
        below, above = factor * (j - b) / (b - a), factor * (a - j) / (b - a)
        out[a] += below
        out[b] += above
        for i in range(a + 1, j + 1):
            out[i] += below * (i - a) if i <= mode else -below * (i - a)
        for i in range(j + 1, b):
            out[i] += above * (b - i) if i <= mode else -above * (b - i)


@kernel
def _read_off(q, mode, p, slope, value, work):  # type: ignore[no-untyped-def]
    """Write the primal and the dual solution of the final basis; whether they certify each other."""
    n_classes = len(q)
    n = n_classes + 1
    p[:] = q
    value[0] = 0.0
    for j in range(n):
        if work.nonbasic[j] >= n:
            i = work.nonbasic[j] - n
            p[i - 1] += work.cost[j]
            p[i] -= work.cost[j]
            value[0] += abs(work.cost[j])
    mu = work.column
    mu[:] = 0.0
    largest = violation = 0.0
    for i in range(1, n_classes):
        node = work.basic[i]
        if node < n:
            mu[node] = work.value[i] if node <= mode else -work.value[i]
            violation = max(violation, -work.value[i])
            largest = max(largest, work.value[i])
    dual = 0.0
    for j in range(n_classes):
        slope[j] = mu[j + 1] - mu[j]
        dual += slope[j] * q[j]
        step = p[j] - p[j - 1] if j > 0 else p[0]
        violation = max(violation, -step if j <= mode else step)
        if j > 0:
            violation = max(violation, abs(slope[j] - slope[j - 1]) - 1.0)
    violation = max(violation, -p[n_classes - 1], abs(dual - value[0]))
    for j in range(n_classes):
        p[j] = max(p[j], 0.0)
    settle(p, mode)
    return violation <= CERTIFIED + ROUNDING * largest
