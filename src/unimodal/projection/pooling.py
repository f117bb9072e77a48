r"""Pooling: the nearest unimodal sequence in the sense of L2, of KL(q || p) and of KL(p || q).

With the mode m fixed, "rise to m, then fall" is a partial order whose graph is a tree rooted at m: a
chain from each end. Pooling adjacent violators (Barlow et al., "Statistical inference under order
restrictions", 1972; Pardalos and Xue, Algorithmica 23, 1999, for trees) merges each chain into blocks
of rising means, towards the root, and lets the root absorb the higher of the two blocks beside it for
as long as that block's mean exceeds its own. This is O(K), and gives

- the L2 projection of q. Sums are kept and means of non-negative numbers are not negative, hence
  it is the projection onto the unimodal *distributions* too;
- the minimiser of KL(q || p), since block means minimise every Bregman divergence in its second
  argument, whichever convex function it comes from;
- the minimiser of KL(p || q) as the softmax of the pooled logarithms of q: its conditions are those
  of the L2 problem for log p up to a constant.

Zeros of q have logarithm -inf, and where a zero lies between the mode and other mass no p has a
finite KL(p || q). What is returned then is the limit for zeros that tend to 0 together: replacing -inf by
a number far below every logarithm of a float (`divergences.LOG_OF_ZERO`) keeps blocks ordered by their share
of zeros first.
"""

import numpy as np

from unimodal.projection.compiled import Floats, Ints, allocating_kernel, copy, fill, kernel, over_rows


def pooled(y: Floats, mode: Ints) -> Floats:
    """Project each row of `y` on the sequences that rise to its mode and fall after it, in L2."""
    out = np.empty_like(y)
    over_rows(_pool_rows, y.shape, 4 * y.shape[1], y, mode, out)
    return out


@allocating_kernel
def _pool_rows(y: Floats, mode: Ints, out: Floats, first: int, last: int, _terms: Floats) -> bool:
    n = y.shape[1] + 1
    ends, sums, counts = np.empty(n, np.int64), np.empty(2 * n), np.empty(2 * n)
    for row in range(first, last):
        _pool_row(y[row], mode[row], out[row], ends, sums, counts)
    return True


@kernel
def _pool_row(y: Floats, mode: int, out: Floats, ends: Ints, sums: Floats, counts: Floats) -> None:
    if rises_and_falls(y, mode):
        copy(y, out)
    elif not is_finite(y):
        fill(out, np.nan)
    else:
        pool(y, mode, out, ends, sums, counts)
        settle(out, mode)


@kernel
def rises_and_falls(q: Floats, mode: int) -> bool:
    """Whether q is unimodal with this mode already."""
    unimodal = True  # without a branch in the loops, which the compiler then vectorises
    for j in range(1, mode + 1):
        unimodal &= q[j - 1] <= q[j]
    for j in range(mode + 1, len(q)):
        unimodal &= q[j - 1] >= q[j]
    return unimodal


@kernel
def is_finite(y: Floats) -> bool:
    """Whether a row has neither NaN nor infinities, with which comparisons would lead nowhere."""
    total = 0.0
    for j in range(len(y)):
        total += y[j] - y[j]
    return total == 0.0


@kernel
def pool(y: Floats, mode: int, out: Floats, ends: Ints, sums: Floats, counts: Floats) -> int:
    """Pool one row into `out` and return the number of blocks; block b is out[ends[b]:ends[b + 1]]."""
    n_classes = len(y)
    n_left = _pool_chain(y, 0, mode, 1, sums, counts, 0)
    n_right = _pool_chain(y, n_classes - 1, mode, -1, sums, counts, n_classes)
    total, count = y[mode], 1.0
    while True:
        left = sums[n_left - 1] / counts[n_left - 1] if n_left else -np.inf
        right = sums[n_classes + n_right - 1] / counts[n_classes + n_right - 1] if n_right else -np.inf
        mean = total / count
        if left <= mean and right <= mean:
            break
        if left >= right:
            n_left -= 1
            total += sums[n_left]
            count += counts[n_left]
        else:
            n_right -= 1
            total += sums[n_classes + n_right]
            count += counts[n_classes + n_right]

    ends[0] = 0
    n_blocks = 0
    for block in range(n_left):
        n_blocks = _write(out, ends, n_blocks, sums[block], counts[block])
    n_blocks = _write(out, ends, n_blocks, total, count)
    for block in range(n_classes + n_right - 1, n_classes - 1, -1):
        n_blocks = _write(out, ends, n_blocks, sums[block], counts[block])
    return n_blocks


@kernel
def _pool_chain(y: Floats, start: int, stop: int, step: int, sums: Floats, counts: Floats, base: int) -> int:
    """Merge y[start], y[start + step], ... into blocks of rising means, stacked from `base` on."""
    top = base
    for j in range(start, stop, step):
        total, count = y[j], 1.0
        while top > base and sums[top - 1] * count >= total * counts[top - 1]:
            top -= 1
            total += sums[top]
            count += counts[top]
        sums[top] = total
        counts[top] = count
        top += 1
    return top - base


@kernel
def _write(out: Floats, ends: Ints, n_blocks: int, total: float, count: float) -> int:
    start = ends[n_blocks]
    stop = start + int(count)
    for j in range(start, stop):
        out[j] = total / count
    ends[n_blocks + 1] = stop
    return n_blocks + 1


@kernel
def settle(p: Floats, mode: int) -> None:
    """Take away the rounding that breaks the order, to the last bit."""
    bound = p[mode]
    for j in range(mode - 1, -1, -1):
        bound = min(bound, p[j])
        p[j] = bound
    bound = p[mode]
    for j in range(mode + 1, len(p)):
        bound = min(bound, p[j])
        p[j] = bound
