"""What every head shares: the contract, the class axis, the working precision.

A head says what distribution the outputs of a network mean: tensor in, log-probabilities out. The
class axis is any axis (`dim`), the other axes are free. Heads own parameters only if the method has
parameters of its own, and never the linear layer before them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unimodal import decision
from unimodal.heads.numerics import unimodal_hull

HALF_PRECISION = (torch.float16, torch.bfloat16)


def from_end(dim: int, like: Tensor) -> int:
    """Return the axis counted from the end, which leading dimensions cannot shift."""
    if not -like.ndim <= dim < like.ndim:
        raise ValueError(
            f"dim must lie in [{-like.ndim}, {like.ndim - 1}] for shape {tuple(like.shape)}, got {dim}"
        )
    return dim if dim < 0 else dim - like.ndim


def along(values: Float[Tensor, " size"], dim: int) -> Float[Tensor, "..."]:
    """Lay a vector along the class axis `dim` (negative), ready to broadcast."""
    return values.reshape(values.shape + (1,) * (-dim - 1))


def class_indices(n_classes: int, like: Tensor, dim: int) -> Float[Tensor, "..."]:
    """0..n_classes-1 along the class axis, in the dtype of `like`."""
    return along(torch.arange(n_classes, dtype=like.dtype, device=like.device), dim)


def per_run(value: float | Tensor, dim: int) -> float | Tensor:
    """Give a per-sample parameter the class axis, so that it broadcasts against a distribution."""
    if not isinstance(value, Tensor) or value.ndim == 0:
        return value
    return value.unsqueeze(dim) if value.ndim >= -dim - 1 else value


def chosen(argument: str, value: str, known: Iterable[str]) -> str:
    """Return `value` if it is one of `known`."""
    if value not in known:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return value


def keep(module: nn.Module, name: str, value: float | Tensor) -> None:
    """Store a parameter of the method: tensors (one value per run) move with the module as buffers."""
    if isinstance(value, Tensor):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


class Head(nn.Module, ABC):
    """The meaning of a network's outputs: log-probabilities of ordered classes."""

    always_unimodal: ClassVar[bool] = False

    def __init__(self, n_classes: int, n_outputs: int) -> None:
        super().__init__()
        if isinstance(n_classes, bool) or not isinstance(n_classes, int) or n_classes < 2:
            raise ValueError(f"n_classes must be an integer of at least 2, got {n_classes!r}")
        self.n_classes = n_classes
        self.n_outputs = n_outputs

    def extra_repr(self) -> str:
        return f"n_classes={self.n_classes}, n_outputs={self.n_outputs}"

    def checked(self, outputs: Tensor, dim: int) -> tuple[Float[Tensor, "..."], int]:
        """Validate the outputs; return them in at least float32, with the axis counted from the end."""
        if not outputs.is_floating_point():
            raise ValueError(f"outputs must be floating point, got {outputs.dtype}")
        if outputs.ndim == 0:
            raise ValueError("outputs must have a class axis, got a scalar")
        dim = from_end(dim, outputs)
        if outputs.shape[dim] != self.n_outputs:
            raise ValueError(
                f"outputs must have n_outputs={self.n_outputs} values along dim {dim}, "
                f"got shape {tuple(outputs.shape)}"
            )
        return (outputs.float() if outputs.dtype in HALF_PRECISION else outputs), dim

    def log_prob(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        """Log-probabilities, normalised and finite, with n_classes values along `dim`."""
        outputs, dim = self.checked(outputs, dim)
        log_prob = self._log_prob(outputs, dim)
        if self.always_unimodal and log_prob.device.type != "cpu":
            # A running sum that is computed in parallel need not be monotone to the last bit.
            log_prob = unimodal_hull(log_prob, dim)
        return log_prob

    def forward(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        return self.log_prob(outputs, dim)

    def native_decision(self, outputs: Tensor, dim: int = -1) -> Int[Tensor, "..."]:
        """The class that the method's own paper predicts: the mode, unless a head says otherwise."""
        return decision.decide(self.log_prob(outputs, dim).exp(), "mode", dim)

    @abstractmethod
    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        """`log_prob` of validated outputs; `dim` is negative."""


class ExceedanceHead(Head):
    """A head made of K-1 probabilities P(y > k), which decides by counting those of at least one half."""

    @abstractmethod
    def exceedance_logits(self, outputs: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        """Log-odds of y > k for k = 0..K-2 along `dim`."""

    def native_decision(self, outputs: Tensor, dim: int = -1) -> Int[Tensor, "..."]:
        return decision.count_exceedances(self.exceedance_logits(outputs, dim), dim)
