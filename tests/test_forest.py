"""The forest against scikit-learn's own, against trees grown in a loop, and against damage."""

import numpy as np
import pytest
from safetensors.numpy import load, save
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from unimodal.estimators.forest import KINDS, Forest, flatten
from unimodal.projection import compiled

N_CLASSES = 5


def make(n=300, missing=0.0, classes=range(N_CLASSES), seed=0):
    """Columns, ordered labels that depend on them, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(3, size=n)
    score = X[:, 0] + 0.5 * X[:, 1] * X[:, 3] + rng.normal(size=n)
    cuts = np.quantile(score, np.linspace(0, 1, len(classes) + 1)[1:-1])
    y = np.asarray(classes)[np.searchsorted(cuts, score)]
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, rng.uniform(0.2, 3, size=n)


def grown(n_trees=20, seed=1, **options):
    X, y, weight = make()
    return Forest.grow(X, y, weight, N_CLASSES, n_trees=n_trees, seed=seed, **options)[0]


def joined(forest):
    """scikit-learn's forest of classifiers as ours."""
    trees = [flatten(tree, tree.tree_.value[:, 0]) for tree in forest.estimators_]
    return Forest.join(trees, forest.n_features_in_)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_predicts_what_scikit_learn_predicts(kind, weighted, missing):
    X, y, weight = make(missing=missing)
    theirs = kind(30, random_state=0, min_samples_leaf=2).fit(X, y, weight if weighted else None)
    new, _, _ = make(500, missing=missing, seed=1)
    found = joined(theirs).predict(new)
    np.testing.assert_allclose(found, theirs.predict_proba(new), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-12)


def test_numbers_beside_a_threshold_go_the_same_way():
    X, y, _ = make()
    theirs = RandomForestClassifier(10, random_state=0).fit(X, y)
    ours = joined(theirs)
    thresholds = np.concatenate([tree.tree_.threshold for tree in theirs.estimators_])
    for neighbour in (-np.inf, np.inf):
        narrow = thresholds.astype(np.float32)
        for beside in (thresholds, narrow, np.nextafter(narrow, np.float32(neighbour))):
            new = np.repeat(beside[:, None], X.shape[1], axis=1)
            np.testing.assert_allclose(ours.predict(new), theirs.predict_proba(new), rtol=0, atol=1e-12)


def test_a_column_that_was_never_missing_may_be_missing_in_new_rows():
    X, y, _ = make()
    theirs = RandomForestClassifier(10, random_state=0).fit(X, y)
    X[::2, 0] = np.nan
    X[::3, 3] = np.nan
    trees = [tree.predict_proba(X.astype(np.float32), check_input=False) for tree in theirs.estimators_]
    np.testing.assert_allclose(joined(theirs).predict(X), np.mean(trees, axis=0), rtol=0, atol=1e-12)


def test_a_branch_may_ask_only_whether_a_value_is_missing():
    X = np.where(np.arange(40)[:, None] % 2, np.nan, np.linspace(0, 1e-3, 40)[:, None])
    y = np.arange(40) % 2
    theirs = RandomForestClassifier(10, random_state=0).fit(X, y)
    assert np.isinf([tree.tree_.threshold[0] for tree in theirs.estimators_]).any()
    new = np.array([[np.nan], [0.0], [1e38]])
    np.testing.assert_array_equal(joined(theirs).predict(new), theirs.predict_proba(new))
    np.testing.assert_array_equal(joined(theirs).predict(np.array([[1e300], [np.inf]])), [[1, 0], [1, 0]])


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", KINDS)
def test_out_of_bag_as_in_a_loop(kind, missing):
    X, y, weight = make(60, missing=missing, classes=(0, 2, 3))
    options = {"min_leaf": 2, "max_features": 0.5}
    forest, out_of_bag = Forest.grow(X, y, weight, N_CLASSES, n_trees=7, kind=kind, seed=3, **options)
    sums, judges, total = np.zeros((60, N_CLASSES)), np.zeros(60), np.zeros((60, N_CLASSES))
    for seed in np.random.SeedSequence(3).spawn(7):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(60, size=60)
        times = np.array([(drawn == row).sum() for row in range(60)])
        tree = KINDS[kind](min_samples_leaf=2, max_features=0.5, random_state=int(rng.integers(2**31)))
        tree.fit(X, y[:, None] <= np.arange(N_CLASSES - 1.0), sample_weight=times * weight)
        p = np.diff(tree.predict(X), axis=1, prepend=0, append=1)
        total += p
        for row in set(range(60)) - set(drawn):
            sums[row] += p[row]
            judges[row] += 1
    assert (judges == 0).any()
    assert (judges > 1).any()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(out_of_bag, sums / judges[:, None], rtol=0, atol=1e-12)
    np.testing.assert_allclose(forest.predict(X), total / 7, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_splits_know_the_order_of_the_classes(kind):
    """Both columns part the classes two and two, and are alike for Gini's index."""
    y = np.arange(400) % 4
    X = np.stack([(y == 0) | (y == 3), y >= 2], axis=1).astype(float)
    options = {"min_leaf": 90, "max_features": 1.0, "kind": kind}
    forest, _ = Forest.grow(X, y, np.ones(400), 4, n_trees=10, seed=0, **options)
    np.testing.assert_array_equal(forest.feature[forest.roots], 1)


def test_only_the_ratios_of_weights_count():
    X, y, weight = make()
    one, judged = Forest.grow(X, y, weight, N_CLASSES, n_trees=5, seed=0)
    other, judged_too = Forest.grow(X, y, 8 * weight, N_CLASSES, n_trees=5, seed=0)
    np.testing.assert_array_equal(judged, judged_too)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_without_information_a_forest_predicts_weighted_frequencies():
    rng = np.random.default_rng(0)
    y, weight = rng.integers(3, size=400), rng.uniform(0.1, 5, size=400)
    forest, out_of_bag = Forest.grow(np.zeros((400, 2)), y, weight, 3, n_trees=400, seed=0)
    frequency = np.bincount(y, weight) / weight.sum()
    np.testing.assert_allclose(forest.predict(np.ones((1, 2)))[0], frequency, rtol=0, atol=0.005)
    assert np.abs(out_of_bag - frequency).max() < 0.03
    assert not len(forest.feature)


def test_one_class_and_one_row():
    X, _, weight = make(20)
    forest, out_of_bag = Forest.grow(X, np.full(20, 2), weight, 4, n_trees=30, seed=0)
    np.testing.assert_array_equal(forest.predict(X), np.eye(4)[np.full(20, 2)])
    np.testing.assert_array_equal(out_of_bag, np.eye(4)[np.full(20, 2)])
    forest, out_of_bag = Forest.grow(X[:1], np.array([1]), weight[:1], 2, n_trees=3, seed=0)
    np.testing.assert_array_equal(forest.predict(X), np.eye(2)[np.ones(20, int)])
    assert np.isnan(out_of_bag).all()


def test_float32_columns_and_no_rows():
    forest = grown()
    X = make()[0].astype(np.float32)
    np.testing.assert_array_equal(forest.predict(X), forest.predict(X.astype(np.float64)))
    assert forest.predict(X[:0]).shape == (0, N_CLASSES)


def test_a_seed_decides_and_nothing_else_does(monkeypatch):
    X, y, weight = make()
    forest, out_of_bag = Forest.grow(X, y, weight, N_CLASSES, n_trees=20, seed=1)
    same, judged = Forest.grow(X, y, weight, N_CLASSES, n_trees=20, seed=1, n_jobs=2)
    for name, array in forest.to_state().items():
        np.testing.assert_array_equal(array, same.to_state()[name])
    np.testing.assert_array_equal(out_of_bag, judged)
    assert (grown(seed=2).predict(X) != forest.predict(X)).any()

    many = np.tile(X, (20, 1))
    monkeypatch.setattr(compiled, "_threads", lambda: 1)
    expected = forest.predict(many)
    monkeypatch.setattr(compiled, "_threads", lambda: 3)
    np.testing.assert_array_equal(forest.predict(many), expected)
    np.testing.assert_array_equal([forest.predict(row[None])[0] for row in X], expected[: len(X)])


def test_a_forest_survives_a_file_to_the_bit():
    X, y, weight = make(missing=0.1)
    forest, _ = Forest.grow(X, y, weight, N_CLASSES, n_trees=20, seed=0)
    state = forest.to_state()
    assert {array.dtype.name for array in state.values()} == {
        "int64",
        "int32",
        "int16",
        "float32",
        "float64",
        "bool",
    }
    again = Forest.from_state(load(save(state)))
    np.testing.assert_array_equal(forest.predict(X), again.predict(X))
    for name, array in again.to_state().items():
        assert array.dtype == state[name].dtype
        np.testing.assert_array_equal(array, state[name])


def test_a_state_that_cannot_be_written_to_is_copied():
    state = grown().to_state()
    for array in state.values():
        array.flags.writeable = False
    again = Forest.from_state(state)
    X = make()[0]
    np.testing.assert_array_equal(again.predict(X), grown().predict(X))
    assert again.leaves.flags.writeable


def test_more_columns_than_small_integers_can_number():
    X = np.zeros((10, 40_000))
    y = np.arange(10) // 5
    X[:, -1] = y
    forest, _ = Forest.grow(X, y, np.ones(10), 2, n_trees=2, seed=0, min_leaf=1, max_features=1.0)
    state = forest.to_state()
    assert state["feature"].dtype == np.int32
    np.testing.assert_array_equal(Forest.from_state(state).predict(X), forest.predict(X))


def test_other_columns_than_grown_on():
    with pytest.raises(ValueError, match="X must have 4 columns, got shape \\(2, 3\\)"):
        grown().predict(np.zeros((2, 3)))


def with_entry(place, value):
    def damage(array):
        array[place] = value
        return array

    return damage


DAMAGES = [
    ("n_features", lambda a: a[:0], "n_features must hold one integer"),
    ("n_features", lambda a: a - 4, "n_features must hold one integer"),
    ("n_features", lambda a: a.astype(float), "n_features must hold one integer"),
    ("n_features", lambda a: a - 1, r"feature must lie in \[0, 2\], got 3"),
    ("feature", with_entry(0, -1), r"feature must lie in \[0, 3\], got -1 at row 0"),
    ("feature", lambda a: a.astype(np.int64), "feature must fit in int32"),
    ("feature", lambda a: a[:-1], "threshold must have one value for each of"),
    ("threshold", with_entry(3, np.nan), "threshold must be finite, got nan at row 3"),
    ("threshold", with_entry(3, np.inf), "threshold must be finite"),
    ("threshold", lambda a: a.astype(np.float64), "threshold must fit in float32"),
    ("nan_right", lambda a: a[:-1], "nan_right must have one value for each of"),
    ("nan_right", lambda a: a.astype(np.int8), "nan_right must fit in bool"),
    ("roots", with_entry(1, 10**6), "roots must lie in"),
    ("roots", with_entry(1, -(10**6)), "roots must lie in"),
    ("roots", lambda a: a[:0], "roots and leaves must not be empty"),
    ("children", with_entry((0, 1), 10**6), "children must lie in"),
    ("children", with_entry((0, 1), -(10**6)), "children must lie in"),
    ("children", with_entry((5, 0), 5), "children must come after their parents, got 5 at row 5"),
    ("children", with_entry((5, 1), 0), "children must come after their parents, got 0 at row 5"),
    ("children", lambda a: a[:, :1], "children must have two values for each of"),
    ("children", lambda a: a[:, 0], "children must fit in int32 and have 2 axes"),
    ("leaves", with_entry((2, 0), -0.5), "leaves must not be negative, got -0.5 at row 2"),
    ("leaves", with_entry((2, 0), np.nan), "leaves must not be negative, got nan"),
    ("leaves", lambda a: a * 1.001, "leaves must sum to 1"),
    ("leaves", lambda a: a[:, :0], "roots and leaves must not be empty"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_damaged_states_are_refused(name, damage, message):
    state = {key: array.copy() for key, array in grown().to_state().items()}
    state[name] = damage(state[name])
    with pytest.raises(ValueError, match=message):
        Forest.from_state(state)


@pytest.mark.parametrize(
    "change", [lambda s: s.pop("roots"), lambda s: s.update(more=s["roots"]), dict.clear]
)
def test_states_of_something_else_are_refused(change):
    state = grown().to_state()
    change(state)
    with pytest.raises(ValueError, match="arrays must be n_features, roots"):
        Forest.from_state(state)
