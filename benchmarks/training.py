"""Stacks of networks against a plain loop: how many steps of single networks are done in a second.

python benchmarks/training.py [--rounds 5]

The network is that of the paper's tables: 10 inputs, 128 hidden units, 5 classes, batches of 32, Adam. Ratios
are of times measured in one run, the candidates taking turns.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import torch
from timing import best_seconds, machine, table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from unimodal.methods import make_method
from unimodal.training import Data, OnProgress, Progress, Recipe, Run, train

METHODS = ("ce", "un", "wu-wass", "pom", "oe", "co2")
SIZES = (1, 16, 64, 256)
N, INPUTS, HIDDEN, CLASSES, BATCH = 1024, 10, 128, 5, 32
STEPS = N // BATCH
FLOPS = 2 * BATCH * HIDDEN * (2 * (INPUTS + 1) + 3 * CLASSES)


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, INPUTS, generator=generator)
    return x, torch.randint(0, CLASSES, (N,), generator=generator)


def shuffled(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for rows in torch.split(torch.randperm(N), BATCH):
        yield x[rows], y[rows]


def plain_loop(name: str, with_loader: bool = False) -> Callable[[], None]:
    """An epoch of one network in eager PyTorch, on one thread, which is faster for it than two."""
    x, y = examples()
    torch.manual_seed(0)
    method = make_method(name, CLASSES)
    net = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, method.n_outputs))
    optimiser = torch.optim.Adam([*net.parameters(), *method.parameters()], lr=1e-4)
    loader = DataLoader(TensorDataset(x, y), BATCH, shuffle=True)

    def run() -> None:
        torch.set_num_threads(1)
        for some, labels in loader if with_loader else shuffled(x, y):
            optimiser.zero_grad()
            method.loss(net(some), labels).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return run


class Pace:
    """The shortest time in which a process did an epoch, divided by the steps of single networks in it."""

    def __init__(self) -> None:
        self.best, self.last = float("inf"), Progress(0, 1, float("-inf"))

    def __call__(self, now: Progress) -> None:
        if now.done > self.last.done:
            seconds = now.seconds - self.last.seconds
            self.best = min(self.best, seconds / (now.done - self.last.done) / STEPS)
        self.last = now


def stack(
    name: str, size: int, processes: int, epochs: int, on_progress: OnProgress | None = None
) -> Callable[[], None]:
    """As many networks in each process, from their initial weights to their results."""
    x, y = examples()
    data = Data(torch.cat([x, torch.ones(N, 1)], 1)[None], y)
    runs = [Run(np.arange(N), seed, name) for seed in range(size * processes)]
    recipe = Recipe(hidden=(HIDDEN,), batch_size=BATCH, epochs=epochs)

    def run() -> None:
        train(data, CLASSES, runs, recipe, n_jobs=processes, on_progress=on_progress)

    return run


def multiply() -> Callable[[], None]:
    a = torch.randn(1024, 1024)
    out = torch.empty_like(a)

    def run() -> None:
        torch.set_num_threads(1)
        torch.mm(a, a, out=out)

    return run


def measured(name: str, rounds: int, most_processes: int) -> list[list[str]]:
    """One process tells its pace itself; two need time to take up their work, so they train for longer."""
    candidates: dict[str, Callable[[], object]] = {
        "loop": plain_loop(name),
        "loader": plain_loop(name, with_loader=True),
        "sgemm": multiply(),
    }
    steps = {"loop": STEPS, "loader": STEPS}
    paces: dict[int, Pace] = {}
    for size in SIZES:
        key = f"{size} x 1"
        paces[size] = Pace()
        candidates[key] = stack(name, size, 1, max(4, 32 // size), paces[size])
        if most_processes == 2:
            key, epochs = f"{size} x 2", round(64 / size**0.5)
            candidates[key] = stack(name, size, 2, epochs)
            steps[key] = size * 2 * epochs * STEPS
    seconds = best_seconds(candidates, rounds)
    step = {key: seconds[key] / n for key, n in steps.items() if key in seconds}
    floor = FLOPS * seconds["sgemm"] / (2 * 1024**3)
    rows = []
    for size in SIZES:
        one, two = paces[size].best, step.get(f"{size} x 2", float("nan"))
        rows.append(
            [
                name,
                str(size),
                f"{step['loop'] * 1e6:.0f}",
                f"{step['loader'] * 1e6:.0f}",
                f"{one * 1e6:.1f}",
                f"{two * 1e6:.1f}",
                f"{step['loop'] / one:.1f}",
                f"{step['loop'] / two:.1f}",
                f"{step['loader'] / two:.0f}",
                f"{floor * 1e6:.1f}",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2, help="1 leaves out two at a time")
    options = parser.parse_args()
    print(f"{machine()}, torch {torch.__version__}, one thread in each process\n")
    header = ["method", "stack", "loop, µs", "DataLoader, µs", "one process, µs", "two, µs"]
    header += ["loop ÷ one", "loop ÷ two", "DataLoader ÷ two", "floor of one, µs"]
    print(table(header, []))
    for name in options.methods:
        for row in measured(name, options.rounds, options.processes):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
