"""The balance-scale column of the paper's tables, with the label that it used and with the real one.

The file lists the 5^4 settings of a beam: the class (tips left, balances, tips right), then weight and
distance on the left and on the right. The published row takes the last column, the right distance, for the
label, and finds the class, one-hot, among the inputs. Either way: stratified folds of the file's row order
(seed 123), of which the first picks lambda by MAE and the others are reported; one hidden layer of 128, Adam
1e-4, batches of 32, 1000 epochs, inputs normalised with the whole file's mean and deviation.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

import unimodal as um
from unimodal.training import Data, Networks, Recipe, Run, Trained, train

PRINTED = {  # accuracy in per cent, MAE: mean and standard deviation of the table
    "ce": ("23.8 ± 3.2", "1.22 ± 0.09"),
    "pom": ("32.2 ± 1.6", "0.96 ± 0.05"),
    "oe": ("32.4 ± 6.6", "0.93 ± 0.09"),
    "cdw": ("28.4 ± 3.3", "0.94 ± 0.05"),
    "bu": ("33.4 ± 3.7", "0.93 ± 0.08"),
    "pu": ("31.4 ± 2.1", "1.08 ± 0.08"),
    "ord-acl": ("31.0 ± 4.8", "1.15 ± 0.08"),
    "vs-sl": ("32.6 ± 3.3", "1.13 ± 0.08"),
    "un": ("29.4 ± 4.7", "1.11 ± 0.07"),
    "ur": ("25.0 ± 2.6", "1.16 ± 0.05"),
    "co2": ("30.6 ± 3.8", "0.93 ± 0.06"),
    "wu-kl": ("25.6 ± 4.3", "1.15 ± 0.07"),
    "wu-wass": ("25.0 ± 4.1", "1.14 ± 0.10"),
}
LAMBDAS = [10.0**i for i in range(-3, 4)]
FOLDS = 5
TUNING_FOLD = 0


class Problem(NamedTuple):
    """Inputs and labels, and whether methods are those of the paper's numbers or of their sources."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    published: bool


def problems() -> tuple[Problem, Problem]:
    """The task of the published row, and the real one."""
    left_weight, left, right_weight, right = np.indices((5, 5, 5, 5)).reshape(4, -1) + 1
    tilt = np.sign(right_weight * right - left_weight * left)
    classes = np.eye(3)[tilt + 1]
    as_published = Problem(np.column_stack([classes, left_weight, left, right_weight]), right - 1, True)
    return as_published, Problem(np.column_stack([left_weight, left, right_weight, right]), tilt + 1, False)


def rows(epochs: int) -> list[list[str]]:
    """Name, printed accuracy and ours, printed MAE and ours, accuracy with the real label."""
    as_published, real = (scores(problem, epochs) for problem in problems())
    return [
        [
            um.METHODS[name].symbol,
            accuracy,
            spread(100 * as_published[name][:, 0], 1),
            mae,
            spread(as_published[name][:, 1], 2),
            spread(100 * real[name][:, 0], 1),
        ]
        for name, (accuracy, mae) in PRINTED.items()
    ]


def spread(values: NDArray[np.float64], digits: int) -> str:
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def scores(problem: Problem, epochs: int) -> dict[str, NDArray[np.float64]]:
    """Accuracy and MAE of every method in folds 1-4, with the lambda that fold 0 picks."""
    inputs = (problem.X - problem.X.mean(0)) / problem.X.std(0)
    ones = np.ones((len(inputs), 1))
    as_float = torch.tensor(np.hstack([inputs, ones]), dtype=torch.float32)
    data = Data(as_float[None], torch.from_numpy(problem.y))
    splits = list(StratifiedKFold(FOLDS, shuffle=True, random_state=123).split(inputs, problem.y))
    runs = [
        Run(train_rows, seed=fold, method=name, published=problem.published, params=params)
        for name in PRINTED
        for params in settings(name)
        for fold, (train_rows, _) in enumerate(splits)
    ]
    n_classes = int(problem.y.max()) + 1
    trained = train(data, n_classes, runs, Recipe(epochs=epochs), n_jobs=-1)
    results: dict[str, NDArray[np.float64]] = {}
    for name in PRINTED:
        of_name = [(run, each) for run, each in zip(runs, trained, strict=True) if run.method == name]
        table = np.array(
            [score(run, each, data, problem.y, splits[run.seed][1]) for run, each in of_name]
        ).reshape(-1, FOLDS, 2)
        best = table[:, TUNING_FOLD, 1].argmin()
        results[name] = np.delete(table[best], TUNING_FOLD, axis=0)
    return results


def settings(name: str) -> Sequence[dict[str, float]]:
    return [{"lam": lam} for lam in LAMBDAS] if "lam" in um.METHODS[name].default_params else [{}]


def score(
    run: Run, trained: Trained, data: Data, y: NDArray[np.int64], tested: NDArray[Any]
) -> tuple[float, float]:
    decided = Networks.of([trained], run.params).predict(data.inputs[0, tested])[0].numpy()
    n_classes = int(y.max()) + 1
    return (
        um.metrics.accuracy(y[tested], decided, n_classes=n_classes),
        um.metrics.mae(y[tested], decided, n_classes=n_classes),
    )
