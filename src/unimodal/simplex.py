r"""The set of unimodal distributions: membership, volume, sampling, paths, extreme points.

Cardoso, Cruz and Albuquerque, "Unimodal Distributions for Ordinal Regression", IEEE Transactions on
Artificial Intelligence, 2025, doi:10.1109/TAI.2025.3549740. With classes and modes counted from 0,

    S_m = {p : p_0 <= ... <= p_m >= ... >= p_{K-1},  sum p = 1,  p >= 0}

is convex, and the unimodal set is the union of S_0 ... S_{K-1}: connected (any two members are joined
through the uniform distribution, which lies in every S_m) but not convex for K >= 3.

Volume. The simplex splits into K! congruent cells, one for each order of the K values. A cell is
unimodal exactly when every value other than the largest has a side, left or right of it, and each
side is sorted towards it. Choosing who goes left gives C(K-1, m) cells with mode m, 2^(K-1) in all:

    vol(S_m) = C(K-1, m) / K!,      vol(union) = 2^(K-1) / K!   (as shares of the simplex).
"""

import math
from fractions import Fraction
from operator import index
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = [
    "Values",
    "as_distribution",
    "as_floats",
    "as_integers",
    "extreme_points",
    "fraction",
    "is_unimodal",
    "modes",
    "path",
    "sample",
]

Values: TypeAlias = Any
"""Whatever ``numpy.asarray`` takes, and tensors: checked by value, with errors that name the place."""

_RIPPLE = {"float32": 1e-6, "float16": 5e-4, "bfloat16": 4e-3}
_RIPPLE_OTHERWISE = 1e-9
SUM_ERROR = 1e-5
"""How far a distribution's sum may be from 1; farther if its dtype explains it."""


def is_unimodal(p: Values, tol: float | int | None = None) -> bool | Bool[np.ndarray, "*batch"]:
    """Whether the values rise to a peak and fall after it; never a valley deeper than `tol`.

    Parameters
    ----------
    p : array or tensor, shape (..., K)
        Probabilities, or any other ordered values without NaN (logits, log-probabilities, counts).
    tol : float, optional
        Deepest valley, min(highest value on the left, highest on the right) - p, that still counts as
        flat. 0 is exact. The default is of floating-point size for probabilities of p's dtype: 1e-9
        for float64, 1e-6 for float32, 5e-4 for float16 and 4e-3 for bfloat16.

    Returns
    -------
    bool, or an array of bool with p's leading shape
    """
    flat = _valley_depth(as_floats(p)) <= _tolerance(p, tol)
    return flat if flat.ndim else bool(flat)


def modes(
    p: Values, tol: float | int | None = None
) -> tuple[int, int] | tuple[Int[np.ndarray, "*batch"], Int[np.ndarray, "*batch"]]:
    """First and last index of the plateau of modes: the classes within `tol` of the highest value.

    Parameters
    ----------
    p : array or tensor, shape (..., K)
        Unimodal values (see `is_unimodal`), otherwise the modes would not form an interval.
    tol : float, optional
        As in `is_unimodal`.

    Returns
    -------
    first, last : int, or arrays of int with p's leading shape
    """
    values, tol = as_floats(p), _tolerance(p, tol)
    _require_unimodal(values, tol, "p")
    first, last = _plateau(values, tol)
    return (first, last) if first.ndim else (int(first), int(last))


@overload
def fraction(n_classes: SupportsIndex, exact: Literal[False] = False) -> float: ...
@overload
def fraction(n_classes: SupportsIndex, exact: Literal[True]) -> Fraction: ...
def fraction(n_classes: SupportsIndex, exact: bool = False) -> float | Fraction:
    """Share of the simplex that is unimodal, 2^(K-1) / K!.

    Parameters
    ----------
    n_classes : int
        K, at least 1.
    exact : bool
        Return the rational number itself instead of the float nearest to it (0.0 below the smallest).
    """
    n_classes = _count(n_classes)
    share = Fraction(2 ** (n_classes - 1), math.factorial(n_classes))
    return share if exact else float(share)


def sample(
    n: SupportsIndex,
    n_classes: SupportsIndex,
    mode: Values | None = None,
    seed: int | np.random.Generator | None = None,
) -> Float[np.ndarray, "n K"]:
    """Draw independently and uniformly from the unimodal set, or from S_mode.

    Exact, and without rejection. For a uniform point of the simplex the sorted values are independent
    of their order, and all K! orders are equally likely. So the sorted values of a uniform point, put
    in a uniformly drawn *unimodal* order, are a uniform unimodal point. A unimodal order is a choice
    of the non-maximal values that go left of the peak: over the whole set each of the 2^(K-1) choices
    is equally likely, one fair coin for each value; for a fixed mode the choices are the subsets of
    that size, again all equally likely.

    Parameters
    ----------
    n : int
        How many points.
    n_classes : int
        K, at least 1.
    mode : int or n ints, optional
        Draw from S_mode (one mode for all points, or one for each); by default from the union.
    seed : int or numpy.random.Generator, optional
        Where the randomness comes from; a generator is advanced.
    """
    n_points, n_classes = index(n), _count(n_classes)
    if n_points < 0:
        raise ValueError(f"n must be at least 0, got {n_points}")
    rng = np.random.default_rng(seed)
    others = n_classes - 1
    if mode is None:
        left = rng.integers(2, size=(n_points, others), dtype=np.int8).astype(bool)
    else:
        size = np.broadcast_to(_mode(mode, n_classes, shape=(n_points,)), n_points)
        order = np.broadcast_to(np.arange(others), (n_points, others))
        left = rng.permuted(order, axis=1) < size[:, None]

    gaps = rng.standard_exponential((n_points, n_classes))
    largest_first = -np.sort(-gaps, axis=1) / gaps.sum(axis=1, keepdims=True)

    # The r-th largest value stands beside those already placed on its side of the peak.
    left = np.concatenate([np.zeros((n_points, 1), bool), left], axis=1)
    gone_left = left.cumsum(axis=1)
    peak = gone_left[:, -1:]
    place = np.where(left, peak - gone_left, peak + np.arange(n_classes) - gone_left)
    points = np.empty((n_points, n_classes))
    np.put_along_axis(points, place, largest_first, axis=1)
    return points


def path(p: Values, q: Values, t: Values, via: str = "auto") -> Float[np.ndarray, "*times K"]:
    """Points of a path inside the unimodal set, from p at t=0 to q at t=1 (Theorem 1).

    The path is piecewise linear, with equal time for each segment: p, all mass on a mode of p, the
    uniform distribution, all mass on a mode of q, q. Neighbouring stops share a mode and S_m is convex,
    so no point leaves the set. In floating point too: products and sums round monotonically, hence
    two rows sorted alike stay sorted, and the points of a path between exactly unimodal distributions
    are exactly unimodal (otherwise to the precision of p and q).

    Parameters
    ----------
    p, q : array or tensor, shape (K,)
        Unimodal distributions (see `is_unimodal`).
    t : float or T floats
        Times in [0, 1].
    via : {"auto", "uniform"}
        "auto" takes the straight segment when p and q share a mode; "uniform" never does.
    """
    if via not in ("auto", "uniform"):
        raise ValueError(f"via must be 'auto' or 'uniform', got {via!r}")
    start, end = _unimodal_distribution(p, "p"), _unimodal_distribution(q, "q")
    if start.shape != end.shape:
        raise ValueError(f"q must have as many classes as p ({len(start)}), got {len(end)}")
    times = np.asarray(t, dtype=np.float64)
    outside = ~((times >= 0) & (times <= 1))
    if times.ndim > 1:
        raise ValueError(f"t must be a number or a list of them, got shape {times.shape}")
    if outside.any():
        where = _first(outside)
        raise ValueError(f"t must lie in [0, 1], got {times[where]:g}{_at(where, ('position',))}")

    (first_p, last_p), (first_q, last_q) = _plateau(start, 0.0), _plateau(end, 0.0)
    if via == "auto" and max(first_p, first_q) <= min(last_p, last_q):
        stops = np.stack([start, end])
    else:
        one_hot = np.eye(len(start))
        uniform = np.full(len(start), 1 / len(start))
        stops = np.stack([start, one_hot[first_p], uniform, one_hot[first_q], end])
    progress = times * (len(stops) - 1)
    segment = np.minimum(progress.astype(int), len(stops) - 2)
    weight = (progress - segment)[..., None]
    points: Float[np.ndarray, "*times K"] = (1 - weight) * stops[segment] + weight * stops[segment + 1]
    return points


def extreme_points(n_classes: SupportsIndex, mode: SupportsIndex) -> Float[np.ndarray, "points K"]:
    """Corners of S_mode: the uniform distributions on the intervals that contain the mode.

    There are (mode + 1) (K - mode) of them, sorted by first class, then by last. They are all the
    corners, since a member of S_mode, cut horizontally, is a mixture of them: its level sets are such
    intervals.

    Parameters
    ----------
    n_classes : int
        K, at least 1.
    mode : int
        The mode, in [0, K-1].
    """
    n_classes = _count(n_classes)
    peak = int(_mode(mode, n_classes, shape=()))
    first, last = np.divmod(np.arange((peak + 1) * (n_classes - peak)), n_classes - peak)
    last += peak
    classes = np.arange(n_classes)
    inside = (classes >= first[:, None]) & (classes <= last[:, None])
    corners: Float[np.ndarray, "points K"] = inside / (last - first + 1)[:, None]
    return corners


def as_floats(p: Values, name: str = "p") -> Float[np.ndarray, "*batch K"]:
    """Check that `p` holds numbers, at least one class of them and no NaN, and return it as float64."""
    values = _as_array(p, name)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {values.dtype}")
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one class on its last axis, got shape {values.shape}")
    values = values.astype(np.float64, copy=False)
    nan = np.isnan(values)
    if nan.any():
        raise ValueError(f"{name} must not contain NaN, got one{_at(_first(nan), ('row', 'class'))}")
    return values


def as_distribution(p: Values, name: str = "p") -> Float[np.ndarray, "*batch K"]:
    """Check that `p` is non-negative and sums to 1 over its last axis, and return it as float64."""
    values = as_floats(p, name)
    negative = values < 0
    if negative.any():
        where = _first(negative)
        raise ValueError(f"{name} must not be negative, got {values[where]:g}{_at(where, ('row', 'class'))}")
    total = values.sum(axis=-1)
    unnormalised = ~(np.abs(total - 1) <= max(SUM_ERROR, 10 * _tolerance(p, None)))
    if unnormalised.any():
        where = _first(unnormalised)
        raise ValueError(f"{name} must sum to 1, got {total[where]:g}{_at(where, ('row',))}")
    return values


def as_integers(y: Values, name: str, high: int | None = None) -> Int[np.ndarray, "*batch"]:
    """Check that `y` holds integers in [0, high], and return it as int64."""
    values = _as_array(y, name)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold integers, got dtype {values.dtype}")
    if values.dtype.kind == "f":
        broken = ~np.isfinite(values) | (values != np.floor(values))
        if broken.any():
            where = _first(broken)
            raise ValueError(f"{name} must hold integers, got {values[where]}{_at(where, ('row',))}")
    if values.size and (values.min() < 0 or (high is not None and values.max() > high)):
        outside = (values < 0) | (False if high is None else values > high)
        where = _first(outside)
        rule = "be at least 0" if high is None else f"lie in [0, {high}]"
        raise ValueError(f"{name} must {rule}, got {int(values[where])}{_at(where, ('row',))}")
    return values.astype(np.int64, copy=False)


def _as_array(values: Values, name: str) -> np.ndarray:
    if hasattr(values, "detach"):  # a tensor; numpy has no bfloat16
        values = values.detach().cpu()
        values = (values.float() if "bfloat16" in str(values.dtype) else values).numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array: {error}") from None


def _tolerance(p: Values, tol: float | int | None) -> float:
    """`tol` itself, or the deepest valley that rounding to p's dtype can explain."""
    if tol is None:
        dtype = str(getattr(p, "dtype", "float64")).removeprefix("torch.")
        return _RIPPLE.get(dtype, _RIPPLE_OTHERWISE)
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, got {tol}")
    return float(tol)


def _valley_depth(values: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    from_left = np.maximum.accumulate(values, axis=-1)
    from_right = np.maximum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]
    brim = np.minimum(from_left, from_right)
    depth = np.zeros_like(values)
    np.subtract(brim, values, out=depth, where=brim > values)  # elsewhere 0, even for -inf - -inf
    return np.asarray(depth.max(axis=-1))


def _plateau(
    values: Float[np.ndarray, "*batch K"], tol: float
) -> tuple[Int[np.ndarray, "*batch"], Int[np.ndarray, "*batch"]]:
    top = values >= values.max(axis=-1, keepdims=True) - tol
    first = np.asarray(top.argmax(axis=-1))
    last = np.asarray(values.shape[-1] - 1 - top[..., ::-1].argmax(axis=-1))
    return first, last


def _require_unimodal(values: Float[np.ndarray, "*batch K"], tol: float, name: str) -> None:
    depth = _valley_depth(values)
    if (depth > tol).any():
        where = _first(depth > tol)
        raise ValueError(
            f"{name} must be unimodal, got a valley of depth {depth[where]:g}{_at(where, ('row',))}"
        )


def _unimodal_distribution(p: Values, name: str) -> Float[np.ndarray, " K"]:
    values = as_distribution(p, name)
    if values.ndim != 1:
        raise ValueError(f"{name} must be one distribution, of shape (K,), got shape {values.shape}")
    _require_unimodal(values, _tolerance(p, None), name)
    return values


def _count(n_classes: SupportsIndex) -> int:
    count = index(n_classes)
    if count < 1:
        raise ValueError(f"n_classes must be at least 1, got {count}")
    return count


def _mode(mode: Values, n_classes: int, shape: tuple[int, ...]) -> Int[np.ndarray, "*batch"]:
    """Check one mode, or as many as `shape` says."""
    value = as_integers(mode, "mode", high=n_classes - 1)
    if value.ndim and value.shape != shape:
        wanted = f"an integer or of shape {shape}" if shape else "an integer"
        raise ValueError(f"mode must be {wanted}, got shape {value.shape}")
    return value


def _first(bad: Bool[np.ndarray, "*batch"] | np.bool_) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))


def _at(where: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """Name a place: " at row 3, class 2"; by its whole index when there are more axes than names."""
    if len(where) > len(axes):
        return f" at index {where}"
    named = zip(axes[len(axes) - len(where) :], where, strict=True)
    return " at " + ", ".join(f"{axis} {i}" for axis, i in named) if where else ""
