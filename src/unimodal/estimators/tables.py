"""Tables as numbers: a pandas DataFrame, or any array of numbers, becomes one float32 array for a network.

Every column is fitted by itself (`columns`): numbers are scaled (`scaling`), text and Categoricals become one
0/1 output per category, ordered Categoricals their rank, and missing values a flag of their own.
All statistics are in float64; outputs are float32, finite whatever comes in.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Float32
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array

from unimodal.estimators.columns import Column, Options, fit_column, load_column
from unimodal.estimators.scaling import SCALINGS, Arrays
from unimodal.simplex import Values
from unimodal.wording import did_you_mean, listed

__all__ = ["TableEncoder"]


class TableEncoder:
    """Turns the columns of a table into numbers for a network.

    Parameters
    ----------
    numeric : {"standard", "quantile", "piecewise"}
        How numbers are scaled: standardised; as normal scores of their ranks; or piecewise linearly
        encoded in quantile bins.
    bins : int
        Number of bins of "piecewise"; where values repeat, bins merge.
    max_categories : int
        A column of more different texts is refused: it is probably a name or an id.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Their names; only if all of them are text.
    n_outputs_ : int
        Number of outputs.
    output_names_ : list of str
        What each output means, such as 'age', 'age missing' or 'color=red'.
    n_raw_ : int
        Number of columns that `raw` gives.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    n_outputs_: int
    output_names_: list[str]
    n_raw_: int

    def __init__(self, numeric: str = "standard", bins: int = 16, max_categories: int = 100) -> None:
        self.numeric = numeric
        self.bins = bins
        self.max_categories = max_categories

    def fit(self, X: Values, weight: Values | None = None, y: Values | None = None) -> "TableEncoder":
        """Learn what the columns hold.

        Parameters
        ----------
        X : DataFrame or array, shape (n, d)
            Numbers, booleans, text or Categoricals; NaN and None are missing values.
        weight : n numbers, optional
            How much each row counts: 2 as if it were there twice, 0 as if it were not.
        y : ignored
            By scikit-learn's custom.
        """
        options = self._options()
        columns, names, named = _columns_of(X)
        weights = None if weight is None else _weights(weight, len(columns[0]))
        fitted = [
            fit_column(name, values, weights, options) for name, values in zip(names, columns, strict=True)
        ]
        return self._take(fitted, named)

    def transform(self, X: Values) -> Float32[np.ndarray, "n outputs"]:
        """Give the numbers that a network reads."""
        values = self._known(X)
        outputs = np.empty((len(values[0]), self.n_outputs_), dtype=np.float32)
        start = 0
        for column, of_column in zip(self._columns, values, strict=True):
            numbers = column.transform(of_column)
            outputs[:, start : start + numbers.shape[1]] = numbers
            start += numbers.shape[1]
        return outputs

    def raw(self, X: Values) -> Float[np.ndarray, "n features"]:
        """Give what tree ensembles read: numbers as they are, missing ones as NaN; categories as 0 and 1."""
        values = self._known(X)
        return np.concatenate(
            [column.raw(of_column) for column, of_column in zip(self._columns, values, strict=True)], axis=1
        )

    def to_state(self) -> tuple[dict[str, Any], Arrays]:
        """Say what was learned, in what JSON can hold and arrays."""
        self._check_fitted()
        columns: list[dict[str, Any]] = []
        arrays: Arrays = {}
        for j, column in enumerate(self._columns):
            state, own = column.state()
            columns.append({"name": column.name} | state)
            arrays |= {f"{j}.{name}": array for name, array in own.items()}
        return vars(self._options()) | {
            "named": hasattr(self, "feature_names_in_"),
            "columns": columns,
        }, arrays

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "TableEncoder":
        """Take up what `to_state` said, or say what is wrong with it."""
        try:
            encoder = cls(state["numeric"], state["bins"], state["max_categories"])
            options, named, states = encoder._options(), state["named"], state["columns"]
        except KeyError as error:
            raise ValueError(f"state of the table is damaged: {error} is missing") from None
        if not isinstance(states, list) or not states or not all(isinstance(own, dict) for own in states):
            raise ValueError("state of the table is damaged: columns must be a list of at least one")
        if not isinstance(named, bool):
            raise ValueError(f"state of the table is damaged: named must be true or false, got {named!r}")
        columns: list[Column] = []
        for j, own in enumerate(states):
            name, prefix = own.get("name"), f"{j}."
            if not isinstance(name, str):
                raise ValueError(f"state of the table is damaged: column {j} must have a name, got {name!r}")
            of_column = {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}
            try:
                columns.append(load_column(name, own, of_column, options.numeric))
            except ValueError as error:
                raise ValueError(f"state of the table is damaged: column {name!r}: {error}") from None
        encoder._take(columns, named)
        if encoder.to_state()[1].keys() != arrays.keys():
            raise ValueError(f"state of the table is damaged: arrays of no column: {listed(sorted(arrays))}")
        return encoder

    def _options(self) -> Options:
        if self.numeric not in SCALINGS:
            raise ValueError(f"numeric must be one of {listed(SCALINGS)}, got {self.numeric!r}")
        for name in ("bins", "max_categories"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        return Options(self.numeric, int(self.bins), int(self.max_categories))

    def _take(self, columns: list[Column], named: bool) -> "TableEncoder":
        self._columns = columns
        self.n_features_in_ = len(columns)
        if named:
            self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.output_names_ = [name for column in columns for name in column.output_names]
        self.n_outputs_ = len(self.output_names_)
        self.n_raw_ = sum(column.n_raw for column in columns)
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "_columns"):
            raise NotFittedError("This TableEncoder is not fitted yet: call fit first")

    def _known(self, X: Values) -> list[Values]:
        """Take the table apart if its columns are those of the fit, in their order."""
        self._check_fitted()
        columns, names, named = _columns_of(X)
        if named and hasattr(self, "feature_names_in_"):
            _check_names(names, self.feature_names_in_.tolist())
        if len(columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(columns)} features, "
                f"but TableEncoder is expecting {self.n_features_in_} features as input"
            )
        return columns


def _columns_of(X: Values) -> tuple[list[Values], list[str], bool]:
    """Take a table apart, into columns, what to call them, and whether these are names that it gave.

    A DataFrame keeps the dtypes of its columns, anything else must be numbers.
    """
    if not (hasattr(X, "iloc") and hasattr(X, "columns")):
        array = check_array(X, dtype=np.float64, ensure_all_finite=False, input_name="X")
        return list(array.T), [f"x{j}" for j in range(array.shape[1])], False
    n, d = X.shape
    if n == 0 or d == 0:
        raise ValueError(f"X must have rows and columns, got shape {X.shape}: a minimum of 1 is required")
    repeated = X.columns[X.columns.duplicated()]
    if len(repeated):
        raise ValueError(f"X must not have two columns of one name, got {repeated[0]!r} twice")
    named = all(isinstance(name, str) for name in X.columns)
    return [X.iloc[:, j] for j in range(d)], [str(name) for name in X.columns], named


def _check_names(names: list[str], known: list[str]) -> None:
    """Refuse what scikit-learn refuses."""
    missing = [name for name in known if name not in set(names)]
    unknown = [name for name in names if name not in set(known)]
    if missing:
        raise ValueError(
            f"X must have the columns of the fit, {missing[0]!r} is missing"
            + did_you_mean(missing[0], unknown or names)
        )
    if unknown:
        raise ValueError(f"X must have the columns of the fit, {unknown[0]!r} was not among them")
    if names != known:
        raise ValueError(
            f"X must have its columns in the order of the fit, {listed(known)}, got {listed(names)}"
        )


def _weights(weight: Values, n: int) -> Float[np.ndarray, " n"]:
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weight must be one number per row, of shape ({n},), got {weights.shape}")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"weight must be finite and not negative, got {weights[row]:g} at row {row}")
    if not weights.any():
        raise ValueError("weight must not be zero for every row")
    return weights
