"""The command line, called in this process; and a small table for it."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import numpy as np
import pandas as pd

from unimodal.cli import main

QUICK = "epochs = 2\nmembers = 2\ntrees = 0\nhidden = [4]\n"


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(*arguments):
    """Run a command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(each) for each in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def done(*arguments):
    """Run a command that must succeed, and return what it printed."""
    result = run(*arguments)
    assert result.code == 0, result
    return result.out


def table(n=60, seed=0):
    """Numbers with gaps, text with a class of its own for markup, and a class with a single row."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n).round(3)
    grade = np.array(["low", "mid", "high"], dtype=object)[np.digitize(size, [-0.5, 0.5])]
    grade[7] = "top, [red]"
    size[[3, 5]] = np.nan
    return pd.DataFrame(
        {
            "size": size,
            "colour": rng.choice(["[red]", "green", "blue, pale"], n),
            "name": [f"row {i}" for i in range(n)],
            "grade": grade,
        }
    )


ORDER = 'low,mid,high,"top, [red]"'


def fit_arguments(folder, output, *more, order=ORDER):
    names = ["--target", "grade", "--order", order, "--drop", "name"]
    return ["fit", folder / "t.csv", *names, "--config", folder / "quick.toml", "-o", output, *more]


def compare_arguments(folder, *more):
    names = ["--target", "grade", "--drop", "name", "--order", ORDER]
    tried = ["--folds", 2, "--methods", "un,co2", "--lambdas", "0.1,10"]
    return ["compare", folder / "t.csv", *names, *tried, "--config", folder / "quick.toml", *more]
