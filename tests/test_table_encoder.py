"""Columns of a table as numbers: every kind, what is stored of them, and every error."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from unimodal.estimators.scaling import SCALINGS
from unimodal.estimators.tables import TableEncoder

ORDERED = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)


def table():
    return pd.DataFrame(
        {
            "age": [30.0, None, 50.0, 40.0, 40.0],
            "sex": ["f", "m", "f", "f", "m"],
            "color": ["red", "blue", None, "green", "blue"],
            "size": pd.Series(["low", "high", "mid", None, "low"], dtype=ORDERED),
            "smoker": [True, False, False, True, True],
            "children": pd.array([0, 2, None, 1, 0], dtype="Int64"),
        }
    )


def outputs(values, numeric="standard", weight=None, **options):
    """What the fit says of one column, as a table of one row per value."""
    X = pd.DataFrame({"x": values})
    return TableEncoder(numeric, **options).fit(X, weight).transform(X)


def fails(message, error=ValueError):
    return pytest.raises(error, match=f"^{re.escape(message)}")


def test_every_kind_of_column():
    encoder = TableEncoder().fit(table())
    assert encoder.output_names_ == [
        "age", "age missing", "sex=m", "color=blue", "color=green", "color=red", "color missing", "size",
        "size missing", "smoker", "children", "children missing",
    ]  # fmt: skip
    assert encoder.n_outputs_ == 12
    assert encoder.n_features_in_ == 6
    assert encoder.feature_names_in_.tolist() == list(table())
    found = pd.DataFrame(encoder.transform(table()), columns=encoder.output_names_)
    assert set(found.dtypes) == {np.dtype(np.float32)}
    for name, values in {
        "age missing": [0, 1, 0, 0, 0],
        "sex=m": [0, 1, 0, 0, 1],
        "color=blue": [0, 1, 0, 0, 1],
        "color=green": [0, 0, 0, 1, 0],
        "color=red": [1, 0, 0, 0, 0],
        "color missing": [0, 0, 1, 0, 0],
        "size missing": [0, 0, 0, 1, 0],
        "children missing": [0, 0, 1, 0, 0],
    }.items():
        assert found[name].tolist() == values
    for name, present, median in [
        ("age", [30, 50, 40, 40], 40),
        ("size", [0, 2, 1, 0], 0.5),
        ("smoker", [1, 0, 0, 1, 1], 1),
        ("children", [0, 2, 1, 0], 0.5),
    ]:
        gap = found.get(f"{name} missing", pd.Series(0, index=range(5))) == 1
        np.testing.assert_allclose(
            found[name][~gap], (present - np.mean(present)) / np.std(present), rtol=1e-6
        )
        np.testing.assert_allclose(found[name][gap], (median - np.mean(present)) / np.std(present), atol=1e-6)


def test_the_raw_view_keeps_numbers_and_gaps():
    np.testing.assert_array_equal(
        TableEncoder("quantile").fit(table()).raw(table()),
        [
            [30, 0, 0, 0, 1, 0, 0, 1, 0],
            [np.nan, 1, 1, 0, 0, 0, 2, 0, 2],
            [50, 0, 0, 0, 0, 1, 1, 0, np.nan],
            [40, 0, 0, 1, 0, 0, np.nan, 1, 1],
            [40, 1, 1, 0, 0, 0, 0, 1, 0],
        ],
    )


# Categories


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
def test_text_of_any_dtype(dtype):
    X = pd.DataFrame({"x": pd.Series(["b", "a", None, "c"]).astype(object).astype(dtype)})
    encoder = TableEncoder().fit(X)
    assert encoder.output_names_ == ["x=a", "x=b", "x=c", "x missing"]
    assert encoder.transform(X).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]


def test_categories_keep_the_order_of_their_categorical_and_only_those_that_occur():
    X = pd.DataFrame({"x": pd.Categorical(["b", "a", "c"], categories=["c", "unused", "a", "b"])})
    assert TableEncoder().fit(X).output_names_ == ["x=c", "x=a", "x=b"]


def test_what_the_fit_never_met_is_no_category():
    X = pd.DataFrame(
        {"x": ["a", "b", "c"], "two": ["n", "y", "y"], "size": pd.Series(["low"] * 3, dtype=ORDERED)}
    )
    encoder = TableEncoder().fit(X)
    later = pd.DataFrame({"x": ["d", None], "two": ["y", "?"], "size": ["high", "huge"]})
    assert encoder.transform(later)[:, :4].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    np.testing.assert_array_equal(encoder.raw(later)[:, 4], [2, np.nan])


def test_columns_are_read_as_what_they_were_whatever_their_dtype_became():
    X = pd.DataFrame({"code": ["1", "2", "x"], "n": [1, 2, 4], "size": pd.Series(["mid"] * 3, dtype=ORDERED)})
    encoder = TableEncoder().fit(X)
    later = pd.DataFrame({"code": [1.0, 2.0, 1.0], "n": ["1", "2", None], "size": ["mid", "low", "high"]})
    expected = pd.DataFrame({"code": ["1", "2", "1"], "n": [1, 2, 2], "size": ["mid", "low", "high"]})
    np.testing.assert_array_equal(encoder.transform(later), encoder.transform(expected))
    later["n"] = pd.Categorical([1, 2, 2])
    np.testing.assert_array_equal(encoder.transform(later), encoder.transform(expected))
    later["n"] = ["1", "2", "two"]
    with fails("X must hold numbers in column 'n', got 'two' at row 2"):
        encoder.transform(later)


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, 2, None], dtype=object),
        pd.Series([1, 2, None], dtype="Int8"),
        pd.Series([1, 2, None], dtype="float[pyarrow]"),
        pd.arrays.SparseArray([1.0, 2.0, np.nan]),
        np.array([1, 2, np.nan], dtype=np.float16),
    ],
)
def test_numbers_of_any_dtype(values):
    expected = [[-1, 0], [1, 0], [0, 1]]
    assert outputs(values).tolist() == expected


# The table


def test_names_are_kept_only_if_all_are_text():
    X = np.arange(6.0).reshape(3, 2)
    encoder = TableEncoder().fit(pd.DataFrame(X, columns=["a", "b"]))
    assert encoder.feature_names_in_.tolist() == ["a", "b"]
    encoder.fit(pd.DataFrame(X))
    assert not hasattr(encoder, "feature_names_in_")
    assert encoder.output_names_ == ["0", "1"]
    np.testing.assert_array_equal(encoder.transform(X), encoder.transform(X.astype(int).tolist()))
    np.testing.assert_array_equal(encoder.transform(X), encoder.transform(X.astype(object)))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["Age", "sex"], "X must have the columns of the fit, 'age' is missing; did you mean 'Age'?"),
        (["sex"], "X must have the columns of the fit, 'age' is missing"),
        (["age", "sex", "id"], "X must have the columns of the fit, 'id' was not among them"),
        (["sex", "age"], "X must have its columns in the order of the fit, 'age', 'sex', got 'sex', 'age'"),
        ([0, 1, 2], "X has 3 features, but TableEncoder is expecting 2 features as input"),
    ],
)
def test_columns_must_be_those_of_the_fit(names, message):
    encoder = TableEncoder().fit(pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["age", "sex"]))
    for method in (encoder.transform, encoder.raw):
        with fails(message):
            method(pd.DataFrame(np.ones((2, len(names))), columns=names))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (
            np.array([[1.0, 2.0], [3.0, -np.inf]]),
            ValueError,
            "X must be finite, got -inf in column 'x1' at row 1",
        ),
        (pd.DataFrame({"a": [1.0, np.inf]}), ValueError, "X must be finite, got inf in column 'a' at row 1"),
        (pd.DataFrame({"a": [10**400, 1]}), ValueError, "X must be finite, got inf in column 'a' at row 0"),
        (np.ones(3), ValueError, "Expected 2D array, got 1D array instead"),
        (np.ones((0, 2)), ValueError, "Found array with 0 sample(s)"),
        (np.ones((2, 0)), ValueError, "Found array with 0 feature(s)"),
        (pd.DataFrame({"a": []}), ValueError, "X must have rows and columns, got shape (0, 1)"),
        (pd.DataFrame(index=[1, 2]), ValueError, "X must have rows and columns, got shape (2, 0)"),
        (sparse.csr_matrix(np.eye(2)), TypeError, "Sparse data was passed for X"),
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (
            pd.DataFrame({"a": [1j, 2]}),
            ValueError,
            "Complex data not supported: got complex128 in column 'a'",
        ),
        ([["a", "b"]], ValueError, "could not convert string to float: 'a'"),
        (np.array([[{}, 1]], dtype=object), TypeError, "float() argument must be a string or a real number"),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            ValueError,
            "X must not have two columns of one name, got 'a'",
        ),
        (
            pd.DataFrame({"a": [b"x"]}),
            ValueError,
            "X must hold numbers, booleans or text, got bytes in column 'a'",
        ),
        (
            pd.DataFrame({"a": [[1], "x"]}),
            ValueError,
            "X must hold numbers, booleans or text, got 'list' in column",
        ),
        (
            pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}),
            ValueError,
            "X must hold numbers, booleans or text, got datetime64 in column 'day': make numbers of it",
        ),
        (
            pd.DataFrame({"t": pd.to_timedelta([1])}),
            ValueError,
            "X must hold numbers, booleans or text, got timedelta64 in column 't': make numbers of it",
        ),
        (
            pd.DataFrame({"id": [f"n{i}" for i in range(101)]}),
            ValueError,
            "X must have at most max_categories=100 different texts in a column, got 101 in column",
        ),
    ],
)
def test_tables_are_checked(X, error, message):
    with fails(message, error):
        TableEncoder().fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numeric": "minmax"}, "numeric must be one of 'standard', 'quantile', 'piecewise', got 'minmax'"),
        ({"bins": 0}, "bins must be a whole number of at least 1, got 0"),
        ({"bins": 2.5}, "bins must be a whole number of at least 1, got 2.5"),
        ({"max_categories": True}, "max_categories must be a whole number of at least 1, got True"),
    ],
)
def test_options_are_checked(options, message):
    encoder = TableEncoder()
    vars(encoder).update(options)
    with fails(message):
        encoder.fit([[1.0]])


def test_nothing_works_before_the_fit():
    for use in (lambda e: e.transform([[1.0]]), lambda e: e.raw([[1.0]]), lambda e: e.to_state()):
        with pytest.raises(NotFittedError, match="TableEncoder is not fitted yet"):
            use(TableEncoder())


# State


@pytest.mark.parametrize("numeric", SCALINGS)
def test_state_comes_back_from_json_and_arrays(numeric):
    encoder = TableEncoder(numeric, bins=3, max_categories=7).fit(table())
    state, arrays = encoder.to_state()
    twin = TableEncoder.from_state(json.loads(json.dumps(state, allow_nan=False)), arrays)
    assert vars(twin).keys() == vars(encoder).keys()
    assert (twin.bins, twin.max_categories, twin.output_names_) == (3, 7, encoder.output_names_)
    assert twin.transform(table()).tobytes() == encoder.transform(table()).tobytes()
    assert twin.raw(table()).tobytes() == encoder.raw(table()).tobytes()
    with fails("X must have the columns of the fit, 'age' is missing"):
        twin.transform(table().drop(columns="age"))


@pytest.mark.parametrize(
    ("numeric", "damage", "message"),
    [
        ("standard", lambda s, a: s.pop("bins"), "'bins' is missing"),
        ("standard", lambda s, a: s.update(columns=[]), "columns must be a list of at least one"),
        ("standard", lambda s, a: s["columns"][0].update(name=3), "column 0 must have a name, got 3"),
        ("standard", lambda s, a: s["columns"][0].update(kind="date"), "column 'age': kind must be one of"),
        ("standard", lambda s, a: s["columns"][0].update(flag=1), "column 'age': flag must be true or false"),
        (
            "standard",
            lambda s, a: s["columns"][0].update(median="1"),
            "column 'age': median must be a finite",
        ),
        ("standard", lambda s, a: s["columns"][1].update(categories=[1]), "column 'sex': categories must be"),
        (
            "standard",
            lambda s, a: s["columns"][3].update(categories=["a", "a"]),
            "column 'size': categories must",
        ),
        ("standard", lambda s, a: a.pop("0.standard"), "column 'age': standard is missing"),
        (
            "standard",
            lambda s, a: a.update({"0.standard": np.ones(3)}),
            "column 'age': standard must be a center",
        ),
        (
            "standard",
            lambda s, a: a.update({"0.standard": np.array([0, -1.0])}),
            "column 'age': standard must be",
        ),
        (
            "standard",
            lambda s, a: a.update({"0.standard": np.ones(2, np.float32)}),
            "column 'age': standard must be",
        ),
        ("standard", lambda s, a: a.update({"9.knots": np.ones(2)}), "arrays of no column: '0.standard', "),
        (
            "quantile",
            lambda s, a: a.update({"0.knots": a["0.knots"][::-1]}),
            "column 'age': knots must ascend",
        ),
        (
            "quantile",
            lambda s, a: a.update({"0.scores": a["0.scores"][1:]}),
            "column 'age': knots must ascend",
        ),
        ("piecewise", lambda s, a: a.update({"0.edges": np.array([])}), "column 'age': edges must ascend"),
        (
            "piecewise",
            lambda s, a: a.update({"0.edges": np.array([0, np.nan])}),
            "column 'age': edges must be",
        ),
    ],
)
def test_damaged_state_is_refused(numeric, damage, message):
    state, arrays = TableEncoder(numeric).fit(table()).to_state()
    damage(state, arrays)
    with fails(f"state of the table is damaged: {message}"):
        TableEncoder.from_state(state, arrays)
