"""Delimited text (CSV), read strictly: every row is as long as the header, every column of one kind.

To be read in pieces, a file is read twice: the first pass checks every row and finds what kind each column
is, the second delivers. So all pieces have the same dtypes, whichever row decides them. A column is
numeric if all its fields are numbers or stand for a missing one ('', 'NA', 'NaN', 'null', ...), and at least
one is a number, or all are empty; int64 if all are whole numbers. Otherwise it is text, in which only '' is
missing: 'NA' and 'None' are words.
"""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unimodal.datasets.paths import TableError, check_columns, one_line, pandas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_text", "stream_text"]

Fields: TypeAlias = tuple[str, ...]

_DELIMITERS = ",;\t|"
_MISSING = frozenset(
    ["", "NA", "N/A", "n/a", "na", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "Null", "None", "none", "?"]
)
_ROWS = 65536
_DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)


class _Text:
    """A file of which the header is known."""

    def __init__(self, file: Path, columns: Sequence[str] | None) -> None:
        self.file, self.delimiter = file, _sniff(file)
        header = next(_records(file, self.delimiter), [])
        names = [name or f"Unnamed: {j}" for j, name in enumerate(header)]
        self.names = check_columns(file, names, columns)
        self.places = [names.index(name) for name in self.names]

    def pieces(self, rows: int) -> Iterator[list[Fields]]:
        """Give the fields of so many rows, column by column."""
        records = _records(self.file, self.delimiter)
        next(records, None)
        while piece := list(islice(records, rows)):
            columns = list(zip(*piece, strict=True))
            yield [columns[place] for place in self.places]

    def frame(self, series: Iterable[Any]) -> "pd.DataFrame":
        frame = pandas().DataFrame(dict(enumerate(series)))
        frame.columns = self.names
        return frame


def read_text(file: Path, columns: Sequence[str] | None) -> "pd.DataFrame":
    """Read all columns, or these."""
    text = _Text(file, columns)
    kinds = [_Kind() for _ in text.names]
    # Numbers are kept as numbers, which take a tenth of the memory.
    kept = [
        [kind.meet(fields) for kind, fields in zip(kinds, piece, strict=True)] for piece in text.pieces(_ROWS)
    ]
    if not kept:
        raise TableError(f"{file} has a header but no rows")
    by_column = list(zip(*kept, strict=True))
    if any(
        kind.is_text and not all(isinstance(fields, tuple) for fields in met)
        for kind, met in zip(kinds, by_column, strict=True)
    ):
        frames = list(
            stream_text(file, _ROWS, columns)
        )  # text that began like numbers is to be read as it stands
        return pandas().concat(frames, ignore_index=True)
    return text.frame(
        kind.series(list(chain.from_iterable(met)) if kind.is_text else np.concatenate(met))
        for kind, met in zip(kinds, by_column, strict=True)
    )


def stream_text(file: Path, rows: int, columns: Sequence[str] | None) -> Iterator["pd.DataFrame"]:
    """Read all columns, or these, in pieces of so many rows."""
    text = _Text(file, columns)
    kinds = [_Kind() for _ in text.names]
    empty = True
    for piece in text.pieces(rows):
        empty = False
        for kind, fields in zip(kinds, piece, strict=True):
            kind.meet(fields)
    if empty:
        raise TableError(f"{file} has a header but no rows")
    for piece in text.pieces(rows):
        yield text.frame(kind.read(fields) for kind, fields in zip(kinds, piece, strict=True))


class _Kind:
    """What the fields of a column have been so far."""

    def __init__(self) -> None:
        self._has_text = self._has_words = self._has_numbers = self._has_fractions = False

    @property
    def is_text(self) -> bool:
        return self._has_text or (self._has_words and not self._has_numbers)

    def meet(self, fields: Fields) -> Fields | np.ndarray:
        """Take note of more fields; give them as numbers if they are, as long as all were."""
        numbers = None if self._has_text else _numbers(fields)
        if numbers is None:
            self._has_text = True
            return fields
        self._has_fractions |= numbers.dtype == np.float64
        self._has_numbers |= bool(np.isfinite(numbers).any())
        self._has_words |= any(fields)
        return numbers

    def read(self, fields: Fields) -> "pd.Series":
        numbers = None if self.is_text else _numbers(fields)
        return self.series(fields if numbers is None else numbers)

    def series(self, values: Sequence[str] | np.ndarray) -> "pd.Series":
        pd = pandas()
        if self.is_text:
            return pd.Series([text or None for text in values], dtype=pd.Series(["text"]).dtype)
        dtype = np.float64 if self._has_fractions else np.int64
        return pd.Series(np.asarray(values).astype(dtype, copy=False))


def _numbers(fields: Fields) -> np.ndarray | None:
    """Read int64, or float64 with NaN for missing fields, or nothing if there is other text."""
    numbers: np.ndarray | None = None
    with suppress(ValueError, OverflowError):
        numbers = np.array([*map(int, fields)], dtype=np.int64)
    if numbers is None:
        with suppress(ValueError):
            numbers = np.array([*map(float, fields)])
    if numbers is None:
        with suppress(ValueError):
            numbers = np.array([np.nan if text in _MISSING else float(text) for text in fields])
    # Python would read 1_000 as a number.
    return None if numbers is not None and "_" in "".join(fields) else numbers


def _records(file: Path, delimiter: str) -> Iterator[list[str]]:
    """Read the header and the rows, all of its length; blank lines are passed over."""
    width = line = 0
    with _lines(file) as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for fields in reader:
                if fields:
                    width = width or len(fields)
                    if len(fields) != width:
                        has = f"{len(fields)} field{'s' * (len(fields) != 1)}"
                        raise TableError(f"{file}: line {line + 1} has {has}, the header has {width}")
                    yield fields
                line = reader.line_num
        except csv.Error as error:
            said = "a quote is never closed" if "unexpected end" in str(error) else str(error)
            raise TableError(f"{file}: line {line + 1}: {said}") from None
    if width == 0:
        raise TableError(f"{file} is empty")


@contextmanager
def _lines(file: Path) -> Iterator[Iterator[str]]:
    """Open a text, and say which line is to blame for what goes wrong."""
    try:
        with _opened(file) as lines:
            yield _without_nul(file, lines)
    except UnicodeDecodeError:
        raise TableError(f"{file}: {_undecodable(file)}; save it as UTF-8") from None
    except _DAMAGED as error:
        raise TableError(f"{file} is damaged: {one_line(error)}") from None
    except OSError as error:
        raise TableError(f"{file} cannot be read: {error.strerror or error}") from None


def _opened(file: Path) -> IO[str]:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _without_nul(file: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise TableError(f"{file}: line {number} has a NUL byte: this is no text file, or a damaged one")
        yield line


def _undecodable(file: Path) -> str:
    with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"line {number} is not UTF-8 text (byte 0x{line[error.start]:02x})"
    return "it is not UTF-8 text"


def _sniff(file: Path) -> str:
    """Take the delimiter by which most of the first rows are as wide as the header, the wider the better."""
    with _lines(file) as lines:
        sample = list(islice(lines, 100))

    def fit(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(fields) for fields in csv.reader(sample, delimiter=delimiter) if fields]
        except csv.Error:
            return 0, 0
        wide = bool(widths) and widths[0] > 1
        return (widths.count(widths[0]) / len(widths), widths[0]) if wide else (0, 0)

    return max(_DELIMITERS, key=fit)
