"""Tables with ordered classes: what users would pick instead, as it is and made unimodal.

python benchmarks/tables.py --data DIR [--tables car,wine-red] [--models forest,boosting] [--csv OUT]

5-fold cross-validation, stratified and shuffled, the same folds for everybody. DIR holds UCI's files under
their own names; tables whose file is not there are left out. One rule decides for all models: the median of
the predicted distribution for MAE and QWK, its mode for the accuracy. For the NLL every distribution is
clipped at 1e-6 and normalised again, as an infinite one could not be averaged. A model whose name ends in
"+u" is the same fit, whose predictions were replaced by the nearest unimodal ones (W1, best mode).
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.model_selection import StratifiedKFold
from timing import machine, table

import unimodal as um
from unimodal.benchmark.peers import PEERS, as_categories, fit, floored, peer, predict

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = tuple[pd.DataFrame, Codes]

PEER, OURS = "forest", "OrdinalClassifier"
METRICS = {"MAE": False, "accuracy": True, "QWK": True, "RPS": False, "NLL": False}
"""Whether greater is better, of the metrics that models are ranked by."""


def abalone(n_classes: int) -> Callable[[Path], Columns]:
    """Rings in intervals of equal width, of which the paper's imbalance ratio, 32, is that of."""

    def read(folder: Path) -> Columns:
        names = ["sex", "length", "diameter", "height", "whole", "shucked", "viscera", "shell", "rings"]
        rows = pd.read_csv(folder / "abalone.data", names=names)
        rings = rows.pop("rings")
        return rows, coded(
            pd.cut(rings, np.linspace(1, 29, n_classes + 1), include_lowest=True, labels=False)
        )

    return read


def balance(_: Path) -> Columns:
    """All 5^4 settings of a beam with a weight on each arm; it tips left, balances, or tips right."""
    rows = pd.DataFrame(np.indices((5, 5, 5, 5)).reshape(4, -1).T + 1.0, columns=["lw", "ld", "rw", "rd"])
    return rows, coded(np.sign(rows.rw * rows.rd - rows.lw * rows.ld) + 1)


def car(folder: Path) -> Columns:
    names = ["buying", "maintenance", "doors", "persons", "boot", "safety", "class"]
    rows = pd.read_csv(folder / "car.data", names=names)
    return rows, coded(rows.pop("class").map({"unacc": 0, "acc": 1, "good": 2, "vgood": 3}))


def diabetes(n_classes: int) -> Callable[[Path], Columns]:
    """Progression of the disease after a year, in classes of equal frequency."""

    def read(_: Path) -> Columns:
        rows, progression = load_diabetes(return_X_y=True, as_frame=True)
        return rows, coded(pd.qcut(progression, n_classes, labels=False))

    return read


def thyroid(folder: Path) -> Columns:
    """Hypo-, normal and hyperthyroid, in this order, which is not that of the file's codes."""
    rows = pd.read_csv(
        folder / "new-thyroid.data", names=["class", "t3", "t4", "t3_direct", "tsh", "tsh_change"]
    )
    return rows, coded(rows.pop("class").map({3: 0, 1: 1, 2: 2}))


def wine(colour: str) -> Callable[[Path], Columns]:
    def read(folder: Path) -> Columns:
        rows = pd.read_csv(folder / f"winequality-{colour}.csv", sep=";")
        quality = rows.pop("quality")
        return rows, coded(quality - quality.min())

    return read


def coded(y: Any) -> Codes:
    return np.asarray(y, dtype=np.int64)


TABLES: Mapping[str, Callable[[Path], Columns]] = {
    "abalone5": abalone(5),
    "abalone10": abalone(10),
    "balance-scale": balance,
    "car": car,
    "diabetes5": diabetes(5),
    "diabetes10": diabetes(10),
    "new-thyroid": thyroid,
    "wine-red": wine("red"),
    "wine-white": wine("white"),
}


def candidates() -> dict[str, Callable[[], Any]]:
    """What is compared: by name, how to make a classifier that takes a data frame."""
    theirs: dict[str, Callable[[], Any]] = {name: partial(peer, name) for name in PEERS}
    return theirs | {
        OURS: lambda: um.OrdinalClassifier(random_state=0),
        f"{OURS}, no trees": lambda: um.OrdinalClassifier(trees=0, random_state=0),
    }


class Fold(NamedTuple):
    """One model's scores in one fold of one table."""

    table: str
    model: str
    fold: int
    scores: dict[str, float]


def read(name: str, folder: Path) -> Columns:
    """Read a table; its text becomes categories, in no order."""
    X, y = TABLES[name](folder)
    return as_categories(X), y


def score(y: Codes, p: Floats) -> dict[str, float]:
    n_classes = p.shape[1]
    median = um.decision.decide(p, "median")
    return {
        "MAE": um.metrics.mae(y, median, n_classes=n_classes),
        "accuracy": um.metrics.accuracy(y, p),
        "QWK": um.metrics.qwk(y, median, n_classes=n_classes),
        "RPS": um.metrics.rps(y, p),
        "NLL": um.metrics.nll(y, floored(p)),
        "unimodal": um.metrics.unimodal_share(y, p),
    }


def folds(name: str, X: pd.DataFrame, y: Codes, models: Mapping[str, Callable[[], Any]]) -> Iterator[Fold]:
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "The least populated class", UserWarning
        )  # three abalones of class 9
        splits = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    for k, (train, test) in enumerate(splits):
        for model, make in models.items():
            start = time.perf_counter()
            fitted = fit(make(), X.iloc[train], y[train])
            seconds = time.perf_counter() - start
            p = predict(fitted, X.iloc[test], int(y.max()) + 1)
            yield Fold(name, model, k, score(y[test], p) | {"fit, s": seconds})
            if OURS not in model:  # which is unimodal already
                yield Fold(name, f"{model}+u", k, score(y[test], um.project(p)) | {"fit, s": seconds})


def summary(frame: pd.DataFrame) -> str:
    """One table's means over its folds, the fit in seconds and as a multiple of the forest's."""
    means = frame.drop(columns=["table", "fold"]).groupby("model", sort=False).mean()
    header = ["model", *means.columns]
    rows = [
        [str(model), *(f"{value:.4f}" for value in row)]
        for model, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    if PEER in means.index:
        header.append(f"fit ÷ {PEER}'s")
        for row, seconds in zip(rows, means["fit, s"], strict=True):
            row.append(f"{seconds / means.loc[PEER, 'fit, s']:.2f}")
    return table(header, rows)


def ranks(frame: pd.DataFrame) -> str:
    """Mean rank of every model over the tables, for each metric; 1 is best."""
    means = frame.groupby(["table", "model"], sort=False)[list(METRICS)].mean()
    placed = pd.DataFrame(
        {
            metric: means[metric].groupby("table").rank(ascending=not greater)
            for metric, greater in METRICS.items()
        }
    )
    mean = placed.groupby("model", sort=False).mean()
    rows = [
        [str(model), *(f"{rank:.2f}" for rank in row)]
        for model, row in zip(mean.index, mean.to_numpy(), strict=True)
    ]
    return table(["mean rank", *METRICS], rows)


def chosen(names: str | None, known: Mapping[str, Any], what: str) -> list[str]:
    found = list(known) if names is None else names.split(",")
    unknown = sorted(set(found) - set(known))
    if unknown:
        sys.exit(f"--{what} must name some of {', '.join(known)}, got {', '.join(unknown)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with UCI's files")
    parser.add_argument("--tables", help="some of the tables, separated by commas")
    parser.add_argument("--models", help="some of the models, separated by commas")
    parser.add_argument("--csv", type=Path, help="where to write the scores of every fold")
    arguments = parser.parse_args()
    known = candidates()
    models = {name: known[name] for name in chosen(arguments.models, known, "models")}
    results = []
    print(f"{machine()}\n")
    for name in chosen(arguments.tables, TABLES, "tables"):
        try:
            X, y = read(name, arguments.data)
        except FileNotFoundError as error:
            print(f"{name} is left out: no file {error.filename}", file=sys.stderr)
            continue
        print(f"## {name}: {len(y)} rows, {X.shape[1]} columns, classes of {np.bincount(y).tolist()}\n")
        frame = pd.DataFrame([fold._asdict() | fold.scores for fold in folds(name, X, y, models)])
        frame = frame.drop(columns="scores")
        print(summary(frame) + "\n", flush=True)
        results.append(frame)
        if arguments.csv:
            pd.concat(results).to_csv(arguments.csv, index=False)
    if results:
        print(ranks(pd.concat(results)))


if __name__ == "__main__":
    main()
