"""A forest as a node of a graph."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unimodal.estimators.forest import Forest
from unimodal.onnx.graph import ML, Symbol


@dataclass
class _Nodes:
    """The lists that describe all nodes of all trees."""

    nodes_treeids: list[int] = field(default_factory=list)
    nodes_nodeids: list[int] = field(default_factory=list)
    nodes_modes: list[str] = field(default_factory=list)
    nodes_featureids: list[int] = field(default_factory=list)
    nodes_missing_value_tracks_true: list[int] = field(default_factory=list)
    nodes_truenodeids: list[int] = field(default_factory=list)
    nodes_falsenodeids: list[int] = field(default_factory=list)
    target_treeids: list[int] = field(default_factory=list)
    target_nodeids: list[int] = field(default_factory=list)
    target_ids: list[int] = field(default_factory=list)


def predict(forest: Forest, raw: Symbol) -> Symbol:
    """The mean over trees of the distributions of the leaves, (n, K)."""
    import onnx

    nodes, thresholds, leaves = _Nodes(), [], []
    n_classes = forest.leaves.shape[1]
    for tree, root in enumerate(forest.roots.tolist()):
        links = [root]
        node = 0
        while node < len(links):
            link = links[node]
            is_branch = link >= 0
            nodes.nodes_treeids.append(tree)
            nodes.nodes_nodeids.append(node)
            nodes.nodes_modes.append("BRANCH_LEQ" if is_branch else "LEAF")
            nodes.nodes_featureids.append(int(forest.feature[link]) if is_branch else 0)
            nodes.nodes_missing_value_tracks_true.append(int(is_branch and not forest.nan_right[link]))
            nodes.nodes_truenodeids.append(len(links) if is_branch else 0)
            nodes.nodes_falsenodeids.append(len(links) + 1 if is_branch else 0)
            thresholds.append(float(forest.threshold[link]) if is_branch else 0.0)
            if is_branch:
                links.extend(forest.children[link].tolist())
            else:
                nodes.target_treeids.extend([tree] * n_classes)
                nodes.target_nodeids.extend([node] * n_classes)
                nodes.target_ids.extend(range(n_classes))
                leaves.append(forest.leaves[~link])
            node += 1

    def tensor(values: Any) -> Any:
        return onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float64))

    return raw.graph.op(
        "TreeEnsembleRegressor",
        raw,
        domain=ML,
        n_targets=n_classes,
        nodes_values_as_tensor=tensor(thresholds),
        target_weights_as_tensor=tensor(np.concatenate(leaves) / len(forest.roots)),
        **vars(nodes),
    ).double()
