"""Count distributions as heads: binomial and Poisson, one output each.

Binomial (da Costa, Alonso, Cardoso, "The unimodal model for the classification of ordinal data",
Neural Networks 2008): k ~ Bin(K-1, π), π = σ(z). The log-ratio of neighbours is
log p_k - log p_{k-1} = log((K-k)/k) + z, falling in k.

Poisson (Beckham & Pal, "Unimodal probability distributions for deep ordinal classification",
ICML 2017): p_k ∝ (λ^k / k!)^(1/τ), λ = softplus(z). The log-ratio is (log λ - log k)/τ, falling too.

Both are summed from those ratios, which makes them unimodal exactly, not up to rounding.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from unimodal.heads.base import Head, along, keep, per_run
from unimodal.heads.numerics import accumulated, log_softplus


def binomial_log_prob(logit: Float[Tensor, "..."], n_classes: int, dim: int) -> Float[Tensor, "..."]:
    """Log-probabilities of Bin(K-1, σ(logit)); `logit` has size 1 along `dim`."""
    return accumulated(_binomial_ratios(logit, n_classes, dim), dim)


def _binomial_ratios(logit: Tensor, n_classes: int, dim: int) -> Tensor:
    k = torch.arange(1, n_classes, dtype=logit.dtype, device=logit.device)
    return along(torch.log((n_classes - k) / k), dim) + logit


def poisson_log_prob(
    log_rate: Float[Tensor, "..."], n_classes: int, dim: int, first: int = 0
) -> Float[Tensor, "..."]:
    """Log-probabilities of a Poisson variable on first..first+K-1; `log_rate` has size 1 along `dim`."""
    return accumulated(_poisson_ratios(log_rate, n_classes, dim, first), dim)


def _poisson_ratios(log_rate: Tensor, n_classes: int, dim: int, first: int) -> Tensor:
    k = torch.arange(first + 1, first + n_classes, dtype=log_rate.dtype, device=log_rate.device)
    return log_rate - along(k.log(), dim)


class _Tempered(Head):
    """A head with one output whose log-ratios are divided by a temperature, given or learned."""

    always_unimodal = True
    tau: float | Tensor

    def __init__(self, n_classes: int, tau: float | Tensor, learn_tau: bool) -> None:
        super().__init__(n_classes, n_outputs=1)
        value = torch.as_tensor(tau, dtype=torch.get_default_dtype())
        if not bool((value > 0).all()):
            raise ValueError(f"tau must be positive, got {tau}")
        self.learn_tau = learn_tau
        if learn_tau:
            self.log_tau = nn.Parameter(value.log())
        else:
            keep(self, "tau", tau)

    def tempered(self, ratios: Tensor, dim: int) -> Tensor:
        return ratios / per_run(self.log_tau.exp() if self.learn_tau else self.tau, dim)


class Binomial(_Tempered):
    """k ~ Bin(K-1, σ(z))."""

    def __init__(self, n_classes: int, tau: float | Tensor = 1.0, learn_tau: bool = False) -> None:
        super().__init__(n_classes, tau, learn_tau)

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        return accumulated(self.tempered(_binomial_ratios(outputs, self.n_classes, dim), dim), dim)


class Poisson(_Tempered):
    """k ~ Poisson(softplus(z)) restricted to first..first+K-1; the paper counts from 1."""

    def __init__(
        self, n_classes: int, tau: float | Tensor = 1.0, learn_tau: bool = False, first: int = 1
    ) -> None:
        super().__init__(n_classes, tau, learn_tau)
        if first not in (0, 1):
            raise ValueError(f"first must be 0 or 1, got {first}")
        self.first = first

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        ratios = _poisson_ratios(log_softplus(outputs), self.n_classes, dim, self.first)
        return accumulated(self.tempered(ratios, dim), dim)
