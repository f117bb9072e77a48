"""Models on disk: the same to the last bit when they come back, and every kind of damage is refused."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import FAST, fitted, make, table

import unimodal as um


def small(**options):
    return fitted(*make(50), **options)


def returned(model, folder):
    um.save(model, folder)
    assert sorted(each.name for each in Path(folder).iterdir()) == ["model.json", "model.safetensors"]
    text = (Path(folder) / "model.json").read_text(encoding="utf-8")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return um.load(folder)


def check_same(model, twin, X):
    assert type(twin) is type(model)
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    for end, expected in zip(twin.predict_interval(X), model.predict_interval(X), strict=True):
        np.testing.assert_array_equal(end, expected)
    assert twin.classes_.dtype == model.classes_.dtype
    assert twin.classes_.tolist() == model.classes_.tolist()
    assert twin.n_features_in_ == model.n_features_in_
    assert hasattr(twin, "feature_names_in_") == hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("name", um.METHODS)
def test_every_method_comes_back(name, tmp_path):
    model = small(method=name)
    check_same(model, returned(model, tmp_path / "model"), make(50)[0])


@pytest.mark.parametrize(
    "options",
    [
        {"trees": 5},
        {"members": 1, "hidden": ()},
        {"hidden": [5, 4], "activation": "gelu", "numeric": "quantile", "rule": "median"},
        {"numeric": "standard", "unimodal": False, "method": "ce"},
        {"class_weight": {0: 2.0, np.int64(1): np.float32(0.5)}, "members": np.int64(2)},
        {"class_weight": "balanced", "patience": None},
        {"method": "wu-wass", "params": {"lam": np.float64(10.0)}},
        {"method": "pu", "params": {"learn_tau": True, "first": 0}},
        {"method": "bu", "params": {"tau": 0.5}},
        {"method": "pom", "params": {"link": "cloglog"}},
        {"method": "oe", "params": {"floor": 1e-3}},
        {"order": np.array([0, 1, 2, 3])},
        {"order": range(3)},
    ],
    ids=str,
)
def test_every_option_comes_back(options, tmp_path):
    model = small(**options)
    twin = returned(model, tmp_path / "model")
    check_same(model, twin, make(50)[0])
    np.testing.assert_equal(twin.validation_scores_, model.validation_scores_)
    np.testing.assert_array_equal(twin.validation_confusion_, model.validation_confusion_)
    mine, theirs = model.get_params(), twin.get_params()
    for name in set(mine) - {"random_state", "order", "hidden", "class_weight"}:
        assert theirs[name] == mine[name], name
    assert tuple(theirs["hidden"]) == tuple(mine["hidden"])
    if isinstance(mine["class_weight"], dict):
        assert {type(key) for key in theirs["class_weight"]} == {int}
    X, y = make(50)
    again = twin.set_params(random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "labels",
    [[5, 10, 20], [0.0, 2.0, 3.0], ["tief", "mittel", "höher"], [False, True]],
    ids=str,
)
def test_labels_of_every_kind_come_back(labels, tmp_path):
    X, y = make(50)
    y = np.array(labels)[np.minimum(y, len(labels) - 1)]
    model = um.OrdinalClassifier(order=labels, **FAST).fit(X, y)
    check_same(model, returned(model, tmp_path / "model"), X)


@pytest.mark.parametrize("trees", [0, 4])
def test_tables_with_text_come_back(trees, tmp_path):
    model = um.OrdinalClassifier(**FAST | {"trees": trees}).fit(table(50), make(50)[1])
    twin = returned(model, tmp_path / "model")
    check_same(model, twin, table(50))
    assert twin.feature_names_in_.tolist() == list(table(50))


def test_one_class_and_a_single_row_come_back(tmp_path):
    X, _ = make(50)
    model = um.OrdinalClassifier(**FAST).fit(X, ["same"] * 50)
    check_same(model, returned(model, tmp_path / "one"), X)
    model = um.OrdinalClassifier(order=["a", "b"], **FAST).fit(X[:1], ["a"])
    twin = returned(model, tmp_path / "row")
    check_same(model, twin, X)
    assert np.isnan(twin.validation_scores_["qwk"])


def test_a_search_comes_back(tmp_path):
    X, y = make(50)
    model = um.OrdinalClassifierCV(
        ("ce", "wu-wass"), lambdas=(0.1, 1.0), folds=2, estimator=um.OrdinalClassifier(**FAST), random_state=0
    ).fit(X, y)
    twin = returned(model, tmp_path / "model")
    check_same(model, twin, X)
    np.testing.assert_equal(twin.cv_results_, model.cv_results_)
    assert (twin.best_method_, twin.best_lambda_) == (model.best_method_, model.best_lambda_)
    assert twin.methods == model.methods
    check_same(model.best_estimator_, twin.best_estimator_, X)


def test_a_new_process_says_the_same_and_nothing_is_executed(tmp_path, monkeypatch):
    model = small(trees=3)
    um.save(model, tmp_path / "model")
    X, _ = make(50)
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, unimodal as um; X = np.load(sys.argv[2]);"
        "print(um.load(sys.argv[1]).predict_proba(X).tobytes().hex())"
    )
    arguments = [str(tmp_path / "model"), str(tmp_path / "X.npy")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == model.predict_proba(X).tobytes().hex()

    def refuse(*_, **__):
        raise AssertionError("something was executed")

    for module, name in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (np, "load"),
    ):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr("builtins.eval", refuse)
    check_same(model, um.load(tmp_path / "model"), X)


def test_what_is_no_model_is_left_alone(tmp_path):
    model = small()
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("mine")
    other.mkdir()
    (other / "model.json").write_text("of another program")
    (other / "weights.bin").write_text("precious")
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())
    for path in (file, other):
        with pytest.raises(
            ValueError, match=f"^{re.escape(str(path))} exists and is no model: choose another path"
        ):
            um.save(model, path)
    assert before == sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())


def test_a_model_is_replaced_and_empty_folders_are_used(tmp_path):
    X, _ = make(50)
    first, second = small(), small(method="ce", trees=2)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "new" / "deep"):
        check_same(first, returned(first, folder), X)
        check_same(second, returned(second, str(folder)), X)
        assert [each.name for each in folder.parent.iterdir()] in (["empty"], ["deep"], ["empty", "new"])


@pytest.mark.parametrize("step", ["write_bytes", "write_text", "rename 1", "rename 2"])
@pytest.mark.parametrize("there", [False, True])
def test_a_crash_leaves_the_old_model(step, there, tmp_path, monkeypatch):
    X, _ = make(50)
    first, second = small(), small(method="ce")
    folder = tmp_path / "model"
    if there:
        um.save(first, folder)
    name, _, number = step.partition(" ")
    original, calls = getattr(Path, name), []

    def crash(self, *arguments, **options):
        calls.append(self)
        if len(calls) == int(number or 1):
            raise OSError("no space left on device")
        return original(self, *arguments, **options)

    monkeypatch.setattr(Path, name, crash)
    if step == "rename 2" and not there:
        um.save(second, folder)  # there is nothing to move away
        return
    with pytest.raises(OSError, match="no space left"):
        um.save(second, folder)
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["model"] * there
    if there:
        check_same(first, um.load(folder), X)


def test_only_fitted_models_of_this_package_are_saved(tmp_path):
    message = "model must be an OrdinalClassifier or OrdinalClassifierCV, got list"
    with pytest.raises(ValueError, match=message):
        um.save([], tmp_path / "model")
    with pytest.raises(ValueError, match="not fitted yet"):
        um.save(um.OrdinalClassifier(), tmp_path / "model")
    assert not list(tmp_path.iterdir())
