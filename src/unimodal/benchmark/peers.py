"""What users would pick instead: scikit-learn's classifiers, on tables with text and gaps.

Text and Categoricals are encoded one-hot, for boosting they stay categories; what is missing becomes a
category of its own, or the median with a flag. Forests and boosting take missing numbers as they are. A
column without any value is left out.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FLOOR", "PEERS", "as_categories", "fit", "floored", "peer", "predict"]

FLOOR = 1e-6
"""Probabilities are at least this where their logarithm is averaged: a peer's may be 0."""


def _encoded(model: Any, numbers: Any = "passthrough") -> Any:
    """A pipeline that encodes text one-hot, and does to numbers what it is told."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    text = make_column_selector(dtype_include="category")
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((one_hot, text), remainder=numbers), model)


def _logistic(seed: int) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    return _encoded(LogisticRegression(max_iter=5000, random_state=seed), numbers)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return _encoded(RandomForestClassifier(300, random_state=seed))


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


_MAKERS: Mapping[str, Callable[[int], Any]] = {
    "logistic": _logistic,
    "forest": _forest,
    "boosting": _boosting,
}
PEERS: Mapping[str, str] = MappingProxyType(
    {
        "logistic": "scikit-learn's logistic regression",
        "forest": "scikit-learn's random forest",
        "boosting": "scikit-learn's histogram gradient boosting",
    }
)
"""What is compared, by name."""


def peer(name: str, seed: int = 0) -> Any:
    """Make a classifier that takes a DataFrame of numbers and Categoricals.

    Parameters
    ----------
    name : str
        A key of `PEERS`.
    seed : int
        Its random state.
    """
    return _MAKERS[name](seed)


def as_categories(X: "pd.DataFrame") -> "pd.DataFrame":
    """Turn what is no number into a Categorical, and numbers with gaps into float64."""
    from pandas.api import types

    converted: dict[Any, Any] = {}
    for name in X.columns:
        dtype = X[name].dtype
        if types.is_bool_dtype(dtype) or (types.is_numeric_dtype(dtype) and not isinstance(dtype, np.dtype)):
            converted[name] = np.float64
        elif not types.is_numeric_dtype(dtype) and not isinstance(dtype, types.CategoricalDtype):
            converted[name] = "category"
    return X.astype(converted)


def fit(
    model: Any, X: "pd.DataFrame", y: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"] | None = None
) -> Any:
    """Fit a classifier to the columns that have values; of a single class there is nothing to learn."""
    if len(np.unique(y)) == 1:
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(X, y)
    key = f"{model.steps[-1][0]}__sample_weight" if hasattr(model, "steps") else "sample_weight"
    return model.fit(X[X.columns[X.notna().any()]], y, **({} if weight is None else {key: weight}))


def predict(model: Any, X: "pd.DataFrame", n_classes: int) -> Float[np.ndarray, "m K"]:
    """Give distributions over all classes, of which not all need to occur in the rows it was fitted to."""
    p = np.zeros((len(X), n_classes))
    p[:, model.classes_] = model.predict_proba(X[model.feature_names_in_])
    return p


def floored(p: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """Make no class impossible."""
    above = p.clip(FLOOR)
    result: np.ndarray = above / above.sum(axis=1, keepdims=True)
    return result
