"""What classifiers of ordered classes have in common: all that follows from their distributions."""

from abc import abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from unimodal import decision
from unimodal.simplex import Values


class DistributionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of tables with missing values that predicts a distribution for each row."""

    classes_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @abstractmethod
    def predict_proba(self, X: Values) -> Float[np.ndarray, "n K"]:
        """The distribution of each row; columns in the order of `classes_`."""

    @property
    @abstractmethod
    def _usual_rule(self) -> str:
        """What `predict` reports where it is not told."""

    def predict_log_proba(self, X: Values) -> Float[np.ndarray, "n K"]:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            log_proba: NDArray[np.float64] = np.log(self.predict_proba(X))
        return log_proba

    def predict(self, X: Values, rule: str | None = None) -> NDArray[Any]:
        """One class for each row.

        Parameters
        ----------
        X : DataFrame or array, shape (n, d)
            As for `predict_proba`.
        rule : {"mode", "median", "mean"}, optional
            What to report of the distribution; by default the classifier's `rule`.
        """
        p = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[decision.decide(p, self._usual_rule if rule is None else rule)]
        return labels

    def predict_interval(self, X: Values, coverage: float = 0.9) -> tuple[NDArray[Any], NDArray[Any]]:
        """The shortest range of classes with at least this much probability.

        Parameters
        ----------
        X : DataFrame or array, shape (n, d)
            As for `predict_proba`.
        coverage : float
            Probability that the range shall have, in (0, 1].

        Returns
        -------
        low, high : arrays of labels
            The ends of each row's range, both included.
        """
        low, high = decision.interval(self.predict_proba(X), coverage)
        return self.classes_[low], self.classes_[high]


def as_table(estimator: BaseEstimator, X: Values) -> Values:
    """What has the columns that the estimator was fitted on; a DataFrame stays one."""
    if hasattr(X, "iloc"):
        return validate_data(estimator, X, reset=False, skip_check_array=True)
    return validate_data(estimator, X, reset=False, dtype=np.float64, ensure_all_finite=False)
