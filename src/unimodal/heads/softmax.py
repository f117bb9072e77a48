"""Softmax: p ∝ exp(z), with no opinion about order. The head of CE and of every soft method."""

from jaxtyping import Float
from torch import Tensor

from unimodal.heads.base import Head
from unimodal.heads.numerics import log_normalised


class Softmax(Head):
    """p ∝ exp(z)."""

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, n_outputs=n_classes)

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        return log_normalised(outputs, dim)
