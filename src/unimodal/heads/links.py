"""Links of the cumulative model: P(y ≤ k) = F(t), t = θ_k - z, and the mass between two thresholds.

Thresholds are a first one and gaps, gap = softplus(g), which keeps them ordered. Every mass
F(t + gap) - F(t) is formed in log space from g itself, never as a difference of two numbers near one
another, so that it keeps its relative precision in both tails:

- logit     σ(b) - σ(a) = σ(b) σ(-a) (1 - e^{-gap}), and 1 - e^{-gap} = σ(g)
- cloglog   F = 1 - exp(-e^t) is memoryless in e^t: log mass = -e^a + log F(a + log(e^gap - 1)), and
            log(e^gap - 1) = g
- loglog    F = exp(-e^{-t}) is its mirror image
- cauchit   the angle under which the gap is seen: atan2(gap, 1 + ab)/π
- probit    log Φ(b) + log(1 - Φ(a)/Φ(b)) in the left half-line, the ratio by erfcx in the tail, and
            Gauss-Legendre quadrature of the density where Φ(a)/Φ(b) is near one;
            log Φ is `heads.numerics.log_ndtr`, as ``torch.func.vmap`` goes through PyTorch's row by row
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from unimodal.heads.numerics import guarded_exp, log1mexp, log_ndtr, padded

Tails = tuple[Tensor, Tensor]

SMALLEST_GAP = 1e-20  # a gap never underflows, so that log(gap) and its slope stay finite


def gaps(raw_gaps: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Distances between neighbouring thresholds."""
    return functional.softplus(raw_gaps) + SMALLEST_GAP


class Link(ABC):
    """A distribution function F on the real line."""

    @abstractmethod
    def quantile(self, p: float) -> float:
        """The t with F(t) = p."""

    @abstractmethod
    def log_tails(self, t: Float[Tensor, "..."]) -> Tails:
        """Log F(t) and log(1 - F(t))."""

    @abstractmethod
    def log_masses(self, t: Float[Tensor, "..."], raw_gaps: Tensor, dim: int) -> Float[Tensor, "..."]:
        """Log-probabilities of the K classes, given t at the K-1 thresholds and their raw gaps."""


class Logit(Link):
    """F = σ."""

    def quantile(self, p: float) -> float:
        return math.log(p / (1 - p))

    def log_tails(self, t: Tensor) -> Tails:
        log_cdf = functional.logsigmoid(t)
        return log_cdf, log_cdf - t

    def log_masses(self, t: Tensor, raw_gaps: Tensor, dim: int) -> Tensor:
        log_cdf, log_sf = self.log_tails(t)
        shares = functional.logsigmoid(raw_gaps)
        return padded(log_cdf, 0, 1, dim) + padded(log_sf, 1, 0, dim) + padded(shares, 1, 1, dim)


class _PairwiseLink(Link):
    """A link whose inner masses have a form of their own."""

    def log_masses(self, t: Tensor, raw_gaps: Tensor, dim: int) -> Tensor:
        inner = t.shape[dim] - 1
        log_cdf, log_sf = self.log_tails(t)
        between = self.log_between(
            t.narrow(dim, 0, inner),
            raw_gaps,
            below=log_cdf.narrow(dim, 1, inner),
            above=log_sf.narrow(dim, 0, inner),
        )
        return torch.cat([log_cdf.narrow(dim, 0, 1), between, log_sf.narrow(dim, inner, 1)], dim)

    @abstractmethod
    def log_between(self, a: Float[Tensor, "..."], raw: Tensor, below: Tensor, above: Tensor) -> Tensor:
        """log(F(b) - F(a)), b = a + softplus(raw), given log F(b) as `below` and log(1 - F(a)) as `above`."""


class Cloglog(_PairwiseLink):
    """F(t) = 1 - exp(-e^t)."""

    def quantile(self, p: float) -> float:
        return math.log(-math.log1p(-p))

    def log_tails(self, t: Tensor) -> Tails:
        log_sf = -guarded_exp(t)
        tail = t < -15  # there 1 - exp(-e^t) is e^t - e^{2t}/2, and log1mexp(0) would be -inf
        body = log1mexp(torch.where(tail, -1.0, log_sf))
        return torch.where(tail, t - 0.5 * torch.exp(t.clamp(max=-15)), body), log_sf

    def log_between(self, a: Tensor, raw: Tensor, below: Tensor, above: Tensor) -> Tensor:
        return above + self.log_tails(a + raw)[0]


class Loglog(_PairwiseLink):
    """F(t) = exp(-e^{-t})."""

    mirror = Cloglog()

    def quantile(self, p: float) -> float:
        return -self.mirror.quantile(1 - p)

    def log_tails(self, t: Tensor) -> Tails:
        log_sf, log_cdf = self.mirror.log_tails(-t)
        return log_cdf, log_sf

    def log_between(self, a: Tensor, raw: Tensor, below: Tensor, above: Tensor) -> Tensor:
        return self.mirror.log_between(-(a + gaps(raw)), raw, above, below)


class Cauchit(_PairwiseLink):
    """F(t) = 1/2 + atan(t)/π."""

    def quantile(self, p: float) -> float:
        return math.tan(math.pi * (p - 0.5))

    def log_tails(self, t: Tensor) -> Tails:
        one = torch.ones_like(t)
        return torch.log(torch.atan2(one, -t) / math.pi), torch.log(torch.atan2(one, t) / math.pi)

    def log_between(self, a: Tensor, raw: Tensor, below: Tensor, above: Tensor) -> Tensor:
        gap = gaps(raw)
        return torch.log(torch.atan2(gap.expand_as(a), 1 + a * (a + gap)) / math.pi)


class Probit(_PairwiseLink):
    """F = Φ."""

    nodes, weights = np.polynomial.legendre.leggauss(8)

    def quantile(self, p: float) -> float:
        return NormalDist().inv_cdf(p)

    def log_tails(self, t: Tensor) -> Tails:
        return log_ndtr(t), log_ndtr(-t)

    def log_between(self, a: Tensor, raw: Tensor, below: Tensor, above: Tensor) -> Tensor:
        gap = gaps(raw)
        middle = -(a + gap / 2).abs()
        close = (gap < 1) & (-middle * gap < 1)
        quadrature = self._log_integral(torch.where(close, middle, 0.0), gap.clamp(max=1.0))
        apart = torch.where(close, 1.0, gap)
        upper = torch.where(close, -0.5, middle) + apart / 2
        return torch.where(close, quadrature, log_ndtr(upper) + log1mexp(self._log_ratio(upper, apart)))

    def _log_ratio(self, upper: Tensor, gap: Tensor) -> Tensor:
        """Log Φ(upper - gap) - log Φ(upper); in the tail the large squares cancel analytically."""
        tail = upper < -1
        far = torch.where(tail, upper, -1.0)
        scaled = (
            torch.special.erfcx((gap - far) / math.sqrt(2)).log()
            - torch.special.erfcx(-far / math.sqrt(2)).log()
        )
        near = torch.where(tail, 0.0, upper)
        plain = log_ndtr(near - gap) - log_ndtr(near)
        return torch.where(tail, (far - gap / 2) * gap + scaled, plain)

    def _log_integral(self, middle: Tensor, gap: Tensor) -> Tensor:
        """Log ∫ φ over a short interval; the density at the middle is taken out of the sum."""
        total = torch.zeros_like(middle)
        for node, weight in zip(self.nodes.tolist(), self.weights.tolist(), strict=True):
            t = node * gap / 2
            total = total + weight / 2 * torch.exp(-t * (middle + t / 2))
        return gap.log() - 0.5 * middle.square() - 0.5 * math.log(2 * math.pi) + total.log()


LINKS: Mapping[str, Link] = {
    "logit": Logit(),
    "probit": Probit(),
    "cloglog": Cloglog(),
    "loglog": Loglog(),
    "cauchit": Cauchit(),
}
