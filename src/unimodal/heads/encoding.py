"""Ordinal encoding: K-1 independent binary questions, "is y above k?".

Frank & Hall (ECML 2001); Cheng, Wang, Pollastri (IJCNN 2008). q_k = σ(z_k) = P(y > k) and
p_k = q_{k-1} - q_k. Nothing makes the q_k fall, so negative differences are floored at `floor` and
the rest renormalised. The method's own decision counts the q_k of at least one half.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from unimodal.heads.base import ExceedanceHead, along


class OrdinalEncoding(ExceedanceHead):
    """p_k = σ(z_{k-1}) - σ(z_k), floored and renormalised."""

    def __init__(self, n_classes: int, floor: float = 1e-7) -> None:
        super().__init__(n_classes, n_outputs=n_classes - 1)
        if not 0 < floor < 1:
            raise ValueError(f"floor must lie in (0, 1), got {floor}")
        self.floor = floor

    def exceedance_logits(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        return self.checked(outputs, dim)[0]

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        above = torch.sigmoid(self.exceedance_logits(outputs, dim))
        edge = torch.ones_like(above.narrow(dim, 0, 1))
        bounds = torch.cat([edge, above, torch.zeros_like(edge)], dim)
        masses = bounds.narrow(dim, 0, self.n_classes) - bounds.narrow(dim, 1, self.n_classes)
        masses = masses.clamp(min=self.floor)
        return masses.log() - masses.sum(dim, keepdim=True).log()


class UnorderedThresholds(OrdinalEncoding):
    """The published POM: exceedance logits z - θ_k with free thresholds that all start at zero."""

    def __init__(self, n_classes: int, floor: float = 1e-7) -> None:
        super().__init__(n_classes, floor)
        self.n_outputs = 1
        self.thresholds = nn.Parameter(torch.zeros(n_classes - 1))

    def exceedance_logits(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        outputs, dim = self.checked(outputs, dim)
        return outputs - along(self.thresholds, dim)
