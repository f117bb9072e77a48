"""What options say: lists, columns of a table, and a file with the parameters of the classifier."""

import csv
import inspect
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from unimodal.wording import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from unimodal.estimators.classifier import OrdinalClassifier

__all__ = [
    "as_list",
    "as_numbers",
    "columns_among",
    "make_classifier",
    "read_config",
    "refuse_itself",
    "split_table",
]

_NOT_IN_A_FILE = ("self", "on_progress")


def as_list(text: str | None, option: str) -> list[str] | None:
    """Read names between commas; those with a comma are quoted."""
    if text is None:
        return None
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if "" in names:
        raise ValueError(f"{option} must be names between commas, one is empty in {text!r}")
    return names


def as_numbers(text: str, option: str) -> list[float]:
    """Read numbers between commas."""
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be numbers between commas, got {text!r}") from None


def columns_among(frame: "pd.DataFrame", given: Sequence[str] | None, option: str) -> list[str]:
    """Find columns by the values of an option, each a name or several between commas."""
    names: list[str] = []
    for text in given or ():
        names += [text] if text in frame.columns else as_list(text, option) or [text]
    for name in names:
        _check_column(frame, name, option)
    return list(dict.fromkeys(names))


def _check_column(frame: "pd.DataFrame", name: str, option: str) -> None:
    from unimodal.datasets.files import TableError, column

    try:
        column(frame, name)
    except TableError as error:
        raise TableError(f"{option}: {error}") from None


def refuse_itself(output: Path, table: Path) -> None:
    """Refuse to write over the table that is read."""
    if output.exists() and table.exists() and output.samefile(table):
        raise ValueError(f"-o {output} is the table itself: choose another file")


def split_table(
    frame: "pd.DataFrame", target: str, drop: Sequence[str] | None, weight: str | None = None
) -> tuple["pd.DataFrame", "pd.Series", Any]:
    """Split a table into what is learnt from, the target and the weights, or say which column is wrong."""
    import numpy as np

    from unimodal.datasets.files import TableError
    from unimodal.datasets.predictions import refuse_missing

    _check_column(frame, target, "--target")
    dropped = columns_among(frame, drop, "--drop")
    y = frame[target]
    if y.isna().all():
        raise TableError(f"the target {target!r} has no values at all")
    refuse_missing(y)
    if y.nunique() == 1:
        raise TableError(
            f"the target {target!r} has one class only, {y.iloc[0]!r}: there is nothing to learn"
        )
    weights = None
    if weight is not None:
        _check_column(frame, weight, "--weight")
        try:
            weights = frame[weight].to_numpy(dtype=np.float64, na_value=np.nan)
        except ValueError:
            raise TableError(f"--weight must be a column of numbers, {weight!r} holds text") from None
        wrong = ~(np.isfinite(weights) & (weights >= 0))
        if wrong.any():
            row = int(wrong.argmax())
            raise TableError(f"--weight must be finite and not negative, got {weights[row]:g} at row {row}")
    X = frame.drop(columns=list({target, *dropped, *([] if weight is None else [weight])}))
    if not X.shape[1]:
        raise TableError("there are no columns to learn from besides the target")
    return X, y, weights


def read_config(path: Path | None) -> dict[str, Any]:
    """Read parameters of `OrdinalClassifier` from a TOML file."""
    if path is None:
        return {}
    import tomllib

    from unimodal.estimators.classifier import OrdinalClassifier

    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"--config {path}: {error}") from None
    known = {
        name: parameter.annotation
        for name, parameter in inspect.signature(OrdinalClassifier.__init__).parameters.items()
        if name not in _NOT_IN_A_FILE
    }
    for name, value in given.items():
        if name not in known:
            guess = did_you_mean(name, known)
            listed = "" if guess else f"; there are {', '.join(known)}"
            raise ValueError(f"--config {path}: {name!r} is no parameter of OrdinalClassifier{guess}{listed}")
        if not _is_a(value, known[name]):
            kind = (
                str(known[name]) if get_origin(known[name]) else getattr(known[name], "__name__", known[name])
            )
            raise ValueError(f"--config {path}: {name} must be {kind}, got {value!r}")
    return given


def _is_a(value: Any, annotation: Any) -> bool:
    """Whether a value of a TOML file may stand for a parameter annotated like this."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(_is_a(value, each) for each in get_args(annotation))
    if annotation is Any:
        return True
    if annotation in (int, float):
        numbers = (int,) if annotation is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict)
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, list)
    return isinstance(annotation, type) and isinstance(value, annotation)


def make_classifier(config: Mapping[str, Any], **options: Any) -> "OrdinalClassifier":
    """Make the classifier of a file's parameters; options that were given win."""
    from unimodal.estimators.classifier import OrdinalClassifier

    parameters = dict(config) | {name: value for name, value in options.items() if value is not None}
    parameters.setdefault("random_state", 0)
    if "hidden" in parameters:
        parameters["hidden"] = tuple(parameters["hidden"])
    return OrdinalClassifier(**parameters)
