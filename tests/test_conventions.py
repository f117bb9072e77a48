"""scikit-learn's own checks of an estimator: all of them, with default parameters, none excluded."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import unimodal as um


@pytest.fixture(autouse=True)
def array_api(monkeypatch):
    """Without this variable the check of array API inputs skips itself."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@parametrize_with_checks([um.OrdinalClassifier(), um.OrdinalClassifierCV()])
def test_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)
