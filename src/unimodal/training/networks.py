"""Many small networks as one: parameters, outputs and gradients of R multilayer perceptrons.

Every layer is one batched matrix product, the last one class-major: its weights are (R, K, H) and the
outputs (R, K, rows), so that the products of each run stay narrow in the classes and long in the rows. The
bias of the first layer is the weight of a column of ones in the inputs. Backward through the layers is
written by hand, in buffers that are kept; autograd sees the loss only.

The parameters of a run that is not being trained are a row of a matrix (R, P). In training each layer of all
runs is one block of memory instead, because that is how a batched product writes its slopes in one call; the
blocks follow one another, so that the optimiser sees a single tensor.

A run starts as PyTorch's own layers do, drawing the weights of nn.Linear for each layer in turn.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from unimodal.methods import OrdinalMethod, make_method

_ALIGNED = 16
"""Parameters start at whole cache lines."""
_aten: Any = torch.ops.aten


@dataclass(frozen=True)
class Architecture:
    """What R networks have in common, and where in a row of parameters each layer lies."""

    n_inputs: int
    n_classes: int
    method: str
    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    published: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    """The method's parameters that all runs have in common."""

    def method_with(self, params: Mapping[str, Any]) -> OrdinalMethod:
        """The method with these parameters besides the common ones."""
        params = dict(self.options) | dict(params)
        return make_method(self.method, self.n_classes, published=self.published, **params)

    @cached_property
    def template(self) -> OrdinalMethod:
        """The method of one run."""
        return self.method_with({})

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters of one run."""
        sizes = (self.n_inputs, *self.hidden)
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (before, after) in enumerate(pairwise(sizes)):
            if i == 0:
                shapes["weight0"] = (before + 1, after)
            else:
                shapes |= {f"weight{i}": (before, after), f"bias{i}": (1, after)}
        n_outputs = self.template.n_outputs
        shapes |= {"weight": (n_outputs, sizes[-1]), "bias": (n_outputs, 1)}
        return shapes | {name: tuple(p.shape) for name, p in self.template.named_parameters()}

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where they start."""
        offsets, end = {}, 0
        for name, shape in self.shapes.items():
            offsets[name] = end
            end += -(-math.prod(shape) // _ALIGNED) * _ALIGNED
        return offsets

    @cached_property
    def n_parameters(self) -> int:
        """The length of a row, gaps included."""
        name = next(reversed(self.shapes))
        return self.offsets[name] + -(-math.prod(self.shapes[name]) // _ALIGNED) * _ALIGNED

    def views(self, rows: Float[Tensor, "R P"]) -> dict[str, Tensor]:
        """The parameters by name, each of shape (R, ...), in the memory of `rows`."""
        return {
            name: rows[:, self.offsets[name] : self.offsets[name] + math.prod(shape)].view(len(rows), *shape)
            for name, shape in self.shapes.items()
        }

    def blocks(self, values: Float[Tensor, " RP"], n_runs: int) -> dict[str, Tensor]:
        """The same, where the parameters of one name follow each other for all runs."""
        blocks = {}
        for name, shape in self.shapes.items():
            start = n_runs * self.offsets[name]
            blocks[name] = values[start : start + n_runs * math.prod(shape)].view(n_runs, *shape)
        return blocks

    def initial(
        self, generator: torch.Generator, params: Mapping[str, Any] = MappingProxyType({})
    ) -> Float[Tensor, " P"]:
        """The parameters that a run starts from; `params` are its method's."""
        row = torch.zeros(self.n_parameters)
        views = {name: view[0] for name, view in self.views(row[None]).items()}
        sizes = (self.n_inputs, *self.hidden, self.template.n_outputs)
        for i, (before, after) in enumerate(pairwise(sizes)):
            bound = 1 / math.sqrt(before) if before else 0.0
            weight = torch.empty(after, before).uniform_(-bound, bound, generator=generator)
            bias = torch.empty(after).uniform_(-bound, bound, generator=generator)
            if i == len(self.hidden):
                views["weight"].copy_(weight)
                views["bias"].copy_(bias[:, None])
            elif i == 0:
                views["weight0"][:-1] = weight.T
                views["weight0"][-1] = bias
            else:
                views[f"weight{i}"].copy_(weight.T)
                views[f"bias{i}"][0] = bias
        for name, parameter in self.method_with(params).named_parameters():
            views[name].copy_(parameter.detach())
        return row


class _PerSample(nn.Module):
    """Log-probabilities, decisions, or with labels the loss, of outputs with the classes on axis -2."""

    def __init__(self, method: OrdinalMethod) -> None:
        super().__init__()
        self.method = method

    def forward(self, outputs: Tensor, y: Tensor | None = None, decide: bool = False) -> Tensor:
        if decide:
            return self.method.predict(outputs, dim=-2)
        if y is None:
            return self.method.log_prob(outputs, dim=-2)
        loss: Tensor = self.method.objective(self.method.head, outputs, y, dim=-2)
        return loss


class Output:
    """The method at the end of R networks, each with parameters of its own where the method has any."""

    def __init__(self, architecture: Architecture, params: Mapping[str, Any], device: torch.device) -> None:
        method = architecture.method_with(params).to(device)
        self._names = [name for name, _ in method.named_parameters()]
        self._call = _PerSample(method)
        self._buffers = {f"method.{name}": value for name, value in method.named_buffers()}

    def __call__(
        self, views: Mapping[str, Tensor], outputs: Tensor, y: Tensor | None = None, decide: bool = False
    ) -> Tensor:
        if not self._names:
            alone: Tensor = self._call(outputs, y, decide)
            return alone
        own = {f"method.{name}": views[name] for name in self._names}
        per_run = {name: value for name, value in self._buffers.items() if value.ndim == 2}
        inputs = (outputs,) if y is None else (outputs, y)

        def one(state: dict[str, Tensor], *inputs: Tensor) -> Any:
            return functional_call(self._call, state, inputs, {"decide": decide})

        result: Tensor = vmap(one)(own | per_run, *inputs)
        return result

    def slopes(
        self, views: Mapping[str, Tensor], outputs: Tensor, y: Tensor, weight: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Slopes of the weighted loss in the outputs, and in the method's own parameters."""
        outputs = outputs.detach().requires_grad_()
        own = {name: views[name].detach().requires_grad_() for name in self._names}
        with torch.enable_grad():
            loss = self(own, outputs, y)
            first, *others = torch.autograd.grad((loss * weight).sum(), [outputs, *own.values()])
        return first, dict(zip(own, others, strict=True))


class Passes:
    """Forward and backward through the layers for one shape of batch, in buffers that are kept."""

    def __init__(
        self,
        architecture: Architecture,
        n_runs: int,
        n_rows: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        def buffers() -> list[Tensor]:
            shapes = [(n_runs, n_rows, width) for width in architecture.hidden]
            return [torch.empty(shape, device=device, dtype=dtype) for shape in shapes]

        self._activation = architecture.activation
        self._active, self._slopes = buffers(), buffers()
        self._summed = buffers() if self._activation == "gelu" else self._active
        self._inputs: list[Tensor] = []  # of each layer, in the last forward pass
        self._kept: list[Tensor] = []

    def forward(
        self,
        views: Mapping[str, Tensor],
        inputs: Float[Tensor, "R B D1"],
        kept: Sequence[Tensor] = (),
    ) -> Float[Tensor, "R O B"]:
        """Outputs for inputs whose last column is ones; `kept` scales the hidden units, zero drops them."""
        self._inputs, self._kept = [inputs], list(kept)
        for i, (summed, active) in enumerate(zip(self._summed, self._active, strict=True)):
            if i == 0:
                torch.bmm(inputs, views["weight0"], out=summed)
            else:
                torch.baddbmm(views[f"bias{i}"], self._inputs[-1], views[f"weight{i}"], out=summed)
            if self._activation == "relu":
                active.clamp_(min=0)
            elif self._activation == "tanh":
                active.tanh_()
            else:
                _aten.gelu.out(summed, out=active)
            self._inputs.append(active * kept[i] if kept else active)
        if not self._active:
            self._inputs.append(inputs[..., :-1])
        return torch.baddbmm(views["bias"], views["weight"], self._inputs[-1].transpose(1, 2))

    def backward(
        self, views: Mapping[str, Tensor], slopes: Mapping[str, Tensor], outer: Float[Tensor, "R O B"]
    ) -> None:
        """Write the slopes in all weights into `slopes`, given those in the outputs."""
        torch.bmm(outer, self._inputs[-1], out=slopes["weight"])
        torch.sum(outer, 2, keepdim=True, out=slopes["bias"])
        for i in reversed(range(len(self._active))):
            slope = self._slopes[i]
            if i == len(self._active) - 1:
                torch.bmm(outer.transpose(1, 2), views["weight"], out=slope)
            else:
                torch.bmm(self._slopes[i + 1], views[f"weight{i + 1}"].transpose(1, 2), out=slope)
            if self._kept:
                slope.mul_(self._kept[i])
            if self._activation == "relu":
                _aten.threshold_backward.grad_input(slope, self._active[i], 0, grad_input=slope)
            elif self._activation == "tanh":
                _aten.tanh_backward.grad_input(slope, self._active[i], grad_input=slope)
            else:
                _aten.gelu_backward.grad_input(slope, self._summed[i], grad_input=slope)
            torch.bmm(self._inputs[i].transpose(1, 2), slope, out=slopes[f"weight{i}"])
            if i > 0:
                torch.sum(slope, 1, keepdim=True, out=slopes[f"bias{i}"])
