"""Predictions for tables on disk, piece by piece: what is larger than memory is welcome.

Columns are found by their names: others are ignored, and their order is free.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Float, Int

from unimodal import decision, metrics
from unimodal.datasets.files import TableError, column
from unimodal.estimators.labels import Classes
from unimodal.simplex import Values
from unimodal.wording import did_you_mean, listed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Predictor", "columns_of", "predictions", "refuse_missing", "scores", "unique_name"]


class Predictor(Protocol):
    """What predicts: a fitted classifier of this package."""

    classes_: np.ndarray
    n_features_in_: int

    def predict_proba(self, X: Values) -> Float[np.ndarray, "n K"]: ...


def columns_of(model: Predictor, frame: "pd.DataFrame") -> Values:
    """Take the columns that a model was fitted on out of a table."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        if frame.shape[1] != model.n_features_in_:
            raise TableError(
                f"the model was fitted on {model.n_features_in_} columns without names, the table has "
                f"{frame.shape[1]}"
            )
        return frame.to_numpy()
    missing = [name for name in names if name not in frame.columns]
    if missing:
        others = [name for name in frame.columns if name not in set(names)]
        guess = did_you_mean(missing[0], others)
        raise TableError(
            f"the model was fitted on a column {missing[0]!r}, which the table does not have{guess} "
            f"(its columns are {listed(frame.columns)})"
        )
    return frame[list(names)]


def predictions(
    model: Predictor,
    pieces: Iterator["pd.DataFrame"],
    rule: str,
    coverage: float = 0.9,
    keep: Collection[str] | None = None,
) -> Iterator["pd.DataFrame"]:
    """Predict a table's rows in their order: the class, a range of classes, and every probability.

    Parameters
    ----------
    model : Predictor
        Fitted.
    pieces : iterator of DataFrames
        The table.
    rule : {"mode", "median", "mean"}
        What to report of a distribution.
    coverage : float
        Probability of the ranges, in (0, 1].
    keep : names, optional
        Which columns of the table stand before the predictions; by default all.
    """
    first = 0
    for piece in pieces:
        if keep is None:
            kept = piece
        else:
            for name in keep:
                column(piece, name)
            kept = piece[list(keep)]
        with _rows_from(first):
            p = model.predict_proba(columns_of(model, piece))
        low, high = decision.interval(p, coverage)
        found: dict[str, Any] = {
            "prediction": model.classes_[decision.decide(p, rule)],
            "low": model.classes_[low],
            "high": model.classes_[high],
        }
        found |= {f"p_{label}": p[:, k] for k, label in enumerate(model.classes_.tolist())}
        taken = set(kept.columns)
        result = kept.copy()
        for name, values in found.items():
            own = unique_name(name, taken)
            taken.add(own)
            result[own] = values
        yield result
        first += len(piece)


def scores(
    model: Predictor, pieces: Iterator["pd.DataFrame"], target: str, rule: str
) -> tuple[dict[str, float], Int[np.ndarray, "K K"]]:
    """Every metric on a labelled table, and its confusion table: true classes in rows."""
    classes = Classes(model.classes_)
    sums: Mapping[str, Any] = {}
    first = 0
    for piece in pieces:
        labels = column(piece, target)
        refuse_missing(labels, first)
        with _rows_from(first):
            y = classes.encode(labels)
            p = model.predict_proba(columns_of(model, piece))
        samples = metrics.check(y, p, decision.decide(p, rule))
        own = metrics.statistics(samples)
        sums = {name: sums[name] + own[name] for name in own} if sums else own
        first += len(piece)
    return metrics.scores(sums), sums["confusion"]


def refuse_missing(labels: "pd.Series", first: int = 0) -> None:
    """Refuse a target that is missing in some row."""
    missing = labels.isna().to_numpy()
    if missing.any():
        raise TableError(
            f"the target {labels.name!r} has no value at row {first + int(missing.argmax())}: fill it in, or "
            "leave the row out"
        )


def unique_name(name: str, taken: Collection[str]) -> str:
    """A name that no other column has."""
    number, own = 1, name
    while own in taken:
        number += 1
        own = f"{name}_{number}"
    return own


@contextmanager
def _rows_from(first: int) -> Iterator[None]:
    """Count rows from the start of the table, not of the piece, in what is said to be wrong."""
    try:
        yield
    except ValueError as error:
        said = re.sub(r"\bat row (\d+)", lambda found: f"at row {first + int(found[1])}", str(error))
        raise TableError(said) from None
