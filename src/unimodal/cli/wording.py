"""What the library says, in the words of the command line: options for arguments, rows counted from 1."""

import re
import shlex

__all__ = ["in_options", "one_line"]

_OPTIONS = "order|method|methods|members|lambdas|folds|seeds|metric|rule|coverage|n_jobs"
_NAMES = {"n_jobs": "jobs"}
_TEXTS = r"in column '(.+?)': drop it,"
_REPLACED = (
    (r"^y holds text and nobody said its order: ", "nobody said the order of the classes: "),
    (r"pass order=\[\.\.\.\], lowest first, to say what it is", "pass --order to say what it is"),
    (r"^y must\b", "the target must"),
    (r"^Unknown label type: y must\b", "the target must"),
    (r"\blabels? of y\b", "label of the target"),
    (r"\blabels like y's\b", "labels like the target's"),
    (r"^X must\b", "the table must"),
    (r"^class_weight must\b", "class_weight in --config must"),
    (r"^sample_weight must\b", "--weight must"),
    (r"^Unknown label type: continuous.*", "the target must hold classes, got numbers with fractions: round "
     "them or put them in bins first"),
)  # fmt: skip


def in_options(said: str) -> str:
    """Name the option where the library names an argument, and count rows as people do."""
    said = re.sub(rf"^({_OPTIONS}) must\b", lambda name: f"--{_NAMES.get(name[1], name[1])} must", said)
    for pattern, words in _REPLACED:
        said = re.sub(pattern, words, said)
    said = re.sub(
        _TEXTS,
        lambda name: f"in column '{name[1]}': leave it out with --drop {shlex.quote(name[1])},",
        said,
    )
    return re.sub(r"\bat row (\d+)\b", lambda row: f"in data row {int(row[1]) + 1}", said)


def one_line(error: BaseException | str) -> str:
    """Put what was said into one line."""
    return " ".join(str(error).split()) or type(error).__name__
