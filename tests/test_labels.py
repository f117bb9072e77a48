"""Which classes there are, and their order."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning

from unimodal.estimators.labels import Classes

GRADES = ["low", "mid", "high"]
KINDS = "y must hold whole numbers, booleans or text"


def values(y, order=None):
    return Classes.of(y, order).values.tolist()


@pytest.mark.parametrize(
    ("y", "expected", "kind"),
    [
        ([3, 1, 2, 1], [1, 2, 3], "i"),
        (np.array([5, 2], dtype=np.uint8), [2, 5], "i"),
        (np.array([2.0, 0.0, 1.0], dtype=np.float32), [0.0, 1.0, 2.0], "f"),
        ([True, False], [False, True], "b"),
        ([7, 7, 7], [7], "i"),
        (["b", "a"], ["a", "b"], "U"),
        (torch.tensor([2, 0, 2]), [0, 2], "i"),
        (pd.Series([2, 1], dtype="Int64"), [1, 2], "i"),
        (pd.Series([2, 1], dtype=object), [1, 2], "i"),
        (pd.Series([True, False], dtype="boolean"), [False, True], "b"),
        (pd.Series(["y", "x"]), ["x", "y"], "U"),
        (pd.Series(["y", "x"], dtype="string"), ["x", "y"], "U"),
        (pd.Categorical(["y", "x"], categories=["y", "x", "w"]), ["x", "y"], "U"),
        (pd.Series(pd.Categorical([2, 1])), [1, 2], "i"),
        ([1, 2.0, np.int8(3)], [1.0, 2.0, 3.0], "f"),
    ],
)
def test_what_has_an_order_is_sorted(y, expected, kind):
    found = Classes.of(y).values
    assert found.tolist() == expected
    assert found.dtype.kind == kind


@pytest.mark.parametrize("make", [pd.Categorical, lambda *a, **k: pd.Series(pd.Categorical(*a, **k))])
def test_the_order_of_a_categorical_is_taken_unused_categories_included(make):
    y = make(["high", "low", "low"], categories=GRADES, ordered=True)
    assert values(y) == GRADES
    assert Classes.of(y).encode(y).tolist() == [2, 0, 0]
    assert values(y, order=["high", "low"]) == ["high", "low"]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["10", "9", "1"], ["1", "9", "10"]),
        (["-1", "2", "-10"], ["-10", "-1", "2"]),
        (["1.5", "1", "1.25"], ["1", "1.25", "1.5"]),
        (["grade 10", "grade 2", "grade 1"], ["grade 1", "grade 2", "grade 10"]),
        (["G3", "G20", "G1"], ["G1", "G3", "G20"]),
        (["grade-10", "grade-2"], ["grade-2", "grade-10"]),
        (["10 years", "9 years", "8 years"], ["8 years", "9 years", "10 years"]),
    ],
)
def test_text_around_one_number_is_sorted_by_it(y, expected):
    assert values(y) == expected


@pytest.mark.parametrize(
    "y", [["low", "mid", "high"], ["1", "2", "3+"], ["0-9", "10-19", "5-6"], ["a1", "b2", "c"]]
)
def test_other_text_is_sorted_with_a_warning(y):
    with pytest.warns(UserWarning, match="nobody said its order: taken as .* < .* < .*pass order="):
        found = Classes.of(y).values
    assert found.tolist() == np.unique(y).tolist()


def test_the_warning_names_the_order_that_was_taken():
    with pytest.warns(
        UserWarning, match="taken as 'high' < 'low' < 'mid', as sorted; pass order=\\[\\.\\.\\.\\]"
    ):
        Classes.of(GRADES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Classes.of(["yes", "no"])  # two classes, turned around, are the same problem
        Classes.of(GRADES, order=GRADES)


@given(st.lists(st.text(alphabet="abcxyz", max_size=3), min_size=1))
def test_text_without_numbers_gives_the_classes_of_scikit_learn(y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        classes = Classes.of(y)
    expected, codes = np.unique(y, return_inverse=True)
    assert np.array_equal(classes.values, expected)
    assert np.array_equal(classes.encode(y), codes)
    assert classes.decode(codes).tolist() == y


@pytest.mark.parametrize(
    ("y", "order", "expected"),
    [
        (["mid", "low"], GRADES, GRADES),  # a class that does not occur stays one
        ([2, 1], [3, 2, 1], [3, 2, 1]),
        ([2, 1], ["3", "2", "1"], [3, 2, 1]),
        ([2.0, 1.0], [2, 1], [2.0, 1.0]),
        (["2", "1"], [2, 1], ["2", "1"]),
        ([True, False], ["True", "False"], [True, False]),
        ([True, False], [True, False], [True, False]),
        (["b", "a"], np.array(["b", "a"]), ["b", "a"]),
    ],
)
def test_order(y, order, expected):
    classes = Classes.of(y, order)
    assert classes.values.tolist() == expected
    assert [type(value) for value in classes.values.tolist()] == [type(value) for value in expected]
    assert classes.encode(y).tolist() == [expected.index(label) for label in y]


@pytest.mark.parametrize(
    ("y", "order", "message"),
    [
        (
            ["high", "hihg", "hihg"],
            GRADES,
            "order must contain every label of y, 'hihg' (2 rows) is missing; did you mean 'high'?",
        ),
        ([1, 2, 3], [1, 2], "order must contain every label of y, 3 (1 row) is missing"),
        ([1, 2], [1, 2, 1], "order must not repeat a label, got 1 at positions 0 and 2"),
        ([1, 2], [], "order must not be empty"),
        (["a", "b"], "a,b", "order must be a list of labels, lowest first, got 'a,b'"),
        ([1, 2], ["1", "two"], "order must hold labels like y's, of dtype int64, got 'two'"),
        ([1, 2], [1, 2.5], "order must hold labels like y's, of dtype int64, got 2.5"),
        ([True, False], [0, 1], "order must hold labels like y's, of dtype bool, got 0"),
        (["a", "b"], ["a", None], "order must not have missing labels, got None at row 1"),
    ],
)
def test_order_is_checked(y, order, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Classes.of(y, order)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, 1.0, 2.0], "Unknown label type: continuous. Maybe"),
        ([[1, 2], [3, 4]], "y should be a 1d array, got an array of shape (2, 2)"),
        (3, "y should be a 1d array, got an array of shape ()"),
        ([], "y must not be empty"),
        ([1.0, np.nan], "y must not have missing labels, got nan at row 1"),
        (np.array([1.0, np.nan]), "y must not have missing labels, got nan at row 1"),
        (["a", float("nan")], "y must not have missing labels, got nan at row 1"),
        (["a", "b", None], "y must not have missing labels, got None at row 2"),
        (pd.Series(["a", None]), "y must not have missing labels, got nan at row 1"),
        (pd.Series([1, None], dtype="Int64"), "y must not have missing labels, got <NA> at row 1"),
        (pd.Categorical(["a", None], ordered=True), "y must not have missing labels, got nan at row 1"),
        (np.array([1.0, np.inf]), "y must be finite, got inf at row 1"),
        ([1, "a"], f"Unknown label type: {KINDS}, of one kind, got int and str"),
        ([1, True], f"Unknown label type: {KINDS}, of one kind, got bool and int"),
        ([1, 2**70], "y must fit 64 bits, got 1180591620717411303424"),
        (np.array([1, 2**63], dtype=np.uint64), "y must fit 64 bits, got 9223372036854775808 at row 1"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), f"{KINDS}, got dtype datetime64"),
    ],
)
def test_labels_are_checked(y, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Classes.of(y)


def test_bytes_are_no_labels():
    for y in ([b"a", b"b"], np.array([b"a", b"b"], dtype=object)):
        with pytest.raises(TypeError, match="labels represented as bytes is not supported"):
            Classes.of(y)


def test_a_column_vector_warns_as_in_scikit_learn():
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        assert values(np.array([[2], [1]])) == [1, 2]


def test_codes_of_labels_never_seen():
    classes = Classes.of(GRADES, order=GRADES)
    assert classes.encode(["high", "low"]).dtype == np.int64
    message = "y must be one of 'low', 'mid', 'high', got 'hihg' at row 12; did you mean 'high'?"
    with pytest.raises(ValueError, match=re.escape(message)):
        classes.encode(["low"] * 12 + ["hihg"])
    with pytest.raises(ValueError, match=r"labels must be one of 0, 1, got 2 at row 1$"):
        Classes.of([0, 1]).encode([1, 2], name="labels")
    with pytest.raises(
        ValueError, match=r"y must be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..., got -1 at row 0$"
    ):
        Classes.of(np.arange(30).repeat(2)).encode([-1])
    with pytest.raises(ValueError, match=r"y must not have missing labels, got None at row 1"):
        classes.encode(["low", None])
    with pytest.raises(ValueError, match=r"codes must lie in \[0, 2\], got -1 at row 1"):
        classes.decode([0, -1])


def test_labels_of_another_container_or_width_are_the_same_labels():
    assert Classes.of(["1", "2", "3+"], order=["1", "2", "3+"]).encode([2.0, 1.0]).tolist() == [1, 0]
    assert Classes.of([1, 2]).encode(["2", "1"]).tolist() == [1, 0]
    assert Classes.of([1, 2]).encode([2.0, 1.0]).tolist() == [1, 0]
    assert Classes.of([0.0, 1.0]).encode(pd.Series([1, 0], dtype="Int8")).tolist() == [1, 0]
    assert Classes.of(["a", "b"]).encode(pd.Categorical(["b", "a", "b"])).tolist() == [1, 0, 1]
    assert Classes.of(["a", "b"]).decode(np.array([[1], [0]])).tolist() == [["b"], ["a"]]
    assert len(Classes.of([4])) == 1


@pytest.mark.parametrize("y", [[3, 1, 2], [2.0, -1.0], [True, False], ["b", "ä"], ["10", "9"]])
def test_state_comes_back_from_json(y):
    classes = Classes.of(y)
    twin = Classes.from_json(json.loads(json.dumps(classes.to_json())))
    assert twin.values.dtype == classes.values.dtype
    assert twin.values.tolist() == classes.values.tolist()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "dtype of the classes must be one of 'int64', 'float64', 'bool', 'str', got None"),
        ({"dtype": "object", "values": [1]}, "dtype of the classes must be one of .*, got 'object'"),
        ({"dtype": "int64", "values": []}, r"values of the classes must be a list of int, got \[\]"),
        ({"dtype": "int64", "values": [True]}, r"values of the classes must be a list of int, got \[True\]"),
        ({"dtype": "str", "values": "ab"}, "values of the classes must be a list of str, got 'ab'"),
        ({"dtype": "str", "values": ["a", "a"]}, r"values of the classes must not repeat, got \['a', 'a'\]"),
        (
            {"dtype": "float64", "values": [float("nan")]},
            r"values of the classes must be finite, got \[nan\]",
        ),
    ],
)
def test_damaged_state_is_refused(state, message):
    with pytest.raises(ValueError, match=message):
        Classes.from_json(state)
