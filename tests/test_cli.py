"""The command line: every command, and the process around them."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import ORDER, QUICK, compare_arguments, done, fit_arguments, run, table

import unimodal as um
from unimodal.cli import models
from unimodal.cli.app import app
from unimodal.methods import METHODS


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
    out, err = running.communicate(timeout=120)
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
    seen = model.validation_confusion_.sum()
    assert 0 < seen < 60  # two members hold out a part of the rows
    title = f"{seen} of 60 rows, each predicted by members of the ensemble that have not seen it"
    assert title in " ".join(lines)
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
