"""UnimodalNet: any network's outputs, folded into a distribution with one peak.

Cardoso, Cruz, Albuquerque (IEEE TAI 2025), Section IV and Figure 3. With u = softplus(z) ≥ 0, the
running sum r_k = Σ_{j≤k} u_j rises, the running sum from the end f_k = Σ_{j≥k} u_j falls, and
min(r, f) rises and then falls. Every unimodal distribution with positive masses can be reached.

f_k is computed as r_K - r_{k-1}: one sum instead of two, and exactly falling, because subtracting a
rising sequence from a constant is monotone under rounding. So is taking the minimum, and so is the
final log-softmax: the returned float32 values are unimodal to the last bit.

At outputs near zero the logits are a tent of height ln 2·K/2, which starts the edge classes at
e^{-24} for K = 70. `init="flat"` shifts the outputs so that the tent starts with height 1/2.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from unimodal.heads.base import Head, chosen
from unimodal.heads.numerics import applied, log_normalised

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softplus": functional.softplus,
    "relu": functional.relu,
}
INITS = ("tent", "flat")


class _Tent(torch.autograd.Function):
    """min(r, f), whose gradient needs no more than the side of the peak that each class is on."""

    generate_vmap_rule = True

    @staticmethod
    def forward(steps: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        rising = steps.cumsum(dim)
        heights, n = rising.clone(), steps.shape[dim]
        falling = rising.narrow(dim, n - 1, 1) - rising.narrow(dim, 0, n - 1)
        later = heights.narrow(dim, 1, n - 1)
        later.copy_(torch.minimum(later, falling))
        return heights, rising.sub_(heights).sign_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        ctx.dim = inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, slope: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, None]:
        if slope is None:
            return None, None
        # A step lifts every class from its own up to the peak on the left, down to the peak on the right.
        (is_right,) = ctx.saved_tensors
        right = slope * is_right
        left = slope - right
        total = left.sum(ctx.dim, keepdim=True)
        return right.sub_(left).cumsum(ctx.dim).add_(left).add_(total), None


def tent(steps: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """min(running sum, running sum from the end) of non-negative steps."""
    heights: Tensor = applied(_Tent, steps, dim)[0]
    return heights


class UnimodalNet(Head):
    """p ∝ exp(min(r, f))."""

    always_unimodal = True

    def __init__(self, n_classes: int, activation: str = "softplus", init: str = "tent") -> None:
        super().__init__(n_classes, n_outputs=n_classes)
        self.activation = chosen("activation", activation, ACTIVATIONS)
        self.init = chosen("init", init, INITS)
        step = 1 / n_classes
        start = math.log(math.expm1(step)) if activation == "softplus" else step
        self.shift = start if init == "flat" else 0.0

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        shifted = outputs + self.shift if self.shift else outputs
        return log_normalised(tent(ACTIVATIONS[self.activation](shifted), dim), dim)
