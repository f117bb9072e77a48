"""What the commands print: results on stdout, as tables or JSON; notes, errors and progress on stderr."""

import json
import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from unimodal.cli.wording import in_options, one_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "TIED",
    "advancing",
    "complain",
    "counted",
    "number",
    "percent",
    "print_json",
    "print_line",
    "print_table",
    "with_notes",
]

TIED = "\N{NO-BREAK SPACE}"
"""A space at which no line is broken."""

Advance = Callable[[str, float], None]


def complain(text: str) -> None:
    """Say what is wrong, in one line."""
    _to_stderr(f"error: {one_line(text)}")


def note(text: str) -> None:
    """Say what may be of interest, in one line."""
    _to_stderr(f"note: {one_line(text)}")


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextmanager
def with_notes() -> Iterator[None]:
    """Turn warnings into notes, each said once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            told = [each for each in caught if issubclass(each.category, UserWarning | RuntimeWarning)]
            for said in dict.fromkeys(in_options(one_line(str(each.message))) for each in told):
                note(said)


@contextmanager
def advancing() -> Iterator[Advance]:
    """Show a bar on stderr if somebody is there to see it; give what moves it: a stage and its share."""
    if not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = _console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        stages: dict[str, Any] = {}

        def advance(stage: str, share: float) -> None:
            if stage not in stages:
                for other in stages.values():
                    bar.update(other, visible=False)
                stages[stage] = bar.add_task(stage, total=1.0)
            bar.update(stages[stage], completed=share)

        yield advance


def print_json(result: Mapping[str, Any]) -> None:
    """Print an object; what is no number is null."""
    sys.stdout.write(json.dumps(_plain(result), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_line(text: str = "") -> None:
    """Print text, broken at spaces where the terminal ends; what is between `TIED` stays together."""
    width = max(20, get_terminal_size().columns)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    sys.stdout.write("\n".join(lines).replace(TIED, " ") + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table; so many columns hold text, the others numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(columns)
    )
    for j, name in enumerate(columns):
        text = j < left
        table.add_column(
            Text(name), justify="left" if text else "right", overflow="fold" if text else "ellipsis",
            no_wrap=not text,
        )  # fmt: skip
    for row in rows:
        table.add_row(*map(Text, row))
    _console().print(table)


def _console(stderr: bool = False) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def number(value: float | None, digits: int = 3) -> str:
    """Spell a number for a table."""
    if value is None:
        return ""
    return "undefined" if math.isnan(value) else f"{value:.{digits}f}"


def counted(count: int, noun: str) -> str:
    """Spell a number of things."""
    return f"{count} {noun}{'s' * (count != 1)}"


def percent(value: float) -> str:
    """Spell a share for a table."""
    return "undefined" if math.isnan(value) else f"{100 * value:.1f} %"
