"""Metrics against scikit-learn, SciPy, loops over the samples and values computed by hand."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import transport_plan
from scipy.stats import kendalltau
from sklearn.metrics import accuracy_score, cohen_kappa_score, log_loss, mean_absolute_error

from unimodal import metrics as m
from unimodal.metrics import METRICS, evaluate
from unimodal.simplex import is_unimodal, sample

CLASS_METRICS = {
    "accuracy", "mae", "qwk", "kendall_tau", "mean_error", "amae", "mmae", "off_by_one", "gmsec"
}  # fmt: skip
PROBA_METRICS = {"nll", "rps", "ece", "unimodal_share", "mean_w1_violation"}
FAST = [name for name in METRICS if name != "mean_w1_violation"]  # it solves linear programs
CASES = st.tuples(st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**32 - 1))


def make(case):
    """Labels and distributions without ties, sharp and flat ones, good and bad ones."""
    n_classes, n, seed = case
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    p = rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 5.0])), size=n)
    good = rng.random(n) < rng.choice([0.1, 0.7])
    p[good] = (p[good] + 2 * np.eye(n_classes)[y[good]]) / 3
    return y, p


def score(names, *args, **options):
    return {name: METRICS[name].function(*args, **options) for name in names}


def assert_same(found, expected, rel=1e-12):
    assert found == pytest.approx(expected, rel=rel, abs=1e-12, nan_ok=True)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def test_the_table_lists_every_metric_and_what_it_needs():
    assert set(METRICS) == CLASS_METRICS | PROBA_METRICS
    assert {name for name, metric in METRICS.items() if metric.needs_proba} == PROBA_METRICS
    assert all(metric.function is getattr(m, name) for name, metric in METRICS.items())
    better = {name: metric.greater_is_better for name, metric in METRICS.items()}
    assert {name for name in better if better[name]} == {
        "accuracy", "qwk", "kendall_tau", "off_by_one", "gmsec", "unimodal_share"
    }  # fmt: skip
    assert [name for name in better if better[name] is None] == ["mean_error"]


# Metrics of decided classes


@given(CASES)
def test_class_metrics_agree_with_scikit_learn_and_scipy(case):
    y, p = make(case)
    decided, n_classes = p.argmax(axis=1), p.shape[1]
    assert_same(m.accuracy(y, p), accuracy_score(y, decided))
    assert_same(m.mae(y, p), mean_absolute_error(y, decided))
    if len(set(y)) > 1 and len(set(decided)) > 1:
        kappa = cohen_kappa_score(y, decided, labels=range(n_classes), weights="quadratic")
        assert_same(m.qwk(y, p), kappa)
        assert_same(m.kendall_tau(y, p), kendalltau(y, decided, variant="b").statistic)
    else:
        assert math.isnan(m.qwk(y, p))
        assert math.isnan(m.kendall_tau(y, p))


def loops(y, decided, n_classes):
    errors = {k: [abs(d - t) for t, d in zip(y, decided, strict=True) if t == k] for k in range(n_classes)}
    maes = [mean(e) for e in errors.values() if e]
    ends = [errors[0], errors[n_classes - 1]]
    return {
        "mean_error": mean(d - t for t, d in zip(y, decided, strict=True)),
        "off_by_one": mean(abs(d - t) <= 1 for t, d in zip(y, decided, strict=True)),
        "amae": mean(maes),
        "mmae": max(maes),
        "gmsec": math.sqrt(math.prod(e.count(0) / len(e) for e in ends)) if all(ends) else math.nan,
    }


@given(CASES)
def test_class_metrics_agree_with_loops_over_the_samples(case):
    y, p = make(case)
    expected = loops(y.tolist(), p.argmax(axis=1).tolist(), p.shape[1])
    assert_same(score(expected, y, p), expected)


@pytest.mark.parametrize(
    ("y", "decided", "n_classes", "expected"),
    [
        (
            [0, 0, 5, 5],  # absent classes in between: 2.5 each, not an average over six
            [0, 5, 5, 0],
            None,
            {"amae": 2.5, "mmae": 2.5, "off_by_one": 0.5, "accuracy": 0.5, "mae": 2.5, "mean_error": 0.0}
            | {"qwk": 0.0, "kendall_tau": 0.0, "gmsec": 0.5},
        ),
        (
            [0, 1, 2, 2],
            [0, 2, 1, 2],
            3,
            {"accuracy": 0.5, "mae": 0.5, "mean_error": 0.0, "amae": 0.5, "mmae": 1.0, "off_by_one": 1.0}
            | {"qwk": 1 - 2 / 5.5, "kendall_tau": (3 - 1) / 5, "gmsec": math.sqrt(0.5)},
        ),
        (
            [1, 1, 2],  # the extreme classes 0 and 4 are absent
            [1, 4, 3],
            5,
            {"accuracy": 1 / 3, "mae": 4 / 3, "mean_error": 4 / 3, "amae": 1.25, "mmae": 1.5}
            | {"off_by_one": 2 / 3, "kendall_tau": 0.0, "qwk": 1 - 10 / (32 / 3), "gmsec": math.nan},
        ),
    ],
)
def test_class_metrics_computed_by_hand(y, decided, n_classes, expected):
    assert_same(score(CLASS_METRICS, y, decided, n_classes=n_classes), expected)


def test_classes_without_samples_count_only_where_they_should():
    y, decided = [0, 0, 1], [0, 1, 1]
    few, many = (score(CLASS_METRICS, y, decided, n_classes=n_classes) for n_classes in (None, 9))
    assert few.pop("gmsec") == pytest.approx(math.sqrt(0.5))
    assert math.isnan(many.pop("gmsec"))  # class 8 is an extreme of nine
    assert_same(many, few)
    np.testing.assert_array_equal(m.confusion(y, decided), [[1, 1], [0, 1]])
    np.testing.assert_array_equal(m.confusion(y, decided, n_classes=3), [[1, 1, 0], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("y", "decided"), [([0, 1, 2], [1, 1, 1]), ([2, 2, 2], [0, 1, 2]), ([1, 1], [1, 1]), ([0], [0])]
)
def test_agreement_with_a_constant_is_undefined(y, decided):
    assert math.isnan(m.qwk(y, decided, n_classes=3))
    assert math.isnan(m.kendall_tau(y, decided, n_classes=3))
    assert m.mae(y, decided) == mean(abs(a - b) for a, b in zip(y, decided, strict=True))


# Metrics of probabilities


@given(CASES)
def test_nll_agrees_with_scikit_learn(case):
    y, p = make((max(case[0], 2), *case[1:]))
    assert_same(m.nll(y, p), log_loss(y, np.maximum(p, 1e-300), labels=range(p.shape[1])), rel=1e-9)


@given(CASES, st.sampled_from([1, 2, 7, 15, 100]))
def test_rps_and_ece_agree_with_loops_over_the_samples(case, n_bins):
    y, p = make(case)
    assert_same(
        m.rps(y, p),
        mean(
            sum((sum(row[: k + 1]) - (label <= k)) ** 2 for k in range(len(row) - 1))
            for label, row in zip(y, p.tolist(), strict=True)
        ),
    )
    error = 0.0
    for b in range(n_bins):
        inside = [i for i, row in enumerate(p) if b / n_bins < min(max(row), 1) <= (b + 1) / n_bins]
        if inside:
            hits = mean(p[i].argmax() == y[i] for i in inside)
            error += len(inside) / len(y) * abs(hits - mean(p[i].max() for i in inside))
    assert_same(m.ece(y, p, n_bins=n_bins), error)
    assert n_bins != 15 or m.ece(y, p) == m.ece(y, p, n_bins=15)


def test_metrics_of_probabilities_computed_by_hand():
    y, p = [0, 1], [[0.5, 0.0, 0.5], [0.2, 0.5, 0.3]]
    assert m.nll(y, p) == pytest.approx(math.log(2))
    assert m.rps(y, p) == pytest.approx((0.25 + 0.25 + 0.04 + 0.09) / 2)
    assert m.ece(y, p) == pytest.approx(0.5)  # always right at a confidence of 0.5
    assert m.unimodal_share(y, p) == 0.5
    assert m.mean_w1_violation(y, p) == pytest.approx(0.25 / 2)  # a quarter moves by one: (1, 1, 2) / 4


def test_bins_contain_their_upper_ends():
    y, p = [0, 1], [[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]]
    assert m.ece(y, p, n_bins=2) == pytest.approx((0.5 + 0.75) / 2)  # (0, 1/2] and (1/2, 1]
    assert m.ece(y, p, n_bins=1) == pytest.approx(0.25 / 2)
    assert m.ece([0], [[1.0, 0.0]]) == 0.0


def test_violation_is_the_smallest_cost_of_the_transport_problem():
    y, p = make((4, 6, 0))
    costs = [min(transport_plan(row, mode)[0] for mode in range(4)) for row in p]
    assert max(costs) > 0.01
    assert m.mean_w1_violation(y, p) == pytest.approx(mean(costs), abs=1e-6)


@given(CASES)
def test_exactly_the_unimodal_share_is_not_in_violation(case):
    y, p = make(case)
    p[::2] = sample(len(p[::2]), p.shape[1], seed=case[2])
    assert m.unimodal_share(y, p) == mean(bool(is_unimodal(row)) for row in p)
    assert m.unimodal_share(y[::2], p[::2]) == 1.0


def test_nll_is_infinite_where_the_truth_was_excluded_and_exact_beside_it():
    assert m.nll([0, 1], [[0.5, 0.5], [1.0, 0.0]]) == math.inf
    assert m.nll([0], [[1e-310, 1.0]]) == pytest.approx(310 * math.log(10))  # denormal: 1/p overflows
    assert math.copysign(1, m.nll([1], [[0.0, 1.0]])) == 1  # 0, not -0


def test_published_nll_leaves_out_the_samples_up_to_its_floor():
    above = math.nextafter(1e-8, 1)
    p = [[0.5, 0.5], [1.0, 0.0], [1 - 1e-8, 1e-8], [1 - above, above]]
    assert m.nll([0, 1, 1, 1], p, published=True) == pytest.approx((math.log(2) + 8 * math.log(10)) / 2)
    assert m.nll([0, 1, 1, 1], p) == math.inf
    assert math.isnan(m.nll([1, 1], p[1:3], published=True))


def published_by_loop(row):
    signs = [np.sign(np.round(b - a, 2)) for a, b in zip([0, *row], [*row, 0], strict=True)]
    signs = [s for s in signs if s != 0]
    return sum(a != b for a, b in itertools.pairwise(signs)) <= 1


@given(CASES)
def test_published_unimodality_is_its_loop_and_never_stricter_than_the_exact_one(case):
    y, p = make(case)
    flags = [published_by_loop(row) for row in p]
    assert m.unimodal_share(y, p, published=True) == mean(flags)
    assert all(flag >= is_unimodal(row) for flag, row in zip(flags, p, strict=True))
    p = torch.from_numpy(sample(20, 8, seed=case[2]))
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert m.unimodal_share([0] * 20, p.to(dtype), published=True) == 1.0


def test_published_unimodality_overlooks_small_steps_one_by_one():
    shallow = [0.334, 0.33, 0.336]  # steps of 0.33, -0.00, 0.01, -0.34
    slope = np.linspace(0, 0.07, 15)  # steps of 0.005 each
    deep = np.concatenate([slope, [0.0], slope[::-1]])
    deep /= deep.sum()
    for p in (shallow, deep):
        assert m.unimodal_share([0], [p]) == 0.0
        assert m.unimodal_share([0], [p], published=True) == 1.0
    assert m.unimodal_share([0], [[0.34, 0.32, 0.34]], published=True) == 0.0


# What is accepted


KINDS = {
    "list": np.ndarray.tolist,
    "numpy": lambda a: a,
    "float32": lambda a: a.astype(np.float32 if a.dtype.kind == "f" else np.uint8),
    "torch": torch.from_numpy,
    "torch float32": lambda a: torch.from_numpy(a).to(torch.float32),
    "torch bfloat16": lambda a: torch.from_numpy(a).to(torch.bfloat16),
    "torch with gradient": lambda a: torch.from_numpy(a).double().requires_grad_(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_lists_arrays_and_tensors_are_equally_welcome(kind):
    y, pred = np.array([0, 2, 1, 2]), np.array([0, 1, 1, 0])
    p = np.array([[5, 2, 1], [1, 2, 5], [4, 3, 1], [3, 1, 4]]) / 8  # exact in every precision
    convert = KINDS[kind]
    for arguments in [(y, p), (y, p, pred), (y, pred)]:
        assert_same(evaluate(*map(convert, arguments)), evaluate(*arguments))
    assert evaluate(convert(y), convert(p))["accuracy"] == 0.75
    assert evaluate(convert(y), convert(p), convert(pred))["accuracy"] == 0.5


@pytest.mark.parametrize(("dtype", "ripple"), [("float64", 5e-10), ("float32", 5e-7), ("bfloat16", 2e-3)])
def test_unimodality_forgives_the_rounding_of_the_given_precision(dtype, ripple):
    p = torch.tensor([[ripple, 0.0, 1 - ripple]], dtype=getattr(torch, dtype))
    assert m.unimodal_share([0], p) == evaluate([0], p)["unimodal_share"] == 1.0
    assert m.unimodal_share([0], [[ripple + 1e-8, 0.0, 1 - ripple - 1e-8]]) == 0.0  # in double precision


def test_a_million_samples_do_not_overflow():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=10**6)
    decided = np.clip(y + rng.integers(-1, 2, size=10**6), 0, 4)
    assert_same(m.kendall_tau(y, decided), kendalltau(y, decided, variant="b").statistic)
    assert_same(m.qwk(y, decided), cohen_kappa_score(y, decided, weights="quadratic"))
    table = m.confusion(y, decided)
    thousandfold = m.scores({"confusion": table * 1000}, CLASS_METRICS)
    assert_same(thousandfold, m.scores({"confusion": table}, CLASS_METRICS))


# Properties


@given(CASES)
def test_order_and_repetition_of_the_samples_do_not_matter(case):
    y, p = make(case)
    order = np.random.default_rng(case[2]).permutation(np.tile(np.arange(len(y)), 3))
    assert_same(score(FAST, y[order], p[order]), score(FAST, y, p))


@given(CASES)
def test_reversed_classes_give_the_same_metrics_and_the_opposite_error(case):
    y, p = make(case)
    expected = score(FAST, y, p)
    expected["mean_error"] *= -1
    assert_same(score(FAST, p.shape[1] - 1 - y, p[:, ::-1]), expected)


@given(CASES, CASES)
def test_statistics_add_up(case, other):
    y, p = make(case)
    z, q = make((case[0], *other[1:]))
    parts = [m.statistics(m.check(*part), FAST) for part in ((y, p), (z, q))]
    total = {name: parts[0][name] + parts[1][name] for name in parts[0]}
    assert_same(m.scores(total, FAST), score(FAST, np.append(y, z), np.append(p, q, axis=0)))


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("case", [(1, 2, 0), (4, 9, 1), (3, 1, 2)])
def test_evaluate_is_every_single_function(case, published):
    y, p = make(case)
    found = evaluate(y, p, published=published, n_classes=case[0])
    options = {name: {"published": published} for name in ("nll", "unimodal_share")}
    expected = {name: METRICS[name].function(y, p, **options.get(name, {})) for name in METRICS}
    assert list(found) == list(METRICS)
    np.testing.assert_equal(found, expected)


def test_evaluate_judges_the_decisions_it_is_given():
    y, p = make((4, 9, 3))
    decided = (p.argmax(axis=1) + 1) % 4
    found, by_mode = evaluate(y, p, decided), evaluate(y, p)
    of_decided = score(CLASS_METRICS, y, decided, n_classes=4)
    assert found["accuracy"] != by_mode["accuracy"]
    np.testing.assert_equal(found, by_mode | of_decided)
    undefined = dict.fromkeys(PROBA_METRICS, math.nan)
    np.testing.assert_equal(evaluate(y, decided, n_classes=4), of_decided | undefined)


def test_ties_are_decided_for_the_lower_class():
    assert m.confusion([1], [[0.4, 0.2, 0.4]]).nonzero() == (1, 0)


# What is refused

P = [[0.5, 0.5], [0.25, 0.75]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: m.mae([0, 2], P), r"y must lie in \[0, 1\], got 2 at row 1"),
        (lambda: m.mae([0, -1], P), r"y must lie in \[0, 1\], got -1 at row 1"),
        (lambda: m.mae([0, 0.5], P), r"y must hold integers, got 0\.5 at row 1"),
        (lambda: m.mae([0, math.nan], P), "y must hold integers, got nan at row 1"),
        (lambda: m.mae(["low", "mid"], P), "y must hold integers, got dtype <U3"),
        (lambda: m.mae([], []), "p must not be empty"),
        (lambda: m.mae([], np.empty((0, 2))), "y must not be empty"),
        (lambda: m.mae([0], P), r"p must have as many rows as y \(1\), got 2"),
        (lambda: m.mae([0], [0, 1]), r"p must have as many rows as y \(1\), got 2"),
        (lambda: m.mae(P, [0, 1]), r"y must hold one class per sample, of shape \(n,\), got \(2, 2\)"),
        (lambda: m.mae(0, [0, 1]), r"y must hold one class per sample, of shape \(n,\), got \(\)"),
        (lambda: m.mae([[0], [0, 1]], P), "y must be a rectangular array"),
        (lambda: m.mae([0, 1], [[1.0], [0.5, 0.5]]), "p must be a rectangular array"),
        (lambda: m.mae([0, 1], [P]), r"p must have shape \(n, K\) or \(n,\), got \(1, 2, 2\)"),
        (lambda: m.mae([0, 1], [[1, 0], [0.5, 0.6]]), r"p must sum to 1, got 1\.1 at row 1"),
        (
            lambda: m.mae([0, 1], [[1, 0], [1.5, -0.5]]),
            r"p must not be negative, got -0\.5 at row 1, class 1",
        ),
        (lambda: m.mae([0, 1], [[1, 0], [math.nan, 1]]), "p must not contain NaN, got one at row 1, class 0"),
        (lambda: m.mae([0, 1], [0, 3], n_classes=3), r"p must lie in \[0, 2\], got 3 at row 1"),
        (lambda: m.mae([0, 1], P, n_classes=3), "p must have n_classes = 3 columns, got 2"),
        (lambda: m.mae([0, 1], [0, 1], n_classes=0), "n_classes must be at least 1, got 0"),
        (lambda: m.ece([0, 1], P, n_bins=0), "n_bins must be at least 1, got 0"),
        (lambda: evaluate([0, 1], P, [0, 2]), r"pred must lie in \[0, 1\], got 2 at row 1"),
        (lambda: evaluate([0, 1], P, [0]), r"pred must have as many rows as y \(2\), got 1"),
        (
            lambda: evaluate([0, 1], P, P),
            r"pred must hold one class per sample, of shape \(n,\), got \(2, 2\)",
        ),
        (lambda: evaluate([0, 1], [0, 1], [0, 1]), "pred must be left out when p holds classes already"),
    ],
)
def test_bad_input_is_named_with_its_value_and_place(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", sorted(PROBA_METRICS))
def test_metrics_of_probabilities_refuse_classes(name):
    with pytest.raises(
        ValueError, match=r"p must hold probabilities, of shape \(n, K\), got one class per sample"
    ):
        METRICS[name].function([0, 1], [0, 1], n_classes=2)
