r"""The proof that a W1 projection is right, from the basis in which the dual simplex of `pivoting` ended.

Let the dual solution that was found have the value D, lambda_i >= -a and |w_i| <= 1 + b.
Summed by parts, with any p that is unimodal with mode m,

    (1 + b) W1(p, q) >= \sum_i w_i (P_i - Q_i) = D + \sum_i lambda_i s_i (p_i - p_{i-1}) >= D - 2a,

since the last factors are not negative and sum to twice the largest p_i. A row is certified only if this
proves its distance to be within 5e-10 of the least one.
"""

import numpy as np

from unimodal.projection.compiled import Floats, copy, fill, kernel
from unimodal.projection.pooling import settle
from unimodal.projection.tableau import Work

MANY = 64
"""From how many classes on rounding errors are compensated."""
CERTIFIED = 5e-10
"""How far a certified distance may be from the optimum."""


@kernel
def read_off(q: Floats, mode: int, p: Floats, slope: Floats, value: Floats, work: Work) -> bool:
    """Write the primal and the dual solution of the final basis; whether they certify each other."""
    n_classes = len(q)
    n = n_classes + 1
    copy(q, p)
    total = 0.0
    mu, w = work.column, work.row
    fill(mu, 0.0)
    fill(w, 0.0)
    for i in range(n):
        variable = work.nonbasic[i]
        if variable >= n:
            p[variable - n - 1] += work.cost[i]
            p[variable - n] -= work.cost[i]
            total += abs(work.cost[i])
            w[variable - n] = -work.side[i]
        node = work.basic[i]
        if 0 < i < n_classes and node < n:
            mu[node] = work.value[i] if node <= mode else -work.value[i]
    bend = _slopes(mu, w, slope)

    multiplier = mu[0]
    dual = negative = lost = disorder = 0.0
    for j in range(n_classes):
        negative = max(negative, -multiplier if j <= mode else multiplier)
        change = slope[j] - lost
        before = multiplier
        multiplier += change
        if n_classes > MANY:  # Kahan's sum: the multipliers of a thousand classes reach 1e5
            lost = (multiplier - before) - change
        dual += slope[j] * q[j]
        step = p[j] - p[j - 1] if j > 0 else p[0]
        disorder = max(disorder, -step if j <= mode else step)
    disorder = max(disorder, -p[n_classes - 1])
    for j in range(n_classes):
        p[j] = max(p[j], 0.0)
    settle(p, mode)
    value[0] = total
    error: float = abs(dual - total) + 2.0 * negative + bend * total + n_classes * disorder
    return error <= CERTIFIED


@kernel
def _slopes(mu: Floats, w: Floats, slope: Floats) -> float:
    """Write mu_{j+1} - mu_j and return by how much the largest bend exceeds 1.

    Where w is nonbasic the slopes differ by exactly +-1, so each run of them is one number and whole numbers.
    Differences of the mu, which grow with K^2, would lose digits.
    """
    n_classes = len(slope)
    excess = 0.0
    first = 0
    while first < n_classes:
        last = first
        level = total = 0.0
        while w[last + 1] != 0.0:
            last += 1
            level += w[last]
            total += level
        level = (mu[last + 1] - mu[first] - total) / (last - first + 1)
        for j in range(first, last + 1):
            level += w[j] if j > first else 0.0
            slope[j] = level
        if first > 0:
            excess = max(excess, abs(slope[first] - slope[first - 1]) - 1.0)
        first = last + 1
    return excess


@kernel
def refuse(p: Floats, slope: Floats, value: Floats) -> bool:
    """The result of a row with NaN or infinities; it is not certified."""
    fill(p, np.nan)
    fill(slope, np.nan)
    value[0] = np.nan
    return False
