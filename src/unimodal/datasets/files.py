"""Tables on disk: CSV and Parquet, read whole or in pieces, and written so that no half of a file is left.

What is wrong with a table is told in one line: a `TableError` that names the file and, in a text, the line.
"""

import csv
import gzip
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from unimodal.datasets.delimited import read_text, stream_text
from unimodal.datasets.parquet import read_parquet, stream_parquet
from unimodal.datasets.paths import (
    TableError,
    arrow,
    check_suffix,
    existing,
    is_parquet,
    no_column,
    one_line,
)
from unimodal.wording import listed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableError", "TableWriter", "as_text", "column", "read_table", "stream_table"]

_ROWS = 65536


def read_table(path: str | PathLike[str], columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : path
        A file in .csv, .tsv or .txt (also .gz), with a header and fields between commas, semicolons, tabs or
        bars; or in .parquet or .pq.
    columns : list of str, optional
        Which columns, in which order; by default all.

    Raises
    ------
    TableError
        If there is no such file or column, or if the file is damaged.
    """
    file = existing(path)
    return read_parquet(file, columns) if is_parquet(file) else read_text(file, columns)


def stream_table(path: str | PathLike[str], rows: int = _ROWS) -> Iterator["pd.DataFrame"]:
    """Read a table in pieces of at most so many rows, all of the same dtypes, in bounded memory.

    Parameters
    ----------
    path : path
        As in `read_table`.
    rows : int
        Number of rows of a piece, at least 1.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    file = existing(path)
    return stream_parquet(file, rows) if is_parquet(file) else stream_text(file, rows, None)


def column(frame: "pd.DataFrame", name: str) -> "pd.Series":
    """Take a column out of a table, or say which there are."""
    if name not in frame.columns:
        raise TableError(no_column(name, list(frame.columns)))
    return frame[name]


def as_text(frame: "pd.DataFrame", separator: str = ",", *, header: bool = True) -> str:
    """Spell a table, or a piece of one, as delimited text."""
    options: dict[str, Any] = {"sep": separator, "header": header, "index": False, "lineterminator": "\n"}
    text: str = frame.to_csv(**options)
    if "\r" in text:  # it ends a line, yet is not quoted for that
        text = frame.to_csv(**options, quoting=csv.QUOTE_NONNUMERIC)
    return text


class TableWriter:
    """Writes a table piece by piece; the file appears at the end of the `with` block, whole or not at all.

    Parameters
    ----------
    path : path
        Where to; .csv, .tsv or .txt (also .gz), .parquet or .pq. A file that is there is replaced.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        check_suffix(self.path)
        if self.path.is_dir():
            raise TableError(f"{self.path} is a folder, not a file")
        if not self.path.parent.is_dir():
            raise TableError(f"{self.path} cannot be written: there is no folder {self.path.parent}")
        self._beside = self.path.with_name(f".{self.path.name}.{uuid4().hex}.part")
        self._file: Any = None
        self._parquet: Any = None
        self._names: list[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._beside.open("xb")
        except OSError as error:
            raise TableError(f"{self.path} cannot be written: {error.strerror}") from None
        return self

    def write(self, frame: "pd.DataFrame") -> None:
        """Append rows; the columns are those of the first call."""
        if self._file is None:
            raise TableError(f"{self.path} is not open: write inside a with block")
        names = [str(name) for name in frame.columns]
        if self._names not in (None, names):
            first = listed(self._names or [])
            raise TableError(f"{self.path}: all pieces must have the columns {first}, got {listed(names)}")
        if is_parquet(self.path):
            self._write_parquet(frame)
        else:
            self._write_text(frame)
        self._names = names

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._parquet is not None:
                self._parquet.close()
            self._file.close()
            if kind is None:
                if self._names is None:
                    raise TableError(f"{self.path} is not written: there was nothing to write")
                self._beside.replace(self.path)
        except OSError as failure:
            raise TableError(f"{self.path} cannot be written: {failure.strerror or failure}") from None
        finally:
            self._file = None
            self._beside.unlink(missing_ok=True)

    def _write_text(self, frame: "pd.DataFrame") -> None:
        name = self.path.name.lower()
        data = as_text(frame, "\t" if ".tsv" in name else ",", header=self._names is None).encode()
        # Archives one after the other are one archive; without their time, they depend on the table alone.
        self._file.write(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)

    def _write_parquet(self, frame: "pd.DataFrame") -> None:
        pa, pq = arrow()
        schema = None if self._parquet is None else self._parquet.schema
        try:
            table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
        except pa.ArrowException as error:
            raise TableError(f"{self.path}: {one_line(error)}") from None
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._file, table.schema)
        self._parquet.write_table(table)
