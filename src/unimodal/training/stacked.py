"""One stack: runs of the same shape, trained step by step at the same time.

Each run has its own rows, order, weights, numbers such as lambda, and end. A run's result does not depend on
the others, up to the rounding of batched products: its weights, batches and dropout come from a generator of
its own, in the order in which a plain loop after torch.manual_seed(seed) would draw them; a step's loss is
the sum over runs of each run's mean, and Adam works entry by entry. All runs of a stack have as many batches
in an epoch, so that they begin and end epochs together. A run that has stopped leaves the stack.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unimodal.training.networks import Architecture, Output, Passes
from unimodal.training.recipe import Recipe, Run

_WARM_UP = 0.1
_VALIDATED_ROWS = 4096


@dataclass(frozen=True)
class Trained:
    """What is left of a run.

    Attributes
    ----------
    architecture : Architecture
        The network's shape and method.
    parameters : tensor, shape (P,)
        Its weights, those of the best epoch if the run had validation rows.
    epochs : int
        How many epochs it was trained for.
    best_epoch : int
        After how many epochs the weights were taken.
    validation_loss : float
        The mean of -log p_y over its validation rows then; nan without any.
    """

    architecture: Architecture
    parameters: Tensor
    epochs: int
    best_epoch: int
    validation_loss: float


@dataclass(frozen=True)
class Data:
    """What all runs choose from: inputs (sources, n, D + 1) that end in ones, labels and weights (n,)."""

    inputs: Float[Tensor, "sources n D1"]
    y: Int[Tensor, " n"]
    weight: Float[Tensor, " n"] | None = None


def train_stack(
    data: Data,
    architecture: Architecture,
    recipe: Recipe,
    runs: Sequence[Run],
    on_epoch: Callable[[int], None],
) -> list[Trained]:
    """Train runs that may share a stack; `on_epoch` is told how many run-epochs are done or spared."""
    with small_numbers_flushed():
        stack = _Stack(data, architecture, recipe, runs)
        for epoch in range(recipe.epochs):
            n_active = len(stack.active)
            stack.train_epoch(epoch)
            stopped = stack.validate(epoch)
            on_epoch(n_active + stopped * (recipe.epochs - epoch - 1))
            if not len(stack.active):
                break
        return stack.results()


def is_number(value: object) -> bool:
    """Whether a parameter of a method may differ from run to run."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@contextmanager
def small_numbers_flushed() -> Iterator[None]:
    """Take numbers below the normal range for zero: they double the time of Adam."""
    was_off = bool(torch.tensor(1e-40) * 1.0 > 0)
    if was_off:
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if was_off:
            torch.set_flush_denormal(False)


class _Stack:
    def __init__(self, data: Data, architecture: Architecture, recipe: Recipe, runs: Sequence[Run]) -> None:
        self.data, self.architecture, self.recipe, self.runs = data, architecture, recipe, runs
        self.device = data.inputs.device
        self.inputs = data.inputs.flatten(0, 1)
        self.n_batches = runs[0].batches(recipe.batch_size)
        self.batch_size = min(recipe.batch_size, max(len(run.rows) for run in runs))
        self.rows = [torch.from_numpy(np.asarray(run.rows, dtype=np.int64)) for run in runs]
        self.weights = [self._weights_of(rows) for rows in self.rows]
        self.generators = [torch.Generator().manual_seed(run.seed) for run in runs]
        self.best = torch.stack([architecture.initial(each) for each in self.generators]).to(self.device)
        self.best_loss = torch.full((len(runs),), math.inf)
        self.best_epoch = torch.zeros(len(runs), dtype=torch.int64)
        self.epochs = torch.zeros(len(runs), dtype=torch.int64)
        self.steps = 0
        self._begin(torch.arange(len(runs)), self.best.clone(), None)

    def _weights_of(self, rows: Tensor) -> Tensor:
        """A run's sample weights, with mean one."""
        if self.data.weight is None:
            return torch.ones(len(rows))
        weight = self.data.weight.cpu()[rows]
        return weight * (len(rows) / weight.sum())

    def _begin(self, active: Tensor, parameters: Tensor, state: dict[str, Any] | None) -> None:
        """Go on with the runs `active` alone."""
        self.active = active
        self.parameters, self.slopes = parameters, torch.zeros_like(parameters)
        parameters.grad = self.slopes
        recipe = self.recipe
        kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
        self.optimiser = kind([parameters], lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True)
        if state is not None:
            self.optimiser.state[parameters] = state
        self.views = self.architecture.views(parameters)
        self.slope_views = self.architecture.views(self.slopes)
        self.output = Output(self.architecture, self._params(active), self.device)
        self.passes = Passes(self.architecture, len(active), self.batch_size, self.device)
        source = torch.tensor([self.runs[i].source for i in active.tolist()], device=self.device)
        self.first_row = (source * self.data.inputs.shape[1])[:, None]
        self.validation = self._validation_rows()

    def _params(self, active: Tensor) -> dict[str, Any]:
        """The method's parameters; numbers as one for each run."""
        of_runs = [self.runs[i].params for i in active.tolist()]
        return {
            name: torch.tensor([float(params[name]) for params in of_runs])[:, None]
            if is_number(value)
            else value
            for name, value in of_runs[0].items()
        }

    def _validation_rows(self) -> tuple[Tensor, Tensor] | None:
        """Each run's validation rows, padded with row 0, and weights that sum to one."""
        if self.runs[0].validation is None:
            return None
        every = [torch.from_numpy(np.asarray(self.runs[i].validation)) for i in self.active.tolist()]
        rows = torch.nn.utils.rnn.pad_sequence(every, batch_first=True)
        weight = torch.zeros(rows.shape)
        for i, some in enumerate(every):
            weight[i, : len(some)] = self._weights_of(some) / len(some)
        return rows.to(self.device), weight.to(self.device)

    def train_epoch(self, epoch: int) -> None:
        order, weight = self._shuffled()
        size = self.batch_size
        for batch in range(self.n_batches):
            part = slice(batch * size, (batch + 1) * size)
            filled = [min(size, len(self.rows[i]) - batch * size) for i in self.active.tolist()]
            self._step(order[:, part], weight[:, part], filled)
        self.epochs[self.active] = epoch + 1

    def _shuffled(self) -> tuple[Tensor, Tensor]:
        """Row numbers in the order of this epoch, and what each contributes to the mean of its batch."""
        shape = (len(self.active), self.n_batches * self.batch_size)
        order, weight = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
        for i, run in enumerate(self.active.tolist()):
            n = len(self.rows[run])
            permuted = torch.randperm(n, generator=self.generators[run])
            order[i, :n] = self.rows[run][permuted]
            full = n - n % self.batch_size
            weight[i, :full] = 1 / self.batch_size
            weight[i, full:n] = 1 / max(n - full, 1)
            weight[i, :n] *= self.weights[run][permuted]
        return order.to(self.device), weight.to(self.device)

    @torch.no_grad()
    def _step(self, rows: Tensor, weight: Tensor, filled: list[int]) -> None:
        inputs = self.inputs[rows + self.first_row]
        outputs = self.passes.forward(self.views, inputs, self._kept(filled))
        outer, own = self.output.slopes(self.views, outputs, self.data.y[rows], weight)
        self.passes.backward(self.views, self.slope_views, outer)
        for name, slope in own.items():
            self.slope_views[name].copy_(slope)
        self.optimiser.param_groups[0]["lr"] = self._learning_rate()
        self.optimiser.step()
        self.steps += 1

    def _kept(self, filled: list[int]) -> list[Tensor]:
        """For each hidden unit zero if it is dropped, else what makes up for those that are."""
        share = 1 - self.recipe.dropout
        if share == 1:
            return []
        kept = []
        for width in self.recipe.hidden:
            mask = torch.zeros(len(self.active), self.batch_size, width)
            for i, run in enumerate(self.active.tolist()):
                mask[i, : filled[i]].bernoulli_(share, generator=self.generators[run])
            kept.append(mask.div_(share).to(self.device))
        return kept

    def _learning_rate(self) -> float:
        recipe = self.recipe
        done = self.steps / (recipe.epochs * self.n_batches)
        if recipe.schedule == "constant":
            return recipe.lr
        if recipe.schedule == "warm-cosine":
            if done < _WARM_UP:
                return recipe.lr * (self.steps + 1) / (recipe.epochs * self.n_batches * _WARM_UP + 1)
            done = (done - _WARM_UP) / (1 - _WARM_UP)
        return recipe.lr * (1 + math.cos(math.pi * done)) / 2

    def validate(self, epoch: int) -> int:
        """Keep the best weights so far; drop the runs that have not got better for long, and count them."""
        active = self.active
        if self.validation is None:
            return 0
        loss = self._validation_loss().cpu()
        better = loss < self.best_loss[active]
        self.best[active[better]] = self.parameters[better.to(self.device)]
        self.best_loss[active[better]] = loss[better]
        self.best_epoch[active[better]] = epoch + 1
        patience = self.recipe.patience or self.recipe.epochs
        stays = epoch + 1 - self.best_epoch[active] < patience
        if not bool(stays.all()):
            self._go_on_with(stays)
        return int((~stays).sum())

    @torch.no_grad()
    def _validation_loss(self) -> Tensor:
        assert self.validation is not None
        rows, weight = self.validation
        total = torch.zeros(len(self.active), device=self.device)
        for start in range(0, rows.shape[1], _VALIDATED_ROWS):
            some = rows[:, start : start + _VALIDATED_ROWS]
            passes = Passes(self.architecture, len(some), some.shape[1], self.device)
            outputs = passes.forward(self.views, self.inputs[some + self.first_row])
            log_prob = self.output(self.views, outputs).gather(1, self.data.y[some][:, None])[:, 0]
            total -= (log_prob * weight[:, start : start + _VALIDATED_ROWS]).sum(1)
        return total

    def _go_on_with(self, stays: Tensor) -> None:
        if not bool(stays.any()):
            self.active = self.active[stays]
            return
        chosen = stays.to(self.device)
        state = dict(self.optimiser.state[self.parameters])
        state |= {name: state[name][chosen] for name in ("exp_avg", "exp_avg_sq")}
        self._begin(self.active[stays], self.parameters[chosen], state)

    def results(self) -> list[Trained]:
        if self.validation is None:
            self.best, self.best_epoch = self.parameters, self.epochs
        losses = self.best_loss.where(self.best_loss.isfinite(), math.nan)
        return [
            Trained(
                self.architecture,
                self.best[i].cpu(),
                int(self.epochs[i]),
                int(self.best_epoch[i]),
                float(losses[i]),
            )
            for i in range(len(self.runs))
        ]
