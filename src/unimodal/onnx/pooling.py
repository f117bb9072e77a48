r"""The unimodal distribution that is nearest in KL(q || p), as a formula.

With the mode m given, the classes below m form a chain that shall rise, those above it one that shall fall.
Isotonic regression of a chain is a formula of means (Robertson, Wright and Dykstra, "Order restricted
statistical inference", 1988, section 1.4): with M(i, j) the mean of q_i ... q_j,

    left_k  = max_{i <= k} min_{k <= j < m} M(i, j)     for k < m,
    right_k = max_{j >= k} min_{m < i <= k} M(i, j)     for k > m.

The peak takes in the blocks beside it whose mean is above its own, which gives it the highest mean of all
intervals around m, v = max_{i <= m <= j} M(i, j). Blocks that it takes in have means of at least v,
the others less, hence p_k = min(v, left_k) and p_k = min(v, right_k).

The minima over j are running minima as m moves to the right: tensors of (n, K, K) do. Of all modes the
first is taken whose divergence is least.
"""

import numpy as np

from unimodal.onnx.graph import Graph, Symbol
from unimodal.projection.ties import SAME_DISTANCE

MOST_CLASSES = 64
"""The graph grows with K³."""
_TINY = 1e-300


def nearest_unimodal(q: Symbol, n_classes: int) -> Symbol:
    """Project distributions (n, K)."""
    graph, n = q.graph, n_classes
    places = np.arange(n)
    i, j = places[:, None], places[None]
    length = (j - i + 1).clip(1)
    inside = (i <= j) & (i <= places[:, None, None]) & (places[:, None, None] <= j)  # (k, i, j)
    sums = graph.op("Reshape", q @ inside.reshape(n, n * n).astype(np.float64), np.array([-1, n, n]))
    means = sums / length.astype(np.float64)  # (n, i, j) where i <= j
    left = _chains(graph, means, n)
    right = [chain.taken(places[::-1]) for chain in _chains(graph, _turned(means, n), n)[::-1]]
    candidates = []
    for m in range(n):
        around = _barrier((i <= m) & (m <= j), -np.inf)
        peak = (means + around).max(-1, keepdims=0).max(-1)
        p = peak.at_most(left[m]).at_most(right[m])
        candidates.append(p.unsqueezed(1))
    p = graph.joined(candidates, axis=1)
    return rising_and_falling(_nearest(q.unsqueezed(1), p), n)


def _barrier(open_: np.ndarray, closed: float) -> np.ndarray:
    return np.where(open_, 0.0, closed)


def _turned(means: Symbol, n: int) -> Symbol:
    """The means of the classes in reverse order."""
    back = np.arange(n)[::-1]
    turned = means.taken(back, axis=1).taken(back, axis=2)
    return turned.graph.op("Transpose", turned, perm=[0, 2, 1])


def _chains(graph: Graph, means: Symbol, n: int) -> list[Symbol]:
    """For every m the rising chain of the classes before it, and infinity from m on."""
    places = np.arange(n)
    i, k = places[:, None], places[None]
    nothing = graph.constant(np.full((1, 1, n), np.inf))
    least = graph.constant(np.full((1, n, n), np.inf))
    chains = [graph.op("Squeeze", nothing, np.array([1]))]
    for j in range(n - 1):
        least = least.at_most(means.taken([j], axis=2) + _barrier((i <= k) & (k <= j), np.inf))
        chains.append(graph.where(graph.constant(i <= k), least, -np.inf).max(1, keepdims=0))
    return chains


def _nearest(q: Symbol, p: Symbol) -> Symbol:
    """Of distributions (n, modes, K) the one with the least divergence from q."""
    graph = q.graph
    log_ratio = q.at_least(_TINY).log() - p.at_least(_TINY).log()
    value = (q * log_ratio).sum()
    good = value.is_at_most(value.min(1) + SAME_DISTANCE)
    first = graph.op("ArgMax", good.float(), axis=1, keepdims=1, select_last_index=0)  # (n, 1, 1)
    shape = graph.op("Expand", first, graph.op("Shape", p.max(1)))
    return graph.op("Squeeze", graph.op("GatherElements", p, shape, axis=1), np.array([1]))


def rising_and_falling(p: Symbol, n_classes: int) -> Symbol:
    """The least sequence above p that rises and then falls: takes rounding away, to the last bit."""
    k, j = np.arange(n_classes)[:, None], np.arange(n_classes)[None]
    rows = p.unsqueezed(1)
    from_left = (rows + _barrier(j <= k, -np.inf)).max(-1, keepdims=0)
    from_right = (rows + _barrier(j >= k, -np.inf)).max(-1, keepdims=0)
    return from_left.at_most(from_right)
