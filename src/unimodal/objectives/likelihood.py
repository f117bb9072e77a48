"""Likelihoods: of the label, and of the K-1 binary questions "is y above k?"."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from unimodal.heads.base import ExceedanceHead, Head, class_indices, from_end
from unimodal.objectives.base import DistributionObjective, Objective, at_label


class NegativeLogLikelihood(DistributionObjective):
    """-log p_y: cross-entropy."""

    def of_distribution(
        self, log_prob: Float[Tensor, "..."], y: Int[Tensor, "..."], dim: int
    ) -> Float[Tensor, "..."]:
        return -at_label(log_prob, y, dim)


class BinaryLikelihood(Objective):
    """Σ_k BCE(P(y > k), [y > k]), the loss of OE and of the published POM.

    With s = ±z, each term is softplus(s): no probability is formed.
    """

    def forward(self, head: Head, outputs: Tensor, y: Tensor, dim: int = -1) -> Float[Tensor, "..."]:
        if not isinstance(head, ExceedanceHead):
            raise ValueError(f"head must have exceedance_logits, got {type(head).__name__}")
        dim = from_end(dim, outputs)
        logits = head.exceedance_logits(outputs, dim)
        above = y.unsqueeze(dim) > class_indices(logits.shape[dim], logits, dim)
        return functional.binary_cross_entropy_with_logits(
            logits, above.to(logits.dtype), reduction="none"
        ).sum(dim)
