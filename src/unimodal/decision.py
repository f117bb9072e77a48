"""From a distribution over ordered classes to one class: mode, median, mean, and the native counts.

    mode    argmax_k p_k                     (minimises the expected 0-1 error)
    median  the first k with P_k >= 1/2      (minimises the expected absolute error)
    mean    E[k] rounded, 0 <= k <= K-1      (minimises the expected squared error)

with P_k = p_0 + ... + p_k. All three send a tie to the lower class: the first of several maxima, the
lower of two medians, and the lower neighbour when the expectation lies half-way. (Rounding halves to
the even class, as numpy and torch do, would send 0.5 down and 1.5 up.)

Both sums are taken relative to the total P_{K-1}, so that a total of 0.99999 is harmless, and in
float64. A half up to the rounding of p's own dtype counts as a half. The median is the number of
classes with P_k < 1/2 P_{K-1}, which the last one never satisfies, and the rounded mean the number of
half-integers below E[k] <= K-1: neither can run past the end. The expectation is summed by parts,
E[k] = sum_k (1 - P_k).

Every function uses only what numpy arrays and torch tensors have in common, so each is written once. The
rules work under ``torch.func.vmap`` and ``torch.export``; intervals, whose search ends when all are found,
do not.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch

    Array = TypeVar("Array", np.ndarray, torch.Tensor)
else:
    Array = TypeVar("Array")

__all__ = ["RULES", "count_exceedances", "decide", "interval"]

_ROUNDING = {"float32": 5e-7, "float16": 5e-4, "bfloat16": 4e-3}
_ROUNDING_OTHERWISE = 1e-12


def decide(p: Array, rule: str = "mode", dim: int = -1) -> Array:
    """Reduce distributions along `dim` to one class each, as int64.

    Parameters
    ----------
    p : array or tensor
        Probabilities, not negative; the result is of the same kind and on the same device.
    rule : {"mode", "median", "mean"}
        What to report; ties go to the lower class.
    dim : int
        The axis of the classes.
    """
    if rule not in _RULES:
        raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}, got {rule!r}")
    decision: Array = _RULES[rule](p if hasattr(p, "dtype") else np.asarray(p), dim)
    return decision


def count_exceedances(logits: Array, dim: int = -1) -> Array:
    """Count the logits of P(y > k) that are at least 0: the native decision of threshold methods."""
    count: Array = (logits >= 0).sum(dim)
    return count


def interval(p: Array, coverage: float, dim: int = -1) -> tuple[Array, Array]:
    """Reduce distributions along `dim` to the shortest range of classes with enough probability.

    Parameters
    ----------
    p : array or tensor
        Probabilities, not negative.
    coverage : float
        The probability that a range shall have, in (0, 1].
    dim : int
        The axis of the classes.

    Returns
    -------
    low, high : arrays or tensors of int64
        First and last class of each range. Of ranges that are equally short the likeliest is taken, and the
        lowest of several such.
    """
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage must lie in (0, 1], got {coverage}")
    values: Any = p if hasattr(p, "dtype") else np.asarray(p)
    up_to, total = _cumulative(values, dim)
    before = up_to - values
    n = values.shape[dim]
    slack = _rounding(values) * total
    wanted = coverage * total - slack
    low = high = values.argmax(dim) * 0
    found = high > 0
    for length in range(1, n + 1):
        mass = _part(up_to, length - 1, n, dim) - _part(before, 0, n - length + 1, dim)
        # Of equal masses, which rounding may tell apart, the first.
        start = (((mass >= _largest(mass, dim) - slack).cumsum(dim)) == 0).sum(dim)
        found_now = (mass >= wanted).any(dim) & ~found
        low, high = low + start * found_now, high + (start + length - 1) * found_now
        found = found | found_now
        if bool(found.all()):
            break
    return low, high


def _mode(p: Any, dim: int) -> Any:
    return p.argmax(dim)


def _median(p: Any, dim: int) -> Any:
    below, total = _cumulative(p, dim)
    return (below < (0.5 - _rounding(p)) * total).sum(dim)


def _mean(p: Any, dim: int) -> Any:
    below, total = _cumulative(p, dim)
    expectation = (1 - below / total).sum(dim, keepdims=True)
    half_integers = (p == p).cumsum(dim) - 0.5  # 0.5, 1.5, ... along dim, whatever p is
    return (expectation - _rounding(p) * p.shape[dim] > half_integers).sum(dim)


_RULES: Mapping[str, Callable[[Any, int], Any]] = MappingProxyType(
    {"mode": _mode, "median": _median, "mean": _mean}
)
RULES = tuple(_RULES)


def _cumulative(p: Any, dim: int) -> tuple[Any, Any]:
    """Cumulative sums and total along `dim`, in the widest floating point of p's device."""
    if isinstance(p, np.ndarray):
        wide: Any = p.astype(np.float64)
    else:
        wide = p.float() if p.device.type == "mps" else p.double()
    return wide.cumsum(dim), wide.sum(dim, keepdims=True)


def _largest(values: Any, dim: int) -> Any:
    return (
        values.max(dim, keepdims=True) if isinstance(values, np.ndarray) else values.amax(dim, keepdim=True)
    )


def _part(values: Any, start: int, stop: int, dim: int) -> Any:
    """A slice along `dim`."""
    where = [slice(None)] * values.ndim
    where[dim] = slice(start, stop)
    return values[tuple(where)]


def _rounding(p: Any) -> float:
    """How far the rounding of probabilities to p's dtype can move their sum, as a share of it."""
    return _ROUNDING.get(str(p.dtype).removeprefix("torch."), _ROUNDING_OTHERWISE)
