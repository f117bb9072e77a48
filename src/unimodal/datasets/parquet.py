"""Parquet files, whole or in pieces, with the dtypes that the whole file would have."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unimodal.datasets.paths import TableError, arrow, check_columns, one_line, pandas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_parquet", "stream_parquet"]


def read_parquet(file: Path, columns: Sequence[str] | None) -> "pd.DataFrame":
    """Read all columns, or these."""
    with _open(file) as opened:
        names = _names(file, opened.schema_arrow.names, columns)
        table = opened.read(names).select(names)
        gaps = {name for name in names if table.column(name).null_count}
        return _from_arrow(table.unify_dictionaries(), gaps)


def stream_parquet(file: Path, rows: int) -> Iterator["pd.DataFrame"]:
    """Read all columns in pieces of so many rows."""
    pa, _ = arrow()
    with _open(file) as opened:
        names = _names(file, opened.schema_arrow.names, None)
        gaps = {name for name in names if _has_gaps(opened, name, rows)}
        for batch in opened.iter_batches(rows, columns=names):
            yield _from_arrow(pa.Table.from_batches([batch]).select(names), gaps)


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    pa, pq = arrow()
    try:
        with pq.ParquetFile(file) as opened:
            if opened.metadata.num_rows == 0:
                raise TableError(f"{file} has columns but no rows")
            yield opened
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{file} is no Parquet file, or a damaged one: {one_line(error)}") from None


def _names(file: Path, names: list[str], wanted: Sequence[str] | None) -> list[str]:
    """Leave out what pandas stored as the index of no name."""
    return check_columns(file, [name for name in names if not re.match(r"__index_level_\d+__", name)], wanted)


def _has_gaps(opened: Any, name: str, rows: int) -> bool:
    """Whether whole numbers or booleans are missing somewhere: it changes the dtype of every piece."""
    pa, _ = arrow()
    field = opened.schema_arrow.field(name)
    if not field.nullable or not (pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)):
        return False
    batches = opened.iter_batches(rows, columns=[name])
    return any(pa.Table.from_batches([batch]).column(name).null_count for batch in batches)


def _as_it_is(kind: Any) -> Any:
    """Keep the type of what pandas holds as objects: a piece in which all are missing would not know it."""
    pa, _ = arrow()
    types = pa.types
    kept = (types.is_date, types.is_time, types.is_decimal, types.is_nested, types.is_binary,
            types.is_large_binary, types.is_fixed_size_binary)  # fmt: skip
    return pandas().ArrowDtype(kind) if any(is_kept(kind) for is_kept in kept) else None


def _from_arrow(table: Any, gaps: set[str]) -> "pd.DataFrame":
    pa, _ = arrow()
    frame = table.to_pandas(ignore_metadata=True, types_mapper=_as_it_is)
    for name in gaps:
        kind = table.schema.field(name).type
        if pa.types.is_integer(kind):
            frame[name] = frame[name].astype(np.float64)
        elif pa.types.is_boolean(kind):
            frame[name] = frame[name].astype("boolean")
    return frame
