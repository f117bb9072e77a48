"""Models on disk that are damaged, from a newer version, or made up: all of them are refused."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from small_models import FAST, make, table

import unimodal as um
from unimodal import export


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model with everything in it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    um.save(um.OrdinalClassifier(**FAST | {"trees": 3}).fit(table(50), make(50)[1]), folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for name in ("model.json", "model.safetensors"):
        (copy / name).write_bytes((saved / name).read_bytes())
    return copy


def refused(folder, message=""):
    with pytest.raises(ValueError, match=re.escape(f"the model in {folder} is damaged: ") + f".*{message}"):
        um.load(folder)


def rewrite(folder, change, change_arrays=None):
    """Change what is stored, with hashes that fit."""
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    arrays = load_arrays((folder / "model.safetensors").read_bytes())
    if change is not None:
        change(description["model"])
    if change_arrays is not None:
        change_arrays(arrays)
    numbers = save_arrays(arrays)
    (folder / "model.safetensors").write_bytes(numbers)
    description["arrays_sha256"] = export._hash(numbers)
    sign(folder, description)


def sign(folder, description):
    description.pop("sha256", None)
    description["sha256"] = export._hash(json.dumps(description, sort_keys=True).encode())
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")


def test_what_was_rewritten_unchanged_is_accepted(folder, saved):
    """Otherwise the tests below would test the hashes only."""
    rewrite(folder, lambda model: None, lambda arrays: None)
    expected = um.load(saved).predict_proba(table(50))
    np.testing.assert_array_equal(um.load(folder).predict_proba(table(50)), expected)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_any_flipped_byte_is_refused_or_means_nothing(name, folder, saved):
    content = (folder / name).read_bytes()
    expected = um.load(saved).predict_proba(table(50))
    refusals = 0
    places = np.linspace(0, len(content) - 1, 60).astype(int)
    for place in places.tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 7)
        (folder / name).write_bytes(damaged)
        try:
            p = um.load(folder).predict_proba(table(50))
        except ValueError:
            refusals += 1
        else:  # white space
            np.testing.assert_array_equal(p, expected)
            assert name == "model.json"
            assert bytes([content[place]]).isspace()
    assert refusals >= (60 if name == "model.safetensors" else 30)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_cut_and_empty_files_are_refused(name, folder):
    content = (folder / name).read_bytes()
    for length in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        (folder / name).write_bytes(content[:length])
        refused(folder)


def test_missing_files(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    refused(folder, "No such file")
    (folder / "model.json").unlink()
    for path in (folder, tmp_path / "nothing", __file__):
        with pytest.raises(
            ValueError, match=re.escape(f"{path} is no folder with a model: it has no model.json")
        ):
            um.load(path)


def test_a_newer_format_says_upgrade(folder):
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    description |= {"format": 2, "unimodal": "9.1"}
    (folder / "model.json").write_text(json.dumps(description), encoding="utf-8")
    message = f"{folder} was saved in format 2 by unimodal 9.1; this version reads up to 1: upgrade unimodal"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        um.load(folder)


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.0, [1]], ids=str)
def test_other_formats_are_refused(version, folder):
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    sign(folder, description | {"format": version})
    refused(folder, "format must be a whole number of at least 1")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "null", '"text"', "{}", '{"format": 1}', "{" * 99, "[" * 100_000, '{"a":' * 50_000],
    ids=lambda text: text[:12],
)
def test_junk_is_refused(text, folder):
    (folder / "model.json").write_text(text, encoding="utf-8")
    refused(folder)


def test_bytes_that_are_no_text_are_refused(folder):
    (folder / "model.json").write_bytes(b"\xff\xfe\x00")
    refused(folder)


def all_keys(state, prefix=()):
    for key, value in state.items():
        yield (*prefix, key)
        if isinstance(value, dict) and key != "parameters":
            yield from all_keys(value, (*prefix, key))


def test_every_missing_key_is_refused(folder, saved):
    model = json.loads((saved / "model.json").read_text(encoding="utf-8"))["model"]
    keys = list(all_keys(model))
    assert len(keys) > 30
    for *path, key in keys:

        def remove(state, path=path, key=key):
            for step in path:
                state = state[step]
            del state[key]

        for name in ("model.json", "model.safetensors"):
            (folder / name).write_bytes((saved / name).read_bytes())
        rewrite(folder, remove)
        refused(folder)


@pytest.mark.parametrize(
    "junk", [None, [], {}, "junk", -1, 1e308, 10**400, [[[]]], {"a": {"b": [1]}}], ids=repr
)
def test_junk_in_any_place_is_refused_or_means_nothing(junk, folder, saved):
    """No other error than ValueError, and no model that cannot predict."""
    model = json.loads((saved / "model.json").read_text(encoding="utf-8"))["model"]
    for *path, key in all_keys(model):

        def replace(state, path=path, key=key):
            for step in path:
                state = state[step]
            state[key] = junk

        for name in ("model.json", "model.safetensors"):
            (folder / name).write_bytes((saved / name).read_bytes())
        rewrite(folder, replace)
        try:
            loaded = um.load(folder)
        except ValueError:
            refused(folder)
        else:
            p = loaded.predict_proba(table(50))
            assert p.shape == (50, 3)
            assert np.isfinite(p).all()


def in_ensemble(**values):
    return lambda model: model["ensemble"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_ensemble(share=2), r"share must lie in \[0, 1\], got 2"),
        (in_ensemble(share=-0.1), r"share must lie in \[0, 1\], got -0.1"),
        (in_ensemble(share="nan"), r"share must lie in \[0, 1\], got nan"),
        (in_ensemble(method="nope"), "method must be one of ce, pom"),
        (in_ensemble(n_inputs=10**12), r"n_inputs must be \d+, got 1000000000000"),
        (in_ensemble(hidden=[10**9]), r"networks must have shape \(members, \d+\), got"),
        (in_ensemble(hidden=[10**9] * 9), r"networks must have shape \(members, \d+\), got"),
        (in_ensemble(hidden=[-1]), "hidden must be an integer of at least 1, got -1"),
        (in_ensemble(hidden=[True]), "hidden must be an integer of at least 1, got True"),
        (in_ensemble(activation="sin"), "activation must be one of"),
        (in_ensemble(unimodal="no"), "unimodal must be true or false, got 'no'"),
        (in_ensemble(published=1), "published must be true or false, got 1"),
        (in_ensemble(params={"lam": 1.0}), "'lam' is not a parameter of method 'un'"),
        (lambda model: model["parameters"].update(evil=1), "parameters must be those of .*, got 'evil'"),
        (lambda model: model["parameters"].update(rule="max"), "rule must be one of"),
        (lambda model: model.update(kind="object"), "the model must be an OrdinalClassifier or .*'object'"),
        (lambda model: model.update(confusion=[[1]]), r"confusion must have shape \(3, 3\), got \(1, 1\)"),
        (lambda model: model["classes"].update(values=[0, 1]), ""),
        (lambda model: model["classes"].update(values=[0, 1, 1]), "values of the classes must not repeat"),
        (lambda model: model["columns"]["columns"].pop(), ""),
    ],
)  # fmt: skip
def test_absurd_values_with_hashes_that_fit(change, message, folder):
    rewrite(folder, change)
    refused(folder, message)


def put(name, value):
    def change(arrays):
        arrays[name] = value(arrays[name])

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("networks", lambda a: a[:, :-1]), r"networks must have shape \(members, \d+\)"),
        (put("networks", lambda a: a[0]), r"networks must have shape \(members, \d+\)"),
        (put("networks", lambda a: a[:0]), r"networks must have shape \(members, \d+\)"),
        (put("networks", lambda a: a.astype(np.float64)), "networks must hold finite numbers of float32"),
        (put("networks", lambda a: a * np.float32(np.nan)), "networks must hold finite numbers of float32"),
        (lambda arrays: arrays.pop("networks"), "networks"),
        (
            put("forest/leaves", lambda a: np.full((len(a), 2), 0.5)),
            "the forest must be of .* 3 classes, got .* 2",
        ),
        (put("forest/leaves", lambda a: np.ones((len(a), 1))), "the forest must be of"),
        (put("forest/n_features", lambda a: a + 1), "the forest must be of"),
        (put("forest/roots", lambda a: a + 10**6), "roots must lie in"),
        (put("forest/children", lambda a: a * 0), "children must come after their parents"),
        (lambda arrays: arrays.pop("forest/leaves"), "arrays must be"),
        (lambda arrays: arrays.pop("columns/0.edges"), "edges is missing"),
        (put("columns/0.edges", lambda a: a[::-1].copy()), "edges must ascend"),
        (put("columns/0.standard", lambda a: np.repeat(a, 2)), "standard must be a center and a spread"),
        (lambda arrays: arrays.update({"columns/9.edges": np.ones(2)}), "arrays of no column"),
    ],
)
def test_wrong_arrays_with_hashes_that_fit(change, message, folder):
    rewrite(folder, None, change)
    refused(folder, message)
