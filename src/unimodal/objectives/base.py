"""What every objective shares: a loss per sample, from a head's outputs or from its distribution."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unimodal.heads.base import Head, from_end


def at_label(values: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """The value of each sample's own class."""
    return values.gather(dim, y.unsqueeze(dim)).squeeze(dim)


def row_of_label(table: Tensor, y: Int[Tensor, "..."], dim: int) -> Tensor:
    """The row of each sample's own class, laid along the class axis.

    A look-up is several times faster on a CPU than comparing every class with every label.
    """
    return functional.embedding(y, table).movedim(-1, dim)


def by_distance(values: Float[Tensor, " K"]) -> Float[Tensor, "K K"]:
    """A table whose entry (i, j) is values[|i - j|]."""
    mirrored = torch.cat([values.flip(0), values[1:]])
    return mirrored.unfold(0, len(values), 1).flip(0)


def non_negative(argument: str, value: float | Tensor) -> float | Tensor:
    """Return `value` if no entry is negative or NaN."""
    if not bool((torch.as_tensor(value) >= 0).all()):
        raise ValueError(f"{argument} must be at least 0, got {value}")
    return value


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
