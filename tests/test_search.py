"""Comparing methods: every score against training by hand, and the choice against what it is made from."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score

import unimodal as um
from unimodal.estimators.ensemble import as_data, member_run, with_ones
from unimodal.estimators.rows import stratified_folds
from unimodal.estimators.search import LAMBDAS, cross_validate
from unimodal.estimators.tables import TableEncoder
from unimodal.metrics import METRICS
from unimodal.training import Networks, train

FAST = {"epochs": 3, "hidden": (8,), "members": 2, "trees": 0, "batch_size": 32}
KEYS = ["method", "lam", "seed", "fold", "epochs"]


def make(n=70, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X @ [1.0, -0.5, 0.2] + 0.3 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]), score)


def template(**options):
    return um.OrdinalClassifier(**FAST | options)


def compared(methods=("un", "wu-wass"), lambdas=(0.1, 10.0), folds=2, **options):
    return cross_validate(
        *make(), methods, folds=folds, lambdas=lambdas, estimator=template(), **options
    )  # fmt: skip


def searched(methods=("un", "wu-wass"), lambdas=(0.1, 10.0), folds=2, **options):
    options = {"random_state": 0, "estimator": template()} | options
    return um.OrdinalClassifierCV(methods, lambdas=lambdas, folds=folds, **options)


def fails(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}")


def test_a_row_for_each_network():
    frame = compared(("un", "wu-wass", "ce"), seeds=[5, 3])
    assert list(frame) == KEYS + list(METRICS)
    assert len(frame) == (1 + 2 + 1) * 2 * 2
    assert not frame.duplicated(KEYS[:4]).any()
    assert frame["lam"].dtype == np.float64
    assert frame.loc[frame.method != "wu-wass", "lam"].isna().all()
    assert frame.loc[frame.method == "wu-wass", "lam"].tolist() == [0.1] * 4 + [10.0] * 4
    assert set(frame.seed) == {3, 5}
    assert (frame.epochs == 3).all()
    assert frame.index.tolist() == list(range(16))
    pd.testing.assert_frame_equal(
        frame, frame.sort_values(["method", "lam", "seed", "fold"], ignore_index=True)
    )


def test_seeds_are_other_deals():
    frame = compared(("un",), seeds=2)
    assert frame.seed.tolist() == [0, 0, 1, 1]
    assert frame.nll.nunique() == 4
    pd.testing.assert_frame_equal(frame, compared(("un",), seeds=range(2)))
    pd.testing.assert_frame_equal(frame[:2], compared(("un",)))


def test_only_methods_with_a_lambda_try_them():
    frame = compared(("ce", "co2"), lambdas=(1.0,))
    assert frame.lam.isna().tolist() == [False, False, True, True] or frame.method.tolist() == [
        "ce", "ce", "co2", "co2",
    ]  # fmt: skip
    assert frame[frame.method == "co2"].lam.tolist() == [1.0, 1.0]
    assert LAMBDAS == (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def test_scores_are_those_of_the_same_network_trained_alone():
    X, y = make()
    order = np.lexsort([*X.T[::-1]])  # any order will do: rows are put in their own
    frame = cross_validate(
        X[order],
        y[order],
        ("wu-wass",),
        folds=3,
        seeds=[4],
        lambdas=(0.1, 10.0),
        estimator=template(rule="median"),
    )
    from unimodal.estimators.classifier import labelled_rows

    _, rows = labelled_rows(template(), X, y, None)
    rng = np.random.default_rng(4)
    folds = stratified_folds(rows.y, 3, rng)
    for fold in range(3):
        others, tested = np.flatnonzero(folds != fold), folds == fold
        inputs = TableEncoder(template().numeric).fit(rows.X[others]).transform(rows.X)
        parts = stratified_folds(rows.y[others], 8, rng)
        settings = template(method="wu-wass", params={"lam": 10.0}).settings(46)
        run = member_run(settings, others[parts != 0], others[parts == 0], seed=4)
        data = as_data(inputs[None], rows.y, rows.weight)
        [trained] = train(data, 3, [run], settings.recipe)
        networks = Networks.of([trained], run.params)
        p = networks.log_prob(with_ones(inputs[tested])).exp()[0].numpy()
        expected = um.metrics.evaluate(rows.y[tested], p, um.decision.decide(p, "median"))
        found = frame[(frame.lam == 10) & (frame.fold == fold)].iloc[0]
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=name)
        # each test fold has a third of every class
        sizes = np.bincount(rows.y[tested], minlength=3) - np.bincount(rows.y) / 3
        assert (np.abs(sizes) < 1).all()


def test_tables_with_text_missing_values_and_an_order():
    X, y = make()
    table = pd.DataFrame(X, columns=list("abc")).assign(colour=np.array(["red", "blue", None])[y])
    table.loc[::4, "a"] = np.nan
    words = np.array(["low", "mid", "high"])[y]
    frame = cross_validate(
        table, words, ("un",), folds=2, order=["low", "mid", "high"],
        estimator=template(epochs=30, lr=0.05, patience=None),
    )  # fmt: skip
    assert frame.accuracy.mean() > 0.6


def test_weights_count():
    weight = np.random.default_rng(0).uniform(0.1, 3, 70)
    plain, weighted = compared(("un",)), compared(("un",), sample_weight=weight)
    assert (plain.nll != weighted.nll).all()


def test_a_constant_column_of_a_fold_is_no_trouble():
    X, y = make()
    X[:, 2] = 0
    X[5, 2] = 1  # constant in the folds that leave this row out
    frame = cross_validate(X, y, ("un",), folds=3, estimator=template())
    assert np.isfinite(frame.nll).all()


def test_an_interruption_keeps_what_is_finished(monkeypatch):
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if progress.done > 20:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted: the result holds 4 of 8 networks"):
        frame = compared(("ce", "un"), folds=4, on_progress=interrupt)
    assert frame.method.nunique() == 1
    assert len(frame) == 4
    whole = compared(("ce", "un"), folds=4)
    wanted = whole[whole.method == frame.method[0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame, wanted)


def test_an_interruption_before_anything_is_finished_goes_on():
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(on_progress=interrupt)
    X, y = make()
    with pytest.raises(KeyboardInterrupt):
        searched(on_progress=interrupt).fit(X, y)


@pytest.mark.parametrize("scoring", ["rps", "accuracy", "mae", "qwk", "mean_error", "nll"])
def test_the_best_is_chosen_and_refitted(scoring):
    X, y = make()
    methods = ("ce", "bu", "wu-wass", "co2")
    search = searched(methods, scoring=scoring).fit(X, y)
    table = pd.DataFrame(search.cv_results_)
    assert table.method.tolist() == ["ce", "bu", "wu-wass", "wu-wass", "co2", "co2"]
    np.testing.assert_array_equal(table.lam, [np.nan, np.nan, 0.1, 10.0, 0.1, 10.0])
    worth = {"accuracy": 1, "qwk": 1, "mean_error": 0}.get(scoring, -1)
    values = table[scoring] * worth if worth else -table[scoring].abs()
    best = table.loc[values.idxmax()]
    assert search.best_method_ == best.method
    assert search.best_lambda_ == (None if np.isnan(best.lam) else best.lam)
    seed = search.best_estimator_.random_state
    params = {} if search.best_lambda_ is None else {"lam": search.best_lambda_}
    alone = template(method=best.method, params=params, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(search.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(search.predict(X), alone.predict(X))
    np.testing.assert_array_equal(search.predict(X, rule="mean"), alone.predict(X, rule="mean"))
    np.testing.assert_array_equal(search.predict_log_proba(X), alone.predict_log_proba(X))
    np.testing.assert_array_equal(search.predict_interval(X, 0.5), alone.predict_interval(X, 0.5))


def test_results_are_the_means_of_cross_validation():
    X, y = make()
    search = searched().fit(X, y)
    frame = compared(seeds=[search.best_estimator_.random_state])
    for method, lam, *values in zip(
        *(search.cv_results_[name] for name in ["method", "lam", *METRICS]), strict=True
    ):
        rows = frame[(frame.method == method) & ((frame.lam == lam) | (np.isnan(lam) & frame.lam.isna()))]
        np.testing.assert_allclose(rows[list(METRICS)].mean(skipna=False), values)


def test_the_same_seed_chooses_the_same():
    X, y = make()
    one, other = (searched().fit(X, y) for _ in range(2))
    np.testing.assert_equal(one.cv_results_, other.cv_results_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    different = searched(random_state=1).fit(X, y)
    assert (different.cv_results_["nll"] != one.cv_results_["nll"]).all()


def test_what_is_not_said_is_the_estimators():
    X, y = make()
    seen = []
    one = searched(estimator=template(random_state=0, n_jobs=1), random_state=None).fit(X, y)
    other = searched(estimator=template(on_progress=seen.append)).fit(X, y)
    np.testing.assert_equal(one.cv_results_, other.cv_results_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.best_estimator_.n_jobs == 1
    assert seen[-1].done == seen[-1].total
    before = len(seen)
    cross_validate(X, y, ("un",), folds=2, estimator=template(on_progress=seen.append))
    assert len(seen) > before


def test_a_search_reports_the_comparison_and_the_fit_as_one():
    seen = []
    search = searched(on_progress=seen.append, n_jobs=1).fit(*make())
    done = [each.done for each in seen]
    assert done == sorted(done)
    assert {each.total for each in seen} == {3 * ((1 + 2) * 2 + 2)}
    assert seen[-1].remaining == 0
    assert [each.seconds for each in seen] == sorted(each.seconds for each in seen)
    assert search.best_estimator_.on_progress == seen.append


def test_few_rows_and_one_class():
    X, _ = make()
    for rows in (1, 2, 3):
        search = searched(folds=5).fit(X[:rows], np.arange(rows))
        assert search.predict_proba(X).shape == (70, rows)
    one = searched().fit(X, np.zeros(70, dtype=int))
    assert (one.predict(X) == 0).all()
    assert one.best_method_ == "un"
    assert np.isnan(one.cv_results_["rps"]).all()


def test_the_given_estimator_is_left_alone():
    X, y = make()
    estimator = template(params={"penalty": "kl"}, method="wu-wass")
    before = clone(estimator).get_params()
    search = searched(("wu-wass",), estimator=estimator).fit(X, y)
    assert estimator.get_params() == before
    assert not hasattr(estimator, "classes_")
    assert search.best_estimator_.params == {"penalty": "kl", "lam": search.best_lambda_}
    assert clone(search).get_params(deep=False).keys() == search.get_params(deep=False).keys()
    assert search.get_params()["estimator__epochs"] == 3


def test_scikit_learn_takes_it_for_one_of_its_own():
    X, y = make()
    scores = cross_val_score(searched(("un",)), X, y, cv=StratifiedKFold(2), scoring="accuracy")
    assert scores.shape == (2,)
    named = searched().fit(pd.DataFrame(X, columns=list("abc")), y)
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(pd.DataFrame(X, columns=list("cba")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("un", "nope")}, "methods must be among ce, pom"),
        ({"methods": "un"}, "methods must be a list of at least one, got 'un'"),
        ({"methods": ()}, "methods must be a list of at least one, got ()"),
        ({"lambdas": (-1.0,)}, "lambdas must be finite and not negative, got -1.0"),
        ({"lambdas": (np.nan,)}, "lambdas must be finite and not negative, got nan"),
        ({"lambdas": ("1",)}, "lambdas must be finite and not negative, got 1"),
        ({"lambdas": 1.0}, "lambdas must be a list of at least one, got 1.0"),
        ({"lambdas": ()}, "lambdas must be a list of at least one, got ()"),
        ({"estimator": template(params={"lamda": 1.0})}, "params must be of one of the methods, which take"),
        ({"estimator": template(rule="max")}, "rule must be one of 'mode', 'median', 'mean', got 'max'"),
        ({"estimator": template(numeric="log")}, "numeric must be one of"),
    ],
    ids=str,
)
def test_what_both_refuse(options, message):
    X, y = make()
    with fails(message):
        searched(**options).fit(X, y)
    options = {"estimator": template()} | options
    with fails(message):
        cross_validate(X, y, **options, folds=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "seeds must be a list of at least one, got []"),
        ({"seeds": True}, "seeds must be a whole number or a list of those, not negative, got True"),
        ({"seeds": [1.5]}, "seeds must be a whole number or a list of those, not negative, got [1.5]"),
        ({"seeds": [0, -1]}, "seeds must be a whole number or a list of those, not negative, got [0, -1]"),
        ({"folds": 1}, "folds must be an integer in [2, 70], the number of rows, got 1"),
        ({"folds": 71}, "folds must be an integer in [2, 70], the number of rows, got 71"),
        ({"folds": 2.5}, "folds must be an integer in [2, 70], the number of rows, got 2.5"),
        ({"order": [0, 1]}, "order must contain every label of y, 2 (23 rows) is missing"),
    ],
    ids=str,
)
def test_what_the_comparison_refuses(options, message):
    with fails(message):
        compared(**options)


def test_a_single_class_cannot_be_compared():
    with fails("y must have at least two classes, got [4]"):
        cross_validate(make()[0], np.full(70, 4), folds=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "f1"}, "scoring must be one of accuracy, mae"),
        ({"folds": 1}, "folds must be an integer of at least 2, got 1"),
        ({"folds": 2.5}, "folds must be an integer of at least 2, got 2.5"),
    ],
    ids=str,
)
def test_what_the_search_refuses(options, message):
    with fails(message):
        searched(**options).fit(*make())


def test_an_interrupted_final_fit_leaves_the_choice_before_it_whole():
    X, y = make()
    search = um.OrdinalClassifierCV(("ce",), folds=2, estimator=template(), random_state=0).fit(X, y)
    before = search.predict_proba(X)

    def interrupt(progress):
        if progress.done > 2 * FAST["epochs"]:  # the comparison is done
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.set_params(methods=("un",), on_progress=interrupt).fit(X, y > 0)
    assert (search.best_method_, search.cv_results_["method"].tolist()) == ("ce", ["ce"])
    assert search.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(search.predict_proba(X), before)
