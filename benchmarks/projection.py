"""The projection against the paper's linear program, a training step with it, and how its cost grows.

python benchmarks/projection.py [--rounds 20] [--plot docs/images/growth.png]

Ratios are of times measured in one run, the candidates taking turns.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from timing import best_seconds, machine, table
from torch import nn

import unimodal as um

Floats = NDArray[np.float64]
BATCH = 4096
TURN = 0.003
PEER = "scipy.optimize.linprog, K×K"
LP_ROWS = {3: 40, 5: 40, 10: 40, 70: 2, 100: 1}


def distributions(n: int, n_classes: int) -> tuple[Floats, NDArray[np.int64]]:
    """Uniform on the simplex, with random modes."""
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(n_classes), n), rng.integers(n_classes, size=n)


def projecting(q: Floats, mode: NDArray[np.int64] | None) -> Callable[[], object]:
    return partial(um.project, q, mode)


def linear_program(n_classes: int, n_rows: int) -> Callable[[], None]:
    """The paper's program for some rows; its matrices are made beforehand, which flatters it."""
    size = n_classes * n_classes
    cost = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))).ravel().astype(float)
    moves = np.eye(size).reshape(n_classes, n_classes, size)
    leaving, steps = moves.sum(0), np.diff(moves.sum(1), axis=0)
    q, mode = distributions(n_rows, n_classes)

    def run() -> None:
        for row, m in zip(q, mode, strict=True):
            order = np.where(np.arange(n_classes - 1) < m, -1.0, 1.0)[:, None] * steps
            linprog(cost, A_ub=order, b_ub=np.zeros(n_classes - 1), A_eq=leaving, b_eq=row)

    return run


def against_the_program(rounds: int) -> list[list[str]]:
    rows = []
    for n_classes, n_rows in LP_ROWS.items():
        q, mode = distributions(BATCH, n_classes)
        candidates = {
            PEER: linear_program(n_classes, n_rows),
            "given mode": projecting(q, mode),
            "best mode": projecting(q, None),
            "32 rows": projecting(q[:32], mode[:32]),
        }
        sizes = dict(zip(candidates, (n_rows, BATCH, BATCH, 32), strict=True))
        seconds = best_seconds(candidates, rounds if n_classes < 50 else 5, TURN)
        speed = {name: size / seconds[name] for name, size in sizes.items()}
        ratio = speed["given mode"] / speed[PEER]
        rows.append([str(n_classes), *(f"{each:,.0f}" for each in speed.values()), f"{ratio:,.0f}"])
    return rows


def against_softmax(rounds: int) -> list[list[str]]:
    """Rows that are unimodal already; both in float64, on as many threads as PyTorch uses."""
    rows = []
    for n_classes in (3, 5, 10, 70):
        q, mode = distributions(BATCH, n_classes)
        p = um.project(q, mode)
        softmax = partial(torch.softmax, torch.from_numpy(np.log(p + 1e-9)), -1)
        candidates: dict[str, Callable[[], object]] = {"softmax": softmax, "project": projecting(p, mode)}
        seconds = best_seconds(candidates, rounds, TURN)
        speeds = (f"{BATCH / each / 1e6:.1f}" for each in seconds.values())
        rows.append([str(n_classes), *speeds, f"{seconds['project'] / seconds['softmax']:.2f}"])
    return rows


def training_step(name: str, n_classes: int, batch: int = 32) -> Callable[[], None]:
    """A step of the paper's tabular network: one hidden layer of 128, Adam, batches of 32."""
    torch.manual_seed(0)
    method = um.make_method(name, n_classes)
    net = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, n_classes))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-4)
    x, y = torch.randn(batch, 10), torch.randint(0, n_classes, (batch,))

    def run() -> None:
        optimiser.zero_grad()
        method.loss(net(x), y).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return run


def training_steps(rounds: int) -> list[list[str]]:
    """Each method against cross-entropy alone, step by step in turns; WU-Wass also in loops of its own."""
    rows = []
    for n_classes in (3, 5, 10, 70, 100):
        row = [str(n_classes)]
        for name, turn in (("wu-wass", 0.0), ("wu-wass", TURN), ("wu-kl", 0.0), ("un", 0.0), ("co2", 0.0)):
            candidates = {each: training_step(each, n_classes) for each in ("ce", name)}
            seconds = best_seconds(candidates, rounds if turn else 20 * rounds, turn)
            if len(row) == 1:
                row.append(f"{seconds['ce'] * 1e6:.0f}")
            row.append(f"{seconds[name] / seconds['ce']:.2f}")
        rows.append(row)
    return rows


def growth(rounds: int, path: Path) -> None:
    """Draw the time per row over K and over the number of rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    classes = (3, 5, 10, 20, 50, 100, 200, 500, 1000)
    for label, shift in (("given mode", 0), ("already unimodal", 1)):
        times = []
        for n_classes in classes:
            q, mode = distributions(max(32, 40_000 // n_classes), n_classes)
            q = um.project(q, mode) if shift else q
            times.append(best_seconds({"": projecting(q, mode)}, rounds, TURN)[""] / len(q) * 1e6)
        left.plot(classes, times, "o-", label=label, markersize=3)
    left.set_xlabel("classes K")
    batches = tuple(4**i for i in range(10))
    for n_classes in (5, 10, 70):
        times = []
        for batch in batches:
            q, mode = distributions(batch, n_classes)
            times.append(
                best_seconds({"": projecting(q, mode)}, 3 if batch > 10_000 else rounds)[""] / batch * 1e6
            )
        right.plot(batches, times, "o-", label=f"K = {n_classes}", markersize=3)
    right.set_xlabel("rows in a call")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylabel("µs per row")
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--plot", type=Path, help="draw the growth in K and in the number of rows here")
    options = parser.parse_args()
    rounds = options.rounds
    print(f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print(f"Rows per second, {BATCH} rows in a call unless said; the last column is given mode ÷ program.\n")
    header = ["K", PEER, "given mode", "best mode", "given mode, 32 rows", "ratio"]
    print(table(header, against_the_program(rounds)))
    print("\nMillion rows per second that are unimodal already.\n")
    print(table(["K", "torch.softmax", "project", "time ÷ softmax"], against_softmax(rounds)))
    print("\nOne training step (batch 32, 128 hidden, Adam) ÷ the same with cross-entropy.\n")
    print(
        table(["K", "CE, µs", "WU-Wass", "WU-Wass in loops", "WU-KLDiv", "UN", "CO2"], training_steps(rounds))
    )
    if options.plot:
        growth(rounds, options.plot)


if __name__ == "__main__":
    main()
