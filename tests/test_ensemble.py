"""The ensemble behind the classifier: few rows, which of them count as unseen, and how trees are mixed in."""

import numpy as np
import pytest
from small_models import fitted, make

import unimodal as um
from unimodal.estimators import ensemble


@pytest.mark.parametrize("trees", [0, 3])
def test_very_few_rows(trees):
    X, _ = make(6)
    options = {"members": 8, "trees": trees}
    for y in ([0, 1], [1, 1], [0, 1, 2], [0, 1, 2, 3, 4, 4]):
        model = fitted(X[: len(y)], y, **options)
        p = model.predict_proba(X)
        assert p.shape == (6, len(set(y)))
        assert um.simplex.is_unimodal(p, tol=0).all()
        assert model.validation_confusion_.sum() == len(y)
    assert fitted(X, [7] * 6).predict(X).tolist() == [7] * 6
    assert fitted(X, [7] * 6).validation_scores_["accuracy"] == 1
    alone = fitted(X[:1], ["b"], order=["a", "b"], **options)
    assert alone.predict_proba(X).shape == (6, 2)
    assert alone.validation_confusion_.sum() == 0
    assert np.isnan(alone.validation_scores_["accuracy"])


def test_classes_with_one_row():
    X, y = make(40)
    y[:2] = 8, 9
    p = fitted(X, y).predict_proba(X)
    assert p.shape == (40, 5)
    assert (p > 0).all()


@pytest.mark.parametrize(("members", "judged"), [(1, 5), (3, 15), (8, 40), (10, 40)])
def test_only_rows_that_were_not_seen_are_scored(members, judged):
    X, y = make(40)
    model = fitted(X, y, members=members)
    assert model.validation_confusion_.sum() == judged
    assert len(model._ensemble.networks.parameters) == members


@pytest.mark.parametrize("trees", [0, 30])
@pytest.mark.parametrize("members", [2, 8])
def test_labels_that_nothing_explains_score_at_chance(members, trees):
    """Networks and trees that know their own rows by heart must not be asked about those."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(320, 12)), rng.integers(2, size=320)
    model = um.OrdinalClassifier(
        "ce", members=members, trees=trees, hidden=(64,), epochs=25, lr=0.02, dropout=0.0, weight_decay=0.0,
        patience=None, batch_size=320, random_state=0,
    ).fit(X, y)  # fmt: skip
    model._ensemble.share = 1.0 if trees else 0.0
    n_judged = model.validation_confusion_.sum()
    assert abs(model.validation_scores_["accuracy"] - 0.5) < 3.2 * 0.5 / np.sqrt(n_judged)
    if trees:
        assert np.mean(model.predict(X) == y) > 0.9
    else:
        p = model._ensemble.networks.log_prob(ensemble.with_ones(model._encoder.transform(X))).exp()
        assert np.mean(p.argmax(2).numpy() == y) > 0.5


@pytest.mark.parametrize("kind", ["between", "networks", "trees"])
def test_the_share_of_the_trees_makes_unseen_rows_likeliest(kind):
    rng = np.random.default_rng(3)
    n = 400
    y = rng.integers(4, size=n)
    good, bad = (rng.dirichlet(np.ones(4), n) + strength * np.eye(4)[y] for strength in (2, 0))
    mine, theirs = {
        "between": (good, np.roll(good, 1, 0) * 0.3 + good),
        "networks": (good, bad),
        "trees": (bad, good),
    }[kind]
    if kind == "between":
        half = rng.random(n) < 0.6
        mine, theirs = np.where(half[:, None], good, bad), np.where(half[:, None], bad, good)
    mine, theirs = (p / p.sum(axis=1, keepdims=True) for p in (mine, theirs))
    theirs[:20] = np.nan
    weight = rng.uniform(0.5, 2, n)
    share = ensemble.best_share(mine, theirs, y, weight)
    of_label = np.arange(20, n), y[20:]
    grid = np.linspace(0, 1, 2001)
    likelihood = [(weight[20:] * np.log((1 - a) * mine[of_label] + a * theirs[of_label])).sum() for a in grid]
    assert 0 <= share <= 1
    assert abs(share - grid[np.argmax(likelihood)]) <= 5e-4
    assert (0.1 < share < 0.9) == (kind == "between")


def test_the_share_where_nothing_is_known():
    p = np.full((3, 2), 0.5)
    assert ensemble.best_share(p, np.full((3, 2), np.nan), np.zeros(3, dtype=int), np.ones(3)) == 0
