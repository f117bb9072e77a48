"""The classifier: labels and tables as people have them, what its numbers mean, and every error."""

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_models import FAST, GRADES, fitted, make, table

import unimodal as um
from unimodal.estimators import ensemble
from unimodal.methods import METHODS


def same(one, other, X):
    """Whether two models agree to the last bit."""
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_equal(one.validation_scores_, other.validation_scores_)
    return True


def fails(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}")


@pytest.mark.parametrize("trees", [0, 4])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_distributions_with_one_peak(name, trees):
    X, y = make(60, 5)
    model = fitted(X, y, method=name, trees=trees)
    p = model.predict_proba(np.concatenate([X, 50 * X]))
    assert p.shape == (120, 5)
    assert p.dtype == np.float64
    assert um.simplex.is_unimodal(p, tol=0).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert model.predict(X).tolist() == model.classes_[p[:60].argmax(axis=1)].tolist()
    assert set(model.validation_scores_) == set(um.metrics.METRICS)


def test_it_learns():
    X, y = make(300)
    model = um.OrdinalClassifier(
        hidden=(16,), epochs=40, lr=0.02, members=8, trees=0, random_state=0
    ).fit(X, y)  # fmt: skip
    new_X, new_y = make(300, seed=1)
    accuracy = np.mean(model.predict(new_X) == new_y)
    assert accuracy > 0.7
    assert abs(model.validation_scores_["accuracy"] - accuracy) < 0.1


def test_without_the_projection_the_mean_of_the_members_is_left_alone():
    X, y = make(60, 5)
    model = fitted(X, y, method="ce", unimodal=False)
    inputs = ensemble.with_ones(model._encoder.transform(X))
    mean = model._ensemble.networks.log_prob(inputs).exp().mean(0).numpy()
    np.testing.assert_allclose(model.predict_proba(X), mean, rtol=1e-12)
    assert not um.simplex.is_unimodal(mean).all()
    projected = fitted(X, y, method="ce").predict_proba(X)
    np.testing.assert_allclose(projected, um.project(mean, metric="kl"), rtol=1e-9)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, 1, 2], [1, 2, 3]),
        ([2.0, 1.0, 3.0], [1.0, 2.0, 3.0]),
        ([True, False, True], [False, True]),
        (["grade 10", "grade 9", "grade 9"], ["grade 9", "grade 10"]),
        (pd.Categorical(["low", "high", "mid"], GRADES, ordered=True), GRADES),
        (pd.Series(["low", "high", "low"], dtype="string"), ["high", "low"]),
        (pd.Series([2, 1, 2], dtype="Int64"), [1, 2]),
    ],
    ids=str,
)
def test_labels_of_every_kind_come_back(y, classes):
    X, _ = make(30)
    y = y.repeat(10) if hasattr(y, "repeat") else [label for label in y for _ in range(10)]
    model = fitted(X, y)
    assert model.classes_.tolist() == classes
    assert set(model.predict(X).tolist()) <= set(classes)
    assert type(model.predict(X).tolist()[0]) is type(classes[0])


def test_columns_follow_the_order_and_only_words_without_one_warn():
    X, y = make()
    words = np.array(GRADES)[y]
    model = fitted(X, words, order=GRADES)
    assert model.classes_.tolist() == GRADES
    with pytest.warns(UserWarning, match="nobody said its order: taken as 'high' < 'low' < 'mid'") as caught:
        as_sorted = fitted(X, words)
    assert Path(caught[0].filename).name == "small_models.py"  # which called this package
    assert as_sorted.classes_.tolist() == sorted(GRADES)
    np.testing.assert_array_equal(model.predict_proba(X), fitted(X, y).predict_proba(X))


def test_a_class_that_never_occurs_is_a_class():
    X, y = make()
    model = fitted(X, np.array(GRADES)[y], order=["none", *GRADES, "extreme"])
    assert model.predict_proba(X).shape == (90, 5)
    assert model.validation_confusion_.shape == (5, 5)
    assert model.validation_confusion_[[0, 4]].sum() == 0


def test_the_rule_decides():
    X, y = make(60, 5)
    model = fitted(X, y, method="ce", lr=0.05)
    p = model.predict_proba(X)
    found = {rule: model.predict(X, rule=rule) for rule in um.decision.RULES}
    for rule, labels in found.items():
        np.testing.assert_array_equal(labels, um.decision.decide(p, rule))
        np.testing.assert_array_equal(fitted(X, y, method="ce", lr=0.05, rule=rule).predict(X), labels)
    assert len({tuple(labels) for labels in found.values()}) == 3
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))


def test_intervals_are_labels():
    X, y = make(60, 5)
    labels = np.array(["a", "b", "c", "d", "e"])
    model = fitted(X, labels[y], order=labels)
    low, high = model.predict_interval(X, 0.7)
    expected = um.decision.interval(model.predict_proba(X), 0.7)
    assert low.tolist() == labels[expected[0]].tolist()
    assert high.tolist() == labels[expected[1]].tolist()
    whole = model.predict_interval(X, 1.0)
    assert set(whole[0]) == {"a"}
    assert set(whole[1]) == {"e"}
    for coverage in (0.0, -0.1, 1.01, float("nan")):
        with fails(f"coverage must lie in (0, 1], got {coverage}"):
            model.predict_interval(X, coverage)


@pytest.mark.parametrize("trees", [0, 5])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.1}])
def test_whole_weights_are_repeated_rows_to_the_last_bit(class_weight, trees):
    X, y = make(50)
    X[::5, 0] = np.nan
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, size=50)
    options = {"class_weight": class_weight, "trees": trees}
    weighted = fitted(X, y, weight, **options)
    repeated = fitted(X.repeat(weight, axis=0), y.repeat(weight), **options)
    assert same(weighted, repeated, X)
    other = fitted(X, y, **options).predict_proba(X)
    assert (other != weighted.predict_proba(X)).any()


@pytest.mark.parametrize("trees", [0, 5])
def test_the_order_of_the_rows_is_nothing(trees):
    X, y = make(50)
    table = pd.DataFrame(X, columns=list("abc")).assign(colour=np.array(["red", "blue"])[y % 2])
    weight = np.random.default_rng(1).uniform(0.5, 2, 50)
    order = np.random.default_rng(2).permutation(50)
    for class_weight in (None, "balanced"):
        options = {"trees": trees, "class_weight": class_weight}
        one = fitted(table, y, weight, **options)
        other = fitted(table.iloc[order], y[order], weight[order], **options)
        assert same(one, other, table)


SCRIPT = """
import hashlib, numpy as np, unimodal as um
from sklearn.datasets import make_blobs
X, y = make_blobs(60, centers=3, random_state=0)
model = um.OrdinalClassifier(epochs=3, hidden=(8,), members=3, trees=4, random_state=7).fit(X, y)
print(hashlib.sha256(model.predict_proba(X).tobytes()).hexdigest())
"""


def test_the_same_seed_says_the_same_in_a_new_process():
    printed = []
    exec(SCRIPT, {"print": printed.append})
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed[0]


def test_seeds_count():
    X, y = make()
    p = fitted(X, y).predict_proba(X)
    np.testing.assert_array_equal(fitted(X, y, random_state=0).predict_proba(X), p)
    same_seed = fitted(X, y, random_state=np.random.RandomState(0)).predict_proba(X)
    np.testing.assert_array_equal(same_seed, p)
    assert (fitted(X, y, random_state=1).predict_proba(X) != p).any()


def test_two_processes_say_what_one_says():
    X, y = make(60)
    options = {"method": "ce", "members": 4, "trees": 4}
    one, two = fitted(X, y, **options), fitted(X, y, n_jobs=2, **options)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_weights_of_classes():
    X, y = make(90)
    rare = np.flatnonzero((y != 2) | (np.arange(90) % 6 == 0))
    X, y = X[rare], y[rare]
    plain = fitted(X, y, epochs=10, lr=0.02).predict_proba(X)[:, 2].mean()
    by_label = fitted(X, y, class_weight={2: 8}, epochs=10, lr=0.02).predict_proba(X)[:, 2].mean()
    even = fitted(X, y, class_weight="balanced", epochs=10, lr=0.02).predict_proba(X)[:, 2].mean()
    assert plain < even
    assert plain < by_label
    counts = np.bincount(y)
    by_hand = {label: len(y) / (3 * count) for label, count in enumerate(counts)}
    assert same(fitted(X, y, class_weight="balanced"), fitted(X, y, class_weight=by_hand), X)
    words = np.array(GRADES)[y]
    named = fitted(X, words, order=GRADES, class_weight={"high": 8.0})
    assert same(named, fitted(X, y, class_weight={2: 8.0}), X)


def test_a_class_of_weight_zero_is_not_learnt_from():
    X, y = make()
    without = fitted(X[y != 1], y[y != 1], order=[0, 1, 2])
    assert same(fitted(X, y, class_weight={1: 0}), without, X)


@pytest.mark.parametrize("trees", [0, 4])
def test_tables_as_people_have_them(trees):
    X = table()
    _, y = make(60)
    model = fitted(X, y, trees=trees)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert model.feature_names_in_.tolist() == list(X)
    assert model.n_features_in_ == 7
    plain = X.astype({"children": float, "member": object, "share": float, "city": object})
    np.testing.assert_array_equal(model.predict_proba(plain), p)
    unknown = X.assign(colour="purple", age=np.nan)
    assert np.isfinite(model.predict_proba(unknown)).all()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[list(X)[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.rename(columns={"age": "Age"}))


def test_names_of_features():
    X, y = make()
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fitted(named, y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        p = model.predict_proba(X)
    np.testing.assert_array_equal(p, model.predict_proba(named))
    assert not hasattr(fitted(X, y), "feature_names_in_")
    refitted = model.fit(X, y)
    assert not hasattr(refitted, "feature_names_in_")
    with pytest.raises(ValueError, match="X has 2 features, but OrdinalClassifier is expecting 3"):
        model.predict(X[:, :2])


def test_sparse_tables_are_refused_with_a_word():
    X, y = make()
    with pytest.raises(TypeError, match="Sparse data was passed"):
        fitted(sparse.csr_matrix(X), y)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        fitted(X, y).predict(sparse.csr_matrix(X))


def test_it_must_be_fitted():
    for call in ("predict", "predict_proba", "predict_log_proba", "predict_interval"):
        with pytest.raises(NotFittedError):
            getattr(um.OrdinalClassifier(), call)([[1.0]])


def test_scikit_learn_takes_it_for_one_of_its_own():
    X, y = make(60)
    model = um.OrdinalClassifier(**FAST)
    assert clone(model.set_params(params={"tau": 2.0})).get_params() == model.get_params()
    model = um.OrdinalClassifier(**FAST)
    piped = make_pipeline(StandardScaler().set_output(transform="pandas"), model).fit(X, y)
    assert piped.score(X, y) == np.mean(piped.predict(X) == y)
    assert piped[-1].feature_names_in_.tolist() == ["x0", "x1", "x2"]
    p = cross_val_predict(model, X, y, cv=2, method="predict_proba")
    assert p.shape == (60, 3)
    search = GridSearchCV(
        um.OrdinalClassifier("wu-wass", **FAST),
        {"params": [{"lam": 0.1}, {"lam": 10.0}], "hidden": [(4,), (8, 8)]},
        cv=2,
        scoring="neg_mean_absolute_error",
    ).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.params in ({"lam": 0.1}, {"lam": 10.0})


@pytest.mark.parametrize("trees", [0, 4])
def test_copies_say_the_same(trees):
    X, y = make(60)
    model = fitted(table(), y, trees=trees)
    X = table(seed=1)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same(model, twin, X)
        assert twin.classes_.tolist() == [0, 1, 2]


def test_training_reports_progress():
    X, y = make()
    seen = []
    fitted(X, y, on_progress=seen.append, patience=None)
    assert seen[-1].done == seen[-1].total == 3 * 3
    assert [each.done for each in seen] == sorted(each.done for each in seen)


def test_an_interrupted_fit_leaves_no_model_or_the_one_before():
    def interrupt(progress):
        raise KeyboardInterrupt

    X, y = make()
    model = um.OrdinalClassifier(**FAST, on_progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    model.set_params(on_progress=None).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(on_progress=interrupt).fit(X, y > 0)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.classes_.tolist() == [0, 1, 2]
