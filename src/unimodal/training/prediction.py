"""What trained networks predict."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unimodal.training.networks import Architecture, Output, Passes
from unimodal.training.stacked import Trained

_HELD = 1 << 22
"""Hidden units that are held at a time."""


class Networks:
    """Networks of the same shape and method, which predict in float64.

    Parameters
    ----------
    architecture : Architecture
        What they have in common.
    parameters : tensor, shape (R, P)
        Their weights, one network in a row.
    params : mapping, optional
        The parameters of their method.
    """

    def __init__(
        self, architecture: Architecture, parameters: Tensor, params: Mapping[str, Any] | None = None
    ) -> None:
        self.architecture = architecture
        self.parameters = parameters
        self.params = dict(params or {})

    @classmethod
    def of(cls, trained: Sequence[Trained], params: Mapping[str, Any] | None = None) -> "Networks":
        """Put runs of one method together."""
        return cls(trained[0].architecture, torch.stack([each.parameters for each in trained]), params)

    @torch.no_grad()
    def log_prob(self, inputs: Float[Tensor, "n D1"]) -> Float[Tensor, "R n K"]:
        """What each network predicts for inputs whose last column is ones."""
        parameters = self.parameters.double()
        views = self.architecture.views(parameters)
        output = Output(self.architecture, self.params, inputs.device)
        width = max([*self.architecture.hidden, self.architecture.n_classes])
        size = max(1, _HELD // (len(parameters) * width))
        parts = []
        for some in torch.split(inputs.double(), size):
            shape = len(parameters), *some.shape
            passes = Passes(self.architecture, shape[0], shape[1], inputs.device, torch.float64)
            parts.append(output(views, passes.forward(views, some.expand(shape))))
        return torch.cat(parts, dim=2).transpose(1, 2)
