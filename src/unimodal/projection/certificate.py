r"""The proof that a W1 projection is right, from the basis in which the dual simplex of `pivoting` ended.

Let the dual solution that was found have the value D, lambda_i >= -a and |w_i| <= 1 + b.
Summed by parts, with any p that is unimodal with mode m,

    (1 + b) W1(p, q) >= \sum_i w_i (P_i - Q_i) = D + \sum_i lambda_i s_i (p_i - p_{i-1}) >= D - 2a,

since the last factors are not negative and sum to twice the largest p_i. A row is certified only if this
proves its distance to be within 5e-10 of the least one.
"""

import numpy as np

from unimodal.projection.compiled import Floats, fill, kernel
from unimodal.projection.pooling import settle
from unimodal.projection.tableau import Work

CERTIFIED = 5e-10
"""How far a certified distance may be from the optimum."""


@kernel
def read_off(q: Floats, mode: int, wanted: bool, p: Floats, slope: Floats, value: Floats, work: Work) -> bool:
    """Write the primal and the dual solution of the final basis; whether they certify each other.

    If `p` is not wanted, its order is left as rounding made it.
    """
    n_classes = len(q)
    n = n_classes + 1
    # By variable: the values of the basic ones; of the others their reduced costs, and bends that are not 0.
    numbers, bends, moved = work.numbers, work.bends, work.over
    for i in range(n):
        variable, other = work.nonbasic[i], work.basic[i]
        numbers[variable] = work.cost[i]
        bends[variable] = -int(work.side[i])
        numbers[other] = work.value[i]
        bends[other] = 0
    for i in range(n):
        moved[i] = numbers[n + i] if bends[n + i] != 0 else 0.0
    for j in range(n_classes):
        p[j] = q[j] + (moved[j + 1] - moved[j])
    excess = _slopes(slope, work)

    # The multipliers of a thousand classes reach 1e5: what each sum loses is summed as well.
    multiplier, lost = _multiplier(0, work), 0.0
    total = dual = negative = disorder = before = 0.0
    for j in range(n_classes):
        sign = work.sign[j]
        negative = max(negative, -sign * (multiplier + lost))
        added = multiplier + slope[j]
        part = added - multiplier
        lost += (multiplier - (added - part)) + (slope[j] - part)
        multiplier = added
        dual += slope[j] * q[j]
        total += abs(moved[j])
        disorder = max(disorder, sign * (before - p[j]))
        before = p[j]
    disorder = max(disorder, -before)
    if wanted:
        for j in range(n_classes):
            p[j] = max(p[j], 0.0)
        settle(p, mode)
    value[0] = total
    error: float = abs(dual - total) + 2.0 * negative + excess * total + n_classes * disorder
    return error <= CERTIFIED


@kernel
def _multiplier(node: int, work: Work) -> float:
    """The multiplier mu of a node, by `work.numbers`."""
    return 0.0 if work.bends[node] != 0 else work.sign[node] * work.numbers[node]


@kernel
def _slopes(slope: Floats, work: Work) -> float:
    """Write mu_{j+1} - mu_j and return by how much the largest bend exceeds 1.

    Where w is nonbasic the slopes differ by exactly +-1, so each run of them is one number and whole numbers.
    Differences of the mu, which grow with K^2, would lose digits.
    """
    n_classes = len(slope)
    n = n_classes + 1
    bends = work.bends
    excess = latest = 0.0
    first = 0
    while first < n_classes:
        last = first
        level = total = 0
        while bends[n + last + 1] != 0:
            last += 1
            level += bends[n + last]
            total += level
        rise = _multiplier(last + 1, work) - _multiplier(first, work)
        start = (rise - total) / (last - first + 1)
        if first > 0:
            excess = max(excess, abs(start - latest) - 1.0)
        level = 0
        for j in range(first, last + 1):
            level += bends[n + j] if j > first else 0
            slope[j] = start + level
        latest = slope[last]
        first = last + 1
    return excess


@kernel
def refuse(p: Floats, slope: Floats, value: Floats) -> bool:
    """The result of a row with NaN or infinities; it is not certified."""
    fill(p, np.nan)
    fill(slope, np.nan)
    value[0] = np.nan
    return False
