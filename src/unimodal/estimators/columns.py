"""The kinds of columns a table has: each learns how to become numbers, remembers it, and does it.

A column arrives as a float64 array or a pandas Series. What kind it is gets decided once, when it is fitted;
afterwards its values are read as that kind whatever their dtype, since a file may hold text where
another held numbers. Categories are known by their text: 1, 1.0 and '1' are the same category.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from unimodal.estimators.scaling import (
    HUGE,
    Arrays,
    Distribution,
    Scaling,
    distribution,
    fit_scaling,
    load_scaling,
)
from unimodal.simplex import Values
from unimodal.wording import listed

__all__ = ["Column", "Options", "fit_column", "load_column"]

Weight = Float[np.ndarray, " n"] | None
Outputs = Float[np.ndarray, "n outputs"]

_NUMERIC = {"integer", "floating", "mixed-integer-float", "decimal", "boolean"}
_PLAIN = (str, Real, Decimal, np.bool_)


@dataclass(frozen=True)
class Options:
    """How columns are to become numbers."""

    numeric: str
    bins: int
    max_categories: int


@runtime_checkable
class Column(Protocol):
    """A fitted column; `name` is what errors and outputs call it."""

    @property
    def name(self) -> str: ...

    @property
    def output_names(self) -> list[str]: ...

    @property
    def n_raw(self) -> int:
        """How many columns a tree reads."""

    def transform(self, values: Values) -> Outputs:
        """Give what a network reads."""

    def raw(self, values: Values) -> Outputs:
        """Give what a tree reads: numbers as they are, NaN where they are missing; categories as 0 and 1."""

    def state(self) -> tuple[dict[str, Any], Arrays]: ...


@dataclass(frozen=True)
class NumberColumn:
    """Numbers: missing ones become the median, and a flag if the fit met any; then they are scaled."""

    name: str
    median: float
    flag: bool
    scaling: Scaling

    n_raw: ClassVar[int] = 1

    @classmethod
    def fit(cls, name: str, values: Values, weight: Weight, options: Options) -> "NumberColumn":
        x = _numbers(values, name)
        if weight is not None:
            x, weight = x[weight > 0], weight[weight > 0]
        missing = np.isnan(x)
        if missing.all():
            found = Distribution(np.zeros(1), np.ones(1))
        else:
            present = x[~missing].clip(-HUGE, HUGE)
            found = distribution(present, None if weight is None else weight[~missing])
        scaling = fit_scaling(options.numeric, found, options.bins)
        return cls(name, found.median(), bool(missing.any()), scaling)

    @property
    def output_names(self) -> list[str]:
        scaled = [f"{self.name} {component}".rstrip() for component in self.scaling.components]
        return [*scaled, f"{self.name} missing"] if self.flag else scaled

    def transform(self, values: Values) -> Outputs:
        x = _numbers(values, self.name)
        missing = np.isnan(x)
        scaled = self.scaling.transform(np.where(missing, self.median, x.clip(-HUGE, HUGE)))
        return np.concatenate([scaled, missing[:, None]], axis=1) if self.flag else scaled

    def raw(self, values: Values) -> Outputs:
        return _numbers(values, self.name)[:, None]

    def state(self) -> tuple[dict[str, Any], Arrays]:
        return {"kind": "number", "median": self.median, "flag": self.flag}, self.scaling.arrays()


@dataclass(frozen=True)
class RankColumn:
    """Categories in a declared order: their ranks, as numbers; what is no category is missing."""

    categories: tuple[str, ...]
    ranks: NumberColumn

    n_raw: ClassVar[int] = 1

    @classmethod
    def fit(cls, name: str, values: Values, weight: Weight, options: Options) -> "RankColumn":
        categories = tuple(map(_text, values.dtype.categories))
        return cls(categories, NumberColumn.fit(name, _ranks(values, categories), weight, options))

    @property
    def name(self) -> str:
        return self.ranks.name

    @property
    def output_names(self) -> list[str]:
        return self.ranks.output_names

    def transform(self, values: Values) -> Outputs:
        return self.ranks.transform(_ranks(values, self.categories))

    def raw(self, values: Values) -> Outputs:
        return self.ranks.raw(_ranks(values, self.categories))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = self.ranks.state()
        return state | {"kind": "rank", "categories": list(self.categories)}, arrays


@dataclass(frozen=True)
class CategoryColumn:
    """Categories without an order: a 0/1 output each, or one for two; a flag if the fit met missing ones."""

    name: str
    categories: tuple[str, ...]
    flag: bool

    @classmethod
    def fit(cls, name: str, values: Values, weight: Weight, options: Options) -> "CategoryColumn":
        codes, distinct = _factorised(values)
        present = np.unique(codes if weight is None else codes[weight > 0])
        found = {_text(distinct[code]) for code in present[present >= 0]}
        if len(found) > options.max_categories:
            raise ValueError(
                f"X must have at most max_categories={options.max_categories} different texts in a column, "
                f"got {len(found)} in column {name!r}: drop it, or put its values in fewer bins"
            )
        declared = getattr(values.dtype, "categories", None)
        ordered = (
            sorted(found) if declared is None else [text for text in map(_text, declared) if text in found]
        )
        return cls(name, tuple(dict.fromkeys(ordered)), bool((present < 0).any()))

    @property
    def output_names(self) -> list[str]:
        shown = [f"{self.name}={category}" for category in self._shown()]
        return [*shown, f"{self.name} missing"] if self.flag else shown

    @property
    def n_raw(self) -> int:
        return len(self.output_names)

    def transform(self, values: Values) -> Outputs:
        codes, missing = _codes(values, self.categories)
        first = len(self.categories) - len(self._shown())
        shown = codes[:, None] == np.arange(first, len(self.categories))
        return (np.concatenate([shown, missing[:, None]], axis=1) if self.flag else shown).astype(np.float64)

    def raw(self, values: Values) -> Outputs:
        return self.transform(values)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        return {"kind": "category", "categories": list(self.categories), "flag": self.flag}, {}

    def _shown(self) -> tuple[str, ...]:
        """The categories that have an output: of two, the second says it all."""
        return self.categories[1:] if len(self.categories) == 2 else self.categories


def fit_column(name: str, values: Values, weight: Weight, options: Options) -> Column:
    """Decide what kind of column this is, and fit it."""
    kinds: dict[str, Callable[..., Column]] = {
        "number": NumberColumn.fit,
        "rank": RankColumn.fit,
        "category": CategoryColumn.fit,
    }
    return kinds[_kind(values, name)](name, values, weight, options)


def load_column(name: str, state: Mapping[str, Any], arrays: Arrays, numeric: str) -> Column:
    """Take up the state of a column, or say what is wrong with it."""
    kind, flag, categories = state.get("kind"), state.get("flag"), state.get("categories", [])
    if kind not in ("number", "rank", "category"):
        raise ValueError(f"kind must be one of 'number', 'rank', 'category', got {kind!r}")
    if not isinstance(flag, bool):
        raise ValueError(f"flag must be true or false, got {flag!r}")
    if (
        not isinstance(categories, list)
        or not all(isinstance(text, str) for text in categories)
        or len(set(categories)) < len(categories)
    ):
        raise ValueError(f"categories must be different texts, got {categories!r}")
    if kind == "category":
        return CategoryColumn(name, tuple(categories), flag)
    median = state.get("median")
    if not isinstance(median, float) or not np.isfinite(median):
        raise ValueError(f"median must be a finite number, got {median!r}")
    number = NumberColumn(name, median, flag, load_scaling(numeric, arrays))
    return number if kind == "number" else RankColumn(tuple(categories), number)


def _kind(values: Values, name: str) -> str:
    if isinstance(values, np.ndarray):
        return "number"
    from pandas.api import types  # already imported: a Series is here

    if hasattr(values.dtype, "categories"):
        return "rank" if values.dtype.ordered else "category"
    if types.is_bool_dtype(values.dtype) or types.is_numeric_dtype(values.dtype):
        if types.is_complex_dtype(values.dtype):
            raise ValueError(f"Complex data not supported: got {values.dtype} in column {name!r}")
        return "number"
    found = types.infer_dtype(values, skipna=True)
    if found in _NUMERIC:
        return "number"
    if found in ("string", "empty"):
        return "category"
    if found.startswith("mixed"):
        strange = {type(value).__name__ for value in values.dropna() if not isinstance(value, _PLAIN)}
        if not strange:
            return "category"
        found = listed(sorted(strange))
    in_time = any(word in found for word in ("date", "time", "period"))
    hint = ": make numbers of it, such as its year, or the days since another" if in_time else ""
    raise ValueError(f"X must hold numbers, booleans or text, got {found} in column {name!r}{hint}")


def _numbers(values: Values, name: str) -> Float[np.ndarray, " n"]:
    """Read numbers, NaN where they are missing; a column of text is welcome if numbers are what it spells."""
    if isinstance(values, np.ndarray):
        x = values
    else:
        from pandas.api import types

        if types.is_bool_dtype(values.dtype) or types.is_numeric_dtype(values.dtype):
            x = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            codes, distinct = _factorised(values)
            read = np.array([_number(value) for value in distinct] + [np.nan])
            x = read[codes]  # -1, a missing value, takes the last place
            wrong = np.isnan(x) & (codes >= 0)
            if wrong.any():
                row = int(wrong.argmax())
                value = distinct[codes[row]]
                raise ValueError(f"X must hold numbers in column {name!r}, got {value!r} at row {row}")
    infinite = np.isinf(x)
    if infinite.any():
        row = int(infinite.argmax())
        raise ValueError(f"X must be finite, got {x[row]} in column {name!r} at row {row}")
    return x


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        return np.nan


def _ranks(values: Values, categories: Sequence[str]) -> Float[np.ndarray, " n"]:
    codes, _ = _codes(values, categories)
    return np.where(codes < 0, np.nan, codes)


def _codes(values: Values, categories: Sequence[str]) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Find the place of each value among the categories, -1 if it has none; and whether it is missing."""
    codes, distinct = _factorised(values)
    place = {category: i for i, category in enumerate(categories)}
    places = np.array([place.get(_text(value), -1) for value in distinct] + [-1])
    return places[codes], codes < 0


def _factorised(values: Values) -> tuple[Int[np.ndarray, " n"], list[Any]]:
    """Number the different values; -1 stands for a missing one."""
    if isinstance(values, np.ndarray):
        distinct, codes = np.unique(values, return_inverse=True)
        return np.where(np.isnan(values), -1, codes), distinct.tolist()
    import pandas as pd

    codes, found = pd.factorize(values)
    return codes, list(found)


def _text(value: Any) -> str:
    """Spell a category alike whether a file or a dtype made it 1, 1.0 or '1'."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value)
