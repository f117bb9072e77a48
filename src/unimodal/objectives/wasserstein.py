"""Wasserstein regularisation: stay near the unimodal distributions whose mode is the label.

Cardoso, Cruz, Albuquerque (IEEE TAI 2025), Section V: -log p_y + λ·D2(p, p*), where p* is the
distribution nearest to p, in the sense of D1, among those with mode y, held constant. WU-Wass takes the
Wasserstein distance for both; WU-KLDiv takes it for D1, and for D2 the divergence KL(p* ‖ p), here
called reverse-kl as everywhere in this package (see `unimodal.projection.divergences`). Any pair is
one parameter each: `projection` is D1 and `penalty` is D2. Both come from one solution.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unimodal.heads.base import chosen, keep
from unimodal.objectives.base import DistributionObjective, at_label, non_negative
from unimodal.projection.autograd import nearest
from unimodal.projection.divergences import METRICS, divergence
from unimodal.projection.training import regularised_likelihood


class NearestUnimodal(DistributionObjective):
    """-log p_y + λ·D2(p, p*)."""

    lam: float | Tensor

    def __init__(self, lam: float | Tensor = 1.0, projection: str = "w1", penalty: str = "w1") -> None:
        super().__init__()
        keep(self, "lam", non_negative("lam", lam))
        self.projection = chosen("projection", projection, METRICS)
        self.penalty = chosen("penalty", penalty, METRICS)

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        log_p = log_prob if dim == -1 else log_prob.movedim(dim, -1)
        if self.projection == self.penalty == "w1":
            loss = regularised_likelihood(log_p, y, self.lam)
            if loss is not None:
                return loss
        return self.lam * self._distance(log_p, y) - at_label(log_prob, y, dim)

    def _distance(self, log_p: Tensor, y: Tensor) -> Tensor:
        p = log_p.exp()
        if self.projection == self.penalty == "w1":  # |P* - P| has kinks; the solver knows the exact slope
            value: Tensor = nearest(p, y, "w1", kind="computed").value
            return value
        target = nearest(log_p, y, self.projection, kind="log").nearest
        result: Tensor = divergence(torch, p, log_p, target, self.penalty)
        return result
