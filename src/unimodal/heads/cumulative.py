"""Cumulative link model, the proportional odds model (POM) with the logit link.

McCullagh, "Regression models for ordinal data", JRSS B 1980: P(y ≤ k) = F(θ_k - z) with increasing
thresholds θ, hence p_k = F(θ_k - z) - F(θ_{k-1} - z). The thresholds are learned as a first one and
positive gaps, so they stay ordered; they start where every class has mass 1/K at z = 0.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from unimodal.heads.base import ExceedanceHead, along, chosen
from unimodal.heads.links import LINKS

SMALLEST_GAP = 1e-20  # a gap never underflows, so that log(gap) and its slope stay finite


class CumulativeLink(ExceedanceHead):
    """p_k = F(θ_k - z) - F(θ_{k-1} - z)."""

    def __init__(self, n_classes: int, link: str = "logit") -> None:
        super().__init__(n_classes, n_outputs=1)
        self.link = chosen("link", link, LINKS)
        start = [LINKS[link].quantile(k / n_classes) for k in range(1, n_classes)]
        gaps = [high - low for low, high in zip(start, start[1:], strict=False)]
        self.first = nn.Parameter(torch.tensor(start[:1]))
        self.raw_gaps = nn.Parameter(torch.tensor([math.log(math.expm1(gap)) for gap in gaps]))

    def gaps(self) -> Float[Tensor, " gaps"]:
        """The K-2 distances between neighbouring thresholds."""
        return functional.softplus(self.raw_gaps) + SMALLEST_GAP

    def thresholds(self) -> Float[Tensor, " thresholds"]:
        """The K-1 increasing thresholds."""
        return torch.cat([self.first, self.gaps()]).cumsum(0)

    def exceedance_logits(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        outputs, dim = self.checked(outputs, dim)
        log_cdf, log_sf = LINKS[self.link].log_tails(along(self.thresholds(), dim) - outputs)
        return log_sf - log_cdf

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        link, inner = LINKS[self.link], self.n_classes - 2
        t = along(self.thresholds(), dim) - outputs
        log_cdf, log_sf = link.log_tails(t)
        between = link.log_between(
            t.narrow(dim, 0, inner),
            along(self.gaps(), dim),
            below=log_cdf.narrow(dim, 1, inner),
            above=log_sf.narrow(dim, 0, inner),
        )
        return torch.cat([log_cdf.narrow(dim, 0, 1), between, log_sf.narrow(dim, inner, 1)], dim)
