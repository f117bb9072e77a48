"""What the classifier refuses, and what it says."""

import re

import numpy as np
import pytest
from small_models import fitted, make


def fails(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nope"}, "method must be one of ce, pom, oe"),
        ({"rule": "max"}, "rule must be one of 'mode', 'median', 'mean', got 'max'"),
        ({"members": 0}, "members must be an integer of at least 1, got 0"),
        ({"members": True}, "members must be an integer of at least 1, got True"),
        ({"members": 2.0}, "members must be an integer of at least 1, got 2.0"),
        ({"trees": -1}, "trees must be an integer of at least 0, got -1"),
        ({"numeric": "log"}, "numeric must be one of 'standard', 'quantile', 'piecewise', got 'log'"),
        ({"hidden": 64}, "hidden must be a tuple of integers, got 64"),
        ({"hidden": "64"}, "hidden must be a tuple of integers, got '64'"),
        ({"hidden": (0,)}, "hidden must be an integer of at least 1, got 0"),
        ({"activation": "sin"}, "activation must be one of 'relu', 'gelu', 'tanh', got 'sin'"),
        ({"dropout": 1.0}, "dropout must be below 1, got 1.0"),
        ({"optimiser": "sgd"}, "optimiser must be one of 'adam', 'adamw', got 'sgd'"),
        ({"lr": -1}, "lr must be a number of at least 0.0, got -1"),
        ({"weight_decay": np.inf}, "weight_decay must be a number of at least 0.0, got inf"),
        ({"schedule": "step"}, "schedule must be one of 'constant', 'cosine', 'warm-cosine', got 'step'"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
        ({"patience": 0}, "patience must be an integer of at least 1, got 0"),
        ({"params": {"lam": 1}}, "'lam' is not a parameter of method 'un', which takes"),
        ({"n_jobs": 0}, "n_jobs must not be 0; use -1 for one process on each core"),
        ({"class_weight": "even"}, "class_weight must be 'balanced' or a mapping, got 'even'"),
        ({"class_weight": [1, 2, 3]}, "class_weight must be 'balanced' or a mapping, got [1, 2, 3]"),
        ({"class_weight": {0: -1}}, "class_weight must be finite and not negative, got {0: -1}"),
        ({"class_weight": {0: np.nan}}, "class_weight must be finite and not negative, got {0: nan}"),
        ({"class_weight": {9: 1}}, "class_weight must be one of 0, 1, 2, got 9 at row 0"),
        ({"class_weight": {0: 0, 1: 0, 2: 0}}, "class_weight must not be 0 for every class that occurs"),
        ({"order": [0, 1]}, "order must contain every label of y, 2 (30 rows) is missing"),
    ],
    ids=str,
)
def test_parameters_are_checked(options, message):
    X, y = make()
    with fails(message):
        fitted(X, y, **options)


def test_rows_are_checked():
    X, y = make()
    with pytest.raises(ValueError, match=r"must not be 0 for every row|at least one non-zero"):
        fitted(X, y, np.zeros(90))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        fitted(X, y, np.full(90, -1.0))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted(X, y[:-1])
    with pytest.raises(ValueError, match=r"X must be finite, got inf in column 'x0' at row 4"):
        fitted(np.where(np.arange(270).reshape(90, 3) == 12, np.inf, X), y)
    with fails("y must not have missing labels, got nan at row 1"):
        fitted(X[:2], [0.0, np.nan])
    with fails("rule must be one of 'mode', 'median', 'mean', got 'max'"):
        fitted(X, y).predict(X, rule="max")
