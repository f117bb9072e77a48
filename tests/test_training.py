"""A stack gives what a plain PyTorch loop gives: same seed, same initial weights, same batches, same results.

Tolerances are for float32 after 200 steps. Most methods agree to 1e-6. A hinge or a ReLU has a kink, where
rounding may send two loops different ways.
"""

import numpy as np
import pytest
import torch
from every_method import VARIANTS
from plain_loop import Plain, error, one_thread, rows_of, small, table  # noqa: F401  # one_thread is a fixture

from unimodal.training import Run, train

TOLERANCE = 1e-5
SIZES = (37, 33)


def assert_same(runs, recipe, data=None, tolerance=TOLERANCE):
    data = table() if data is None else data
    for run, trained in zip(runs, train(data, 5, runs, recipe), strict=True):
        plain = Plain(data, run, recipe)
        assert error(trained, plain) <= tolerance
        assert (trained.epochs, trained.best_epoch) == (plain.epochs, plain.best_epoch)
        yield trained, plain


@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_every_method(name, published):
    """Ragged last batches of 5 rows and of 1 share a stack."""
    lr = 1e-4 if name in ("ho2", "qul-ho") else 1e-3
    runs = [
        Run(rows_of(n, seed), seed, name, published=published, source=seed % 2)
        for seed, n in enumerate(SIZES)
    ]
    for trained, plain in assert_same(runs, small(lr=lr)):
        start = Plain(table(), runs[0], small(lr=lr, epochs=1)).best
        moved = {name: float((start[name] - value).abs().max()) for name, value in plain.best.items()}
        assert min(moved.values()) > 100 * TOLERANCE, "what did not move was not tested"
        assert np.isnan(trained.validation_loss)


OPTIONS = {
    "linear": {"hidden": ()},
    "linear-adamw": {"hidden": (), "optimiser": "adamw", "weight_decay": 0.1},
    "two-layers": {"hidden": (16, 8)},
    "three-layers": {"hidden": (8, 16, 8), "activation": "tanh"},
    "gelu": {"hidden": (16,), "activation": "gelu"},
    "two-gelu": {"hidden": (16, 8), "activation": "gelu"},
    "tanh": {"hidden": (16,), "activation": "tanh"},
    "dropout": {"hidden": (16,), "dropout": 0.3},
    "two-dropouts": {"hidden": (16, 8), "dropout": 0.5, "activation": "tanh"},
    "gelu-dropout": {"hidden": (16, 8), "dropout": 0.1, "activation": "gelu"},
    "decay": {"weight_decay": 0.1},
    "adamw": {"optimiser": "adamw", "weight_decay": 0.1},
    "cosine": {"schedule": "cosine"},
    "warm-cosine": {"schedule": "warm-cosine"},
    "all": {
        "hidden": (16, 8), "dropout": 0.2, "schedule": "warm-cosine",
        "optimiser": "adamw", "weight_decay": 0.05,
    },
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option(option):
    runs = [Run(rows_of(37), 0, "ce"), Run(rows_of(35, 1), 1, "ce"), Run(rows_of(40, 2), 2, "pom")]
    for _ in assert_same(runs, small(**OPTIONS[option]), table(weighted=True)):
        pass


@pytest.mark.parametrize("n", [(5, 8, 1), (9, 16, 12)])
def test_few_rows(n):
    """Fewer rows than a batch holds, and a last batch of one."""
    runs = [Run(rows_of(size, size), size) for size in n]
    for _ in assert_same(runs, small(epochs=100)):
        pass


def test_rows_drawn_with_replacement():
    rows = np.random.default_rng(0).integers(1, 60, 40)
    for _ in assert_same([Run(rows, 3, "un")], small()):
        pass


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("pom", {"link": "probit"}),
        ("pu", {"first": 0, "tau": 2.0}),
        ("bu", {"learn_tau": True, "tau": 0.7}),
        ("un", {"init": "flat"}),
        ("oe", {"floor": 1e-3}),
        ("co2", {"penalty": "uu", "lam": 3.0, "delta": 0.1}),
        ("wu-wass", {"lam": 5.0, "projection": "l2", "penalty": "kl"}),
        ("cdw", {"alpha": 2.0}),
        ("ur", {"eta": 0.3, "tau": 2.0}),
    ],
)
def test_parameters_of_the_method(method, params):
    runs = [Run(rows_of(37, seed), seed, method, params) for seed in range(2)]
    for _ in assert_same(runs, small()):
        pass


def test_each_run_has_its_own_lambda():
    recipe, lambdas = small(), (0.0, 1.0, 30.0)
    for name in ("wu-wass", "wu-kl", "co2"):
        runs = [Run(rows_of(37), 0, name, {"lam": lam}) for lam in lambdas]
        trained = [each for each, _ in assert_same(runs, recipe)]
        assert (trained[0].parameters - trained[2].parameters).abs().max() > 1e-3


def test_each_run_learns_its_own_temperature():
    runs = [Run(rows_of(37), 0, "bu", {"learn_tau": True, "tau": tau}) for tau in (0.5, 1.0, 2.0)]
    for trained, plain in assert_same(runs, small()):
        assert "head.log_tau" in trained.architecture.shapes
        assert plain.best["head.log_tau"].abs() > 1e-3


@pytest.mark.parametrize(
    ("method", "dropout", "weighted"), [("ce", 0.0, False), ("pom", 0.0, True), ("wu-wass", 0.3, True)]
)
def test_early_stopping(method, dropout, weighted):
    """Runs that stop at different times, and one that does not, with validation rows of different number."""
    recipe = small(hidden=(16,), lr=0.02, epochs=30, patience=4, dropout=dropout)
    rows = [rows_of(59, seed) for seed in range(5)]
    runs = [
        Run(each[:37], seed, method, validation=each[37 : 45 + 3 * seed]) for seed, each in enumerate(rows)
    ]
    stopped = set()
    for trained, plain in assert_same(runs, recipe, table(weighted), tolerance=1e-4):
        assert trained.validation_loss == pytest.approx(plain.best_loss, abs=1e-5)
        stopped.add(trained.epochs)
    assert len(stopped) > 2, "all stopped at once"
    assert min(stopped) < recipe.epochs


def test_without_patience_the_best_weights_are_kept():
    recipe = small(hidden=(16,), lr=0.05, epochs=20)
    rows = rows_of(59)
    (pair,) = assert_same([Run(rows[:37], 0, validation=rows[37:])], recipe, tolerance=1e-4)
    assert pair[0].epochs == 20
    assert pair[0].best_epoch < 20


def test_initial_weights_are_those_of_pytorch():
    run = Run(rows_of(37), 7, "pom")
    recipe = small(hidden=(16, 8), lr=0.0, epochs=1)
    (trained,) = train(table(), 5, [run], recipe)
    assert error(trained, Plain(table(), run, small(hidden=(16, 8), lr=1e-12, epochs=1))) <= 1e-9
    assert torch.isfinite(trained.parameters).all()
