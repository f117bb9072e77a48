"""How good predictions are, as people read it."""

from collections.abc import Mapping, Sequence
from typing import Any

from unimodal.cli.output import TIED, note, number, percent, print_line, print_table

__all__ = ["classes_line", "print_scores"]

_SHOWN = {
    "accuracy": ("accuracy", percent),
    "mae": ("mean absolute error, in classes", number),
    "qwk": ("quadratic weighted kappa", number),
    "kendall_tau": ("Kendall's tau", number),
    "nll": ("negative log-likelihood", number),
    "rps": ("ranked probability score", number),
    "unimodal_share": ("unimodal", percent),
}
_MOST_CLASSES = 12
"""Of a confusion table that is printed: more do not fit a terminal."""
_LONGEST = 20
"""Characters of a class that are printed in a table."""


def classes_line(target: str, counts: Mapping[Any, int]) -> str:
    """Say the order of the classes, and how many rows each has."""
    classes = [f"{label}{TIED}({rows})" for label, rows in counts.items()]
    shown = classes if len(classes) <= 2 * _MOST_CLASSES else [*classes[:_MOST_CLASSES], "...", classes[-1]]
    return f"{target}, lowest first (rows): {' < '.join(shown)}"


def print_scores(title: str, scores: Mapping[str, float], confusion: Any, labels: Sequence[Any]) -> None:
    """Print the metrics and the confusion table."""
    print_line(title)
    print_table(["", ""], [[words, spell(scores[name])] for name, (words, spell) in _SHOWN.items()])
    print_line()
    if len(labels) > _MOST_CLASSES:
        note(f"the confusion table of {len(labels)} classes is only printed with --json")
        return
    names = [text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in map(str, labels)]
    rows = [[name, *map(str, row)] for name, row in zip(names, confusion.tolist(), strict=True)]
    print_table([r"true \ predicted", *names], rows)
    print_line()
