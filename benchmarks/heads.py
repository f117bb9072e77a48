"""Forward and backward of every method, divided by nn.CrossEntropyLoss in the same run.

python benchmarks/heads.py [--rounds 100]
"""

import argparse
from collections.abc import Callable

import torch
from timing import best_seconds, machine
from torch import nn

from unimodal.methods import METHODS, make_method

SIZES = ((32, 5), (32, 70), (4096, 5), (4096, 70))
PEER = "nn.CrossEntropyLoss"


def step(
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], n_outputs: int, batch: int, n_classes: int
) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(batch, n_outputs, generator=generator).requires_grad_()
    y = torch.randint(0, n_classes, (batch,), generator=generator)

    def run() -> None:
        outputs.grad = None
        loss(outputs, y).backward()  # type: ignore[no-untyped-call]

    return run


def candidates(batch: int, n_classes: int) -> dict[str, Callable[[], None]]:
    runs = {PEER: step(nn.CrossEntropyLoss(), n_classes, batch, n_classes)}
    for name in METHODS:
        method = make_method(name, n_classes)
        runs[name] = step(lambda z, y, m=method: m.loss(z, y).mean(), method.n_outputs, batch, n_classes)  # type: ignore[misc]
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    seconds = {(b, k): best_seconds(candidates(b, k), rounds) for b, k in SIZES}
    print(f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| forward + backward | " + " | ".join(f"B={b}, K={k}" for b, k in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    print(f"| {PEER}, µs | " + " | ".join(f"{seconds[s][PEER] * 1e6:.0f}" for s in SIZES) + " |")
    for name in METHODS:
        print(f"| {name} | " + " | ".join(f"{seconds[s][name] / seconds[s][PEER]:.2f}" for s in SIZES) + " |")


if __name__ == "__main__":
    main()
