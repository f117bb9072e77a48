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

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from unimodal.heads.base import Head, chosen
from unimodal.heads.numerics import log_normalised

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softplus": functional.softplus,
    "relu": functional.relu,
}
INITS = ("tent", "flat")


def tent(steps: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """min(running sum, running sum from the end) of non-negative steps."""
    rising = steps.cumsum(dim)
    n = steps.shape[dim]
    total = rising.narrow(dim, n - 1, 1)
    falling = total - rising.narrow(dim, 0, n - 1)
    return torch.cat([rising.narrow(dim, 0, 1), torch.minimum(rising.narrow(dim, 1, n - 1), falling)], dim)


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
