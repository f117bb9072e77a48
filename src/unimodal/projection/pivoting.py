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

Start. Pool adjacent violators. At the ends of the blocks lambda is nonbasic, inside them w is, at -1 left of
the mode and at +1 right of it. There P is a convex minorant of Q, or a concave majorant, so all reduced costs
have the right sign, and what is left to mend are basic variables out of their bounds: a dual simplex
with long steps (bound flipping) needs one pivot for every few classes. Rows and columns of the tableau
are formed when they are needed (`tableau`).

Ties. The bounds of w_i are 1 + epsilon r_i with infinitesimal epsilon and the r_i of `ties`: each basic
value is a pair (value, tie), compared lexicographically. The optimum is then the W1 minimiser
with the smallest \sum_i r_i |P_i - Q_i|, of which there is exactly one.

Each row is certified before it is returned (`certificate`). The slope of its distance in q is
psi_j = mu_{j+1} - mu_j.
"""

import numpy as np

from unimodal.projection.certificate import read_off, refuse
from unimodal.projection.compiled import Flags, Floats, Ints, allocating_kernel, copy, fill, kernel
from unimodal.projection.pooling import is_finite, pool, rises_and_falls
from unimodal.projection.tableau import (
    Work,
    add_start_column,
    add_terms,
    form_column,
    form_row,
    refine,
    workspace,
)

FEASIBLE = 1e-9
"""How far a basic variable may lie beyond its bound."""
PIVOT = 1e-10
"""The smallest entry of the tableau that is taken for one."""


@allocating_kernel
def solve_rows(
    q: Floats,
    mode: Ints,
    weights: Floats,
    p: Floats,
    slope: Floats,
    value: Floats,
    solved: Flags,
    first: int,
    last: int,
    terms: Floats,
) -> bool:
    """Project the rows from `first` to `last`; `solved` says which are certified."""
    return _solve_rows(q, mode, weights, p, slope, value, solved, first, last, workspace(q.shape[1], terms))


@kernel
def _solve_rows(
    q: Floats,
    mode: Ints,
    weights: Floats,
    p: Floats,
    slope: Floats,
    value: Floats,
    solved: Flags,
    first: int,
    last: int,
    work: Work,
) -> bool:
    certified = True
    for row in range(first, last):
        here = slice(row, row + 1)
        solved[row] = solve_row(q[row], mode[row], True, weights, p[row], slope[row], value[here], work)
        certified &= solved[row]
    return certified


@kernel
def solve_row(
    q: Floats, mode: int, ties: bool, weights: Floats, p: Floats, slope: Floats, value: Floats, work: Work
) -> bool:
    """Project one row into `p`, with its distance and its gradient; False if that was not certified.

    Ties need not be broken for those who want no more than the distance and a gradient.
    """
    if rises_and_falls(q, mode):
        copy(q, p)
        fill(slope, 0.0)
        value[0] = 0.0
        return True
    if not is_finite(q):
        return refuse(p, slope, value)
    _start(q, mode, ties, weights, p, work)
    n_terms = 0
    while True:
        row = _leaving(ties, weights, work)
        if row < 0:
            if read_off(q, mode, ties, p, slope, value, work):
                return True
            refine(mode, n_terms, work)
            return read_off(q, mode, ties, p, slope, value, work)
        if n_terms == len(work.left) or not _pivot(row, ties, weights, n_terms, work):
            return False
        n_terms += 1


@kernel
def _start(q: Floats, mode: int, ties: bool, weights: Floats, p: Floats, work: Work) -> None:
    """Pool, and set up the basis of the pooled solution."""
    n_classes = len(q)
    for i in range(len(work.sign)):
        work.sign[i] = 1.0 if i <= mode else -1.0
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
        if ties:
            work.tie[i] = 0.0
    for e in range(n_blocks):
        _start_block(q, mode, ties, weights, p, work.ends[e], work.ends[e + 1], work)


@kernel
def _start_block(
    q: Floats, mode: int, ties: bool, weights: Floats, p: Floats, a: int, b: int, work: Work
) -> None:
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
        work.value[i] = mu
        rise -= work.side[i]
        if ties:
            mu_tie += rise_tie
            work.tie[i] = mu_tie
            rise_tie -= work.side[i] * weights[i]
    _tilt(work.value, mu + rise, mode, a, b)
    if ties:
        _tilt(work.tie, mu_tie + rise_tie, mode, a, b)


@kernel
def _tilt(values: Floats, last: float, mode: int, a: int, b: int) -> None:
    """Make mu zero at both ends of its block, and basic variables of it."""
    tilt = last / (b - a)
    for i in range(a + 1, b):
        values[i] -= tilt * (i - a)
    if b - a > 1:
        values[a] += values[a + 1]
        values[b] += values[b - 1]
    for i in range(max(a, mode) + 1, b):
        values[i] = -values[i]


@kernel
def _leaving(ties: bool, weights: Floats, work: Work) -> int:
    """The row that lies farthest beyond its bound, or -1 if none does; by the tie if no value does."""
    n = work.nodes
    over = work.over
    largest = -1
    for i in range(len(over)):
        over[i] = abs(work.value[i]) - 1.0 if work.basic[i] >= n else -work.value[i]
        key = _key(over[i], i, work)
        largest = max(largest, key if 0 < i < n - 1 else -1)
    if largest >= 0 and over[largest & work.mask] > FEASIBLE:
        return largest & work.mask
    row, worst_tie = -1, FEASIBLE
    if not ties:
        return row
    for i in range(1, n - 1):
        if over[i] > -FEASIBLE:
            over_tie = -work.tie[i]
            if work.basic[i] >= n:
                over_tie = (work.tie[i] if work.value[i] > 0.0 else -work.tie[i]) - weights[work.basic[i] - n]
            if over_tie > worst_tie:
                row, worst_tie = i, over_tie
    return row


@kernel
def _key(number: float, node: int, work: Work) -> int:
    """A number that is not negative, in whose last bits there is a node.

    Such numbers are ordered as their bits are. The least or the largest of these is found in one pass and
    without branches, and says where it is. Numbers that differ by rounding only may change places.
    """
    key: int = (np.float64(number).view(np.int64) & ~work.mask) | node  # type: ignore[assignment]
    return key


@kernel
def _pivot(row: int, ties: bool, weights: Floats, n_terms: int, work: Work) -> bool:
    """Let the variable of `row` leave for the bound it has crossed; False if no variable can enter."""
    n = work.nodes
    leaving = work.basic[row]
    bound = bound_tie = 0.0
    if leaving >= n:
        bound = 1.0 if work.value[row] > 0.0 else -1.0
        bound_tie = bound * weights[leaving - n]
    direction = -1.0 if bound > 0.0 else 1.0
    step, step_tie = bound - work.value[row], bound_tie - work.tie[row]
    form_row(row, n_terms, work)
    left, right = work.left[n_terms], work.right[n_terms]
    entering, n_flips = _entering(right, direction, step, step_tie, ties, weights, work)
    if entering < 0:
        return False
    if n_flips:
        _flip(n_flips, ties, weights, n_terms, work)
        step, step_tie = bound - work.value[row], bound_tie - work.tie[row]
    form_column(entering, n_terms, work)

    inverse = 1.0 / right[entering]
    step *= inverse
    step_tie *= inverse
    slide = work.cost[entering] * inverse
    variable = work.nonbasic[entering]
    work.nonbasic[entering] = leaving
    work.side[entering], side = direction, work.side[entering]
    for j in range(len(work.value)):
        work.value[j] += left[j] * step
        cost = work.cost[j] - slide * right[j]
        work.cost[j] = min(cost, 0.0) if work.side[j] > 0.0 else max(cost, 0.0)
        right[j] *= -inverse
    if ties:
        for i in range(len(work.tie)):
            work.tie[i] += left[i] * step_tie
    work.basic[row] = variable
    work.value[row] = step
    work.tie[row] = step_tie
    if variable >= n:
        work.value[row] -= side
        work.tie[row] -= side * weights[variable - n]
    work.cost[entering] = slide
    left[row] += 1.0
    right[entering] = inverse - 1.0
    return True


@kernel
def _entering(
    row: Floats, direction: float, step: float, step_tie: float, ties: bool, weights: Floats, work: Work
) -> tuple[int, int]:
    """Choose the column that enters, by smallest ratio, flipping bounds for as long as that helps.

    Returns the column, or -1, and how many columns in `work.flipped` are to be flipped.
    """
    n = work.nodes
    keys = work.keys
    none: int = np.float64(np.inf).view(np.int64)  # type: ignore[assignment]
    least = none
    for j in range(len(keys)):
        slope = row[j] * work.side[j] * direction
        keys[j] = _key(abs(work.cost[j]) / slope if slope > PIVOT else np.inf, j, work)
        least = min(least, keys[j])
    left, left_tie = abs(step), step_tie * direction
    n_flips = 0
    while least < none:
        column = least & work.mask
        if work.nonbasic[column] < n:  # a lambda has no other bound to flip to
            return column, n_flips
        gain = 2.0 * abs(row[column])
        left -= gain
        left_tie -= gain * weights[work.nonbasic[column] - n]
        if not (left > FEASIBLE or (ties and left > -FEASIBLE and left_tie > FEASIBLE)):
            return column, n_flips
        work.flipped[n_flips] = column
        n_flips += 1
        passed, least = least, none
        for j in range(len(keys)):
            least = min(least, keys[j] if keys[j] > passed else none)
    return -1, n_flips


@kernel
def _flip(n_flips: int, ties: bool, weights: Floats, n_terms: int, work: Work) -> None:
    """Move the chosen nonbasic variables w from one bound to the other."""
    n = work.nodes
    for k in range(n_flips):
        work.sizes[k] = 2.0 * work.side[work.flipped[k]]
    _add_flips(n_flips, n_terms, work, work.value)
    if ties:
        for k in range(n_flips):
            work.sizes[k] *= weights[work.nonbasic[work.flipped[k]] - n]
        _add_flips(n_flips, n_terms, work, work.tie)
    for k in range(n_flips):
        work.side[work.flipped[k]] *= -1.0


@kernel
def _add_flips(n_flips: int, n_terms: int, work: Work, out: Floats) -> None:
    """Add what changes of the flipped variables by `work.sizes` do to the basic ones."""
    for k in range(n_flips):
        add_start_column(work.flipped[k], work.sizes[k], work, out)
    for t in range(n_terms):
        factor = 0.0
        for k in range(n_flips):
            factor += work.sizes[k] * work.right[t, work.flipped[k]]
        work.factors[t] = factor
    add_terms(n_terms, work.factors, work.used, work.left, out)
