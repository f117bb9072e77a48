"""What every table has, however it is stored: a path that exists, columns of different names, an error."""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from unimodal.wording import did_you_mean, listed

__all__ = [
    "TableError",
    "arrow",
    "check_columns",
    "check_suffix",
    "existing",
    "is_parquet",
    "no_column",
    "one_line",
    "pandas",
]

_DELIMITED = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")


class TableError(ValueError):
    """What is wrong with a table, in one line."""


def pandas() -> Any:
    """Import pandas, which is optional."""
    try:
        import pandas as found
    except ModuleNotFoundError as error:
        raise ImportError("tables need pandas: pip install 'unimodal[cli]'") from error
    return found


def arrow() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet part, which are optional."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'unimodal[cli]'") from error
    return pyarrow, parquet


def existing(path: str | PathLike[str]) -> Path:
    """Check that there is a file to be read."""
    file = Path(path)
    if file.is_dir():
        raise TableError(f"{file} is a folder, not a file")
    if not file.exists():
        there = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise TableError(f"{file} does not exist{did_you_mean(file.name, there)}")
    check_suffix(file)
    if file.stat().st_size == 0:
        raise TableError(f"{file} is empty")
    return file


def check_suffix(file: Path) -> None:
    """Check that a file's name says that it is a table."""
    if not file.name.lower().removesuffix(".gz").endswith(_DELIMITED) and not is_parquet(file):
        known = ", ".join([*_DELIMITED, ".csv.gz", *_PARQUET])
        raise TableError(f"{file} must be a table: a file name ends in one of {known}")


def is_parquet(file: Path) -> bool:
    """Whether a file's name says that it is Parquet."""
    return file.suffix.lower() in _PARQUET


def no_column(name: object, names: Iterable[object]) -> str:
    """Say which columns there are instead."""
    names = list(names)
    return f"there is no column {name!r}{did_you_mean(name, names)} (the columns are {listed(names)})"


def check_columns(file: Path, names: list[str], wanted: Sequence[str] | None) -> list[str]:
    """Refuse two columns of one name; give those that are wanted."""
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise TableError(f"{file} has more than one column named {listed(repeated)}")
    for name in wanted or ():
        if name not in names:
            raise TableError(f"{file}: {no_column(name, names)}")
    return names if wanted is None else list(wanted)


def one_line(error: BaseException) -> str:
    """Put what a library says into one line."""
    said = [part for part in error.args if isinstance(part, str)]
    return " ".join((": ".join(said) or type(error).__name__).split())
