"""Unimodal regularisation: cross-entropy against a label smoothed over its neighbours.

Liu et al., "Unimodal regularized neuron stick-breaking for ordinal classification",
Neurocomputing 2020. The target is (1-η)·onehot + η·f with f unimodal around y; the loss is
-(1-η) log p_y - η Σ f_i log p_i. The numbers in the paper's tables came from the weights the other
way round, η·onehot + (1-η)·f (`published=True`).

Every f has its only peak at y: the binomial with π = (y+½)/K and the Poisson with λ = y+½ do.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unimodal.heads.base import chosen, keep, per_run
from unimodal.heads.counts import binomial_log_prob, poisson_log_prob
from unimodal.heads.numerics import log_normalised
from unimodal.objectives.base import DistributionObjective, at_label, by_distance, row_of_label

LogTarget = Callable[[Tensor, Tensor, float | Tensor, int], Tensor]


def _exponential(y: Tensor, like: Tensor, tau: float | Tensor, dim: int) -> Tensor:
    distance = torch.arange(like.shape[dim], dtype=like.dtype, device=like.device)
    return log_normalised(-row_of_label(by_distance(distance), y, dim) / tau, dim)


def _uniform(_y: Tensor, like: Tensor, _tau: float | Tensor, dim: int) -> Tensor:
    return log_normalised(torch.zeros_like(like), dim)


def _binomial(y: Tensor, like: Tensor, _tau: float | Tensor, dim: int) -> Tensor:
    n_classes = like.shape[dim]
    return binomial_log_prob(torch.logit((_label(y, like, dim) + 0.5) / n_classes), n_classes, dim)


def _poisson(y: Tensor, like: Tensor, _tau: float | Tensor, dim: int) -> Tensor:
    return poisson_log_prob((_label(y, like, dim) + 0.5).log(), like.shape[dim], dim)


def _label(y: Tensor, like: Tensor, dim: int) -> Tensor:
    return y.unsqueeze(dim).to(like.dtype)


TARGETS: Mapping[str, LogTarget] = {
    "exponential": _exponential,
    "uniform": _uniform,
    "binomial": _binomial,
    "poisson": _poisson,
}


class UnimodalRegularisation(DistributionObjective):
    """-(1-η) log p_y - η Σ_i f_i log p_i."""

    eta: float | Tensor
    tau: float | Tensor

    def __init__(
        self,
        eta: float | Tensor = 0.15,
        tau: float | Tensor = 1.0,
        target: str = "exponential",
        published: bool = False,
    ) -> None:
        super().__init__()
        eta_values, tau_values = torch.as_tensor(eta), torch.as_tensor(tau)
        if not bool(((eta_values >= 0) & (eta_values <= 1)).all()):
            raise ValueError(f"eta must lie in [0, 1], got {eta}")
        if not bool((tau_values > 0).all()):
            raise ValueError(f"tau must be positive, got {tau}")
        keep(self, "eta", eta)
        keep(self, "tau", tau)
        self.target = chosen("target", target, TARGETS)
        self.published = published

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        soft = TARGETS[self.target](y, log_prob.detach(), per_run(self.tau, dim), dim).exp()
        smoothing = 1 - self.eta if self.published else self.eta
        return (smoothing - 1) * at_label(log_prob, y, dim) - smoothing * (soft * log_prob).sum(dim)
