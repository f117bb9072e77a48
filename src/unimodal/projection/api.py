"""`project` and `distance`: the nearest unimodal distribution as a tool of its own."""

import sys
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from unimodal.projection import kernels
from unimodal.projection.divergences import METRICS, logarithm
from unimodal.projection.rows import Solution, solve
from unimodal.simplex import SUM_ERROR, Values, as_distribution, as_floats, as_integers


@overload
def project(
    q: Values,
    mode: Values | None = None,
    metric: str = "w1",
    cost: Values | None = None,
    return_mode: Literal[False] = False,
) -> Any: ...
@overload
def project(
    q: Values,
    mode: Values | None = None,
    metric: str = "w1",
    cost: Values | None = None,
    *,
    return_mode: Literal[True],
) -> tuple[Any, Any]: ...
def project(
    q: Values,
    mode: Values | None = None,
    metric: str = "w1",
    cost: Values | None = None,
    return_mode: bool = False,
) -> Any:
    """Find the unimodal distribution that is nearest to each distribution.

    Parameters
    ----------
    q : array or tensor, shape (..., K)
        Distributions, up to the rounding of their dtype.
    mode : int or array of ints, optional
        Where the peak shall be: one class, or one for each distribution. By default the class that
        makes the distance least, and the lowest of several such.
    metric : {"w1", "l2", "kl", "reverse-kl"}
        What near means for p: the Wasserstein distance with cost ``|i-j|``, the Euclidean distance,
        KL(q‖p), or KL(p‖q).
    cost : array, shape (K, K), optional
        Costs c_ij ≥ 0 of moving mass between class i of p and class j of q, in place of a metric. A
        linear program is solved for every row.
    return_mode : bool
        Return the modes as well.

    Returns
    -------
    array or tensor
        Of q's kind, shape, dtype and device; without gradient.
    """
    solution = _solve(q, mode, metric, cost)
    nearest = solution.nearest
    if not isinstance(nearest, np.ndarray):
        nearest = nearest.detach().to(q.dtype)
    return (nearest, solution.mode) if return_mode else nearest


def distance(q: Values, mode: Values | None = None, metric: str = "w1", cost: Values | None = None) -> Any:
    """Measure how far each distribution is from the nearest unimodal one.

    Parameters
    ----------
    q, mode, metric, cost
        As for `project`.

    Returns
    -------
    array or tensor, shape (...)
        Distances. For a tensor they are in float32 or better and differentiable: in w1 and with a cost
        as often as you like (the second derivative is zero), otherwise once.
    """
    return _solve(q, mode, metric, cost).value


def _solve(q: Values, mode: Values | None, metric: str, cost: Values | None) -> Solution:
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(map(repr, METRICS))}, got {metric!r}")
    if cost is not None and metric != "w1":
        raise ValueError(f"metric must be left out when there is a cost, got {metric!r}")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        return _solve_tensor(torch, q, mode, metric, cost)
    is_array = isinstance(q, np.ndarray) and q.dtype.kind == "f" and q.ndim and q.size
    values = q if is_array else as_distribution(q, "q")
    shape, n_classes = values.shape[:-1], values.shape[-1]
    rows = np.ascontiguousarray(values, dtype=np.float64).reshape(-1, n_classes)
    if not kernels.are_distributions(rows, SUM_ERROR):
        as_distribution(q, "q")  # says what is wrong, if anything is
    modes = None if mode is None else _laid_out(as_integers(mode, "mode", high=n_classes - 1), shape).ravel()
    if cost is None:
        logs = logarithm(np, rows) if "kl" in metric else rows
        solution = solve(kernels, rows, logs, modes, metric)
    else:
        from unimodal.projection import transport  # the solver is large, and seldom needed

        solution = transport.solve(rows, modes, _checked_cost(cost, n_classes))
    dtype = q.dtype if getattr(getattr(q, "dtype", None), "kind", "") == "f" else rows.dtype
    return Solution(
        solution.nearest.astype(dtype, copy=False).reshape(*shape, n_classes),
        solution.value.astype(dtype, copy=False).reshape(shape)[()],
        solution.slope.reshape(*shape, n_classes),
        solution.mode.reshape(shape)[()],
    )


def _solve_tensor(torch: Any, q: Any, mode: Values | None, metric: str, cost: Values | None) -> Solution:
    from unimodal.projection.autograd import nearest

    if not q.is_floating_point():
        raise ValueError(f"q must be floating point, got {q.dtype}")
    if q.ndim == 0 or q.shape[-1] == 0:
        raise ValueError(f"q must have at least one class on its last axis, got shape {tuple(q.shape)}")
    if cost is not None:
        cost = torch.as_tensor(_checked_cost(cost, q.shape[-1]), device=q.device)
    if mode is not None:
        if not isinstance(mode, torch.Tensor):
            if not isinstance(mode, int):  # which compilers can follow, and whose range is checked later
                mode = as_integers(mode, "mode", high=q.shape[-1] - 1)
            mode = torch.as_tensor(mode, device=q.device)
        elif mode.is_floating_point() or mode.dtype == torch.bool:
            raise ValueError(f"mode must hold integers, got dtype {mode.dtype}")
        mode = _laid_out(mode, tuple(q.shape[:-1]))
    return nearest(q, mode, metric, cost=cost)


def _laid_out(mode: Any, shape: tuple[int, ...]) -> Any:
    """One mode for each distribution."""
    if tuple(mode.shape) == shape:
        return mode
    fits = mode.ndim <= len(shape) and all(
        size in (1, wanted) for size, wanted in zip(mode.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(f"mode must be an integer or have shape {shape}, got shape {tuple(mode.shape)}")
    return np.broadcast_to(mode, shape) if isinstance(mode, np.ndarray) else mode.expand(shape)


def _checked_cost(cost: Values, n_classes: int) -> NDArray[np.float64]:
    values = as_floats(cost, "cost")
    if values.shape != (n_classes, n_classes):
        raise ValueError(f"cost must have shape {(n_classes, n_classes)}, got {values.shape}")
    if not (np.isfinite(values) & (values >= 0)).all():
        i, j = np.argwhere(~(np.isfinite(values) & (values >= 0)))[0].tolist()
        raise ValueError(f"cost must be finite and not negative, got {values[i, j]:g} at row {i}, column {j}")
    return values
