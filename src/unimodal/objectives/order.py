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

from unimodal.heads.base import chosen, class_indices, keep, per_run
from unimodal.objectives.base import DistributionObjective, at_label, neighbours, non_negative

Penalty = Callable[[Tensor, Tensor, float | Tensor, int], Tensor]


def neighbour_penalty(p: Tensor, y: Tensor, delta: float | Tensor, dim: int) -> Float[Tensor, "..."]:
    """O2, the paper's u."""
    lower, upper = neighbours(p, dim)
    rises = class_indices(lower.shape[dim], p, dim) < y.unsqueeze(dim)
    drop = lower - upper
    return torch.relu(per_run(delta, dim) + torch.where(rises, drop, -drop)).sum(dim)


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
    n_classes = p.shape[dim]
    offset = class_indices(n_classes, p, dim) - y.unsqueeze(dim)
    before = at_label(p, (y - 1).clamp(min=0), dim).unsqueeze(dim)
    after = at_label(p, (y + 1).clamp(max=n_classes - 1), dim).unsqueeze(dim)
    side = torch.where(offset < 0, before, after)
    bound = torch.where(offset.abs() == 1, at_label(p, y, dim).unsqueeze(dim), side)
    hinge = torch.relu(per_run(delta, dim) + p - bound)
    return torch.where(offset == 0, 0.0, hinge).sum(dim)


PENALTIES: Mapping[str, Penalty] = {"u": neighbour_penalty, "uu": pair_penalty, "qul": quasi_penalty}
BASES = ("nll", "entropy")


class OrderPenalty(DistributionObjective):
    """base + λ·penalty, with the negative log-likelihood or the entropy as the base."""

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
