"""How runs are put together changes nothing but the time it takes; and what callers see meanwhile."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from plain_loop import D, K, N, one_thread, rows_of, small, table  # noqa: F401  # one_thread is a fixture
from torch.overrides import TorchFunctionMode

from unimodal.training import Architecture, Data, Progress, Recipe, Run, train, train_each
from unimodal.training.plan import split

TOLERANCE = 1e-6


def difference(one, other):
    assert (one.epochs, one.best_epoch) == (other.epochs, other.best_epoch)
    assert one.validation_loss == pytest.approx(other.validation_loss, abs=1e-5, nan_ok=True)
    return float((one.parameters - other.parameters).abs().max())


@pytest.mark.parametrize("method", ["ce", "pom", "wu-wass"])
def test_a_run_does_not_depend_on_its_stack(method):
    params = {"lam": 3.0} if method == "wu-wass" else {}
    run = Run(rows_of(37), 5, method, params)
    others = [
        Run(
            rows_of(33 + seed % 8, seed),
            seed,
            method,
            {"lam": float(seed)} if params else {},
            source=seed % 2,
        )
        for seed in range(39)
    ]
    recipe = small(dropout=0.2)
    (alone,) = train(table(), K, [run], recipe)
    together = train(table(), K, [*others[:20], run, *others[20:]], recipe)
    assert difference(alone, together[20]) <= TOLERANCE
    assert difference(alone, together[19]) > 1e-3
    mixed = [Run(rows_of(37), 5, "un"), others[0], run, Run(rows_of(20), 1, method, params)]
    assert difference(alone, train(table(), K, mixed, recipe)[2]) <= TOLERANCE
    tiny = train(table(), K, [others[0], run, others[1]], recipe, memory=1)
    assert difference(alone, tiny[1]) <= TOLERANCE


def validated_runs(n=6, method="ce"):
    rows = [rows_of(59, seed) for seed in range(n)]
    return [
        Run(each[:37], seed, method, validation=each[37 : 41 + 2 * seed]) for seed, each in enumerate(rows)
    ]


@pytest.mark.parametrize("method", ["ce", "pom"])
def test_a_run_does_not_depend_on_who_stops(method):
    recipe = small(lr=0.02, epochs=25, patience=3, dropout=0.2, schedule="cosine")
    runs = validated_runs(method=method)
    together = train(table(), K, runs, recipe)
    assert len({each.epochs for each in together}) > 2
    for run, trained in zip(runs, together, strict=True):
        (alone,) = train(table(), K, [run], recipe)
        assert difference(alone, trained) <= 1e-5


def test_other_processes():
    runs = [*validated_runs(4), *validated_runs(4, "pom")]
    recipe, seen = small(epochs=6, patience=3), []
    here = train(table(weighted=True), K, runs, recipe)
    there = train(table(weighted=True), K, runs, recipe, n_jobs=2, on_progress=seen.append)
    assert max(difference(*pair) for pair in zip(here, there, strict=True)) <= TOLERANCE
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[-1].done == seen[-1].total == len(runs) * recipe.epochs
    stacks = train_each(table(), K, runs, recipe, n_jobs=2)
    number, first = next(stacks)
    stacks.close()
    assert first.parameters.shape == here[number].parameters.shape


class Counting(TorchFunctionMode):
    """Counts how often something leaves its device or is looked at."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("cpu", "numpy", "item", "tolist", "to", "__bool__", "__float__", "__int__", "nonzero"):
            self.calls[name] = self.calls.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", ["ce", "pom", "un"])
def test_steps_leave_everything_on_the_device(method):
    """Copies between devices grow with the epochs, not with the steps of an epoch."""

    def copies(n, epochs):
        with Counting() as counting:
            train(table(), K, [Run(rows_of(n), 0, method)], small(epochs=epochs, batch_size=2))
        return counting.calls

    assert copies(10, 3) == copies(50, 3)
    assert sum(copies(10, 4).values()) > sum(copies(10, 3).values())


def test_a_run_that_diverges_harms_nobody():
    data = table()
    wild = data.inputs.clone()
    wild[1, :, 0] = torch.inf
    data = Data(wild, data.y)
    for method in ("ce", "pom", "wu-wass"):
        calm = validated_runs(3, method)
        lost = [
            Run(run.rows, 9, method, validation=run.validation if i else rows_of(59)[37:], source=1)
            for i, run in enumerate(calm[:2])
        ]
        recipe = small(epochs=8)
        trained = train(data, K, [calm[0], lost[0], *calm[1:], lost[1]], recipe)
        for i, each in zip((0, 2, 3), train(data, K, calm, recipe), strict=True):
            assert difference(trained[i], each) <= TOLERANCE
            assert np.isfinite(each.validation_loss)
        for i in (1, 4):
            assert np.isnan(trained[i].validation_loss)
            assert trained[i].best_epoch == 0
            assert trained[i].epochs < recipe.epochs


def test_results_hold_their_own_memory():
    trained = train(table(), K, [Run(rows_of(37), seed) for seed in range(64)], small(epochs=1))
    assert len(pickle.dumps(trained)) < 2 * 64 * trained[0].parameters.nbytes + 20_000
    assert trained[3].parameters.untyped_storage().nbytes() == trained[3].parameters.nbytes


@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("memory", [1, 100_000, 1_000_000, 1 << 30])
def test_stacks_fit_the_budget(processes, memory):
    runs = [
        Run(
            np.arange(20 + 10 * (i % 3)),
            i,
            ("ce", "un", "co2")[i % 2 + (i > 300)],
            {"lam": 1.0 + i} if i > 300 else {},
        )
        for i in range(700)
    ]
    runs = [run if run.method == "co2" else Run(run.rows, run.seed, run.method) for run in runs]
    stacks = split(runs, Recipe(), D, K, processes, memory)
    assert sorted(i for _, members in stacks for i in members) == list(range(700))
    for architecture, members in stacks:
        assert 1 <= len(members) <= 256
        of_run = 4 * 5 * architecture.n_parameters + 4 * 30 * (4 * 128)
        assert len(members) == 1 or len(members) * of_run <= memory
        assert {runs[i].method for i in members} == {architecture.method}
        assert len({runs[i].batches(32) for i in members}) == 1
    if memory == 1 << 30 and processes == 1:
        assert len(stacks) < 10


def test_one_group_is_shared_among_processes():
    runs = [Run(np.arange(40), seed) for seed in range(50)]
    sizes = [len(members) for _, members in split(runs, Recipe(), D, K, 3, 1 << 30)]
    assert sorted(sizes) == [16, 17, 17]
    assert len(split(runs[:2], Recipe(), D, K, 3, 1 << 30)) == 2
    assert len(split(runs, Recipe(), D, K, 1, 1 << 30)) == 1
    assert split([], Recipe(), D, K, 2, 1 << 30) == []
    assert train(table(), K, [], Recipe()) == []


def test_progress_counts_run_epochs_to_the_end():
    seen = []
    runs = [*validated_runs(6), Run(rows_of(20), 0, "un")]
    recipe = small(lr=0.05, epochs=20, patience=2)
    trained = train(table(), K, runs, recipe, on_progress=seen.append)
    assert sum(each.epochs for each in trained) < len(runs) * recipe.epochs
    done = [each.done for each in seen]
    assert all(a < b for a, b in pairwise(done))
    assert done[-1] == seen[0].total == len(runs) * recipe.epochs
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))
    assert seen[-1].remaining == 0
    assert Progress(5, 20, 2.0).remaining == 6.0
    assert Progress(0, 20, 2.0).remaining == float("inf")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_was_finished_survives_an_interruption(error):
    runs = [Run(rows_of(37), 0), Run(rows_of(37), 1, "un"), Run(rows_of(37), 2)]
    recipe = small(epochs=5)
    expected = train(table(), K, runs, recipe)

    def interrupt(progress):
        if progress.done > 2 * recipe.epochs:
            raise error

    finished, threads, was_tiny = {}, torch.get_num_threads() + 1, torch.tensor(1e-40) * 1.0
    torch.set_num_threads(threads)
    stacks = train_each(table(), K, runs, recipe, on_progress=interrupt)
    with pytest.raises(error):
        finished.update(stacks)
    assert finished.keys() == {0, 2}
    for number, trained in finished.items():
        assert torch.equal(trained.parameters, expected[number].parameters)
    assert torch.get_num_threads() == threads
    assert torch.tensor(1e-40) * 1.0 == was_tiny > 0


def test_small_numbers_are_flushed_in_training_only():
    seen = []
    train(
        table(),
        K,
        [Run(rows_of(37), 0)],
        small(epochs=2),
        on_progress=lambda _: seen.append(bool(torch.tensor(1e-40) * 1.0 > 0)),
    )
    assert seen == [False, False]
    assert bool(torch.tensor(1e-40) * 1.0 > 0)
    torch.set_flush_denormal(True)
    try:
        train(table(), K, [Run(rows_of(37), 0)], small(epochs=1))
        assert not bool(torch.tensor(1e-40) * 1.0 > 0), "the caller's choice"
    finally:
        torch.set_flush_denormal(False)


def test_the_global_generator_is_left_alone():
    state = torch.get_rng_state()
    train(table(), K, [Run(rows_of(37), 0, "pom")], small(epochs=2, dropout=0.5))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": (8, 0)}, "hidden must be an integer of at least 1, got 0"),
        ({"hidden": (8.5,)}, "hidden must be an integer of at least 1, got 8.5"),
        ({"activation": "swish"}, "activation must be one of 'relu', 'gelu', 'tanh', got 'swish'"),
        ({"optimiser": "sgd"}, "optimiser must be one of 'adam', 'adamw', got 'sgd'"),
        ({"schedule": "step"}, "schedule must be one of 'constant', 'cosine', 'warm-cosine', got 'step'"),
        ({"lr": -1.0}, "lr must be a number of at least 0.0, got -1.0"),
        ({"lr": float("nan")}, "lr must be a number of at least 0.0, got nan"),
        ({"lr": float("inf")}, "lr must be a number of at least 0.0, got inf"),
        ({"weight_decay": "much"}, "weight_decay must be a number of at least 0.0, got 'much'"),
        ({"dropout": -0.1}, "dropout must be a number of at least 0.0, got -0.1"),
        ({"dropout": 1.0}, "dropout must be below 1, got 1.0"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"epochs": True}, "epochs must be an integer of at least 1, got True"),
        ({"patience": 0}, "patience must be an integer of at least 1, got 0"),
    ],
)
def test_recipes_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**changes)


def test_runs_are_checked():
    with pytest.raises(ValueError, match="rows must not be empty"):
        Run(np.array([], dtype=np.int64), 0)
    with pytest.raises(ValueError, match="validation must not be empty; leave it out to train without"):
        Run(np.arange(3), 0, validation=np.array([], dtype=np.int64))
    good, rows = Run(np.arange(3), 0), np.arange(3)
    cases = {
        r"method must be one of ce, pom, .*, got 'svm' in run 1": Run(rows, 0, "svm"),
        r"source must lie in \[0, 1\], got 2 in run 1": Run(rows, 0, source=2),
        rf"rows must lie in \[0, {N - 1}\] in run 1": Run(np.array([0, N]), 0),
        rf"validation must lie in \[0, {N - 1}\] in run 1": Run(rows, 0, validation=np.array([-1])),
        r"'lam' is not a parameter of method 'ce', which takes no parameters": Run(
            rows, 0, params={"lam": 1.0}
        ),
        r"lam must be at least 0, got": Run(rows, 0, "co2", {"lam": -1.0}),
    }
    for message, run in cases.items():
        with pytest.raises(ValueError, match=message):
            train(table(), K, [good, run], small(epochs=1))
    with pytest.raises(ValueError, match="n_jobs must not be 0; use -1 for one process on each core"):
        train(table(), K, [good], small(epochs=1), n_jobs=0)


def test_where_parameters_lie():
    architecture = Architecture(D, K, "pom", (8, 4))
    rows = torch.arange(2.0 * architecture.n_parameters).view(2, -1)
    views = architecture.views(rows)
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        "weight0": (2, 4, 8),
        "weight1": (2, 8, 4),
        "bias1": (2, 1, 4),
        "weight": (2, 1, 4),
        "bias": (2, 1, 1),
        "head.first": (2, 1),
        "head.raw_gaps": (2, 3),
    }
    places = [view[0].flatten() for view in views.values()]
    assert len(torch.cat(places).unique()) == sum(map(len, places))
    blocks = architecture.blocks(rows.flatten(), 2)
    assert all(blocks[name].shape == views[name].shape and blocks[name].is_contiguous() for name in views)
    places = [block.flatten() for block in blocks.values()]
    assert len(torch.cat(places).unique()) == sum(map(len, places))
