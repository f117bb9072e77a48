"""The classes of a target, and their order.

Numbers and booleans have an order, an ordered pandas Categorical brings one, and text has one if it is a
number with the same words around it ('grade 2' < 'grade 10'). For other text the order is the user's
knowledge: without it the classes are sorted, as scikit-learn does, and a warning says so. Two classes never
warn: turned around, they are the same problem.

Classes are held as int64, float64, bool or str, whatever width or container they came in, so that
they can be stored as JSON and come back the same.
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from unimodal.simplex import Values, as_integers
from unimodal.wording import calling_level, did_you_mean, listed

__all__ = ["Classes"]

_KINDS: Mapping[str, tuple[type, str]] = {
    "i": (int, "int64"),
    "f": (float, "float64"),
    "b": (bool, "bool"),
    "U": (str, "str"),
}
_NUMBERED = re.compile(r"(\D*)(\d+(?:\.\d+)?)(\D*)")


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a target in their order, lowest first: labels to codes 0 ... K-1 and back.

    Attributes
    ----------
    values : array, shape (K,)
        The labels, of dtype int64, float64 (whole numbers), bool or str.
    """

    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, y: Values, order: Sequence[Any] | np.ndarray | None = None) -> "Classes":
        """Find the classes of a target and put them in order.

        Parameters
        ----------
        y : n labels
            Whole numbers, booleans or text; an array, list, or anything of pandas.
        order : list of labels, optional
            All the labels, lowest first; some may not occur in `y` and are classes nevertheless. Text is
            welcome for numbers ('1', '2'). By default the order of an ordered Categorical, otherwise the
            sorted order; for text, numbers within are sorted as numbers.

        Raises
        ------
        ValueError
            If labels are missing or not discrete, or if `order` does not list all of them once.

        Warns
        -----
        UserWarning
            If `y` holds three or more texts of which nobody said the order.
        """
        labels = _read(y, "y")
        if labels.size == 0:
            raise ValueError("y must not be empty")
        check_classification_targets(labels)
        if order is not None:
            return cls(_ordered(labels, order))
        declared = _declared_order(y)
        if declared is not None:
            return cls(declared)
        values = np.unique(labels)
        return cls(_sorted_text(values) if values.dtype.kind == "U" else values)

    def encode(self, y: Values, name: str = "y") -> Int[np.ndarray, " n"]:
        """Turn labels into codes, or say which of them is no class, and where.

        Parameters
        ----------
        y : n labels
            Labels among the classes.
        name : str
            What errors call them.
        """
        given = _read(y, name)
        labels, values = _alike(given, self.values)
        sorter = values.argsort()
        codes: Int[np.ndarray, " n"] = sorter[
            np.searchsorted(values, labels, sorter=sorter).clip(max=len(values) - 1)
        ]
        unknown = values[codes] != labels
        if unknown.any():
            row = int(unknown.argmax())
            label, known = given[row].item(), self.values.tolist()
            guess = did_you_mean(label, known)
            raise ValueError(f"{name} must be one of {listed(known)}, got {label!r} at row {row}{guess}")
        return codes

    def decode(self, codes: Values) -> np.ndarray:
        """Turn codes, of any shape, back into labels."""
        labels: np.ndarray = self.values[as_integers(codes, "codes", high=len(self) - 1)]
        return labels

    def to_json(self) -> dict[str, Any]:
        """Say the classes and their kind in what JSON can hold."""
        return {"dtype": _KINDS[self.values.dtype.kind][1], "values": self.values.tolist()}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "Classes":
        """Take up what `to_json` said, or say what is wrong with it."""
        kinds = {name: (kind, python) for kind, (python, name) in _KINDS.items()}
        dtype, values = state.get("dtype"), state.get("values")
        if dtype not in kinds:
            raise ValueError(f"dtype of the classes must be one of {listed(kinds)}, got {dtype!r}")
        kind, python = kinds[dtype]
        if not isinstance(values, list) or not values or any(type(value) is not python for value in values):
            raise ValueError(f"values of the classes must be a list of {python.__name__}, got {values!r}")
        if len(set(values)) < len(values):
            raise ValueError(f"values of the classes must not repeat, got {values!r}")
        if kind == "f" and not all(map(math.isfinite, values)):
            raise ValueError(f"values of the classes must be finite, got {values!r}")
        return cls(np.array(values, dtype="U" if kind == "U" else dtype))


def _read(y: Values, name: str) -> np.ndarray:
    """Check that labels are a list of one kind without gaps, and hold them as one of the kinds."""
    labels: np.ndarray = column_or_1d(_as_array(y), warn=True, input_name=name)
    if labels.dtype.kind == "O":
        labels = _from_objects(labels, name)
    kind = {"u": "i"}.get(labels.dtype.kind, labels.dtype.kind)
    if kind not in _KINDS:
        raise ValueError(f"{name} must hold whole numbers, booleans or text, got dtype {labels.dtype}")
    if kind == "f":
        _refuse_missing(np.isnan(labels), labels, name)
        if np.isinf(labels).any():
            raise ValueError(f"{name} must be finite, got inf at row {int(np.isinf(labels).argmax())}")
    if labels.dtype.kind == "u" and labels.size and labels.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit 64 bits, got {labels.max()} at row {labels.argmax()}")
    return labels if kind == "U" else labels.astype(_KINDS[kind][1], copy=False)


def _as_array(y: Values) -> np.ndarray:
    """Take labels out of their container as they are: numpy alone would turn [1, 'a'] into text."""
    if hasattr(y, "detach"):
        return np.asarray(y.detach().cpu())
    if isinstance(getattr(y, "dtype", None), np.dtype) or hasattr(y, "columns"):
        return np.asarray(y)
    try:
        return np.array(y, dtype=object)
    except ValueError as error:
        raise ValueError(f"y must hold one label per sample: {error}") from None


def _from_objects(objects: np.ndarray, name: str) -> np.ndarray:
    """Find the one kind of Python objects."""
    types = set(map(type, objects))
    if not all(issubclass(found, str | int | np.integer | np.bool_) for found in types):
        _refuse_missing(np.array([_is_missing(value) for value in objects]), objects, name)
    if all(issubclass(found, str) for found in types):
        return objects.astype("U")
    if all(issubclass(found, bool | np.bool_) for found in types):
        return objects.astype(bool)
    if all(issubclass(found, int | np.integer) and found is not bool for found in types):
        try:
            return objects.astype(np.int64)
        except OverflowError:
            raise ValueError(f"{name} must fit 64 bits, got {max(objects, key=abs)}") from None
    if all(
        issubclass(found, int | float | np.integer | np.floating) and found is not bool for found in types
    ):
        return objects.astype(np.float64)
    if any(issubclass(found, bytes) for found in types):
        raise TypeError(
            f"Support for labels represented as bytes is not supported: {name} must hold text, got bytes"
        )
    kinds = " and ".join(sorted(found.__name__ for found in types))
    raise ValueError(
        f"Unknown label type: {name} must hold whole numbers, booleans or text, of one kind, got {kinds}"
    )


def _is_missing(value: object) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _refuse_missing(missing: Bool[np.ndarray, " n"], labels: np.ndarray, name: str) -> None:
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(f"{name} must not have missing labels, got {labels[row]} at row {row}")


def _alike(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Make labels and classes comparable: numbers with numbers, otherwise as text."""
    if labels.dtype.kind == values.dtype.kind:
        return labels, values
    if "U" in (labels.dtype.kind, values.dtype.kind):
        return _as_text(labels), _as_text(values)
    return labels.astype(np.float64), values.astype(np.float64)


def _as_text(labels: np.ndarray) -> np.ndarray:
    whole = labels.dtype.kind == "f" and bool((labels == np.floor(labels)).all())
    return (labels.astype(np.int64) if whole else labels).astype("U")


def _declared_order(y: Values) -> np.ndarray | None:
    """All the categories of an ordered Categorical."""
    dtype: Any = getattr(y, "dtype", None)
    return _read(dtype.categories, "y") if getattr(dtype, "ordered", False) else None


def _ordered(labels: np.ndarray, order: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Check that `order` lists every label once, and return it as labels of their kind."""
    if isinstance(order, str):
        raise ValueError(f"order must be a list of labels, lowest first, got {order!r}")
    given = _read(order, "order")
    if not given.size:
        raise ValueError("order must not be empty")
    values = _of_kind(given, labels.dtype)
    present, counts = np.unique(labels, return_counts=True)
    for label, rows in zip(present.tolist(), counts.tolist(), strict=True):
        if label not in values.tolist():
            raise ValueError(
                f"order must contain every label of y, {label!r} ({rows} row{'s' * (rows != 1)}) is missing"
                + did_you_mean(label, values.tolist())
            )
    first: dict[object, int] = {}
    for position, value in enumerate(values.tolist()):
        if value in first:
            raise ValueError(
                f"order must not repeat a label, got {value!r} at positions {first[value]} and {position}"
            )
        first[value] = position
    return values


def _of_kind(given: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Read labels of an order as the kind that y has: a command line knows only text."""
    if given.dtype.kind == dtype.kind:
        return given
    if dtype.kind == "U":
        return _as_text(given)
    if given.dtype.kind == "U" and dtype.kind == "b":
        truth = {"true": True, "false": False}
        read: list[Any] = [truth.get(text.lower()) for text in given.tolist()]
    else:
        read = [_number(value) for value in given.tolist()]
    wrong = [label for label, value in zip(given.tolist(), read, strict=True) if value is None]
    if wrong or (dtype.kind == "b" and given.dtype.kind != "U"):
        raise ValueError(
            f"order must hold labels like y's, of dtype {dtype}, got {(wrong or given.tolist())[0]!r}"
        )
    return np.array(read, dtype=dtype)


def _number(value: object) -> int | float | None:
    """Read a whole number, or nothing."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _sorted_text(values: np.ndarray) -> np.ndarray:
    """Sort text by the number in it if that is all that differs, otherwise as text and with a warning."""
    found = [_NUMBERED.fullmatch(text) for text in values.tolist()]
    numbers = [_signed(*match.groups()) for match in found if match]
    if len(numbers) == len(values) and len({(before, after) for before, _, after in numbers}) == 1:
        return values[np.argsort([number for _, number, _ in numbers], kind="stable")]
    if len(values) > 2:
        warnings.warn(
            f"y holds text and nobody said its order: taken as {listed(values.tolist(), ' < ')}, as sorted; "
            "pass order=[...], lowest first, to say what it is",
            UserWarning,
            stacklevel=calling_level(),
        )
    return values


def _signed(before: str, digits: str, after: str) -> tuple[str, float, str]:
    """Read a sign that stands alone before the number as part of it; in 'grade-1' it is a hyphen."""
    return ("", -float(digits), after) if before == "-" else (before, float(digits), after)
