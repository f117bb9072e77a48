"""Elementary functions that stay finite, in value and in gradient, where the textbook form does not."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

# exp(25)·1e4·1000 is the largest sum that outputs up to 1e4 and K up to 1000 can form; its square
# and its slopes still fit float32, while nothing changes where a distribution is not yet one-hot.
EXP_LINEAR_FROM = 25.0


def guarded_exp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """exp(x), continued by its tangent above `EXP_LINEAR_FROM`."""
    return torch.exp(x.clamp(max=EXP_LINEAR_FROM)) * (1 + (x - EXP_LINEAR_FROM).clamp(min=0))


def log1mexp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(1 - exp(x)) for x < 0 (Mächler's two branches)."""
    near = x > -math.log(2)
    inside = torch.where(near, x, -1.0)
    outside = torch.where(near, -1.0, x)
    return torch.where(near, torch.log(-torch.expm1(inside)), torch.log1p(-torch.exp(outside)))


def log_expm1(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(exp(x) - 1) for x > 0."""
    return x + log1mexp(-x)


def log_softplus(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(log(1 + exp(x))), which tends to x where softplus underflows."""
    tail = x < -15
    body = functional.softplus(torch.where(tail, 0.0, x)).log()
    return torch.where(tail, x - 0.5 * torch.exp(x.clamp(max=-15)), body)


def log_normalised(log_weights: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Log-softmax under the name of what it does here. Subtracting one number keeps every order exactly."""
    return functional.log_softmax(log_weights, dim)


def accumulated(increments: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """Log-probabilities of K classes from the K-1 log-ratios of neighbours.

    Falling increments give a distribution that is unimodal to the last bit: a sequential sum rises,
    rounding included, as long as the increments are positive, and falls from there on.
    """
    first = torch.zeros_like(increments.narrow(dim, 0, 1))
    return log_normalised(torch.cat([first, increments.cumsum(dim)], dim), dim)
