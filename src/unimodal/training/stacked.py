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
        self.lengths = [len(run.rows) for run in runs]
        self.n_batches = runs[0].batches(recipe.batch_size)
        self.batch_size = min(recipe.batch_size, max(self.lengths))
        self.generators = [torch.Generator().manual_seed(run.seed) for run in runs]
        self.rows, self.weight = self._padded([run.rows for run in runs])
        self.share = torch.zeros(self.rows.shape)
        for i, n in enumerate(self.lengths):
            full = n - n % self.batch_size
            self.share[i, :full] = 1 / self.batch_size
            self.share[i, full:n] = 1 / max(n - full, 1)
        self.validated = None
        if runs[0].validation is not None:
            self.validated = self._padded([run.validation for run in runs])
        initial = [
            architecture.initial(generator, run.params)
            for generator, run in zip(self.generators, runs, strict=True)
        ]
        self.best = torch.stack(initial).to(self.device)
        self.best_loss = torch.full((len(runs),), math.inf)
        self.best_epoch = torch.zeros(len(runs), dtype=torch.int64)
        self.epochs = torch.zeros(len(runs), dtype=torch.int64)
        self.steps = 0
        parameters = torch.zeros(self.best.numel(), device=self.device)
        blocks = architecture.blocks(parameters, len(runs))
        for name, view in architecture.views(self.best).items():
            blocks[name].copy_(view)
        self._begin(torch.arange(len(runs)), parameters, None)

    def _padded(self, rows_of: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Row numbers of each run, filled up to whole batches with its first; sample weights of mean one."""
        most = max(len(rows) for rows in rows_of)
        width = -(-most // self.batch_size) * self.batch_size
        padded = torch.empty(len(rows_of), width, dtype=torch.int64)
        weights = torch.zeros(len(rows_of), width)
        weight = None if self.data.weight is None else self.data.weight.cpu()
        for i, rows in enumerate(rows_of):
            n = len(rows)
            padded[i] = int(rows[0])
            padded[i, :n] = torch.from_numpy(np.array(rows, dtype=np.int64))
            own = torch.ones(n) if weight is None else weight[padded[i, :n]]
            weights[i, :n] = own * (n / own.sum())
        return padded, weights

    def _begin(self, active: Tensor, parameters: Tensor, state: dict[str, Any] | None) -> None:
        """Go on with the runs `active` alone."""
        self.active = active
        self.parameters, self.slopes = parameters, torch.zeros_like(parameters)
        parameters.grad = self.slopes
        recipe, architecture, n_runs = self.recipe, self.architecture, len(active)
        kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
        self.optimiser = kind([parameters], lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True)
        if state is not None:
            self.optimiser.state[parameters] = state
        self.blocks = architecture.blocks(parameters, n_runs)
        self.slope_blocks = architecture.blocks(self.slopes, n_runs)
        self.output = Output(architecture, self._numbers(), self.device)
        self.passes = Passes(architecture, n_runs, self.batch_size, self.device)
        self.gathered = torch.empty(n_runs, self.batch_size, self.inputs.shape[1], device=self.device)
        source = torch.tensor([self.runs[i].source for i in active.tolist()])
        self.first_row = (source * self.data.inputs.shape[1])[:, None]
        self.order = torch.arange(self.rows.shape[1]).repeat(n_runs, 1)
        self.validation = None
        if self.validated is not None:
            rows, weight = (each[active] for each in self.validated)
            self.validation = self._batches(rows, weight / weight.sum(1, keepdim=True))

    def _numbers(self) -> dict[str, Tensor]:
        """The method's parameters that differ from run to run."""
        common = dict(self.architecture.options)
        of_runs = [self.runs[i].params for i in self.active.tolist()]
        return {
            name: torch.tensor([float(params[name]) for params in of_runs])[:, None]
            for name in of_runs[0]
            if name not in common
        }

    def _batches(self, rows: Tensor, weight: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Where the inputs of each batch are, their labels and weights; all on the device at once."""
        shape = len(rows), -1, self.batch_size
        labels = self.data.y[rows.to(self.device)]
        places = (rows + self.first_row).to(self.device)
        parts = [
            each.view(shape).transpose(0, 1).contiguous() for each in (places, labels, weight.to(self.device))
        ]
        return list(zip(*parts, strict=True))

    def train_epoch(self, epoch: int) -> None:
        for batch, (places, y, weight) in enumerate(self._shuffled()):
            self._step(places, y, weight, self._kept(batch))
        self.epochs[self.active] = epoch + 1

    def _shuffled(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """The batches of this epoch, weighted by what each row contributes to the mean of its batch."""
        active = self.active
        for i, run in enumerate(active.tolist()):
            n = self.lengths[run]
            torch.randperm(n, generator=self.generators[run], out=self.order[i, :n])
        weight = self.share[active]
        if self.data.weight is not None:
            weight *= self.weight[active].gather(1, self.order)
        return self._batches(self.rows[active].gather(1, self.order), weight)

    @torch.no_grad()
    def _step(self, places: Tensor, y: Tensor, weight: Tensor, kept: list[Tensor]) -> None:
        outputs = self.passes.forward(self.blocks, self._gather(places), kept)
        outer, own = self.output.slopes(self.blocks, outputs, y, weight)
        self.passes.backward(self.blocks, self.slope_blocks, outer)
        for name, slope in own.items():
            self.slope_blocks[name].copy_(slope)
        self.optimiser.param_groups[0]["lr"] = self._learning_rate()
        self.optimiser.step()
        self.steps += 1

    def _gather(self, places: Tensor) -> Tensor:
        """The inputs in these places, in a buffer that the next batch overwrites."""
        torch.index_select(self.inputs, 0, places.flatten(), out=self.gathered.flatten(0, 1))
        return self.gathered

    def _kept(self, batch: int) -> list[Tensor]:
        """For each hidden unit zero if it is dropped, else what makes up for those that are."""
        share = 1 - self.recipe.dropout
        if share == 1:
            return []
        kept = []
        for width in self.recipe.hidden:
            mask = torch.zeros(len(self.active), self.batch_size, width)
            for i, run in enumerate(self.active.tolist()):
                filled = self.lengths[run] - batch * self.batch_size
                mask[i, :filled].bernoulli_(share, generator=self.generators[run])
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
        if bool(better.any()):
            chosen, best = better.to(self.device), self.architecture.views(self.best)
            for name, block in self.blocks.items():
                best[name][active[better].to(self.device)] = block[chosen]
        self.best_loss[active[better]] = loss[better]
        self.best_epoch[active[better]] = epoch + 1
        stays = ~loss.isnan()
        if self.recipe.patience is not None:
            stays &= epoch + 1 - self.best_epoch[active] < self.recipe.patience
        if not bool(stays.any()):
            self.active = active[:0]
        elif not bool(stays.all()):
            self._go_on_with(stays)
        return int((~stays).sum())

    @torch.no_grad()
    def _validation_loss(self) -> Tensor:
        total = torch.zeros(len(self.active), device=self.device)
        for places, y, weight in self.validation or ():
            outputs = self.passes.forward(self.blocks, self._gather(places))
            log_prob = self.output(self.blocks, outputs).gather(1, y[:, None])[:, 0]
            total -= (log_prob * weight).sum(1)
        return total

    def _go_on_with(self, stays: Tensor) -> None:
        before, after = len(self.active), int(stays.sum())
        chosen = stays.to(self.device)

        def of_those(values: Tensor) -> Tensor:
            rest = torch.zeros(after * self.architecture.n_parameters, device=self.device)
            blocks = self.architecture.blocks(values, before)
            for name, block in self.architecture.blocks(rest, after).items():
                block.copy_(blocks[name][chosen])
            return rest

        state = dict(self.optimiser.state[self.parameters])
        state |= {name: of_those(state[name]) for name in ("exp_avg", "exp_avg_sq")}
        self._begin(self.active[stays], of_those(self.parameters), state)

    def results(self) -> list[Trained]:
        best = self.best
        if self.validation is None:
            for name, view in self.architecture.views(best).items():
                view.copy_(self.blocks[name])
            self.best_epoch = self.epochs
        losses = self.best_loss.where(self.best_loss.isfinite(), math.nan)
        return [
            Trained(
                self.architecture,
                best[i].cpu().clone(),  # a view would hold, and take along to another process, all others
                int(self.epochs[i]),
                int(self.best_epoch[i]),
                float(losses[i]),
            )
            for i in range(len(self.runs))
        ]
