r"""The tableau of the dual simplex of `pivoting`, which is never stored, and the scratch space of one thread.

At the start T, basic = T nonbasic, is known in closed form: inside a block from a to b it is the Green's
function of the second difference, G_ik = (min(i, k) - a)(b - max(i, k)) / (b - a). Every pivot adds a term of
rank one. Rows and columns are formed from both when they are needed.
"""

from typing import NamedTuple

import numpy as np

from unimodal.projection.compiled import Flags, Floats, Ints, allocating_kernel, fill, kernel, vectors


class Work(NamedTuple):
    """Scratch space of one thread. Variables are numbered lambda_i -> i and w_i -> K + 1 + i.

    What is indexed by nodes is padded with zeros to whole vectors of the processor.
    """

    nodes: int
    ends: Ints
    sums: Floats
    counts: Floats
    before: Ints  # first node of the block around an inner node; for a block's end, the previous end
    after: Ints  # last node of that block; for a block's end, the next end
    is_end: Flags
    basic: Ints
    nonbasic: Ints
    value: Floats  # of the basic variables
    tie: Floats  # their infinitesimal part
    cost: Floats  # reduced costs of the nonbasic variables
    side: Floats  # +1 for a nonbasic variable at its lower bound, -1 at the upper one
    numbered: Floats  # 0, 1, 2, ...
    sign: Floats  # s of `pivoting`
    over: Floats
    column: Floats
    sizes: Floats
    factors: Floats
    used: Ints
    keys: Ints
    mask: int  # all bits of the number of a node
    flipped: Ints
    numbers: Floats
    bends: Ints
    left: Floats  # the rank-one terms: T = T_start + sum_t left[t] right[t]'
    right: Floats


@allocating_kernel
def workspace(n_classes: int, terms: Floats) -> Work:
    """Scratch space for rows of `n_classes`."""
    n = terms.shape[2]
    mask = 1
    while mask < n:
        mask *= 2
    numbered = vectors(n)
    for i in range(n):
        numbered[i] = i
    return Work(
        n_classes + 1,
        np.empty(n, np.int64), np.empty(2 * n), np.empty(2 * n),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_),
        vectors(n).view(np.int64), vectors(n).view(np.int64),
        vectors(n), vectors(n), vectors(n), vectors(n), numbered, vectors(n), vectors(n), vectors(n),
        vectors(n), np.zeros(terms.shape[1]), np.zeros(terms.shape[1], np.int64),
        vectors(n).view(np.int64), mask - 1, np.empty(n, np.int64),
        np.zeros(2 * n), np.zeros(2 * n, np.int64), terms[0], terms[1],
    )  # fmt: skip


@kernel
def form_row(i: int, n_terms: int, work: Work) -> None:
    """Form row i of the tableau in `work.right[n_terms]`, the place of the next term."""
    row = work.right[n_terms]
    a, b, sign = work.before[i], work.after[i], work.sign[i]
    if work.is_end[i]:
        below, above, height = 1.0 / (i - a), 1.0 / (b - i), -1.0
        at_a, at_b = below, above
    else:
        below, above, height = (b - i) / (b - a), (i - a) / (b - a), -sign
        at_a, at_b = sign * below, sign * above
    for j in range(len(row)):
        row[j] = height * tent(work.numbered[j], a, b, below, above)
    row[a] = work.sign[a] * at_a
    row[b] = work.sign[b] * at_b
    if work.is_end[i]:
        row[i] = -sign * (below + above)
    for t in range(n_terms):
        work.factors[t] = work.left[t, i]
    add_terms(n_terms, work.factors, work.used, work.right, row)


@kernel
def form_column(j: int, n_terms: int, work: Work) -> None:
    """Form column j of the tableau in `work.left[n_terms]`; entries outside of 1 ... K-1 mean nothing."""
    column = work.left[n_terms]
    fill(column, 0.0)
    add_start_column(j, 1.0, work, column)
    for t in range(n_terms):
        work.factors[t] = work.right[t, j]
    add_terms(n_terms, work.factors, work.used, work.left, column)


@kernel
def add_start_column(j: int, factor: float, work: Work, out: Floats) -> None:
    """Add `factor` times column j of the starting tableau."""
    a, b = work.before[j], work.after[j]
    # Single entries come first: to read a vector of which one was just written, a processor waits.
    if work.is_end[j]:
        height = factor * work.sign[j]
        # Where there is no block to one side, the line of the other side shall be the lower one.
        below, above = 1.0 / max(j - a, 1), 1.0 / max(b - j, 1)
        at_a, at_b = height * below if a < j else 0.0, height * above if j < b else 0.0
        # The lines to both sides meet at j, which they give `factor` too much.
        out[j] -= at_a + at_b + (factor if a < j and j < b else 0.0)
    else:
        width = 1.0 / (b - a)
        below, above, height = width * (b - j), width * (j - a), -factor
        at_a, at_b = height * below, height * above
    out[a] += at_a
    out[b] += at_b
    first, last = a // 8 * 8, min(b // 8 * 8 + 8, len(out))
    inner, node, sign = out[first:last], work.numbered[first:last], work.sign[first:last]
    for k in range(len(inner)):
        inner[k] += height * (sign[k] * tent(node[k], a, b, below, above))


@kernel
def tent(node: float, a: float, b: float, below: float, above: float) -> float:
    """The lower of the lines that rise from zero at a and fall to zero at b; zero outside of them."""
    return max(min(below * (node - a), above * (b - node)), 0.0)


@kernel
def add_terms(n_terms: int, factors: Floats, used: Ints, terms: Floats, out: Floats) -> None:
    """Add the sum of all factors[t] terms[t]; four at once, to spare passes over `out`."""
    count = 0
    for t in range(n_terms):
        used[count] = t
        factors[count] = factors[t]
        count += factors[t] != 0.0
    t = 0
    while t + 4 <= count:
        f0, f1, f2, f3 = factors[t], factors[t + 1], factors[t + 2], factors[t + 3]
        t0, t1, t2, t3 = terms[used[t]], terms[used[t + 1]], terms[used[t + 2]], terms[used[t + 3]]
        for j in range(len(out)):
            out[j] += (f0 * t0[j] + f1 * t1[j]) + (f2 * t2[j] + f3 * t3[j])
        t += 4
    while t < count:
        factor, term = factors[t], terms[used[t]]
        for j in range(len(out)):
            out[j] += factor * term[j]
        t += 1


@kernel
def refine(mode: int, n_terms: int, work: Work) -> None:
    """Send what the equations of the basis still lack through the tableau.

    A thousand classes have multipliers of 1e5, and the rounding of a hundred updates shows.
    """
    n = work.nodes
    mu, lacking = work.column, work.sizes
    fill(mu, 0.0)
    for i in range(1, n - 1):
        node = work.basic[i]
        if node < n:
            mu[node] = work.value[i] if node <= mode else -work.value[i]
    for j in range(n):
        i = work.nonbasic[j] - n
        lacking[j] = -work.side[j] - (mu[i - 1] - 2.0 * mu[i] + mu[i + 1]) if i >= 0 else 0.0
    change = work.over
    fill(change, 0.0)
    for j in range(n):
        if lacking[j] != 0.0:
            add_start_column(j, lacking[j], work, change)
    for t in range(n_terms):
        factor = 0.0
        for j in range(n):
            factor += work.right[t, j] * lacking[j]
        work.factors[t] = factor
    add_terms(n_terms, work.factors, work.used, work.left, change)
    for i in range(n):
        work.value[i] += change[i]
