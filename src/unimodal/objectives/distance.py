"""Class distance weighted cross-entropy.

Polat et al., "Class distance weighted cross-entropy loss for ulcerative colitis severity
estimation", MIUA 2022: -Σ_i |i-y|^α log(1 - p_i), α = 5. With α = 1.5 it is the ordinal log loss
(Castagnos et al., "A simple log-based loss function for ordinal text classification", COLING 2022).

log(1 - p_i) = log1p(-p_i) is exact for p_i ≤ 1/2. At most one class has more than half of the mass;
for it, 1 - p_i is summed from the other classes, so that it never rounds to zero.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unimodal.heads.base import keep, per_run
from unimodal.objectives.base import DistributionObjective, at_label, class_distance, non_negative


class ClassDistanceWeighted(DistributionObjective):
    """-Σ_i |i-y|^α log(1 - p_i)."""

    def __init__(self, alpha: float | Tensor = 5.0) -> None:
        super().__init__()
        keep(self, "alpha", non_negative("alpha", alpha))

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        distance = class_distance(y, log_prob, dim)
        weight = torch.where(distance > 0, distance ** per_run(self.alpha, dim), 0.0)
        largest = log_prob.argmax(dim, keepdim=True)
        is_largest = torch.zeros_like(log_prob, dtype=torch.bool).scatter(dim, largest, True)
        log_others = torch.where(is_largest, -torch.inf, log_prob)
        small = torch.log1p(-log_others.exp())
        return -(weight * small).sum(dim) - at_label(weight, largest.squeeze(dim), dim) * torch.logsumexp(
            log_others, dim
        )
