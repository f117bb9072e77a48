"""What trained networks predict."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
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

    def log_prob(self, inputs: Float[Tensor, "n D1"]) -> Float[Tensor, "R n K"]:
        """What each network predicts for inputs whose last column is ones."""
        return torch.cat(list(self._results(inputs, decide=False)), dim=2).transpose(1, 2)

    def predict(self, inputs: Float[Tensor, "n D1"]) -> Int[Tensor, "R n"]:
        """The class that each network decides on, by the rule of its method's own paper."""
        return torch.cat(list(self._results(inputs, decide=True)), dim=1)

    @torch.no_grad()
    def _results(self, inputs: Tensor, decide: bool) -> Iterator[Tensor]:
        """What the method makes of the networks' outputs, for some rows after others."""
        parameters = self.parameters.double()
        views = self.architecture.views(parameters)
        output = Output(self.architecture, self.params, inputs.device)
        width = max([*self.architecture.hidden, self.architecture.n_classes])
        size = max(1, _HELD // (len(parameters) * width))
        for some in torch.split(inputs.double(), size):
            shape = len(parameters), *some.shape
            passes = Passes(self.architecture, shape[0], shape[1], inputs.device, torch.float64)
            yield output(views, passes.forward(views, some.expand(shape)), decide=decide)
