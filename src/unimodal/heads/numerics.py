"""Elementary functions that stay finite, in value and in gradient, where the textbook form does not.

Where a gradient is written by hand it is because PyTorch's own, on a CPU, spends more time on masks
(`where`, `minimum`, `clamp`) than on arithmetic. They are written in differentiable operations, so
that they can be differentiated again, and can be mapped by ``torch.func.vmap``.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

# exp(25)·1e4·1000 is the largest sum that outputs up to 1e4 and K up to 1000 can form; its square
# and its slopes still fit float32, while nothing changes where a distribution is not yet one-hot.
EXP_LINEAR_FROM = 25.0


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply`, which has no type."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


class _GuardedExp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        beyond = (x - EXP_LINEAR_FROM).relu_()
        return x.clamp(max=EXP_LINEAR_FROM).exp_().mul_(beyond.add_(1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return slope * torch.exp(x.clamp(max=EXP_LINEAR_FROM))


def guarded_exp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """exp(x), continued by its tangent above `EXP_LINEAR_FROM`."""
    result: Tensor = applied(_GuardedExp, x)
    return result


def log1mexp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(1 - exp(x)) for x < 0 (Mächler's two branches)."""
    near = x > -math.log(2)
    inside = torch.where(near, x, -1.0)
    outside = torch.where(near, -1.0, x)
    return torch.where(near, torch.log(-torch.expm1(inside)), torch.log1p(-torch.exp(outside)))


class _LogNdtr(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        tail = x < -1
        far = torch.special.erfcx(x.clamp(max=-1) / -math.sqrt(2)).log() - math.log(2) - x * x / 2
        return torch.where(tail, far, torch.log1p(torch.erfc(x / math.sqrt(2)) / -2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        # φ/Φ. Where it is next to nothing it is cut off before erfcx overflows, for the sake of its slope.
        most = 0.9 * math.sqrt(-2 * math.log(torch.finfo(x.dtype).tiny))
        ratio = math.sqrt(2 / math.pi) / torch.special.erfcx(x.clamp(max=most) / -math.sqrt(2))
        result: Tensor = slope * ratio
        return result


def log_ndtr(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The logarithm of the normal distribution function, from functions that can be mapped."""
    result: Tensor = applied(_LogNdtr, x)
    return result


def log_softplus(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(log(1 + exp(x))), which is x to the last bit long before softplus underflows."""
    bounded = functional.hardtanh(x, min_val=-40.0, max_val=torch.inf)
    return functional.softplus(bounded).log() + (x - bounded)


def log_normalised(log_weights: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Log-softmax under the name of what it does here. Subtracting one number keeps every order exactly."""
    return functional.log_softmax(log_weights, dim)


def padded(values: Float[Tensor, "..."], before: int, after: int, dim: int) -> Float[Tensor, "..."]:
    """Zeros before and after the values of the class axis `dim` (negative)."""
    return functional.pad(values, (0, 0) * (-dim - 1) + (before, after))


def unimodal_hull(values: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """The least sequence above `values` that rises and then falls: `values` itself if it does."""
    from_left = values.cummax(dim).values
    from_right = values.flip(dim).cummax(dim).values.flip(dim)
    return torch.minimum(from_left, from_right)


def accumulated(increments: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Log-probabilities of K classes from the K-1 log-ratios of neighbours.

    Falling increments give a distribution that is unimodal to the last bit: a sequential sum rises,
    rounding included, as long as the increments are positive, and falls from there on.
    """
    return log_normalised(padded(increments.cumsum(dim), 1, 0, dim), dim)
