"""Streaming metrics: batches, processes and torchmetrics' machinery against `evaluate` of all samples."""

import copy
import doctest
import importlib
import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.classification import MulticlassAccuracy, MulticlassCohenKappa

from unimodal import validation
from unimodal.metrics import METRICS, evaluate
from unimodal.validation import OrdinalMetrics

OF_CLASSES = [name for name, metric in METRICS.items() if not metric.needs_proba]
FAST = [name for name in METRICS if name != "mean_w1_violation"]  # it solves linear programs


def draw(n, n_classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    p = torch.softmax(2 * torch.randn(n, n_classes, generator=generator), dim=1)
    return p, torch.randint(n_classes, (n,), generator=generator)


def batches(p, y, seed=0):
    """Cut into batches of random sizes."""
    cuts = np.sort(np.random.default_rng(seed).integers(len(y), size=4))
    parts = zip(*(torch.tensor_split(a, cuts.tolist()) for a in (p, y)), strict=True)
    return [part for part in parts if len(part[1])]


def stream(metrics, parts):
    for p, y in parts:
        metrics.update(p, y)
    return metrics


def assert_same(computed, expected, rel=1e-12):
    """Compare what was computed, all of it, with `evaluate`."""
    found = {name: value.item() for name, value in computed.items()}
    assert found == pytest.approx({name: expected[name] for name in found}, rel=rel, abs=1e-12, nan_ok=True)


# Batches


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_random_batches_add_up_to_all_samples(n, n_classes, seed):
    p, y = draw(n, n_classes, seed)
    metrics = stream(OrdinalMetrics(n_classes, FAST), batches(p, y, seed))
    assert_same(metrics.compute(), {name: METRICS[name].function(y, p) for name in FAST})


@pytest.mark.parametrize("published", [False, True])
def test_every_metric_streams(published):
    p, y = draw(12)
    p[3] = torch.tensor([0.334, 0.33, 0.336, 0.0])
    y[3] = 3
    parts = batches(p, y)
    assert len(parts) > 2
    computed = stream(OrdinalMetrics(4, published=published), parts).compute()
    expected = evaluate(y, p, published=published)
    assert math.isinf(expected["nll"]) is not published
    assert list(computed) == list(METRICS)
    assert_same(computed, expected)


def test_states_do_not_grow():
    metrics = OrdinalMetrics(4)
    empty = {name: state.clone() for name, state in metrics.metric_state.items()}
    assert {name: state.shape for name, state in empty.items()} == {
        "confusion": (4, 4),
        "ece": (16,),
    } | dict.fromkeys(["nll", "rps", "unimodal_share", "mean_w1_violation"], (2,))
    stream(metrics, batches(*draw(12)))
    assert all(state.shape == empty[name].shape for name, state in metrics.metric_state.items())
    assert all(state.any() for state in metrics.metric_state.values())
    metrics.reset()
    assert all(torch.equal(state, empty[name]) for name, state in metrics.metric_state.items())


@pytest.mark.parametrize("name", METRICS)
def test_one_name_computes_one_scalar(name):
    p, y = draw(6)
    metric = stream(OrdinalMetrics(4, name), [(p, y)])
    assert metric.compute().shape == ()
    assert_same({name: metric.compute()}, evaluate(y, p))
    assert list(metric.metric_state) == [name if METRICS[name].needs_proba else "confusion"]


def test_higher_is_better_where_the_metrics_agree():
    for name, metric in METRICS.items():
        assert OrdinalMetrics(3, name).higher_is_better is metric.greater_is_better
    assert OrdinalMetrics(3, ["qwk", "accuracy"]).higher_is_better is True
    assert OrdinalMetrics(3, ["mae", "nll"]).higher_is_better is False
    assert OrdinalMetrics(3, ["mae", "qwk"]).higher_is_better is None
    assert OrdinalMetrics(3).higher_is_better is None


def test_decisions_of_another_rule_are_judged():
    p, y = draw(8)
    decided = (p.argmax(dim=1) + 1) % 4
    metrics = OrdinalMetrics(4, FAST)
    metrics.update(p[:5], y[:5], pred=decided[:5])
    metrics.update(p[5:], y[5:], decided[5:])
    assert_same(metrics.compute(), evaluate(y, p, decided))


def test_classes_leave_the_metrics_of_probabilities_undefined():
    p, y = draw(9)
    decided = p.argmax(dim=1)
    metrics = stream(OrdinalMetrics(4), batches(decided, y))
    expected = evaluate(y, decided, n_classes=4)
    assert math.isnan(expected["ece"])
    assert_same(metrics.compute(), expected)
    metrics.update(p, y)  # part of the samples is not all of them
    assert_same(metrics.compute(), evaluate(torch.cat([y, y]), torch.cat([decided, decided]), n_classes=4))
    assert_same(stream(OrdinalMetrics(4, OF_CLASSES), [(decided, y)]).compute(), expected)


@pytest.mark.parametrize("kind", ["list", "numpy", "bfloat16", "with gradient"])
def test_batches_of_every_kind(kind):
    p = torch.tensor([[5, 2, 1], [1, 2, 5], [4, 3, 1], [3, 1, 4]]) / 8  # exact in every precision
    y = torch.tensor([0, 2, 1, 2])
    convert = {
        "list": torch.Tensor.tolist,
        "numpy": torch.Tensor.numpy,
        "bfloat16": lambda a: a.bfloat16(),
        "with gradient": lambda a: a.float().requires_grad_(),
    }[kind]
    metrics = OrdinalMetrics(3, FAST)
    now = metrics(convert(p), convert(y))
    assert_same(now, evaluate(y, p))
    assert not any(value.requires_grad for value in now.values())
    assert_same(metrics.compute(), evaluate(y, p))


# Torchmetrics


def test_forward_scores_the_batch_and_an_epoch_ends_with_a_reset():
    """What Lightning does with a metric that is logged."""
    metrics = OrdinalMetrics(4, FAST)
    for epoch in range(2):
        p, y = draw(20, seed=epoch)
        for part in batches(p, y):
            assert_same(metrics(*part), evaluate(part[1], part[0]))
        assert_same(metrics.compute(), evaluate(y, p))
        metrics.reset()


def test_nothing_to_compute_is_nan():
    metrics = OrdinalMetrics(4)
    with pytest.warns(UserWarning, match="called before the ``update`` method"):
        computed = metrics.compute()
    assert list(computed) == list(METRICS)
    assert all(value.isnan() for value in computed.values())


def test_a_collection_of_single_metrics_shares_one_table():
    p, y = draw(12)
    collection = torchmetrics.MetricCollection(
        {name: OrdinalMetrics(4, name) for name in FAST}
        | {
            "peer accuracy": MulticlassAccuracy(4, average="micro"),
            "peer qwk": MulticlassCohenKappa(4, weights="quadratic"),
        },
        prefix="val/",
    )
    stream(collection, batches(p, y))
    computed = {name.removeprefix("val/"): value for name, value in collection.compute().items()}
    assert computed.pop("peer accuracy").item() == pytest.approx(computed["accuracy"].item())
    assert computed.pop("peer qwk").item() == pytest.approx(computed["qwk"].item(), rel=1e-5)
    assert_same(computed, evaluate(y, p))
    assert len(computed) == len(FAST)
    assert sorted(OF_CLASSES) in [sorted(group) for group in collection.compute_groups.values()]
    collection.reset()
    stream(collection, [(p[:5], y[:5])])
    assert collection.compute()["val/qwk"].item() == pytest.approx(evaluate(y[:5], p[:5])["qwk"])


def test_a_collection_keeps_published_metrics_apart_even_if_their_first_batches_agree():
    names = ["mae", "nll", "unimodal_share"]
    collection = torchmetrics.MetricCollection(
        {"exact": OrdinalMetrics(3, names), "printed": OrdinalMetrics(3, names, published=True)}
    )
    p = torch.tensor([[0.5, 0.3, 0.2], [0.334, 0.33, 0.336]])
    y = torch.tensor([0, 1])
    collection.update(p[:1], y[:1])
    assert_same({name: collection.compute()[f"printed_{name}"] for name in names}, evaluate(y[:1], p[:1]))
    collection.update(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([2]))
    collection.update(p[1:], y[1:])
    computed = collection.compute()
    assert computed["exact_nll"] == math.inf
    assert computed["printed_nll"].item() == pytest.approx(evaluate(y, p)["nll"])
    assert computed["exact_unimodal_share"].item() == pytest.approx(2 / 3)
    assert computed["printed_unimodal_share"] == 1


def test_a_tracker_knows_the_better_epoch():
    p, y = draw(12)
    for name, best in {"qwk": 1, "mae": 1}.items():
        tracker = torchmetrics.MetricTracker(OrdinalMetrics(4, name))
        for decided in (p.argmax(dim=1), y, (y + 1) % 4):
            tracker.increment()
            tracker.update(decided, y)
        assert tracker.best_metric(return_step=True)[1] == best


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), OrdinalMetrics.clone]
)
def test_copies_go_on_by_themselves(twin):
    p, y = draw(12)
    metrics = stream(OrdinalMetrics(4, FAST), [(p[:6], y[:6])])
    other = stream(twin(metrics), [(p[6:], y[6:])])
    assert_same(metrics.compute(), evaluate(y[:6], p[:6]))
    assert_same(other.compute(), evaluate(y, p))


def test_states_are_saved_on_demand():
    p, y = draw(12)
    metrics = stream(OrdinalMetrics(4, FAST), [(p, y)])
    assert metrics.state_dict() == {}
    metrics.persistent(True)
    fresh = OrdinalMetrics(4, FAST)
    fresh.load_state_dict(metrics.state_dict())
    fresh.update(p[:3], y[:3])
    assert_same(fresh.compute(), evaluate(torch.cat([y, y[:3]]), torch.cat([p, p[:3]])))


# Processes


def test_states_merge():
    p, y = draw(12)
    first, second = (OrdinalMetrics(4, FAST) for _ in range(2))
    first.update(p[:5], y[:5])
    second.update(p[5:], y[5:])
    first.merge_state(second)
    assert_same(first.compute(), evaluate(y, p))
    with pytest.raises(ValueError, match="published_confusion"):
        OrdinalMetrics(4, "mae", published=True).merge_state(second)


def test_processes_add_up(tmp_path):
    """Two processes and torch.distributed; the second has seen fewer batches."""
    code = f"""
import json, sys, torch, torch.distributed as dist
from unimodal.validation import OrdinalMetrics
torch.set_num_threads(1)
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://{tmp_path}/meeting", rank=rank, world_size=2)
metrics = OrdinalMetrics(4, {FAST!r})
for p, y in torch.load("{tmp_path}/batches")[rank]:
    metrics.update(p, y)
print(json.dumps({{name: value.item() for name, value in metrics.compute().items()}}))
dist.barrier()
dist.destroy_process_group()
"""
    p, y = draw(30)
    parts = list(zip(p.split(10), y.split(10), strict=True))
    torch.save([parts[:2], parts[2:]], tmp_path / "batches")
    ranks = [
        subprocess.Popen([sys.executable, "-c", code, str(rank)], stdout=-1, stderr=-1, text=True)
        for rank in range(2)
    ]
    expected = evaluate(y, p)
    for rank in ranks:
        out, err = rank.communicate(timeout=120)
        assert rank.returncode == 0, err
        assert json.loads(out) == pytest.approx({name: expected[name] for name in FAST}, nan_ok=True)


# Devices and precisions


def states(metrics):
    return [*metrics.metric_state.values(), *metrics._defaults.values()]


@pytest.mark.parametrize(
    "cast", [torch.nn.Module.half, lambda m: m.to(torch.bfloat16), torch.nn.Module.float]
)
def test_casting_a_model_leaves_its_metrics_exact(cast):
    p, y = draw(30)
    model = torch.nn.ModuleDict({"linear": torch.nn.Linear(2, 4), "metrics": OrdinalMetrics(4, FAST)})
    stream(model["metrics"], [(p[:9], y[:9])])
    stream(cast(model)["metrics"], [(p[9:], y[9:])])
    assert {state.dtype for state in states(model["metrics"])} == {torch.float64, torch.int64}
    assert_same(model["metrics"].compute(), evaluate(y, p))


def test_states_follow_their_model():
    model = torch.nn.ModuleDict({"metrics": OrdinalMetrics(4)}).to("meta")
    assert {state.device.type for state in states(model["metrics"])} == {"meta"}
    assert model["metrics"].device.type == "meta"


def test_a_device_without_doubles_gets_single_precision(monkeypatch):
    monkeypatch.setattr(validation, "_WITHOUT_DOUBLES", {"cpu"})
    p, y = draw(30)
    metrics = stream(OrdinalMetrics(4, FAST), batches(p, y))
    assert {state.dtype for state in states(metrics)} == {torch.float32, torch.int64}
    computed = metrics.compute()
    assert {value.dtype for value in computed.values()} == {torch.float32}
    assert_same(computed, evaluate(y, p), rel=1e-5)
    monkeypatch.setattr(validation, "_WITHOUT_DOUBLES", set())
    assert {state.dtype for state in states(metrics.cpu())} == {torch.float64, torch.int64}


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OrdinalMetrics(0), "n_classes must be at least 1, got 0"),
        (lambda: OrdinalMetrics(3, "f1"), "metrics must be among accuracy, mae, .*, got 'f1'"),
        (lambda: OrdinalMetrics(3, ["mae", "auc"]), "metrics must be among .*, got 'auc'"),
        (lambda: OrdinalMetrics(3, []), "metrics must name at least one metric, got none"),
        (lambda: OrdinalMetrics(3, sync=True), "Unexpected keyword arguments: `sync`"),
        (lambda: OrdinalMetrics(3).update([0, 3], [0, 1]), r"p must lie in \[0, 2\], got 3 at row 1"),
        (lambda: OrdinalMetrics(3).update([0, 1], [0, 3]), r"y must lie in \[0, 2\], got 3 at row 1"),
        (lambda: OrdinalMetrics(3).update([[0.5, 0.5]], [0]), "p must have n_classes = 3 columns, got 2"),
        (
            lambda: OrdinalMetrics(3, "nll").update([0, 1], [0, 1]),
            r"p must hold probabilities, .* got one class",
        ),
    ],
)
def test_bad_input_is_named_with_its_value_and_place(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_refused_batch_changes_nothing():
    p, y = draw(6)
    metrics = stream(OrdinalMetrics(4, FAST), [(p, y)])
    with pytest.raises(ValueError, match="must lie in"):
        metrics.update(p, y + 3)
    assert_same(metrics.compute(), evaluate(y, p))


def test_without_torchmetrics_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "unimodal.validation")
    with pytest.raises(ImportError, match=r"pip install 'unimodal\[images\]'"):
        importlib.import_module("unimodal.validation")


def test_the_example_is_true():
    assert doctest.testmod(validation) == (0, 5)
