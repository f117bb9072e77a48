"""Stick breaking: class k takes the share v_k = σ(z_k) of what the classes before it left.

p_k = v_k Π_{j<k} (1 - v_j), and the last class takes the rest, Π (1 - v_j). The product leaves the
class's own stick out, so that any distribution can be reached (Liu et al., "Unimodal-uniform
constrained Wasserstein training for medical diagnosis", ICCV Workshops 2019).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from unimodal.heads.base import Head


class StickBreaking(Head):
    """p_k = σ(z_k) Π_{j<k} σ(-z_j)."""

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, n_outputs=n_classes - 1)

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        log_taken = functional.logsigmoid(outputs)
        log_rest = (log_taken - outputs).cumsum(dim)
        nothing = torch.zeros_like(outputs.narrow(dim, 0, 1))
        log_before = torch.cat([nothing, log_rest], dim)
        return log_before + torch.cat([log_taken, nothing], dim)
