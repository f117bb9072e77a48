"""What every objective shares: a loss per sample, from a head's outputs or from its distribution."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unimodal.heads.base import Head, class_indices, from_end


def at_label(values: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """The value of each sample's own class."""
    return values.gather(dim, y.unsqueeze(dim)).squeeze(dim)


def neighbours(values: Float[Tensor, "..."], dim: int) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """The K-1 pairs of neighbouring classes: (lower, upper)."""
    n = values.shape[dim] - 1
    return values.narrow(dim, 0, n), values.narrow(dim, 1, n)


def non_negative(argument: str, value: float | Tensor) -> float | Tensor:
    """Return `value` if no entry is negative or NaN."""
    if not bool((torch.as_tensor(value) >= 0).all()):
        raise ValueError(f"{argument} must be at least 0, got {value}")
    return value


def class_distance(y: Int[Tensor, "..."], like: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """|i - y| for every class i along `dim`."""
    return (class_indices(like.shape[dim], like, dim) - y.unsqueeze(dim)).abs()


class Objective(nn.Module, ABC):
    """What training penalises. Never reduced: weights and means belong to the caller."""

    @abstractmethod
    def forward(self, head: Head, outputs: Tensor, y: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        """One loss per sample."""


class DistributionObjective(Objective):
    """An objective that looks at the distribution alone, whatever head it came from."""

    def forward(self, head: Head, outputs: Tensor, y: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        return self.of_distribution(head.log_prob(outputs, dim), y, from_end(dim, outputs))

    @abstractmethod
    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        """One loss per sample, from log-probabilities; `dim` is negative."""
