"""The projection as a PyTorch operator: any device, gradients, `vmap`, `compile` and `export`.

CPU tensors go to the compiled kernels, tensors of other devices to the lockstep engine, which solves
them where they are. All arithmetic is float64. The gradient of the distance is the slope that comes
with the solution (the envelope theorem), at no extra cost. In w1 the distance is piecewise linear: its
slopes are constants and its second derivative is zero. In the other metrics slopes are not constant,
and to differentiate twice is refused.
"""

from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor

from unimodal.projection import kernels, lockstep
from unimodal.projection.divergences import logarithm
from unimodal.projection.rows import Solution, solve
from unimodal.simplex import SUM_ERROR, as_distribution, as_integers

Kind = Literal["given", "computed", "log"]
"""Probabilities that are to be checked, those of a head, and log-probabilities of a head."""

Four = tuple[Tensor, Tensor, Tensor, Tensor]

KERNEL_DEVICES = {"cpu"}


def nearest(
    values: Tensor, mode: Tensor | None, metric: str, kind: Kind = "given", cost: Tensor | None = None
) -> Solution:
    """Project along the last axis. Distances carry gradients, unless the values are logarithms.

    Parameters
    ----------
    values : Tensor
        One distribution along the last axis, as `kind` says.
    mode : Tensor, optional
        One integer for each distribution; best modes by default.
    metric : str
        One of `divergences.METRICS`; not looked at if there is a `cost`.
    kind : {"given", "computed", "log"}
        What the values are.
    cost : Tensor, optional
        The cost of moving mass between two classes, float64 of shape (K, K).
    """
    if kind == "log":
        solve_log = _solve_now if is_plain(values) else _solve
        return Solution(*solve_log(values.detach(), mode, cost, metric, kind))
    function: Any = _Nearest.apply
    return Solution(*function(values, mode, cost, metric, kind))


class _Nearest(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, mode: Tensor | None, cost: Tensor | None, metric: str, kind: str) -> Four:
        result: Four = (_solve_now if is_plain(values) else _solve)(values, mode, cost, metric, kind)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Four) -> None:
        values, _, cost, metric, _ = inputs
        ctx.is_linear = metric == "w1" or cost is not None
        ctx.mark_non_differentiable(output[0], output[2], output[3])
        ctx.save_for_backward(values, output[2])

    @staticmethod
    def backward(ctx: Any, _: Tensor, outer: Tensor, *__: Tensor) -> tuple[Tensor, None, None, None, None]:
        values, slope = ctx.saved_tensors
        if not ctx.is_linear:
            function: Any = _NotConstant.apply
            slope = function(slope, values)
        return (outer.unsqueeze(-1) * slope).to(values.dtype), None, None, None, None


class _NotConstant(torch.autograd.Function):
    """A slope that depends on the values in a way that is not known here."""

    generate_vmap_rule = True

    @staticmethod
    def forward(slope: Tensor, values: Tensor) -> Tensor:  # noqa: ARG004
        return slope.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG004
        raise RuntimeError(
            "distances to the nearest unimodal distribution can be differentiated twice in metric 'w1' only"
        )


def _solve_now(values: Tensor, mode: Tensor | None, cost: Tensor | None, metric: str, kind: str) -> Four:
    n_classes = values.shape[-1]
    rows = values.detach().double().reshape(-1, n_classes).contiguous()
    if kind == "given" and not _are_distributions(rows):
        as_distribution(values, "q")  # says what is wrong, if anything is
    mode = None if mode is None else _checked_modes(mode, n_classes)
    modes = None if mode is None else mode.reshape(-1).contiguous()
    if cost is not None:
        from unimodal.projection import transport  # the solver is large, and seldom needed

        solution = transport.solve(
            rows.cpu().numpy(), None if modes is None else modes.cpu().numpy(), cost.cpu().numpy()
        )
    elif values.device.type in KERNEL_DEVICES:
        arrays = rows.numpy(), None if modes is None else modes.numpy()
        solution = _by_engine(kernels, *arrays, metric, kind)
    else:
        solution = _by_engine(lockstep, rows, modes, metric, kind)
    dtype, shape = _wide(values.dtype), values.shape
    nearest, value, slope = (
        torch.as_tensor(part, dtype=dtype, device=values.device) for part in solution[:3]
    )
    chosen = torch.as_tensor(solution.mode, device=values.device) if mode is None else mode.clone()
    return nearest.reshape(shape), value.reshape(shape[:-1]), slope.reshape(shape), chosen.reshape(shape[:-1])


# Compilers, exporters and transforms see an operator; everybody else is spared its cost.
_solve = torch.library.custom_op(
    "unimodal::nearest",
    _solve_now,
    mutates_args=(),
    schema="(Tensor values, Tensor? mode, Tensor? cost, str metric, str kind)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
)


def is_plain(*tensors: Tensor) -> bool:
    """Whether these are ordinary tensors of the CPU, with values to look at."""
    if torch.compiler.is_compiling():
        return False
    return all(
        type(tensor) is Tensor
        and tensor.device.type in KERNEL_DEVICES
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        for tensor in tensors
    )


@_solve.register_fake
def _fake(values: Tensor, *_: Any) -> Four:
    return _empty(values)


@torch.library.register_vmap("unimodal::nearest")  # type: ignore[untyped-decorator]
def _mapped(
    info: Any, dims: tuple[int | None, ...], values: Tensor, mode: Any, cost: Any, metric: str, kind: str
) -> tuple[Four, tuple[int, ...]]:
    def batched(tensor: Tensor, dim: int | None) -> Tensor:
        return tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

    mode = None if mode is None else batched(mode, dims[1])
    return _solve(batched(values, dims[0]), mode, cost, metric, kind), (0, 0, 0, 0)


def _by_engine(engine: ModuleType, rows: Any, modes: Any, metric: str, kind: str) -> Solution:
    xp = engine.xp
    if kind == "log":
        return solve(engine, xp.exp(rows), rows, modes, metric)
    return solve(engine, rows, logarithm(xp, rows) if "kl" in metric else rows, modes, metric)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _empty(values: Tensor) -> Four:
    dtype = _wide(values.dtype)
    return (
        torch.empty(values.shape, dtype=dtype, device=values.device),
        torch.empty(values.shape[:-1], dtype=dtype, device=values.device),
        torch.empty(values.shape, dtype=dtype, device=values.device),
        torch.empty(values.shape[:-1], dtype=torch.int64, device=values.device),
    )


def _are_distributions(rows: Tensor) -> bool:
    """Look where the tensor is."""
    if rows.device.type in KERNEL_DEVICES:
        return kernels.are_distributions(rows.numpy(), SUM_ERROR)
    return bool((rows >= 0).all() & ((rows.sum(-1) - 1).abs() <= SUM_ERROR).all())


def _checked_modes(mode: Tensor, n_classes: int) -> Tensor:
    if mode.numel() and not bool(((mode >= 0) & (mode < n_classes)).all()):
        as_integers(mode, "mode", high=n_classes - 1)
    return mode.long()
