"""From any list of runs to trained networks: which runs share a stack, and which process trains it.

Runs can share a stack if they have the same method up to its numbers, and as many batches in an epoch. A
stack is fastest while what it touches in a step fits the processor's cache; more than that is split, as is
what would exceed the memory allowed. Each process computes with one thread: two threads on products this
small gain nothing, and lose much when the machine is busy.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import joblib
import numpy as np
import torch

from unimodal.methods import METHODS
from unimodal.training.networks import Architecture
from unimodal.training.recipe import Recipe, Run
from unimodal.training.stacked import Data, Trained, train_stack

_CACHE = 12 << 20
_MOST_RUNS = 256
_STACKS_PER_PROCESS = 2
_BYTES = 4
_BYTES_OF_ROW = 60


@dataclass(frozen=True)
class Progress:
    """How far training has come.

    Attributes
    ----------
    done, total : int
        Epochs of single runs; those that early stopping spares count as done.
    seconds : float
        Since the start.
    """

    done: int
    total: int
    seconds: float

    @property
    def remaining(self) -> float:
        """The seconds it will still take at the pace so far; infinite before anything is done."""
        return self.seconds / self.done * (self.total - self.done) if self.done else float("inf")


OnProgress = Callable[[Progress], None]


def train(
    data: Data,
    n_classes: int,
    runs: Sequence[Run],
    recipe: Recipe,
    *,
    n_jobs: int | None = None,
    memory: int = 1 << 30,
    on_progress: OnProgress | None = None,
) -> list[Trained]:
    """Train every run, and return them in their order.

    Parameters
    ----------
    data : Data
        Inputs, labels and weights; the device of the inputs is where training takes place.
    n_classes : int
        K.
    runs : sequence of Run
        The networks.
    recipe : Recipe
        What they have in common.
    n_jobs : int, optional
        Processes, -1 for one on each core; by default one, this one.
    memory : int
        Bytes that the parameters and the steps of one stack may take.
    on_progress : callable, optional
        Called with `Progress` as training goes on: after every epoch in this process, after every
        stack with several.
    """
    trained: dict[int, Trained] = dict(
        train_each(data, n_classes, runs, recipe, n_jobs=n_jobs, memory=memory, on_progress=on_progress)
    )
    return [trained[i] for i in range(len(runs))]


def train_each(
    data: Data,
    n_classes: int,
    runs: Sequence[Run],
    recipe: Recipe,
    *,
    n_jobs: int | None = None,
    memory: int = 1 << 30,
    on_progress: OnProgress | None = None,
) -> Iterator[tuple[int, Trained]]:
    """As `train`, one run after another as their stacks end: what was yielded survives an interruption."""
    _check_runs(data, runs)
    processes = _n_processes(n_jobs) if data.inputs.device.type == "cpu" else 1
    stacks = split(runs, recipe, data.inputs.shape[-1] - 1, n_classes, processes, memory)
    start, done, total = time.monotonic(), 0, len(runs) * recipe.epochs

    def advance(run_epochs: int) -> None:
        nonlocal done
        done += run_epochs
        if on_progress is not None:
            on_progress(Progress(done, total, time.monotonic() - start))

    if processes == 1 or len(stacks) == 1:
        for architecture, members in stacks:
            chosen = [runs[i] for i in members]
            yield from zip(members, _train_alone(data, architecture, recipe, chosen, advance), strict=True)
        return
    pool = joblib.Parallel(n_jobs=processes, return_as="generator_unordered")
    arrays = _as_arrays(data)
    jobs = (
        joblib.delayed(_train_elsewhere)(number, arrays, architecture, recipe, [runs[i] for i in members])
        for number, (architecture, members) in enumerate(stacks)
    )
    results = pool(jobs)
    try:
        for number, trained in results:
            advance(len(trained) * recipe.epochs)
            yield from zip(stacks[number][1], trained, strict=True)
    finally:
        with warnings.catch_warnings():  # joblib warns that it cancels the rest, which is what is wanted
            warnings.simplefilter("ignore", UserWarning)
            results.close()


def split(
    runs: Sequence[Run], recipe: Recipe, n_inputs: int, n_classes: int, processes: int, memory: int
) -> list[tuple[Architecture, list[int]]]:
    """Share runs out among stacks: what they have in common, and which they are."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, run in enumerate(runs):
        groups.setdefault(_kind(run, recipe), []).append(i)
    stacks = []
    for members in groups.values():
        run = runs[members[0]]
        architecture = Architecture(
            n_inputs,
            n_classes,
            run.method,
            recipe.hidden,
            recipe.activation,
            run.published,
            _numbers_and_others(run)[1],
        )
        in_step, kept = _bytes_of_run(architecture, recipe, [runs[i] for i in members])
        most = max(1, min(_MOST_RUNS, _CACHE // in_step, memory // (in_step + kept)))
        n_stacks = -(-len(members) // most)
        if processes > 1 and len(groups) < processes * _STACKS_PER_PROCESS:
            n_stacks = min(len(members), -(-n_stacks // processes) * processes)
        stacks += [(architecture, part.tolist()) for part in np.array_split(np.array(members), n_stacks)]
    return stacks


def _kind(run: Run, recipe: Recipe) -> tuple[Any, ...]:
    """What the runs of a stack have in common."""
    has_validation = run.validation is not None
    return (
        run.method,
        run.published,
        *_numbers_and_others(run),
        run.batches(recipe.batch_size),
        has_validation,
    )


def _numbers_and_others(run: Run) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]:
    """The parameters of its method that may differ within a stack, by name, and the others."""
    method = METHODS[run.method].as_published if run.published else METHODS[run.method]
    names = sorted(run.params)
    numbers = tuple(name for name in names if name in method.per_run and isinstance(run.params[name], Real))
    return numbers, tuple((name, run.params[name]) for name in names if name not in numbers)


def _bytes_of_run(architecture: Architecture, recipe: Recipe, runs: Sequence[Run]) -> tuple[int, int]:
    """What the largest of the runs touches in every step, and what is kept for it besides."""
    n_rows = max(len(run.rows) for run in runs)
    n_validated = max(0 if run.validation is None else len(run.validation) for run in runs)
    widths = architecture.n_inputs + 4 * sum(recipe.hidden) + 8 * architecture.n_classes
    in_step = _BYTES * (4 * architecture.n_parameters + min(recipe.batch_size, n_rows) * widths)
    return in_step, _BYTES * architecture.n_parameters + _BYTES_OF_ROW * (n_rows + n_validated)


def _n_processes(n_jobs: int | None) -> int:
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use -1 for one process on each core")
    processes = joblib.effective_n_jobs(n_jobs)
    return int(processes)


def _check_runs(data: Data, runs: Sequence[Run]) -> None:
    n_sources, n_rows, _ = data.inputs.shape
    for number, run in enumerate(runs):
        if run.method not in METHODS:
            raise ValueError(
                f"method must be one of {', '.join(METHODS)}, got {run.method!r} in run {number}"
            )
        if not 0 <= run.source < n_sources:
            raise ValueError(f"source must lie in [0, {n_sources - 1}], got {run.source} in run {number}")
        for name in ("rows", "validation"):
            rows = getattr(run, name)
            if rows is not None and (np.min(rows) < 0 or np.max(rows) >= n_rows):
                raise ValueError(f"{name} must lie in [0, {n_rows - 1}] in run {number}")


def _train_alone(
    data: Data,
    architecture: Architecture,
    recipe: Recipe,
    runs: Sequence[Run],
    advance: Callable[[int], None],
) -> list[Trained]:
    """Train a stack with one thread, whatever the process may use otherwise."""
    threads = torch.get_num_threads()
    if data.inputs.device.type == "cpu":
        torch.set_num_threads(1)
    try:
        return train_stack(data, architecture, recipe, runs, advance)
    finally:
        torch.set_num_threads(threads)


def _as_arrays(data: Data) -> list[Any]:
    """In this form joblib shares large data among processes through one file."""
    weight = None if data.weight is None else data.weight.numpy()
    return [data.inputs.numpy(), data.y.numpy(), weight]


def _train_elsewhere(
    number: int, arrays: list[Any], architecture: Architecture, recipe: Recipe, runs: list[Run]
) -> tuple[int, list[Trained]]:
    """Train a stack in another process."""
    with warnings.catch_warnings():  # of memory that cannot be written to, in which all processes read
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        tensors: Any = [None if array is None else torch.from_numpy(array) for array in arrays]
    data = Data(*tensors)
    return number, _train_alone(data, architecture, recipe, runs, lambda _: None)
