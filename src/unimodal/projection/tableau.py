r"""The tableau of the dual simplex of `pivoting`, which is never stored, and the scratch space of one thread.

At the start T, basic = T nonbasic, is known in closed form: inside a block from a to b it is the Green's
function of the second difference, G_ik = (min(i, k) - a)(b - max(i, k)) / (b - a). Every pivot adds a term of
rank one. Rows and columns are formed from both when they are needed.
"""

from typing import NamedTuple

import numpy as np

from unimodal.projection.compiled import Flags, Floats, Ints, allocating_kernel, fill, kernel


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
    row: Floats
    column: Floats
    over: Floats
    sizes: Floats
    ratio: Floats
    flipped: Ints
    left: Floats  # the rank-one terms: T = T_start + sum_t left[t] right[t]'
    right: Floats


@allocating_kernel
def workspace(n_classes: int, terms: Floats) -> Work:
    """Scratch space for rows of `n_classes`."""
    n = terms.shape[2]
    return Work(
        n_classes + 1,
        np.empty(n, np.int64), np.empty(2 * n), np.empty(2 * n),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_),
        np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n),
        np.zeros(n), np.zeros(n), np.empty(n, np.int64), terms[0], terms[1],
    )  # fmt: skip


@kernel
def form_row(i: int, mode: int, n_terms: int, work: Work) -> None:
    """Form row i of the tableau in `work.row`."""
    row = work.row
    a, b = work.before[i], work.after[i]
    sign = 1.0 if i <= mode else -1.0
    if work.is_end[i]:
        below, above = 1.0 / (i - a), 1.0 / (b - i)
    else:
        below, above = sign * (b - i) / (b - a), sign * (i - a) / (b - a)
    fill(row, 0.0)
    inner = row[a + 1 : b]
    for k in range(len(inner)):
        node = a + 1 + k
        inner[k] = below * (a - node) if node <= i else above * (node - b)
    row[a] = below if a <= mode else -below
    row[b] = above if b <= mode else -above
    if work.is_end[i]:
        row[i] = -sign * (below + above)
    for t in range(n_terms):
        factor = work.left[t, i]
        if factor != 0.0:
            right = work.right[t]
            for j in range(len(row)):
                row[j] += factor * right[j]


@kernel
def form_column(j: int, mode: int, n_terms: int, work: Work) -> None:
    """Form column j of the tableau in `work.column`; entries outside of 1 ... K-1 mean nothing."""
    column = work.column
    fill(column, 0.0)
    add_start_column(j, 1.0, mode, work, column)
    for t in range(n_terms):
        factor = work.right[t, j]
        if factor != 0.0:
            left = work.left[t]
            for i in range(len(column)):
                column[i] += factor * left[i]


@kernel
def refine(mode: int, n_terms: int, work: Work) -> None:
    """Send what the equations of the basis still lack through the tableau.

    A thousand classes have multipliers of 1e5, and the rounding of a hundred updates shows.
    """
    n = work.nodes
    mu, lacking = work.column, work.row
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
            add_start_column(j, lacking[j], mode, work, change)
    for t in range(n_terms):
        factor = 0.0
        for j in range(n):
            factor += work.right[t, j] * lacking[j]
        for i in range(n):
            change[i] += factor * work.left[t, i]
    for i in range(n):
        work.value[i] += change[i]


@kernel
def add_start_column(j: int, factor: float, mode: int, work: Work, out: Floats) -> None:
    """Add `factor` times column j of the starting tableau."""
    a, b = work.before[j], work.after[j]
    if work.is_end[j]:
        sign = factor if j <= mode else -factor
        below, above = sign / (j - a) if a < j else 0.0, sign / (b - j) if j < b else 0.0
        # The lines to both sides meet at j, which they give `factor` too much.
        out[j] -= below + above + (factor if a < j and j < b else 0.0)
    else:
        below, above = factor * (j - b) / (b - a), factor * (a - j) / (b - a)
    out[a] += below
    out[b] += above
    inner = out[a + 1 : b]
    for k in range(len(inner)):
        node = a + 1 + k
        height = below * (node - a) if node <= j else above * (b - node)
        inner[k] += height if node <= mode else -height
