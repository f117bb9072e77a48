"""What the command line says of wrong use and bad input, in its exact words: one line, and exit code 2."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest
from command_line import compare_arguments, fit_arguments, run, table

import unimodal as um
from unimodal.cli import models
from unimodal.methods import METHODS


def said(folder, *arguments):
    """The one line of a command that failed for a wrong input."""
    result = run(*arguments)
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    return result.err.removeprefix("error: ").rstrip("\n").replace(f"{folder}{os.sep}", "")


def changed(folder, **columns):
    """The table with other columns, as a file."""
    table().assign(**columns).to_csv(folder / "changed.csv", index=False)
    return folder / "changed.csv"


FIT_ERRORS = {
    "order misses a label": (
        ["--order", "low,mid,high"],
        "--order must contain every label of the target, 'top, [red]' (1 row) is missing",
    ),
    "order has a typing error": (
        ["--order", 'low,mid,hihg,"top, [red]"'],
        "--order must contain every label of the target, 'high' (17 rows) is missing; did you mean 'hihg'?",
    ),
    "order repeats": (
        ["--order", 'low,mid,low,high,"top, [red]"'],
        "--order must not repeat a label, got 'low' at positions 0 and 2",
    ),
    "order ends in a comma": (
        ["--order", "low,mid,"],
        "--order must be names between commas, one is empty in 'low,mid,'",
    ),
    "negative seed": (
        ["--seed", "-1"],
        "Invalid value for '--seed': Input should be greater than or equal to 0",
    ),
    "no such method": (
        ["--method", "nu"],
        f"--method must be one of {', '.join(METHODS)}, got 'nu'",
    ),
    "no members": (["--members", "0"], "--members must be an integer of at least 1, got 0"),
    "members in words": (
        ["--members", "many"],
        "Invalid value for '--members': Input should be a valid integer, "
        "unable to parse string as an integer",
    ),
    "no jobs": (["--jobs", "0"], "--jobs must not be 0; use -1 for one process on each core"),
    "no such column to drop": (
        ["--drop", "nane"],
        "--drop: there is no column 'nane'; did you mean 'name'? "
        "(the columns are 'size', 'colour', 'name', 'grade')",
    ),
    "nothing left": (["--drop", "size,colour"], "there are no columns to learn from besides the target"),
    "no such weight": (
        ["--weight", "seize"],
        "--weight: there is no column 'seize'; did you mean 'size'? "
        "(the columns are 'size', 'colour', 'name', 'grade')",
    ),
    "weight of text": (["--weight", "colour"], "--weight must be a column of numbers, 'colour' holds text"),
    "negative weight": (
        ["--weight", "size"],
        "--weight must be finite and not negative, got -0.132 in data row 2",
    ),
    "no such option": (["--ordr", "a,b"], "No such option: --ordr (Possible options: --drop, --order)"),
}


@pytest.mark.parametrize("case", FIT_ERRORS)
def test_what_is_wrong_with_options(folder, case):
    more, words = FIT_ERRORS[case]
    assert said(folder, *fit_arguments(folder, folder / "wrong", *more)) == words
    assert not (folder / "wrong").exists()


CONFIG_ERRORS = {
    "membrs = 3": "'membrs' is no parameter of OrdinalClassifier; did you mean 'members'?",
    "members = 2.5": "members must be int, got 2.5",
    "hidden = 3": "hidden must be tuple[int, ...], got 3",
    "members = ": "Invalid value (at end of document)",
    "epochs = true": "epochs must be int, got True",
}


@pytest.mark.parametrize("text", CONFIG_ERRORS)
def test_what_is_wrong_with_a_file_of_parameters(folder, text):
    (folder / "wrong.toml").write_text(text)
    arguments = fit_arguments(folder, folder / "wrong")
    arguments[arguments.index("--config") + 1] = folder / "wrong.toml"
    assert said(folder, *arguments) == f"--config wrong.toml: {CONFIG_ERRORS[text]}"
    (folder / "wrong.toml").write_text("lr = -1")
    assert said(folder, *arguments) == "lr must be a number of at least 0.0, got -1"
    (folder / "wrong.toml").unlink()
    assert said(folder, *arguments) == "wrong.toml: No such file or directory"


def test_what_is_wrong_with_a_table(folder):
    def fit(path, target="grade", *more):
        return said(folder, "fit", path, "--target", target, "-o", folder / "wrong", *more)

    def text(content):
        (folder / "text.csv").write_text(content)
        return folder / "text.csv"

    assert fit(folder / "tt.csv") == "tt.csv does not exist; did you mean 't.csv'?"
    assert fit(text("")) == "text.csv is empty"
    assert fit(text("size,grade\n")) == "text.csv has a header but no rows"
    assert fit(text("size,grade\n1,a\n2,b,c\n")) == "text.csv: line 3 has 3 fields, the header has 2"
    assert fit(folder) == f"{folder} is a folder, not a file"
    assert fit(folder / "quick.toml") == (
        "quick.toml must be a table: a file name ends in one of .csv, .tsv, .txt, .csv.gz, .parquet, .pq"
    )
    assert fit(changed(folder, grade="low")) == (
        "the target 'grade' has one class only, 'low': there is nothing to learn"
    )
    assert fit(changed(folder, grade=np.nan)) == "the target 'grade' has no values at all"
    gap = table().grade.where(table().index != 4)
    assert fit(changed(folder, grade=gap)) == (
        "the target 'grade' has no value in data row 5: fill it in, or leave the row out"
    )
    assert fit(changed(folder, grade=np.arange(60) + 0.5)) == (
        "the target must hold classes, got numbers with fractions: round them or put them in bins first"
    )
    names = pd.DataFrame({"my name": [f"n{i}" for i in range(200)], "grade": np.arange(200) % 2})
    names.to_csv(folder / "changed.csv", index=False)
    assert fit(folder / "changed.csv") == (
        "the table must have at most max_categories=100 different texts in a column, got 200 in column "
        "'my name': leave it out with --drop 'my name', or put its values in fewer bins"
    )
    infinite = changed(folder, size=["inf", *range(59)], grade=np.arange(60) % 2)
    assert fit(infinite) == "the table must be finite, got inf in column 'size' in data row 1"


def test_what_is_wrong_with_a_model(folder, monkeypatch):
    t = folder / "t.csv"
    assert said(folder, "predict", folder / "none", t, "-o", "-") == (
        "none is no folder with a model: it has no model.json"
    )
    shutil.copytree(folder / "model", folder / "damaged")
    (folder / "damaged" / "model.safetensors").write_bytes(b"nothing")
    assert said(folder, "evaluate", folder / "damaged", t) == (
        f"the model in {folder / 'damaged'} is damaged: its contents are not those that were saved"
    ).replace(f"{folder}{os.sep}", "")
    assert said(folder, *fit_arguments(folder, t)) == (
        "t.csv exists and is no model: choose another path, or remove it first"
    )

    def full(*_):
        raise OSError(28, "No space left on device", "model")

    monkeypatch.setattr("unimodal.export.save", full)
    assert run(*fit_arguments(folder, folder / "wrong")) == (1, "", "error: model: No space left on device\n")

    def forbidden(*_):
        raise PermissionError(13, "Permission denied", "model")

    monkeypatch.setattr("unimodal.export.save", forbidden)
    assert said(folder, *fit_arguments(folder, folder / "wrong")) == "model: Permission denied"


def test_what_is_wrong_with_a_table_to_predict(folder, monkeypatch):
    monkeypatch.setattr(models, "_piece", lambda _: 7)

    def predict(path, *more, output=folder / "never.csv"):
        return said(folder, "predict", folder / "model", path, "-o", output, *more)

    table().rename(columns={"size": "Size"}).to_csv(folder / "changed.csv", index=False)
    assert predict(folder / "changed.csv") == (
        "the model was fitted on a column 'size', which the table does not have; did you mean 'Size'? "
        "(its columns are 'Size', 'colour', 'name', 'grade')"
    )
    words = table()["size"].astype(object)
    words[20] = "tall"
    assert predict(changed(folder, size=words)) == (
        "the table must hold numbers in column 'size', got 'tall' in data row 21"
    )
    t = folder / "t.csv"
    assert predict(t, "--rule", "mood") == "--rule must be one of 'mode', 'median', 'mean', got 'mood'"
    assert predict(t, "--coverage", "2") == "--coverage must lie in (0, 1], got 2.0"
    assert predict(t, "--keep", "nme") == (
        "--keep: there is no column 'nme'; did you mean 'name'? "
        "(the columns are 'size', 'colour', 'name', 'grade')"
    )
    assert predict(t, "--keep", "name", "--only-predictions") == (
        "--keep and --only-predictions exclude each other"
    )
    assert predict(t, output=t) == "-o t.csv is the table itself: choose another file"
    assert predict(t, output=folder / "none" / "p.csv") == (
        f"none{os.sep}p.csv cannot be written: there is no folder {folder / 'none'}"
    ).replace(f"{folder}{os.sep}", "")
    assert predict(t, output=folder / "p.doc").startswith("p.doc must be a table: ")
    assert not (folder / "never.csv").exists()
    assert not list(folder.glob(".*.part"))


def test_what_is_wrong_with_a_table_to_evaluate(folder, monkeypatch):
    monkeypatch.setattr(models, "_piece", lambda _: 7)
    labels = table().grade
    labels[30] = "hgh"
    assert said(folder, "evaluate", folder / "model", changed(folder, grade=labels)) == (
        "the target must be one of 'low', 'mid', 'high', 'top, [red]', got 'hgh' in data row 31; "
        "did you mean 'high'?"
    )
    labels[30] = None
    assert said(folder, "evaluate", folder / "model", changed(folder, grade=labels)) == (
        "the target 'grade' has no value in data row 31: fill it in, or leave the row out"
    )
    table().drop(columns="grade").to_csv(folder / "changed.csv", index=False)
    assert said(folder, "evaluate", folder / "model", folder / "changed.csv") == (
        "there is no column 'grade' (the columns are 'size', 'colour', 'name')"
    )


COMPARE_ERRORS = {
    "--metric rsp": "--metric must be one of {metrics}, got 'rsp'; did you mean 'rps'?",
    "--methods wu-was": "--methods must be among {methods}, got 'wu-was'; did you mean 'wu-wass'?",
    "--lambdas 1,x": "--lambdas must be numbers between commas, got '1,x'",
    "--folds 1": "--folds must lie in [2, 60], the number of rows, got 1",
    "--seeds 0": "--seeds must be at least 1, got 0",
    "--order low,high": "--order must contain every label of the target, 'mid' (24 rows) is missing",
    "--methods un,,co": "--methods must be names between commas, one is empty in 'un,,co'",
    "--lambdas 1,-1": "--lambdas must be finite and not negative, got -1.0",
    "-o out.doc": (
        "out.doc must be a table: a file name ends in one of .csv, .tsv, .txt, .csv.gz, .parquet, .pq"
    ),
    "--jobs 0": "--jobs must not be 0; use -1 for one process on each core",
}


@pytest.mark.parametrize("options", COMPARE_ERRORS)
def test_what_is_wrong_with_a_comparison(folder, options):
    words = COMPARE_ERRORS[options].format(metrics=", ".join(um.metrics.METRICS), methods=", ".join(METHODS))
    assert said(folder, *compare_arguments(folder, *options.split())) == words


def test_scores_do_not_replace_the_table(folder):
    before = (folder / "t.csv").read_bytes()
    assert said(folder, *compare_arguments(folder, "-o", folder / "t.csv")) == (
        "-o t.csv is the table itself: choose another file"
    )
    assert (folder / "t.csv").read_bytes() == before


def test_a_graph_needs_a_file(folder):
    arguments = ["export", folder / "model", "--onnx", folder / "model"]
    assert said(folder, *arguments) == "--onnx model is a folder: name a file"


def test_a_bug_is_no_wrong_input(folder, monkeypatch):
    """It keeps its traceback: somebody will want to read it."""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("unimodal.export.save", broken)
    with pytest.raises(ZeroDivisionError):
        run(*fit_arguments(folder, folder / "wrong"))
