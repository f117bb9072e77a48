"""Numbers in a table: scaled as scikit-learn does or by hand, weights as repetition, in any order."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler

from unimodal.estimators.scaling import SCALINGS
from unimodal.estimators.tables import TableEncoder

ORDERED = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, np.nan, 1e300, -1e308, 5e-324]), st.floats(allow_infinity=False)
)


def outputs(values, numeric="standard", weight=None, **options):
    """What the fit says of one column, as a table of one row per value."""
    X = pd.DataFrame({"x": values})
    return TableEncoder(numeric, **options).fit(X, weight).transform(X)


def fails(message, error=ValueError):
    return pytest.raises(error, match=f"^{re.escape(message)}")


def test_standardised_values_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(3, 7, size=(200, 4)), rng.random(200)
    np.testing.assert_allclose(
        TableEncoder().fit(X).transform(X), StandardScaler().fit_transform(X), rtol=1e-5
    )
    expected = StandardScaler().fit(X, sample_weight=weight).transform(X)
    np.testing.assert_allclose(TableEncoder().fit(X, weight).transform(X), expected, rtol=1e-5)


def test_quantile_scores():
    np.testing.assert_allclose(
        outputs([5, -2, 5, 100], "quantile")[:, 0], norm.ppf([4 / 8, 1 / 8, 4 / 8, 7 / 8]), atol=1e-7
    )
    encoder = TableEncoder("quantile").fit(pd.DataFrame({"x": [0.0, 10.0]}))
    far = encoder.transform(pd.DataFrame({"x": [-1e9, 5.0, 1e9]}))[:, 0]
    np.testing.assert_allclose(far, [norm.ppf(0.25), 0, norm.ppf(0.75)], atol=1e-7)


def test_many_quantiles_are_thinned():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.exponential(size=20_000), np.zeros(5_000)])
    encoder = TableEncoder("quantile").fit(x[:, None])
    scores = encoder.transform(x[:, None])[:, 0]
    assert encoder.to_state()[1]["0.knots"].size <= 1000
    np.testing.assert_allclose(scores[-1], norm.ppf(0.1), atol=1e-6)  # a tie of 5000 is exact
    positive = scores[:20_000]
    expected = norm.ppf((5_000 + positive.argsort().argsort() + 0.5) / 25_000)
    np.testing.assert_allclose(
        np.quantile(positive, [0.1, 0.5, 0.9]), np.quantile(expected, [0.1, 0.5, 0.9]), atol=0.01
    )
    heavy = TableEncoder("quantile").fit(np.array([[0.0], [1.0]]), [1e12, 1]).transform(np.array([[1.0]]))
    assert heavy.item() == 5


def test_piecewise_linear_encoding():
    x = np.arange(1.0, 9.0)
    encoder = TableEncoder("piecewise", bins=4).fit(x[:, None])
    assert encoder.output_names_ == ["x0", "x0 [1, 2]", "x0 [2, 4]", "x0 [4, 6]", "x0 [6, 8]"]
    found = encoder.transform(np.array([[1], [1.5], [3], [5], [8], [-100], [100]]))
    np.testing.assert_allclose(
        found[:, 1:],
        [
            [0, 0, 0, 0],
            [0.5, 0, 0, 0],
            [1, 0.5, 0, 0],
            [1, 1, 0.5, 0],
            [1, 1, 1, 1],
            [0, 0, 0, 0],
            [1, 1, 1, 1],
        ],
    )
    np.testing.assert_allclose(found[5:, 0], ([-100, 100] - x.mean()) / x.std(), rtol=1e-6)


def test_bins_merge_where_values_repeat():
    encoder = TableEncoder("piecewise").fit(np.array([[0.0]] * 90 + [[1.0]] * 10))
    assert encoder.output_names_ == ["x0", "x0 [0, 1]"]


@pytest.mark.parametrize("numeric", SCALINGS)
def test_constant_and_empty_columns_are_harmless(numeric):
    X = pd.DataFrame({"same": [3.1] * 4, "none": [np.nan] * 4, "word": ["a"] * 4, "no word": [None] * 4})
    encoder = TableEncoder(numeric).fit(X)
    assert encoder.output_names_ == ["same", "none", "none missing", "word=a", "no word missing"]
    assert encoder.transform(X).tolist() == [[0, 0, 1, 1, 1]] * 4
    later = pd.DataFrame({"same": [7.0], "none": [5.0], "word": ["b"], "no word": ["c"]})
    assert encoder.transform(later).tolist() == [[0, 0, 0, 0, 0]]


@pytest.mark.parametrize("numeric", SCALINGS)
@given(st.lists(NUMBERS, min_size=1, max_size=30), st.lists(NUMBERS, min_size=1, max_size=5))
def test_outputs_are_finite_and_ordered_as_the_values(numeric, fitted, later):
    encoder = TableEncoder(numeric, bins=5).fit(np.array(fitted)[:, None])
    found = encoder.transform(np.sort(np.array(fitted + later))[:, None])
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 1e4
    present = found[~np.isnan(np.sort(np.array(fitted + later)))]
    scaled = present[:, : -1 if "x0 missing" in encoder.output_names_ else None]
    assert (np.diff(scaled, axis=0) >= 0).all()


def test_a_gap_that_the_fit_never_met_is_the_median():
    encoder = TableEncoder().fit(np.array([[1.0], [2.0], [6.0]]))
    assert encoder.n_outputs_ == 1
    np.testing.assert_array_equal(encoder.transform([[np.nan]]), encoder.transform([[2.0]]))


# Weights


@pytest.mark.parametrize("numeric", SCALINGS)
@settings(max_examples=40)
@given(st.data())
def test_integer_weights_are_repetitions(numeric, data):
    """To the last bit, in the fit of every kind of column; rows of weight 0 leave no trace."""
    row = st.tuples(
        NUMBERS,
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from(["low", "high", None]),
        st.integers(0, 3),
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=20).filter(lambda rows: any(r[-1] for r in rows)))
    X = pd.DataFrame(
        {
            "number": pd.Series([r[0] for r in rows], dtype=float),
            "text": pd.Series([r[1] for r in rows], dtype=object),
            "rank": pd.Series([r[2] for r in rows], dtype=ORDERED),
        }
    )
    weight = np.array([r[-1] for r in rows])
    weighted = TableEncoder(numeric, bins=3).fit(X, weight)
    repeated = TableEncoder(numeric, bins=3).fit(X.loc[X.index.repeat(weight)].reset_index(drop=True))
    assert weighted.output_names_ == repeated.output_names_
    assert weighted.transform(X).tobytes() == repeated.transform(X).tobytes()
    (state, arrays), (expected, expected_arrays) = weighted.to_state(), repeated.to_state()
    assert state == expected
    assert {name: a.tobytes() for name, a in arrays.items()} == {
        name: a.tobytes() for name, a in expected_arrays.items()
    }


@pytest.mark.parametrize("numeric", SCALINGS)
def test_the_order_of_rows_does_not_matter(numeric):
    rng = np.random.default_rng(1)
    X, weight, order = rng.normal(size=(500, 2)).round(1), rng.integers(0, 4, 500), rng.permutation(500)
    one, other = TableEncoder(numeric).fit(X, weight), TableEncoder(numeric).fit(X[order], weight[order])
    assert one.transform(X).tobytes() == other.transform(X).tobytes()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], "weight must be one number per row, of shape (2,), got (1,)"),
        ([1.0, -2.0], "weight must be finite and not negative, got -2 at row 1"),
        ([np.nan, 1.0], "weight must be finite and not negative, got nan at row 0"),
        ([0, 0], "weight must not be zero for every row"),
    ],
)
def test_weights_are_checked(weight, message):
    with fails(message):
        TableEncoder().fit([[1.0], [2.0]], weight)
