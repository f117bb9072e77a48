"""The command line: every command, and every error in its exact words."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import ORDER, QUICK, done, run, table

import unimodal as um
from unimodal.cli import models
from unimodal.cli.app import app
from unimodal.methods import METHODS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, a file of parameters, and a model of them."""
    folder = tmp_path_factory.mktemp("cli")
    table().to_csv(folder / "t.csv", index=False)
    (folder / "quick.toml").write_text(QUICK)
    done(*fit_arguments(folder, folder / "model"))
    return folder


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def fit_arguments(folder, output, *more, order=ORDER):
    names = ["--target", "grade", "--order", order, "--drop", "name"]
    return ["fit", folder / "t.csv", *names, "--config", folder / "quick.toml", "-o", output, *more]


def unimodal(*arguments, cwd=None, **environment):
    """Run a command in a process of its own."""
    source = str(Path(um.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "unimodal", *map(str, arguments)],
        capture_output=True, text=True, check=False, cwd=cwd,
        env=os.environ | {"PYTHONPATH": source, "COLUMNS": "80"} | environment,
    )  # fmt: skip


# The process


HEAVY = {"torch", "pandas", "sklearn", "numba", "scipy", "numpy", "pyarrow"}


@pytest.mark.parametrize("command", ["", "fit", "compare"])
def test_help_is_light(command):
    code = (
        f"import sys; from unimodal.cli import main; main([*{command.split()}, '--help']);"
        f"print(sorted({HEAVY} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("Usage: unimodal")
    assert found.stdout.splitlines()[-1] == "[]"


def test_as_a_process(folder):
    result = unimodal("predict", folder / "model", folder / "t.csv", "-o", "-", "--only-predictions")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith('prediction,low,high,p_low,p_mid,p_high,"p_top, [red]"\n')
    assert len(result.stdout.splitlines()) == 61
    wrong = unimodal("fit", folder / "t.csv", "--target", "grad", "-o", folder / "other")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == (
        "error: --target: there is no column 'grad'; did you mean 'grade'? "
        "(the columns are 'size', 'colour', 'name', 'grade')\n"
    )


def test_without_the_extra_it_says_what_to_install():
    code = (
        "import sys; sys.modules['typer'] = None; from unimodal.cli import main; sys.exit(main(['methods']))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "error: the command line needs typer and rich: pip install 'unimodal[cli]'\n"


def test_a_reader_that_has_seen_enough(folder):
    command = f"'{sys.executable}' -m unimodal predict model t.csv -o - | head -1"
    source = str(Path(um.__file__).parents[1])
    found = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | {"PYTHONPATH": source},
    )  # fmt: skip
    assert found.stdout.startswith("size,colour,name,grade,prediction")
    assert found.stderr == ""


def test_interrupted(folder):
    """Ctrl-C while it trains; the folder of the model does not appear."""
    source = str(Path(um.__file__).parents[1])
    (folder / "long.toml").write_text("epochs = 1000000\npatience = 1000000\ntrees = 0\nmembers = 1\n")
    arguments = ["fit", "t.csv", "--target", "grade", "--order", ORDER, "--drop", "name", "-o", "never",
                 "--config", "long.toml"]  # fmt: skip
    code = (
        "import sys, unimodal.estimators.ensemble as e; from unimodal.cli import main; train = e.train;"
        "e.train = lambda *a, **k: (print('training', flush=True), train(*a, **k))[1];"
        "sys.exit(main(sys.argv[1:]))"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env=os.environ | {"PYTHONPATH": source},
    )  # fmt: skip
    assert running.stdout.readline() == "training\n"
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "", "error: interrupted\n")
    assert not (folder / "never").exists()


def test_the_console_script_is_this_function():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, name = project["scripts"]["unimodal"].split(":")
    assert getattr(importlib.import_module(module), name) is importlib.import_module("unimodal.cli").main
    assert done("--version") == f"unimodal {um.__version__}\n"
    assert done().startswith("Usage: unimodal [OPTIONS] COMMAND")


# Commands


def test_methods():
    found = json.loads(done("methods", "--json"))
    assert list(found) == list(METHODS)
    assert found["co2"]["default_params"] == METHODS["co2"].default_params
    assert found["un"]["always_unimodal"] is True
    lines = done("methods").splitlines()
    assert lines[0].split() == ["name", "method", "family", "parameters"]
    assert [name for name in METHODS if not any(line.split()[:1] == [name] for line in lines)] == []
    assert max(map(len, lines)) <= 80


def test_fit_prints_the_order_and_how_good_it_is(folder):
    result = run(*fit_arguments(folder, folder / "again"))
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    counts = table().grade.value_counts()
    shown = [f"{label} ({counts[label]})" for label in ("low", "mid", "high", "top, [red]")]
    assert lines[0] == f"grade, lowest first (rows): {' < '.join(shown)}"
    assert max(map(len, lines)) <= 80
    model = um.load(folder / "again")
    scores = model.validation_scores_
    assert any(line.split() == ["accuracy", f"{scores['accuracy'] * 100:.1f}", "%"] for line in lines)
    assert any(line.split() == ["unimodal", "100.0", "%"] for line in lines)
    start = next(i for i, line in enumerate(lines) if line.startswith("true"))
    assert lines[start].split() == ["true", "\\", "predicted", "low", "mid", "high", "top,", "[red]"]
    assert lines[start + 4].split()[2:] == [str(n) for n in model.validation_confusion_[3]]
    assert lines[-1].startswith("2 networks of un: ") or lines[-2].startswith("2 networks of un: ")
    assert lines[-1].endswith("again")
    assert "\x1b" not in result.out


def test_fit_as_json(folder):
    found = json.loads(done(*fit_arguments(folder, folder / "again", "--json")), parse_constant=pytest.fail)
    model = um.load(folder / "again")
    assert [each["label"] for each in found["classes"]] == ["low", "mid", "high", "top, [red]"]
    assert [each["rows"] for each in found["classes"]][-1] == 1
    assert found["scores"]["rps"] == model.validation_scores_["rps"]
    assert found["confusion"] == model.validation_confusion_.tolist()
    assert (found["target"], found["rows"], found["method"]) == ("grade", 60, "un")
    undefined = [name for name, value in model.validation_scores_.items() if not np.isfinite(value)]
    assert all(found["scores"][name] is None for name in undefined)


def test_seeds_decide(folder):
    """The default is a seed too."""
    for name, seed in (("a", []), ("b", ["--seed", 0]), ("c", ["--seed", 1])):
        done(*fit_arguments(folder, folder / name, *seed))
    a, b, c = (um.load(folder / name)._ensemble.networks.parameters.numpy() for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_options_win_over_the_file(folder):
    (folder / "more.toml").write_text(
        QUICK + 'method = "co2"\nrandom_state = 3\nrule = "median"\n[params]\nlam = 10.0\n'
        "[class_weight]\nlow = 2.0\n"
    )
    arguments = [*fit_arguments(folder, folder / "more"), "--members", 3]
    arguments[arguments.index("--config") + 1] = folder / "more.toml"
    done(*arguments)
    model = um.load(folder / "more")
    assert (model.method, model.members, model.rule, model.epochs) == ("co2", 3, "median", 2)
    assert (model.params, model.hidden) == ({"lam": 10.0}, (4,))
    assert model.class_weight == {"low": 2.0}


def test_weights(folder):
    frame = table().assign(copies=[2, *[1] * 58, 0])
    frame.to_csv(folder / "weighted.csv", index=False)
    twice = pd.concat([table().iloc[[0]], table().iloc[:-1]])
    twice.to_csv(folder / "copied.csv", index=False)
    for name in ("weighted", "copied"):
        arguments = fit_arguments(folder, folder / name)
        arguments[1] = folder / f"{name}.csv"
        done(*arguments, *(["--weight", "copies"] if name == "weighted" else []))
    a, b = (um.load(folder / name)._ensemble.networks.parameters.numpy() for name in ("weighted", "copied"))
    np.testing.assert_array_equal(a, b)


def test_the_order_is_guessed_aloud(folder):
    arguments = fit_arguments(folder, folder / "guessed")
    del arguments[arguments.index("--order") : arguments.index("--order") + 2]
    result = run(*arguments)
    assert result.code == 0
    assert result.err == (
        "note: nobody said the order of the classes: taken as 'high' < 'low' < 'mid' < 'top, [red]', "
        "as sorted; pass --order to say what it is\n"
    )


def test_a_column_without_values_is_noted(folder):
    table().assign(nothing="").to_csv(folder / "nothing.csv", index=False)
    arguments = fit_arguments(folder, folder / "noted")
    arguments[1] = folder / "nothing.csv"
    result = run(*arguments)
    assert (result.code, result.err) == (0, "note: column 'nothing' has no values\n")


def test_columns_to_drop_may_stand_between_commas(folder):
    table().assign(**{"a,b": 1.0}).to_csv(folder / "commas.csv", index=False)
    for drop in (["--drop", "name,colour", "--drop", "a,b"], ["--drop", 'name,colour,"a,b"']):
        arguments = fit_arguments(folder, folder / "dropped")
        arguments[1] = folder / "commas.csv"
        done(*arguments, *drop)
        assert um.load(folder / "dropped").feature_names_in_.tolist() == ["size"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_predict_in_pieces_equals_in_memory(folder, suffix, monkeypatch):
    monkeypatch.setattr(models, "_piece", lambda _: 7)
    output = folder / f"predicted{suffix}"
    result = run("predict", folder / "model", folder / "t.csv", "-o", output)
    assert (result.code, result.out, result.err) == (0, "", f"60 rows in {output}\n")
    frame = _read(output)
    model, X = um.load(folder / "model"), _read(folder / "t.csv")
    given = X.columns.tolist()
    labels = ["low", "mid", "high", "top, [red]"]
    assert frame.columns.tolist() == [*given, "prediction", "low", "high", *(f"p_{k}" for k in labels)]
    pd.testing.assert_frame_equal(frame[given], X)
    known = X[["size", "colour"]]
    np.testing.assert_allclose(frame[[f"p_{k}" for k in labels]], model.predict_proba(known), atol=1e-6)
    assert frame["prediction"].tolist() == model.predict(known).tolist()
    low, high = model.predict_interval(known)
    assert frame["low"].tolist() == low.tolist()
    assert frame["high"].tolist() == high.tolist()


def _read(path):
    from unimodal.datasets.files import read_table

    return read_table(path)


def test_predict_with_options(folder):
    output = folder / "options.csv"
    options = ["--rule", "mean", "--coverage", 0.5, "--keep", "name"]
    run("predict", folder / "model", folder / "t.csv", "-o", output, *options)
    model, X = um.load(folder / "model"), _read(folder / "t.csv")[["size", "colour"]]
    frame = _read(output)
    assert frame.columns.tolist()[:4] == ["name", "prediction", "low", "high"]
    assert frame["prediction"].tolist() == model.predict(X, "mean").tolist()
    assert frame["high"].tolist() == model.predict_interval(X, 0.5)[1].tolist()


def test_columns_are_found_by_name(folder):
    frame = table()[["grade", "colour", "name", "size"]].rename(columns={"name": "prediction"})
    frame.to_parquet(folder / "moved.parquet")
    done("predict", folder / "model", folder / "moved.parquet", "-o", folder / "moved.csv")
    done("predict", folder / "model", folder / "t.csv", "-o", folder / "straight.csv")
    moved, straight = _read(folder / "moved.csv"), _read(folder / "straight.csv")
    assert moved["prediction"].tolist() == frame["prediction"].tolist()
    assert moved["prediction_2"].tolist() == straight["prediction"].tolist()


def test_evaluate_in_pieces_equals_in_memory(folder, monkeypatch):
    monkeypatch.setattr(models, "_piece", lambda _: 7)
    found = json.loads(done("evaluate", folder / "model", folder / "t.csv", "--json"))
    model, X = um.load(folder / "model"), _read(folder / "t.csv")
    y = [model.classes_.tolist().index(label) for label in X["grade"]]
    expected = um.metrics.evaluate(y, model.predict_proba(X[["size", "colour"]]))
    for name, value in expected.items():
        assert found["scores"][name] == (pytest.approx(value, abs=1e-6) if np.isfinite(value) else None), name
    assert np.sum(found["confusion"]) == found["rows"] == 60
    lines = done("evaluate", folder / "model", folder / "t.csv").splitlines()
    assert any(line.split() == ["accuracy", f"{expected['accuracy'] * 100:.1f}", "%"] for line in lines)
    assert max(map(len, lines)) <= 80 or len(str(folder)) > 40


def test_a_model_whose_target_nobody_named(folder):
    X = table()[["size"]]
    um.save(um.OrdinalClassifier(epochs=1, members=1, trees=0).fit(X, X["size"] > 0), folder / "nameless")
    result = run("evaluate", folder / "nameless", folder / "t.csv")
    assert (
        result.err
        == f"error: {folder / 'nameless'} does not know the name of its target: say it with --target\n"
    )
    positive = table().assign(positive=X["size"] > 0)
    positive.to_csv(folder / "positive.csv", index=False)
    assert json.loads(
        done("evaluate", folder / "nameless", folder / "positive.csv", "--target", "positive", "--json")
    )["classes"] == [
        {"label": label, "rows": int((positive.positive == label).sum())} for label in (False, True)
    ]


def test_models_of_many_classes_print_no_confusion_table(folder):
    pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60) % 15}).to_csv(folder / "many.csv", index=False)
    result = run("fit", folder / "many.csv", "--target", "y", "-o", folder / "many",
                 "--config", folder / "quick.toml")  # fmt: skip
    assert result.code == 0
    assert result.err == "note: the confusion table of 15 classes is only printed with --json\n"
    assert "true \\ predicted" not in result.out


def compare_arguments(folder, *more):
    names = ["--target", "grade", "--drop", "name", "--order", ORDER]
    tried = ["--folds", 2, "--methods", "un,co2", "--lambdas", "0.1,10"]
    return ["compare", folder / "t.csv", *names, *tried, "--config", folder / "quick.toml", *more]


def test_compare(folder):
    output = folder / "folds.csv"
    result = run(*compare_arguments(folder, "-o", output))
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "mean rps over 2 folds, 60 rows; lower is better"
    assert lines[2].split() == ["model", "what", "lambda", "rps", "95", "%", "interval", "p", "unimodal"]
    ranked = [line.split()[0] for line in lines[3:12]]
    names = {"un", "co2", "ensemble"} | {
        f"{name}{u}" for name in ("logistic", "forest", "boosting") for u in ("", "+u")
    }
    assert set(ranked) == names
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("Take ") for line in lines)
    folds = pd.read_csv(output)
    means = folds[folds.chosen].groupby("model").rps.mean()
    assert means.sort_values().index[0] == ranked[0] or means.nsmallest(2).diff().iloc[-1] == 0
    assert len(folds) == 8 * 2 + 4
    again = json.loads(done(*compare_arguments(folder, "--json")), parse_constant=pytest.fail)
    assert [each["name"] for each in again["models"]] == ranked
    assert again["models"][0]["mean"] == pytest.approx(means[ranked[0]])
    assert again["take"]["name"] in names
    assert again["finished"] is True
    assert {each["lambda"] for each in again["models"] if each["name"] == "co2"} <= {0.1, 10.0}


def test_compare_interrupted(folder, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("unimodal.benchmark.compare._score_methods", interrupted)
    result = run(*compare_arguments(folder))
    assert result.code == 130
    assert result.err == "error: interrupted\n"
    assert "\ninterrupted: what was finished\n" in result.out
    assert "ensemble" in result.out
    assert "co2" not in result.out
    monkeypatch.setattr("unimodal.benchmark.compare._score_peers", interrupted)
    assert run(*compare_arguments(folder)) == (130, "", "error: interrupted\n")


def test_export(folder, monkeypatch):
    written = []
    monkeypatch.setattr(um, "export_onnx", lambda *arguments: written.append(arguments), raising=False)
    result = run("export", folder / "model", "--onnx", folder / "m.onnx")
    assert (result.code, result.err) == (0, f"{folder / 'model'} as {folder / 'm.onnx'}\n")
    ((model, path),) = written
    assert model.classes_.tolist() == ["low", "mid", "high", "top, [red]"]
    assert path == folder / "m.onnx"


# What is wrong with the input, in one line


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
    "-o out.doc": (
        "out.doc must be a table: a file name ends in one of .csv, .tsv, .txt, .csv.gz, .parquet, .pq"
    ),
    "--jobs 0": "--jobs must not be 0; use -1 for one process on each core",
}


@pytest.mark.parametrize("options", COMPARE_ERRORS)
def test_what_is_wrong_with_a_comparison(folder, options):
    words = COMPARE_ERRORS[options].format(metrics=", ".join(um.metrics.METRICS), methods=", ".join(METHODS))
    assert said(folder, *compare_arguments(folder, *options.split())) == words


def test_a_bug_is_no_wrong_input(folder, monkeypatch):
    """It keeps its traceback: somebody will want to read it."""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("unimodal.export.save", broken)
    with pytest.raises(ZeroDivisionError):
        run(*fit_arguments(folder, folder / "wrong"))


def test_every_command_and_option_is_documented():
    import typer

    page = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        section = page.split(f"## {name}\n", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            for option in parameter.opts:
                shown = option if option.startswith("-") else parameter.metavar
                assert f"`{shown}" in section or option in ("-h", "--help"), (name, option)
