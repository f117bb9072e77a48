r"""The W1 projection whose mode is not known: a search among the modes, cut short by lower bounds.

A dual solution that is feasible for mode m bounds its distance from below (`pivoting` has the dual). Take
mu_i = 1/2 at the nodes i <= m where q falls, mu_i = -1/2 at those i > m where it rises, and 0 elsewhere. Then
|w_i| <= 1 but where mu changes its sign between the nodes m and m + 1; without the cheaper of these two,
it holds there too:

    D_m >= 1/2 (\sum_{i <= m} (q_{i-1} - q_i)^+ + \sum_{i > m} (q_i - q_{i-1})^+ - the smaller of m, m + 1).

Modes are tried in the order of their bounds, and those whose bound exceeds the least distance so far never
are. The most probable class is often not the best mode.
"""

import numpy as np

from unimodal.projection.certificate import refuse
from unimodal.projection.compiled import Flags, Floats, Ints, allocating_kernel, fill, kernel
from unimodal.projection.pivoting import solve_row
from unimodal.projection.pooling import is_finite
from unimodal.projection.tableau import Work, workspace
from unimodal.projection.ties import SAME_DISTANCE


@allocating_kernel
def solve_rows(
    q: Floats,
    weights: Floats,
    p: Floats,
    slope: Floats,
    value: Floats,
    mode: Ints,
    solved: Flags,
    first: int,
    last: int,
    terms: Floats,
) -> bool:
    """Project the rows from `first` to `last` and write their modes; `solved` says which are certified."""
    n_classes = q.shape[1]
    work, bound, distance = workspace(n_classes, terms), np.empty(n_classes), np.empty(n_classes)
    certified = True
    for row in range(first, last):
        here = slice(row, row + 1)
        solved[row] = _solve_row(
            q[row], weights, p[row], slope[row], value[here], mode[here], bound, distance, work
        )
        certified &= solved[row]
    return certified


@kernel
def _solve_row(
    q: Floats,
    weights: Floats,
    p: Floats,
    slope: Floats,
    value: Floats,
    mode: Ints,
    bound: Floats,
    distance: Floats,
    work: Work,
) -> bool:
    if not is_finite(q):
        mode[0] = 0
        return refuse(p, slope, value)
    _lower_bounds(q, bound)
    fill(distance, np.inf)
    least = np.inf
    certified = True
    is_last = False
    while not is_last:
        candidate = _most_promising(bound, distance)
        is_last = candidate < 0 or bound[candidate] > least + SAME_DISTANCE
        if is_last:
            candidate = 0
            while distance[candidate] > least + SAME_DISTANCE:
                candidate += 1
            if candidate == mode[0]:
                break
        certified &= solve_row(q, candidate, True, weights, p, slope, value, work)
        distance[candidate] = value[0]
        least = min(least, value[0])
        mode[0] = candidate
    return certified


@kernel
def _most_promising(bound: Floats, distance: Floats) -> int:
    """The mode with the least bound of those that were not tried, or -1."""
    best = -1
    for m in range(len(bound)):
        if distance[m] == np.inf and (best < 0 or bound[m] < bound[best]):
            best = m
    return best


@kernel
def _lower_bounds(q: Floats, bound: Floats) -> None:
    """The bound of each mode."""
    n_classes = len(q)
    rises = 0.0
    for m in range(n_classes - 1, -1, -1):
        bound[m] = rises
        if m > 0:
            rises += max(q[m] - q[m - 1], 0.0)
    falls = 0.0
    for m in range(n_classes):
        fall = max(q[m - 1] - q[m], 0.0) if m > 0 else 0.0
        rise = max(q[m + 1] - q[m], 0.0) if m + 1 < n_classes else 0.0
        falls += fall
        bound[m] = 0.5 * (falls + bound[m] - min(fall, rise))
