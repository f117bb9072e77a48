"""Cumulative link model, the proportional odds model (POM) with the logit link.

McCullagh, "Regression models for ordinal data", JRSS B 1980: P(y ≤ k) = F(θ_k - z) with increasing
thresholds θ, hence p_k = F(θ_k - z) - F(θ_{k-1} - z). The thresholds are learned as a first one and
positive gaps, so they stay ordered; they start where every class has mass 1/K at z = 0.
"""

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from unimodal.heads.base import ExceedanceHead, along, chosen
from unimodal.heads.links import LINKS, gaps


class CumulativeLink(ExceedanceHead):
    """p_k = F(θ_k - z) - F(θ_{k-1} - z)."""

    def __init__(self, n_classes: int, link: str = "logit") -> None:
        super().__init__(n_classes, n_outputs=1)
        self.link = chosen("link", link, LINKS)
        start = [LINKS[link].quantile(k / n_classes) for k in range(1, n_classes)]
        raw_gaps = [math.log(math.expm1(high - low)) for low, high in pairwise(start)]
        self.first = nn.Parameter(torch.tensor(start[:1]))
        self.raw_gaps = nn.Parameter(torch.tensor(raw_gaps))

    def thresholds(self) -> Float[Tensor, " thresholds"]:
        """The K-1 increasing thresholds."""
        return torch.cat([self.first, gaps(self.raw_gaps)]).cumsum(0)

    def exceedance_logits(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        outputs, dim = self.checked(outputs, dim)
        log_cdf, log_sf = LINKS[self.link].log_tails(along(self.thresholds(), dim) - outputs)
        return log_sf - log_cdf

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        t = along(self.thresholds(), dim) - outputs
        return LINKS[self.link].log_masses(t, along(self.raw_gaps, dim), dim)
