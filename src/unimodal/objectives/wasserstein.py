"""Wasserstein regularisation: stay near the unimodal distributions whose mode is the label.

Cardoso, Cruz, Albuquerque (IEEE TAI 2025), Section V: -log p_y + λ·D2(p*, p), where p* is the
distribution nearest to p, in the sense of D1, among those with mode y. WU-Wass takes the Wasserstein
distance for both, WU-KLDiv takes it for D1 and KL(p* ‖ p) for D2, with p* held constant. Any pair is
one parameter each: `projection` is D1 and `penalty` is D2.
"""

from jaxtyping import Float, Int
from torch import Tensor

from unimodal import projection as nearest
from unimodal.heads.base import chosen, keep
from unimodal.objectives.base import DistributionObjective, at_label, non_negative

METRICS = ("w1", "l2", "kl", "reverse-kl")


class NearestUnimodal(DistributionObjective):
    """-log p_y + λ·D2(p*, p)."""

    lam: float | Tensor

    def __init__(self, lam: float | Tensor = 1.0, projection: str = "w1", penalty: str = "w1") -> None:
        super().__init__()
        keep(self, "lam", non_negative("lam", lam))
        self.projection = chosen("projection", projection, METRICS)
        self.penalty = chosen("penalty", penalty, METRICS)

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        solution = nearest.solve(log_prob.exp(), y, self.projection, dim)
        # Where both are the same, the solver's own distance has the exact (envelope) gradient.
        if self.penalty == self.projection:
            distance = solution.value
        else:
            distance = nearest.divergence(solution.nearest, log_prob, self.penalty, dim)
        return self.lam * distance - at_label(log_prob, y, dim)
