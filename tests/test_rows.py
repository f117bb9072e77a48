"""Rows: what is learnt must not depend on how they are listed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unimodal.estimators.rows import balanced, canonical, stratified_folds

ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, -0.0, 1.0, np.nan]), st.integers(0, 2), st.integers(0, 3)), min_size=1
).filter(lambda rows: any(weight for *_, weight in rows))


def of(rows):
    x, y, weight = zip(*rows, strict=True)
    return np.array(x)[:, None], np.array(y), np.array(weight, dtype=float)


def content(X, y, weight):
    """What `canonical` picked, with one NaN and one zero."""
    chosen = canonical(X, y, weight)
    values = X[chosen.rows, 0] + 0.0
    return [
        (None if np.isnan(x) else x, label, w)
        for x, label, w in zip(values.tolist(), y[chosen.rows].tolist(), chosen.weight.tolist(), strict=True)
    ]


@given(ROWS, st.randoms(use_true_random=False))
def test_whole_weights_are_repetition_and_the_order_is_nothing(rows, random):
    X, y, weight = of(rows)
    times = weight.astype(int)
    repeated = X.repeat(times, axis=0), y.repeat(times), np.ones(times.sum())
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert content(X, y, weight) == content(*repeated) == content(*of(shuffled))


@given(ROWS)
def test_nothing_is_lost(rows):
    totals = {}
    for x, label, weight in rows:
        key = (None if np.isnan(x) else x + 0.0), label
        totals[key] = totals.get(key, 0) + weight
    found = {}
    for x, label, weight in content(*of(rows)):
        found[x, label] = found.get((x, label), 0) + weight
    assert found == {key: total for key, total in totals.items() if total}


def test_weights_that_are_not_whole_stay_weights():
    X = np.array([[2.0], [1.0], [2.0]])
    chosen = canonical(X, np.zeros(3, dtype=int), np.array([0.5, 1.5, 0.25]))
    assert sorted(zip(X[chosen.rows, 0], chosen.weight, strict=True)) == [(1.0, 1.5), (2.0, 0.75)]


def test_sums_of_fractions_do_not_depend_on_the_listing():
    weight = np.random.default_rng(0).uniform(0, 10, 500)
    X, y = np.arange(500)[:, None] % 3.0, np.zeros(500, dtype=int)
    forth, back = canonical(X, y, weight), canonical(X[::-1], y, weight[::-1])
    assert len(forth.rows) == 3
    assert forth.weight.tolist() == back.weight.tolist()


def test_very_heavy_rows_are_not_copied():
    chosen = canonical(np.array([[1.0], [2.0]]), np.zeros(2, dtype=int), np.array([1e9, 1.0]))
    assert len(chosen.rows) == 2
    assert sorted(chosen.weight.tolist()) == [1.0, 1e9]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.lists(st.integers(0, 4), min_size=1, max_size=80))
def test_every_class_is_spread_evenly(seed, n_folds, y):
    y = np.array(y)
    n_folds = min(n_folds, len(y))
    folds = stratified_folds(y, n_folds, np.random.default_rng(seed))
    for rows in (np.ones(len(y), dtype=bool), *(y == label for label in set(y.tolist()))):
        sizes = np.bincount(folds[rows], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1
    assert len(np.bincount(folds)) <= n_folds


def test_folds_are_random():
    y = np.arange(60) % 3
    deals = {tuple(stratified_folds(y, 3, np.random.default_rng(seed))) for seed in range(5)}
    assert len(deals) == 5


@pytest.mark.parametrize("y", [[0, 0, 0, 2], [1], [0, 1, 2, 2]])
def test_balanced_classes_have_the_same_total(y):
    y, weight = np.array(y), np.linspace(1, 2, len(y))
    totals = np.bincount(y, weights=weight * balanced(y, weight, 3)[y], minlength=3)
    present = np.unique(y)
    np.testing.assert_allclose(totals[present], weight.sum() / len(present))
