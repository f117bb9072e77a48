"""Unimodal likelihoods over ordered scores: ORD-ACL and VS-SL.

Yamasaki, "Unimodal likelihood models for ordinal data", TMLR 2022. Both turn the outputs into a
sequence that never falls, z'_1 = z_1 and z'_k = z_1 + Σ_{1<l≤k} ρ(z_l) with ρ ≥ 0, then

- ORD-ACL (ordered adjacent-categories logit): log p_{k+1} - log p_k = -z'_k, so the log-ratios of
  neighbours fall: the distribution is log-concave;
- VS-SL (V-shaped stereotype logit): p_k ∝ exp(-τ(z'_k)) with τ falling, then rising.

Squares and sums of exp overflow float32 at |z| around 50; `guarded_exp` keeps them finite.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from unimodal.heads.base import Head, chosen
from unimodal.heads.numerics import accumulated, guarded_exp, log_normalised

RISES: Mapping[str, Callable[[Tensor], Tensor]] = {"exp": guarded_exp, "square": torch.square}
VALLEYS: Mapping[str, Callable[[Tensor], Tensor]] = {"square": torch.square, "abs": torch.abs}


class _Ordered(Head):
    """The sequence z' that never falls."""

    always_unimodal = True

    def __init__(self, n_classes: int, n_outputs: int, rho: str) -> None:
        super().__init__(n_classes, n_outputs)
        self.rho = chosen("rho", rho, RISES)

    def ordered(self, outputs: Tensor, dim: int) -> Tensor:
        first, rest = outputs.narrow(dim, 0, 1), outputs.narrow(dim, 1, self.n_outputs - 1)
        return torch.cat([first, RISES[self.rho](rest)], dim).cumsum(dim)


class OrderedAdjacentCategories(_Ordered):
    """ORD-ACL: p_k ∝ exp(-Σ_{l<k} z'_l)."""

    def __init__(self, n_classes: int, rho: str = "exp") -> None:
        super().__init__(n_classes, n_classes - 1, rho)

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        return accumulated(-self.ordered(outputs, dim), dim)


class VShapedStereotype(_Ordered):
    """VS-SL: p_k ∝ exp(-τ(z'_k))."""

    def __init__(self, n_classes: int, rho: str = "exp", tau: str = "square") -> None:
        super().__init__(n_classes, n_classes, rho)
        self.tau = chosen("tau", tau, VALLEYS)

    def _log_prob(self, outputs: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
        return log_normalised(-VALLEYS[self.tau](self.ordered(outputs, dim)), dim)
