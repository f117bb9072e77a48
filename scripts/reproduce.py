"""What is built so far of the paper, computed and laid beside its printed numbers.

Cardoso, Cruz, Albuquerque, "Unimodal Distributions for Ordinal Regression", IEEE TAI 2025. So far: the share
of the simplex that is unimodal, the worked example of the order penalties, the cost of Wasserstein
regularisation, two errata, and of the experiments the column of balance-scale: thirteen methods, five folds,
seven lambdas, 1000 epochs. Not yet: the other datasets.
"""

import argparse
import base64
import html
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import balance
import numpy as np
import pictures
import torch
from torch import nn

import unimodal as um
from unimodal.methods import OrdinalMethod
from unimodal.objectives.order import PENALTIES


class Table(NamedTuple):
    """Rows to print, and to write into the report."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def shares() -> Table:
    """The table of shares, by the formula and by counting random points."""
    published = {3: 0.667, 4: 0.333, 5: 0.133, 6: 0.044}
    n = 1_000_000
    rng = np.random.default_rng(0)
    rows = []
    for n_classes, printed in published.items():
        points = rng.dirichlet(np.ones(n_classes), size=n)
        counted = float(np.mean(um.simplex.is_unimodal(points, tol=0)))
        exact = um.simplex.fraction(n_classes, exact=True)
        rows.append([str(n_classes), f"{printed:.3f}", str(exact), f"{float(exact):.4f}", f"{counted:.4f}"])
    note = f"2^(K-1) / K! against the share of {n:,} uniform points that is unimodal"
    return Table(
        "Share of the simplex that is unimodal", note, ["K", "printed", "exact", "as float", "counted"], rows
    )


def order_penalties() -> Table:
    """The example below Eq. 13: u cannot tell two distributions apart that uu can."""
    printed = {(2, 3, 0, 1): ("3/6", "8/6"), (2, 3, 1, 0): ("3/6", "9/6")}
    rows = []
    for weights, (u, uu) in printed.items():
        p, y = torch.tensor(weights, dtype=torch.float64) / 6, torch.tensor(3)
        ours = [f"{float(PENALTIES[name](p, y, 0.0, -1)) * 6:.0f}/6" for name in ("u", "uu")]
        rows.append([f"{weights} / 6", u, ours[0], uu, ours[1]])
    return Table(
        "Order penalties u and uu, y = last class", "δ = 0",
        ["p", "u, printed", "u", "uu, printed", "uu"], rows,
    )  # fmt: skip


def label_smoothing_floor() -> Table:
    """Erratum: with the weights of UR swapped, a perfect classifier of Car keeps a high NLL."""
    counts = torch.tensor([1210.0, 384.0, 69.0, 65.0])
    rows = []
    for published in (True, False):
        method = um.make_method("ur", 4, published=published)
        per_class = -method.log_prob(fitted(method, torch.arange(4))).diagonal()
        floor = float((per_class * counts).sum() / counts.sum())
        label, printed = ("swapped, as the numbers", "0.43") if published else ("as defined", "")
        rows.append([label, printed, f"{floor:.2f}"])
    return Table(
        "Erratum: NLL of UR on Car when every sample is classified perfectly",
        "0.43 is the test NLL in the paper's table",
        ["weights", "printed", "floor"], rows,
    )  # fmt: skip


def fitted(method: OrdinalMethod, y: torch.Tensor) -> torch.Tensor:
    """Outputs with the least loss, one row for each label: those of a network that errs nowhere."""
    outputs = torch.zeros(len(y), method.n_outputs, requires_grad=True)
    optimiser = torch.optim.Adam([outputs], lr=0.05)
    for _ in range(2000):
        optimiser.zero_grad()
        method.loss(outputs, y).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return outputs.detach()


def balance_scale() -> Table:
    """The balance-scale column of the tables, and an erratum: what its label is."""
    return Table(
        "Balance scale: accuracy and MAE in four folds, and the accuracy with the real label",
        "the published row predicts the right distance; printed, ours, and ours with the class as label",
        ["method", "accuracy, printed", "ours", "MAE, printed", "ours", "real label"],
        balance.rows(epochs=1000),
    )


def cost_of_regularisation(rounds: int = 300) -> Table:
    """One training step of the paper's tabular network with WU-Wass, divided by one with CE."""
    rows = []
    for n_classes in (5, 10, 70):
        best = dict.fromkeys(("ce", "wu-wass"), float("inf"))
        steps = {name: TrainingStep(name, n_classes) for name in best}
        for _ in range(rounds):
            for name, step in steps.items():
                start = time.perf_counter()
                step()
                best[name] = min(best[name], time.perf_counter() - start)
        rows.append(
            [str(n_classes), "1.28", f"{best['wu-wass'] / best['ce']:.2f}", f"{best['ce'] * 1e6:.0f}"]
        )
    return Table(
        "Time of a training step with WU-Wass ÷ with CE",
        "batch 32, 10 inputs, 128 hidden, Adam; the printed ratio is over all experiments",
        ["K", "printed", "measured", "CE, µs"], rows,
    )  # fmt: skip


class TrainingStep:
    """A step of the paper's tabular network: one hidden layer of 128, Adam, batches of 32."""

    def __init__(self, name: str, n_classes: int) -> None:
        torch.manual_seed(0)
        self.method = um.make_method(name, n_classes)
        self.net = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, n_classes))
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=1e-4)
        self.x, self.y = torch.randn(32, 10), torch.randint(0, n_classes, (32,))

    def __call__(self) -> None:
        self.optimiser.zero_grad()
        self.method.loss(self.net(self.x), self.y).mean().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()


def as_text(table: Table) -> str:
    lines = [list(table.header), *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([f"\n{table.title} ({table.note})", *("  " + line.rstrip() for line in body)])


def as_html(tables: Sequence[Table], images: Sequence[Path]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    parts = [
        f"<h2>{html.escape(t.title)}</h2><p>{html.escape(t.note)}</p><table>{row(t.header, 'th')}"
        + "".join(row(cells, "td") for cells in t.rows)
        + "</table>"
        for t in tables
    ]
    for image in images:
        data = base64.b64encode(image.read_bytes()).decode()
        parts.append(f'<img alt="{image.stem}" src="data:image/png;base64,{data}">')
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "table{border-collapse:collapse}"
        "td,th{padding:.2rem .8rem;border-bottom:1px solid #ccc;text-align:left}"
        "img{max-width:100%;margin-top:2rem}"
    )
    intro = html.escape((__doc__ or "").split("\n\n", 1)[1])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Reproduction</title>'
        f"<style>{style}</style><h1>Reproduction</h1><p>{intro}</p>{''.join(parts)}</html>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=Path("build/reproduce"))
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    print((__doc__ or "").strip())
    tables = []
    for compute in (shares, order_penalties, label_smoothing_floor, balance_scale, cost_of_regularisation):
        tables.append(compute())
        print(as_text(tables[-1]), flush=True)
    images = [folder / f"{name}.png" for name in pictures.PICTURES]
    for image, draw in zip(images, pictures.PICTURES.values(), strict=True):
        draw(image)
    report = folder / "report.html"
    report.write_text(as_html(tables, images), encoding="utf-8")
    print(f"\nreport: {report}")


if __name__ == "__main__":
    main()
