"""Class distance weighted cross-entropy.

Polat et al., "Class distance weighted cross-entropy loss for ulcerative colitis severity
estimation", MIUA 2022: -Σ_i |i-y|^α log(1 - p_i), α = 5. With α = 1.5 it is the ordinal log loss
(Castagnos et al., "A simple log-based loss function for ordinal text classification", COLING 2022).

log(1 - p_i) = log1p(-p_i) is exact for p_i ≤ 1/2. At most one class has more than half of the mass;
for it, 1 - p_i is summed from the other classes, so that it never rounds to zero.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unimodal.heads.base import keep, per_run
from unimodal.heads.numerics import applied
from unimodal.objectives.base import DistributionObjective, by_distance, non_negative, row_of_label

FAR_BELOW = 1e30  # what takes a class out of a sum of exponentials


class _WeightedComplements(torch.autograd.Function):
    """-Σ_i w_i log(1 - p_i) of normalised log-probabilities."""

    generate_vmap_rule = True

    @staticmethod
    def forward(log_prob: Tensor, weight: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        p = log_prob.exp()
        is_large = (p - 0.5).sign_().relu_()
        log_rest = torch.logsumexp(log_prob.add(is_large, alpha=-FAR_BELOW), dim)
        of_small = (p.mul_(is_large - 1).log1p_() * weight).sum(dim)
        return -(of_small + (weight * is_large).sum(dim) * log_rest), is_large

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        log_prob, weight, ctx.dim = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(log_prob, weight, output[1])

    @staticmethod
    def backward(ctx: Any, slope: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, None, None]:
        if slope is None:
            return None, None, None
        log_prob, weight, is_large = ctx.saved_tensors
        p = log_prob.exp() * (1 - is_large)
        share_of_rest = torch.softmax(log_prob - FAR_BELOW * is_large, ctx.dim)
        of_large = (weight * is_large).sum(ctx.dim, keepdim=True)
        return slope.unsqueeze(ctx.dim) * (weight * p / (1 - p) - of_large * share_of_rest), None, None


class ClassDistanceWeighted(DistributionObjective):
    """-Σ_i |i-y|^α log(1 - p_i)."""

    alpha: float | Tensor

    def __init__(self, alpha: float | Tensor = 5.0) -> None:
        super().__init__()
        keep(self, "alpha", non_negative("alpha", alpha))

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        distance = torch.arange(log_prob.shape[dim], dtype=log_prob.dtype, device=log_prob.device)
        if isinstance(self.alpha, Tensor):
            weight = self._powers(row_of_label(by_distance(distance), y, dim), per_run(self.alpha, dim))
        else:
            weight = row_of_label(by_distance(self._powers(distance, self.alpha)), y, dim)
        loss: Tensor = applied(_WeightedComplements, log_prob, weight, dim)[0]
        return loss

    @staticmethod
    def _powers(distance: Tensor, alpha: float | Tensor) -> Tensor:
        return torch.where(distance > 0, distance**alpha, 0.0)  # the label itself has no weight at α = 0
