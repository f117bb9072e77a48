"""Links of the cumulative model: P(y ≤ k) = F(t), t = θ_k - z, and the mass between two thresholds.

Every mass F(t + gap) - F(t) is formed in log space from the gap itself, never as a difference of two
numbers near one another, so that it keeps its relative precision in both tails:

- logit     σ(b) - σ(a) = σ(b) σ(-a) (1 - e^{a-b})
- cloglog   F = 1 - exp(-e^t) is memoryless in e^t: log mass = -e^a + log F(a + log(e^gap - 1))
- loglog    F = exp(-e^{-t}) is its mirror image
- cauchit   the angle under which the gap is seen: atan2(gap, 1 + ab)/π
- probit    log Φ(b) + log(1 - Φ(a)/Φ(b)) in the left half-line, the ratio by erfcx in the tail, and
            Gauss-Legendre quadrature of the density where Φ(a)/Φ(b) is near one
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

from unimodal.heads.numerics import guarded_exp, log1mexp, log_expm1

Tails = tuple[Tensor, Tensor]


class Link(ABC):
    """A distribution function F on the real line."""

    @abstractmethod
    def quantile(self, p: float) -> float:
        """The t with F(t) = p."""

    @abstractmethod
    def log_tails(self, t: Float[Tensor, "..."]) -> Tails:
        """Log F(t) and log(1 - F(t))."""

    @abstractmethod
    def log_between(self, a: Float[Tensor, "..."], gap: Tensor, below: Tensor, above: Tensor) -> Tensor:
        """log(F(a + gap) - F(a)), given log F(a + gap) as `below` and log(1 - F(a)) as `above`."""


class Logit(Link):
    """F = σ."""

    def quantile(self, p: float) -> float:
        return math.log(p / (1 - p))

    def log_tails(self, t: Tensor) -> Tails:
        log_cdf = functional.logsigmoid(t)
        return log_cdf, log_cdf - t

    def log_between(self, a: Tensor, gap: Tensor, below: Tensor, above: Tensor) -> Tensor:
        return below + above + log1mexp(-gap)


class Cloglog(Link):
    """F(t) = 1 - exp(-e^t)."""

    def quantile(self, p: float) -> float:
        return math.log(-math.log1p(-p))

    def log_tails(self, t: Tensor) -> Tails:
        log_sf = -guarded_exp(t)
        tail = t < -15  # there 1 - exp(-e^t) is e^t - e^{2t}/2, and log1mexp(0) would be -inf
        body = log1mexp(torch.where(tail, -1.0, log_sf))
        return torch.where(tail, t - 0.5 * torch.exp(t.clamp(max=-15)), body), log_sf

    def log_between(self, a: Tensor, gap: Tensor, below: Tensor, above: Tensor) -> Tensor:
        return above + self.log_tails(a + log_expm1(gap))[0]


class Loglog(Link):
    """F(t) = exp(-e^{-t})."""

    mirror = Cloglog()

    def quantile(self, p: float) -> float:
        return -self.mirror.quantile(1 - p)

    def log_tails(self, t: Tensor) -> Tails:
        log_sf, log_cdf = self.mirror.log_tails(-t)
        return log_cdf, log_sf

    def log_between(self, a: Tensor, gap: Tensor, below: Tensor, above: Tensor) -> Tensor:
        return self.mirror.log_between(-(a + gap), gap, above, below)


class Cauchit(Link):
    """F(t) = 1/2 + atan(t)/π."""

    def quantile(self, p: float) -> float:
        return math.tan(math.pi * (p - 0.5))

    def log_tails(self, t: Tensor) -> Tails:
        one = torch.ones_like(t)
        return torch.log(torch.atan2(one, -t) / math.pi), torch.log(torch.atan2(one, t) / math.pi)

    def log_between(self, a: Tensor, gap: Tensor, below: Tensor, above: Tensor) -> Tensor:
        return torch.log(torch.atan2(gap.expand_as(a), 1 + a * (a + gap)) / math.pi)


class Probit(Link):
    """F = Φ."""

    nodes, weights = np.polynomial.legendre.leggauss(8)

    def quantile(self, p: float) -> float:
        return NormalDist().inv_cdf(p)

    def log_tails(self, t: Tensor) -> Tails:
        return torch.special.log_ndtr(t), torch.special.log_ndtr(-t)

    def log_between(self, a: Tensor, gap: Tensor, below: Tensor, above: Tensor) -> Tensor:
        middle = -(a + gap / 2).abs()
        close = (gap < 1) & (-middle * gap < 1)
        quadrature = self._log_integral(torch.where(close, middle, 0.0), gap.clamp(max=1.0))
        apart = torch.where(close, 1.0, gap)
        upper = torch.where(close, -0.5, middle) + apart / 2
        return torch.where(
            close, quadrature, torch.special.log_ndtr(upper) + log1mexp(self._log_ratio(upper, apart))
        )

    def _log_ratio(self, upper: Tensor, gap: Tensor) -> Tensor:
        """Log Φ(upper - gap) - log Φ(upper); in the tail the large squares cancel analytically."""
        tail = upper < -1
        far = torch.where(tail, upper, -1.0)
        scaled = (
            torch.special.erfcx((gap - far) / math.sqrt(2)).log()
            - torch.special.erfcx(-far / math.sqrt(2)).log()
        )
        near = torch.where(tail, 0.0, upper)
        plain = torch.special.log_ndtr(near - gap) - torch.special.log_ndtr(near)
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
