"""How errors list what there is, and guess what was meant; where warnings point."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

_LISTED = 10


def listed(values: Iterable[object], separator: str = ", ") -> str:
    """Quote the first ten values; an ellipsis stands for the others."""
    shown = [repr(value) for value in islice(values, _LISTED + 1)]
    return separator.join([*shown[:_LISTED], "..."] if len(shown) > _LISTED else shown)


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """Propose the known value nearest to a misspelt text, if there is one that is near."""
    if not isinstance(given, str):
        return ""
    by_text = {str(value).casefold(): value for value in known}
    near = get_close_matches(given.casefold(), by_text, n=1)
    return f"; did you mean {by_text[near[0]]!r}?" if near else ""


def calling_level() -> int:
    """The `stacklevel` of a warning that shall point at the line which called this package."""
    package = str(Path(__file__).parent)
    level = calling = 1
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        if frame.f_code.co_filename.startswith(package):
            calling = level
    return calling + 1
