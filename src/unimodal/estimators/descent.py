"""From the roots of a forest's trees to the leaves in which rows end, compiled.

A branch sends x to its second child if x > threshold, or if x is NaN and the branch says so. A child that is
not negative is another branch, ~child a leaf. Trees come in the same order for every row, so that sums do not
depend on what else is in the batch, or on the number of threads.
"""

import numpy as np
from numpy.typing import NDArray

from unimodal.projection.compiled import Flags, Floats, allocating_kernel, over_rows

Narrow = NDArray[np.float32]
Links = NDArray[np.int32]

_TREE_TIME = 40
"""About what a row takes in a tree, in nanoseconds."""
_BLOCK = 512
"""Rows that stay in the cache while they meet one tree after another."""


def leaf_sums(
    X: Narrow,
    roots: Links,
    feature: Links,
    threshold: Narrow,
    nan_right: Flags,
    children: Links,
    leaves: Floats,
    left_out: Flags,
) -> Floats:
    """Sum the distributions of the leaves of each row over all trees but those that `left_out` marks.

    `left_out` has the shape (trees, n), or is empty and marks none.
    """
    out = np.zeros((len(X), leaves.shape[1]))
    arrays = X, roots, feature, threshold, nan_right, children, leaves, left_out, out
    over_rows(_add_leaves, out.shape, _TREE_TIME * len(roots), *arrays)
    return out


@allocating_kernel
def _add_leaves(
    X: Narrow,
    roots: Links,
    feature: Links,
    threshold: Narrow,
    nan_right: Flags,
    children: Links,
    leaves: Floats,
    left_out: Flags,
    out: Floats,
    first: int,
    last: int,
    _terms: Floats,
) -> bool:
    walking, at = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for start in range(first, last, _BLOCK):
        block = min(_BLOCK, last - start)
        for tree in range(len(roots)):
            n_walking = 0
            for i in range(block):
                at[i] = roots[tree]
                walking[n_walking] = i
                n_walking += at[i] >= 0 and not (left_out.size and left_out[tree, start + i])
            # All rows take a step before the next one: steps of different rows do not wait for each other.
            while n_walking:
                still_walking = 0
                for j in range(n_walking):
                    i = walking[j]
                    branch = at[i]
                    x = X[start + i, feature[branch]]
                    goes_right = (x > threshold[branch]) | (nan_right[branch] & (x != x))
                    at[i] = children[branch, np.int64(goes_right)]
                    walking[still_walking] = i
                    still_walking += at[i] >= 0
                n_walking = still_walking
            for i in range(block):
                if not (left_out.size and left_out[tree, start + i]):
                    for k in range(leaves.shape[1]):
                        out[start + i, k] += leaves[~at[i], k]
    return True
