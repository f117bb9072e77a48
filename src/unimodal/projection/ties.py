r"""Which of several equally near distributions is meant: the tie-break of the W1 projection.

The distributions nearest to q in W1 = \sum_i |P_i - Q_i| form a polytope, often with more than one
point: (1/4, 1/4, 1/4, 1/4) and (1/3, 1/3, 1/3, 0) are both at 0.35 from (0.4, 0.3, 0.05, 0.25) when the
mode is class 2. The one meant is the one that minimises \sum_i r_i |P_i - Q_i| as well, with

    r_i = 1/10 + frac(sqrt(i-th prime)),   i = 1 ... K-1.

It is unique. The polytope's edges have rational directions (every constraint has integer
coefficients), along an edge the sign of each P_i - Q_i is constant, so the second sum changes
by \sum_i c_i r_i with rational c_i, not all zero. Were it zero, the square roots of distinct primes and 1
would be linearly dependent over the rationals, and they are not.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

SAME_DISTANCE = 1e-12
"""Distances that differ by no more are equal, and of equally near modes the lowest is taken."""


@cache
def weights(n_classes: int) -> NDArray[np.float64]:
    """r_0 ... r_K, read-only; the ends, where P = Q always, weigh nothing."""
    inner = max(n_classes - 1, 0)
    result = np.zeros(n_classes + 1)
    result[1 : inner + 1] = 0.1 + np.sqrt(_primes(inner)) % 1.0
    result.flags.writeable = False
    return result


def _primes(count: int) -> NDArray[np.int64]:
    # The n-th prime lies below n (ln n + ln ln n) for n >= 6.
    bound = 15 if count < 6 else int(count * (np.log(count) + np.log(np.log(count)))) + 1
    prime = np.ones(bound + 1, dtype=bool)
    prime[:2] = False
    for number in range(2, int(bound**0.5) + 1):
        if prime[number]:
            prime[number * number :: number] = False
    return np.flatnonzero(prime)[:count]
