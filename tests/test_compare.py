"""Comparing methods: the statistics against hand-computed values, and who takes part in which folds."""

import numpy as np
import pandas as pd
import pytest
from command_line import table
from scipy import stats

import unimodal as um
from unimodal.benchmark import peers
from unimodal.benchmark.compare import _task, compare
from unimodal.benchmark.ranking import Model, rank, take
from unimodal.benchmark.statistics import estimate, holm
from unimodal.estimators import search
from unimodal.metrics import METRICS

HARD, SOFT = Model("method", True), Model("method", False)


def quick(**parameters):
    return um.OrdinalClassifier(**({"epochs": 2, "members": 2, "trees": 0, "hidden": (4,)} | parameters))


def test_the_corrected_test_by_hand():
    """Differences 1, 2, 3, 4 of two 2-fold deals: mean 2.5, variance 5/3, error sqrt((1/4 + 1) 5/3)."""
    found = estimate(np.array([1.0, 2.0, 3.0, 4.0]), n_folds=2)
    error = np.sqrt(1.25 * 5 / 3)
    t = 2.5 / error
    # The distribution of Student's t with 3 degrees of freedom has a closed form.
    below = 0.5 + (np.arctan(t / np.sqrt(3)) + t / np.sqrt(3) / (1 + t**2 / 3)) / np.pi
    assert found.mean == 2.5
    assert found.p == pytest.approx(2 * (1 - below), rel=1e-12)
    assert found.high - 2.5 == pytest.approx(3.182446305284263 * error, rel=1e-9)  # tables of t, 97.5 %
    assert found.low + found.high == pytest.approx(5)


def test_the_correction_is_all_that_differs_from_the_plain_test():
    values = np.random.default_rng(0).normal(0.4, 1, 10)
    plain = stats.ttest_1samp(values, 0)
    found = estimate(values, n_folds=10**9)
    assert found.p == pytest.approx(plain.pvalue)
    assert estimate(values, n_folds=5).p > plain.pvalue


def test_differences_that_are_the_same_in_all_folds():
    assert estimate(np.zeros(5), 5) == (0, 0, 0, 1)
    assert estimate(np.full(5, 0.1), 5)[3] == 0
    unknown = estimate(np.array([1.0, np.nan, 2.0]), 3)
    assert np.isnan(unknown).all()


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, never falling."""
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03, 0.02])), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm(np.array([0.5, 0.9])), [1.0, 1.0])
    np.testing.assert_allclose(holm(np.array([0.02, np.nan, 0.03])), [0.04, np.nan, 0.04])
    assert holm(np.array([])).size == 0


def scores(by_model, metric="rps"):
    """Rows as `compare` collects them: a list of scores in folds, or one for each lambda."""
    rows = []
    for model, of_model in by_model.items():
        for lam, values in of_model.items() if isinstance(of_model, dict) else [(np.nan, of_model)]:
            for fold, value in enumerate(values):
                other = dict.fromkeys(METRICS, 0.5) | {metric: value}
                rows.append({"model": model, "lam": lam, "seed": 0, "fold": fold} | other)
    return pd.DataFrame(rows)


def test_lambda_is_chosen_by_the_other_folds():
    """In fold 0 the others prefer 10 (0.2 < 0.3), in folds 1 and 2 they prefer 1 (0.2 < 0.55)."""
    frame = scores({"co": {1.0: [0.1, 0.3, 0.3], 10.0: [0.9, 0.2, 0.2]}})
    (row,) = rank(frame, {"co": SOFT}, "rps", 3)
    assert row.estimate.mean == pytest.approx((0.9 + 0.3 + 0.3) / 3)
    assert row.lam == 1.0  # of all folds: 0.7 / 3 < 1.3 / 3
    assert frame["chosen"].tolist() == [False, True, True, True, False, False]


def test_lambda_is_chosen_within_the_deal():
    """Folds of another deal hold the same rows: they must not be asked."""
    one = scores({"co": {1.0: [0.1, 0.1], 10.0: [0.2, 0.2]}})
    other = scores({"co": {1.0: [0.9, 0.9], 10.0: [0.2, 0.2]}}).assign(seed=1)
    frame = pd.concat([one, other], ignore_index=True)
    (row,) = rank(frame, {"co": SOFT}, "rps", 2)
    assert row.estimate.mean == pytest.approx((0.1 + 0.1 + 0.2 + 0.2) / 4)


@pytest.mark.parametrize(
    ("metric", "first"), [("rps", "a"), ("accuracy", "b"), ("mean_error", "a")], ids=lambda value: value
)
def test_ranking_knows_what_is_better(metric, first):
    signs = -1 if metric == "mean_error" else 1
    frame = scores({"a": [0.1 * signs, 0.1 * signs], "b": [0.3, 0.3], "c": [np.nan, 0.1]}, metric)
    ranked = rank(frame, {"a": HARD, "b": HARD, "c": HARD}, metric, 2)
    assert [ranked[0].name, ranked[2].name] == [first, "c"]
    assert ranked[0].difference is None
    assert ranked[1].p == 0
    assert abs(ranked[1].difference.mean) == pytest.approx(0.2)
    assert np.isnan(ranked[2].p)
    assert not ranked[2].is_worse  # nobody knows


def test_of_equal_models_the_unimodal_one_is_first():
    frame = scores({"forest": [0.1, 0.2], "forest+u": [0.1, 0.2]})
    ranked = rank(frame, {"forest": Model("peer", False), "forest+u": Model("peer", True)}, "rps", 2)
    assert [each.name for each in ranked] == ["forest+u", "forest"]
    assert ranked[1].p == 1
    assert not ranked[1].is_worse


def chosen(by_model, models):
    return take(rank(scores(by_model), models, "rps", 5), "rps")


BEST, NEAR, FAR = [0.10, 0.12, 0.11, 0.10, 0.12], [0.11, 0.11, 0.12, 0.11, 0.11], [0.5, 0.52, 0.51, 0.5, 0.52]


def test_the_best_is_taken_if_it_is_always_unimodal():
    found = chosen({"un": BEST, "ce": NEAR, "bu": FAR}, {"un": HARD, "ce": SOFT, "bu": HARD})
    assert found.name == "un"
    assert found.why == (
        "un has the best mean rps and is always unimodal; not significantly worse: 1 of 2 others."
    )


def test_among_equals_an_always_unimodal_one_is_taken():
    """Differences 0.01 (three times) and -0.01: mean 0.002, error sqrt(0.45 * 0.00012), t = 0.272."""
    found = chosen({"ce": BEST, "un": NEAR, "bu": FAR}, {"ce": SOFT, "un": HARD, "bu": HARD})
    assert found.name == "un"
    assert found.why == (
        "ce has the best mean rps, but un is always unimodal, and the difference is not significant "
        "(p = 0.80)."
    )


def test_the_best_is_taken_if_it_is_significantly_better():
    found = chosen({"ce": BEST, "bu": FAR}, {"ce": SOFT, "bu": HARD})
    assert found == (
        "ce", "ce has the best mean rps; all that are always unimodal are significantly worse."
    )  # fmt: skip
    assert chosen({"ce": BEST}, {"ce": SOFT}) == ("ce", "ce is the only one.")


def test_what_cannot_be_compared_is_not_called_worse():
    one_inf, all_inf = [np.inf, 0.12, 0.11, 0.10, 0.12], [np.inf] * 5
    models = {"un": HARD, "ce": SOFT, "bu": HARD}
    ranked = rank(scores({"un": BEST, "ce": one_inf, "bu": FAR}), models, "rps", 5)
    assert [(each.name, each.is_worse) for each in ranked] == [("un", False), ("bu", True), ("ce", False)]
    assert np.isnan(ranked[2].p)
    assert take(ranked, "rps").why == (
        "un has the best mean rps and is always unimodal; not significantly worse: 0 of 2 others; "
        "not comparable: 1."
    )
    assert chosen({"ce": BEST, "un": all_inf, "bu": FAR}, models).why == (
        "ce has the best mean rps; all that are always unimodal are significantly worse or not comparable."
    )
    assert chosen({"ce": all_inf, "un": all_inf, "bu": [np.nan] * 5}, models) == (
        "un",
        "no model has a finite mean rps, so that it does not tell which is better; choose another metric.",
    )


@pytest.fixture(scope="module")
def compared():
    frame = table().drop(columns="name")
    y = frame.pop("grade")
    order = ["low", "mid", "high", "top, [red]"]
    stages = []
    found = compare(
        frame, y, ["un", "co2", "un"], folds=3, seeds=2, lambdas=[0.1, 10], order=order, estimator=quick(),
        on_stage=lambda stage, share: stages.append((stage, share)),
    )  # fmt: skip
    return frame, y, order, found, stages


def test_everybody_is_in_the_same_folds(compared):
    X, y, order, found, _ = compared
    task = _task(X, y, 3, 2, order, quick(), None, print)
    for seed in (0, 1):
        np.testing.assert_array_equal(task.folds[seed], search._deal(task.template, task.rows, 3, seed).folds)
    counts = found.folds.groupby("model").size().to_dict()
    assert counts == dict.fromkeys([f"{peer}{u}" for peer in peers.PEERS for u in ("", "+u")], 6) | {
        "ensemble": 6, "un": 6, "co2": 12,
    }  # fmt: skip
    assert found.folds[found.folds.chosen].groupby("model").size().eq(6).all()
    assert found.left_out == {}
    assert found.finished
    assert found.n_rows == 60


def test_the_methods_are_those_of_cross_validate(compared):
    X, y, order, found, _ = compared
    alone = um.cross_validate(X, y, ["un"], folds=3, seeds=2, order=order, estimator=quick())
    own = found.folds[found.folds.model == "un"].sort_values(["seed", "fold"])
    np.testing.assert_array_equal(own["rps"], alone["rps"])


def test_a_peer_is_scored_by_hand(compared):
    X, y, order, found, _ = compared
    task = _task(X, y, 3, 2, order, quick(), None, print)
    _, _, learnt, tested = next(task.splits())
    rows = peers.as_categories(task.rows.X)
    p = peers.predict(
        peers.fit(peers.peer("forest", 0), rows.iloc[learnt], task.rows.y[learnt]), rows.iloc[tested], 4
    )
    first = found.folds[(found.folds.model == "forest+u") & (found.folds.seed == 0)].iloc[0]
    assert first["rps"] == pytest.approx(um.metrics.rps(task.rows.y[tested], um.project(p)))
    assert first["unimodal_share"] == 1
    assert np.isfinite(first["nll"])


def test_unimodal_models_are_marked(compared):
    *_, found, stages = compared
    marked = {each.name: each.model.always_unimodal for each in found.ranked}
    assert marked["un"]
    assert marked["ensemble"]
    assert marked["forest+u"]
    assert not marked["co2"]
    assert not marked["forest"]
    assert all(each.scores["unimodal_share"] == 1 for each in found.ranked if each.model.always_unimodal)
    assert list(dict.fromkeys(stage for stage, _ in stages)) == [
        "scikit-learn's models", "the ensemble", "the methods",
    ]  # fmt: skip
    assert all(0 <= share <= 1 for _, share in stages)


def test_an_interruption_leaves_what_was_finished(monkeypatch):
    frame = table().drop(columns="name")
    y = frame.pop("grade").replace("top, [red]", "high")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("unimodal.benchmark.compare._score_methods", interrupted)
    found = compare(frame, y, ["un"], folds=2, order=["low", "mid", "high"], estimator=quick())
    assert not found.finished
    assert {each.name for each in found.ranked} >= {"ensemble", "forest"}
    monkeypatch.setattr("unimodal.benchmark.compare._score_peers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(frame, y, ["un"], folds=2, order=["low", "mid", "high"], estimator=quick())


def test_methods_of_which_a_part_was_finished_are_left_out(monkeypatch):
    frame = table().drop(columns="name")
    y = frame.pop("grade").replace("top, [red]", "high")
    whole = um.cross_validate

    def part(*args, **kwargs):
        return whole(*args, **kwargs).iloc[1:]

    monkeypatch.setattr("unimodal.benchmark.compare.cross_validate", part)
    found = compare(frame, y, ["ce", "un"], folds=2, order=["low", "mid", "high"], estimator=quick())
    assert not found.finished
    assert found.left_out == {"ce": "interrupted"}
    assert "un" in {each.name for each in found.ranked}


def test_a_fold_without_all_classes_and_a_column_without_values():
    X = pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 6], "b": np.nan, "c": list("xyxyxy")})
    y = np.array([0, 0, 0, 0, 0, 1])
    found = compare(X, y, ["ce"], folds=3, estimator=quick())
    assert found.left_out == {}
    assert {each.name for each in found.ranked} >= {"logistic", "forest", "boosting"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "rsp"}, r"metric must be one of accuracy, .*, got 'rsp'; did you mean 'rps'\?"),
        ({"methods": ["wu-was"]}, r"methods must be among ce, .*, got 'wu-was'; did you mean 'wu-wass'\?"),
        ({"folds": 1}, r"folds must lie in \[2, 60\], the number of rows, got 1"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"lambdas": [-1.0]}, "lambdas must be finite and not negative, got -1.0"),
        ({"estimator": quick(lr=-1)}, "lr must be a number of at least 0.0, got -1"),
        ({"estimator": quick(method="nu")}, "method must be one of ce, .*, got 'nu'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_errors(options, message, monkeypatch):
    def too_late(*_):
        pytest.fail("models are trained before what is wrong is said")

    monkeypatch.setattr("unimodal.benchmark.compare._score_peers", too_late)
    frame = table().drop(columns="name")
    y = frame.pop("grade").replace("top, [red]", "high")
    with pytest.raises(ValueError, match=message):
        compare(frame, y, **({"methods": ["co"], "order": ["low", "mid", "high"]} | options))


def test_tables_for_peers():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "truth": pd.array([True, None, False], dtype="boolean"),
            "text": ["a", None, "b"],
            "rank": pd.Categorical(["x", "y", "x"], ordered=True),
            "number": [1.5, 2.5, np.nan],
        }
    )
    converted = peers.as_categories(frame)
    assert [str(dtype) for dtype in converted.dtypes] == [
        "float64", "float64", "category", "category", "float64",
    ]  # fmt: skip
    p = np.array([[0.0, 1.0]])
    np.testing.assert_allclose(peers.floored(p), [[1e-6 / (1 + 1e-6), 1 / (1 + 1e-6)]])
