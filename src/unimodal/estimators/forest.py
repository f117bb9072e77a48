"""A forest of probability trees for ordered classes, kept as arrays.

Breiman, "Random forests", Machine Learning 45, 2001, doi:10.1023/A:1010933404324, with the distributions of
the leaves averaged; Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006,
doi:10.1007/s10994-006-6226-1. scikit-learn grows the trees, by least squares on the K-1 targets [y <= k]. The
mean of a target in a leaf is P_k there, hence every split lowers as much as it can

    sum_i sum_k (P_k - [y_i <= k])²

which is the ranked probability score of the rows that grow the tree. So the order of the classes counts; with
Gini's index, which is this sum for the targets [y = k], it would not. What is kept of the trees is

    roots[t]                         where tree t starts
    feature, threshold, nan_right    x[feature] > threshold goes right, and NaN where nan_right says so
    children[b] = (left, right)      another branch, or ~i for row i of `leaves`
    leaves                           the distinct distributions

scikit-learn compares x in float32 with a threshold in float64. The greatest float32 that is not above the
threshold separates the same numbers, so that half the bits are enough. Children come after their parents: no
walk through a state that was checked can go round in circles.

Each tree sees n rows drawn from n, uniformly, with their weights. A row is judged out of bag by the trees
that did not see it, about a third of them, and such distributions are as honest as those of new rows. Rows,
and not units of weight, are drawn: a row that has a weight is in a bag as a whole or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int32
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor
from sklearn.utils.parallel import Parallel, delayed

from unimodal.estimators.descent import leaf_sums

__all__ = ["KINDS", "Forest"]

KINDS = MappingProxyType({"random": DecisionTreeRegressor, "extra": ExtraTreeRegressor})
"""How a tree chooses thresholds: the best ones, or the best of random ones."""

_LARGEST = float(np.finfo(np.float32).max)
_SUM_ERROR = 1e-9
_STATE: Mapping[str, tuple[type[np.generic], int]] = MappingProxyType(
    {
        "roots": (np.int32, 1),
        "feature": (np.int32, 1),
        "threshold": (np.float32, 1),
        "nan_right": (np.bool_, 1),
        "children": (np.int32, 2),
        "leaves": (np.float64, 2),
    }
)
"""The arrays of a forest: what they hold, and how many axes they have."""


class FlatTree(NamedTuple):
    """One tree: its branches, numbered from 0, and its leaves, to the i-th of which ~i is a link."""

    feature: Int[np.ndarray, " branches"]
    threshold: Float[np.ndarray, " branches"]
    nan_right: Bool[np.ndarray, " branches"]
    children: Int[np.ndarray, "branches 2"]
    leaves: Float[np.ndarray, "leaves K"]


@dataclass(frozen=True, eq=False)
class Forest:
    """An ensemble of probability trees: `grow` makes one, `from_state` loads one."""

    n_features: int
    roots: Int32[np.ndarray, " trees"]
    feature: Int32[np.ndarray, " branches"]
    threshold: Float32[np.ndarray, " branches"]
    nan_right: Bool[np.ndarray, " branches"]
    children: Int32[np.ndarray, "branches 2"]
    leaves: Float[np.ndarray, "leaves K"]

    @classmethod
    def grow(
        cls,
        X: Float[np.ndarray, "n d"],
        y: Int[np.ndarray, " n"],
        weight: Float[np.ndarray, " n"],
        n_classes: int,
        *,
        n_trees: int = 300,
        min_leaf: int = 1,
        max_features: float | str = 1.0,
        kind: str = "extra",
        seed: int,
        n_jobs: int | None = None,
    ) -> tuple["Forest", Float[np.ndarray, "n K"]]:
        """Grow trees on bootstrap samples of the rows.

        Parameters
        ----------
        X : array, shape (n, d)
            Columns; NaN where a value is missing. Numbers beyond those of float32 count as its largest.
        y : array, shape (n,)
            Classes in [0, n_classes); some may be absent.
        weight : array, shape (n,)
            Positive weights. They count in the splits and in the leaves; all rows are drawn equally often.
        n_classes : int
            K.
        n_trees : int
            How many trees.
        min_leaf : int
            Fewest different rows in a leaf.
        max_features : float or "sqrt"
            How many columns each branch chooses from: a share of them, or their square root.
        kind : {"random", "extra"}
            Best thresholds, or the best of random ones: one for each column.
        seed : int
            Where the randomness comes from.
        n_jobs : int, optional
            Threads that grow trees, as in scikit-learn; the forest does not depend on it.

        Returns
        -------
        forest : Forest
        out_of_bag : array, shape (n, K)
            Mean over the trees that did not see a row; NaN where all did.
        """
        narrow = _narrow(X)
        options = {"min_samples_leaf": min_leaf, "max_features": max_features}
        seeds = np.random.SeedSequence(seed).spawn(n_trees)
        grown = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(_grow_tree)(narrow, y, weight, n_classes, KINDS[kind], options, seed) for seed in seeds
        )
        trees, bags = zip(*grown, strict=True)
        forest = cls.join(trees, X.shape[1])
        in_bag = np.stack(bags)
        judges = n_trees - in_bag.sum(axis=0)[:, None]
        sums = forest._leaf_sums(narrow, in_bag)
        return forest, np.divide(sums, judges, out=np.full_like(sums, np.nan), where=judges > 0)

    @classmethod
    def join(cls, trees: Sequence[FlatTree], n_features: int) -> "Forest":
        """Number the branches of all trees in one go and store equal leaves once."""
        branches = _starts([len(tree.feature) for tree in trees])
        leaves = _starts([len(tree.leaves) for tree in trees])
        distinct: dict[bytes, int] = {}
        place = np.array(
            [distinct.setdefault(leaf.tobytes(), len(distinct)) for tree in trees for leaf in tree.leaves]
        )
        children = [
            np.where(tree.children >= 0, tree.children + branch, ~place[~tree.children + leaf])
            for tree, branch, leaf in zip(trees, branches, leaves, strict=True)
        ]
        return cls(
            n_features,
            np.asarray(
                [
                    branch if len(tree.feature) else ~place[leaf]
                    for tree, branch, leaf in zip(trees, branches, leaves, strict=True)
                ],
                dtype=np.int32,
            ),
            np.concatenate([tree.feature for tree in trees]).astype(np.int32),
            _narrow_thresholds(np.concatenate([tree.threshold for tree in trees])),
            np.concatenate([tree.nan_right for tree in trees]),
            np.concatenate(children).astype(np.int32),
            np.frombuffer(b"".join(distinct)).reshape(len(distinct), -1).copy(),
        )

    def predict(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n K"]:
        """Average the distributions of the leaves in which each row ends."""
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got shape {X.shape}")
        nobody = np.empty((0, 0), dtype=np.bool_)
        return self._leaf_sums(_narrow(X), nobody) / len(self.roots)

    def to_state(self) -> dict[str, np.ndarray]:
        """Everything there is to know, as arrays."""
        state: dict[str, np.ndarray] = {name: getattr(self, name) for name in _STATE}
        if self.n_features <= np.iinfo(np.int16).max:
            state["feature"] = self.feature.astype(np.int16)
        return state | {"n_features": np.array([self.n_features])}

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray]) -> "Forest":
        """Load what `to_state` returned, or say what is damaged."""
        names = ["n_features", *_STATE]
        if set(arrays) != set(names):
            raise ValueError(f"arrays must be {', '.join(names)}, got {', '.join(sorted(arrays)) or 'none'}")
        n_features = arrays["n_features"]
        if n_features.shape != (1,) or n_features.dtype.kind != "i" or n_features[0] < 1:
            raise ValueError(f"n_features must hold one integer of at least 1, got {n_features}")
        for name, (dtype, ndim) in _STATE.items():
            array = arrays[name]
            if not np.can_cast(array.dtype, dtype) or array.ndim != ndim:
                raise ValueError(
                    f"{name} must fit in {np.dtype(dtype)} and have {ndim} axes, "
                    f"got {array.dtype} of shape {array.shape}"
                )
        _check(int(n_features[0]), **{name: arrays[name] for name in _STATE})
        # Copies, as kernels are compiled for arrays that can be written to.
        copies: dict[str, Any] = {
            name: np.array(arrays[name], dtype=dtype, order="C") for name, (dtype, _) in _STATE.items()
        }
        return cls(int(n_features[0]), **copies)

    def _leaf_sums(
        self, X: Float32[np.ndarray, "n d"], left_out: Bool[np.ndarray, "..."]
    ) -> Float[np.ndarray, "n K"]:
        return leaf_sums(
            X, self.roots, self.feature, self.threshold, self.nan_right, self.children, self.leaves, left_out
        )


def flatten(tree: Any, distributions: Float[np.ndarray, "nodes K"]) -> FlatTree:
    """Keep of a fitted tree of scikit-learn, and of its nodes' distributions, what predictions need."""
    nodes = tree.tree_
    links = np.stack([nodes.children_left, nodes.children_right], axis=1)
    is_branch = links[:, 0] >= 0
    link = np.where(is_branch, is_branch.cumsum() - 1, ~((~is_branch).cumsum() - 1))
    return FlatTree(
        nodes.feature[is_branch],
        nodes.threshold[is_branch],
        ~nodes.missing_go_to_left[is_branch].astype(np.bool_),
        link[links[is_branch]],
        distributions[~is_branch],
    )


def _grow_tree(
    X: Float32[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    n_classes: int,
    kind: Any,
    options: dict[str, Any],
    seed: np.random.SeedSequence,
) -> tuple[FlatTree, Bool[np.ndarray, " n"]]:
    """Grow one tree on a bootstrap sample; which rows it saw comes with it."""
    rng = np.random.default_rng(seed)
    times = np.bincount(rng.integers(len(X), size=len(X)), minlength=len(X))
    tree = kind(**options, random_state=int(rng.integers(2**31)))
    below = (y[:, None] <= np.arange(max(1, n_classes - 1))).astype(np.float64)
    tree.fit(X, below, sample_weight=times * weight)
    cell = tree.apply(X) * n_classes + y
    mass = np.bincount(cell, times * weight, minlength=tree.tree_.node_count * n_classes).reshape(
        -1, n_classes
    )
    total = mass.sum(axis=1, keepdims=True)
    return flatten(tree, mass / np.where(total > 0, total, 1)), times > 0


def _narrow(X: Float[np.ndarray, "n d"]) -> Float32[np.ndarray, "n d"]:
    return np.ascontiguousarray(np.clip(X, -_LARGEST, _LARGEST), dtype=np.float32)


def _narrow_thresholds(threshold: Float[np.ndarray, " branches"]) -> Float32[np.ndarray, " branches"]:
    """Greatest float32 that is not above: infinity, which parts numbers from NaN, becomes the largest."""
    threshold = np.minimum(threshold, _LARGEST)
    narrow = threshold.astype(np.float32)
    return np.where(narrow > threshold, np.nextafter(narrow, np.float32(-np.inf)), narrow)


def _starts(lengths: Sequence[int]) -> list[int]:
    """Where each of several arrays begins in their concatenation."""
    return [0, *np.cumsum(lengths)[:-1].tolist()]


def _check(
    n_features: int,
    roots: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    nan_right: np.ndarray,
    children: np.ndarray,
    leaves: np.ndarray,
) -> None:
    n, n_leaves = len(feature), len(leaves)
    for name, shape in (("threshold", threshold.shape), ("nan_right", nan_right.shape)):
        if shape != (n,):
            raise ValueError(f"{name} must have one value for each of {n} branches, got shape {shape}")
    if children.shape != (n, 2):
        raise ValueError(
            f"children must have two values for each of {n} branches, got shape {children.shape}"
        )
    if not len(roots) or not leaves.size:
        raise ValueError(f"roots and leaves must not be empty, got shapes {roots.shape} and {leaves.shape}")
    first_child = np.arange(1, n + 1)[:, None]
    _require((feature >= 0) & (feature < n_features), feature, f"feature must lie in [0, {n_features - 1}]")
    _require(np.isfinite(threshold), threshold, "threshold must be finite")
    _require((roots >= -n_leaves) & (roots < n), roots, f"roots must lie in [{-n_leaves}, {n - 1}]")
    _require(
        (children >= -n_leaves) & (children < n), children, f"children must lie in [{-n_leaves}, {n - 1}]"
    )
    _require((children < 0) | (children >= first_child), children, "children must come after their parents")
    _require(leaves >= 0, leaves, "leaves must not be negative")
    total = leaves.sum(axis=1)
    _require(np.abs(total - 1) <= _SUM_ERROR, total, "leaves must sum to 1")


def _require(holds: np.ndarray, values: np.ndarray, rule: str) -> None:
    """Refuse values for which a rule does not hold, and name the first."""
    if not holds.all():
        row, *_ = where = tuple(np.argwhere(~holds)[0].tolist())
        raise ValueError(f"{rule}, got {values[where]} at row {row}")
