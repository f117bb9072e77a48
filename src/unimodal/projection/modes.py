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

from unimodal.projection.compiled import Flags, Floats, Ints, kernel
from unimodal.projection.pivoting import solve_row
from unimodal.projection.tableau import workspace
from unimodal.projection.ties import SAME_DISTANCE


@kernel
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
) -> None:
    """Project the rows from `first` to `last` and write their modes; `solved` says which are certified."""
    n_classes = q.shape[1]
    work = workspace(n_classes)
    bound, distance = np.empty(n_classes), np.empty(n_classes)
    for row in range(first, last):
        _lower_bounds(q[row], bound)
        distance[:] = np.inf
        least = np.inf
        latest = -1
        certified = True
        while True:
            candidate = _most_promising(bound, distance)
            if candidate < 0 or bound[candidate] > least + SAME_DISTANCE:
                break
            here = slice(row, row + 1)
            certified &= solve_row(q[row], candidate, weights, p[row], slope[row], value[here], work)
            distance[candidate] = value[row]
            least = min(least, value[row])
            latest = candidate
        best = 0
        while distance[best] > least + SAME_DISTANCE:
            best += 1
        if best != latest:
            solve_row(q[row], best, weights, p[row], slope[row], value[row : row + 1], work)
        mode[row] = best
        solved[row] = certified


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
