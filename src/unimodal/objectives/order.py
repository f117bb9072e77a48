"""Penalties on the order of neighbouring probabilities: O2 (the paper's u), uu, quasi-unimodality.

Albuquerque, Cruz, Cardoso, "Ordinal losses for classification of cervical cancer risk", PeerJ CS
2021, and "Quasi-unimodal distributions for ordinal classification", Mathematics 2022. With hinge
h(d) = relu(δ + d):

    O2  = Σ_{k<y} h(p_k - p_{k+1}) + Σ_{k≥y} h(p_{k+1} - p_k)     neighbouring pairs
    uu  = the same over every ordered pair on each side of y      (Eq. 13 of the 2025 paper)
    QUL = Σ_{|j-y|=1} h(p_j - p_y) + Σ_{|j-y|>1} h(p_j - p_{y±1})  the neighbour on the side of j

Each is added, λ times, to the likelihood (CO, CO2, QUL-CE) or to the entropy (HO2, QUL-HO). Here λ
multiplies the penalty; the 2021 source multiplies the cross-entropy, so its λ are not comparable.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unimodal.heads.base import chosen, keep, per_run
from unimodal.objectives.base import DistributionObjective, at_label, non_negative, row_of_label

Penalty = Callable[[Tensor, Tensor, float | Tensor, int], Tensor]


def neighbour_penalty(p: Tensor, y: Tensor, delta: float | Tensor, dim: int) -> Float[Tensor, "..."]:
    """O2, the paper's u."""
    k = torch.arange(p.shape[dim], device=p.device)
    sign = torch.where(k < k.unsqueeze(-1), 1.0, -1.0).to(p.dtype)
    sign[:, -1] = 0.0  # after the last class `roll` starts anew: no pair, and its hinge is delta
    drops = (p - p.roll(-1, dim)) * row_of_label(sign, y, dim)
    return torch.relu(per_run(delta, dim) + drops).sum(dim) - delta


def pair_penalty(p: Tensor, y: Tensor, delta: float | Tensor, dim: int) -> Float[Tensor, "..."]:
    """The paper's uu: all pairs i < j with both on one side of y; memory grows with K²."""
    p = p.movedim(dim, -1)
    k = torch.arange(p.shape[-1], device=p.device)
    first, second = k.unsqueeze(-1), k
    label = y[..., None, None]
    left = (first < second) & (second <= label)
    right = (first < second) & (first >= label)
    drop = p.unsqueeze(-1) - p.unsqueeze(-2)
    margin = delta[..., None, None] if isinstance(delta, Tensor) and delta.ndim else delta
    hinge = torch.relu(margin + torch.where(left, drop, -drop))
    return torch.where(left | right, hinge, 0.0).sum((-2, -1))


def quasi_penalty(p: Tensor, y: Tensor, delta: float | Tensor, dim: int) -> Float[Tensor, "..."]:
    """QUL: neighbours stay below y, everything farther stays below the neighbour on its side."""
    k = torch.arange(p.shape[dim], device=p.device)
    label = k.unsqueeze(-1)
    bounded_by = torch.where((k - label).abs() <= 1, label, label + torch.sign(k - label))
    hinge = torch.relu(per_run(delta, dim) + p - p.gather(dim, row_of_label(bounded_by, y, dim)))
    return hinge.sum(dim) - delta  # what y, its own bound, contributes


PENALTIES: Mapping[str, Penalty] = {"u": neighbour_penalty, "uu": pair_penalty, "qul": quasi_penalty}
BASES = ("nll", "entropy")


class OrderPenalty(DistributionObjective):
    """base + λ·penalty, with the negative log-likelihood or the entropy as the base."""

    lam: float | Tensor
    delta: float | Tensor

    def __init__(
        self,
        lam: float | Tensor = 1.0,
        delta: float | Tensor = 0.05,
        base: str = "nll",
        penalty: str = "u",
    ) -> None:
        super().__init__()
        keep(self, "lam", non_negative("lam", lam))
        keep(self, "delta", non_negative("delta", delta))
        self.base = chosen("base", base, BASES)
        self.penalty = chosen("penalty", penalty, PENALTIES)

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        p = log_prob.exp()
        base = -at_label(log_prob, y, dim) if self.base == "nll" else -(p * log_prob).sum(dim)
        return base + self.lam * PENALTIES[self.penalty](p, y, self.delta, dim)
