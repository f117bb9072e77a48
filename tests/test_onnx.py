"""ONNX graphs, run by onnxruntime, against the models that they were written from."""

import re
import subprocess
import sys
from inspect import signature

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from scipy import special

import unimodal as um
from unimodal.estimators.scaling import SCALINGS
from unimodal.methods import METHODS
from unimodal.onnx.graph import Graph, Symbol
from unimodal.onnx.pooling import MOST_CLASSES, nearest_unimodal, rising_and_falling

FAST = {"epochs": 4, "hidden": (8,), "members": 3, "trees": 0, "batch_size": 64, "random_state": 0}
LABELS = ["a", "b", "c", "d", "e"]


def numbers(n=120, n_classes=5, seed=0):
    """Columns in float32, some of them missing, and classes that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    score = X @ [1, 0.5, -1, 0] + 0.3 * rng.normal(size=n)
    X[:, 3] = 7
    X[rng.random(n) < 0.1, 1] = np.nan
    y = np.searchsorted(np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]), score)
    return X, y


def new_rows(X):
    """Rows near and far, on the very values that were seen, and missing where none were."""
    far = np.concatenate([X[:1] * 1e3, X[:1] * -1e6, X[:1] * 0, np.full_like(X[:1], np.nan)])
    return np.concatenate([X[:30], X[30:60] * 1.3, far])


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(model, path, inputs):
    um.export_onnx(model, path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return session(path).run(["probabilities", "label"], inputs)


def check(model, path, X):
    p, label = run(model, path, {"X": X})
    expected = model.predict_proba(X)
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-9)
    assert p.dtype == np.float64
    assert label.tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)
    return p


def evaluated(formula, *arrays):
    """What the graph of a formula computes."""
    graph = Graph()
    names = [f"in{i}" for i in range(len(arrays))]
    result = formula(*(Symbol(graph, name) for name in names))
    graph.nodes.append(onnx.helper.make_node("Identity", [result.name], ["out"]))
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, array.shape)
        for name, array in zip(names, arrays, strict=True)
    ]
    output = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.DOUBLE, None)
    drawn = onnx.helper.make_graph(graph.nodes, "g", inputs, [output], graph.constants)
    model = onnx.helper.make_model(drawn, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return session_of(model).run(None, dict(zip(names, arrays, strict=True)))[0]


def session_of(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_the_same(name, tmp_path):
    X, y = numbers()
    model = um.OrdinalClassifier(name, **FAST).fit(X, y)
    p = check(model, tmp_path / "model.onnx", new_rows(X))
    assert um.simplex.is_unimodal(p, tol=0).all()


@pytest.mark.parametrize("name", METHODS)
def test_two_classes_and_a_single_network(name, tmp_path):
    X, y = numbers(60, 2)
    check(um.OrdinalClassifier(name, **FAST).fit(X, y), tmp_path / "two.onnx", new_rows(X))
    X, y = numbers(60, 4)
    model = um.OrdinalClassifier(name, **FAST | {"members": 1, "hidden": (), "unimodal": False}).fit(X, y)
    p = check(model, tmp_path / "alone.onnx", new_rows(X))
    if METHODS[name].always_unimodal:
        assert um.simplex.is_unimodal(p, tol=0).all()


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *(("pom", {"link": link}) for link in ("logit", "probit", "cloglog", "loglog", "cauchit")),
        ("bu", {"tau": 0.5}),
        ("bu", {"learn_tau": True}),
        ("pu", {"tau": 2.0, "first": 0}),
        ("pu", {"learn_tau": True}),
        ("ord-acl", {"rho": "square"}),
        ("vs-sl", {"rho": "square"}),
        ("vs-sl", {"tau": "abs"}),
        ("un", {"activation": "relu"}),
        ("un", {"init": "flat"}),
        ("oe", {"floor": 1e-3}),
    ],
    ids=str,
)
def test_every_parameter_of_the_heads(name, params, tmp_path):
    X, y = numbers(80)
    check(um.OrdinalClassifier(name, params=params, **FAST).fit(X, y), tmp_path / "m.onnx", new_rows(X))


def test_no_parameter_of_the_heads_was_forgotten():
    """A new head, or a new parameter of one, has to be written down as a graph, and tried above."""
    tried = {"link", "tau", "learn_tau", "first", "rho", "activation", "init", "floor"}
    known = {name for method in METHODS.values() for name in signature(method.head).parameters}
    assert known - {"n_classes"} == tried


def test_columns_may_be_called_like_a_part_of_a_graph(tmp_path):
    X, y = numbers()
    table = pd.DataFrame({"cast0": X[:, 0], "constant0": X[:, 1], "inner/cast0": np.where(y > 2, "a", "b")})
    model = um.OrdinalClassifier(**FAST | {"trees": 3}).fit(table, y)
    inputs = {name: table[[name]].to_numpy() for name in table}
    p, _ = run(
        model, tmp_path / "m.onnx", inputs | {"inner/cast0": table[["inner/cast0"]].astype(object).to_numpy()}
    )
    np.testing.assert_allclose(p, model.predict_proba(table), rtol=0, atol=1e-7)  # trees are in float32
    table.columns = ["label", "x", "text"]
    with pytest.raises(ValueError, match=r"^an ONNX graph cannot have an input with the name 'label'"):
        um.export_onnx(um.OrdinalClassifier(**FAST).fit(table, y), tmp_path / "m.onnx")


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("numeric", SCALINGS)
def test_every_scaling_and_activation(numeric, activation, tmp_path):
    X, y = numbers()
    options = FAST | {"numeric": numeric, "activation": activation, "hidden": (9, 5)}
    check(um.OrdinalClassifier(**options).fit(X, y), tmp_path / "model.onnx", new_rows(X))


@pytest.mark.parametrize("rule", um.decision.RULES)
def test_labels_follow_the_rule(rule, tmp_path):
    X, y = numbers()
    options = FAST | {"rule": rule, "order": LABELS, "lr": 0.05}
    model = um.OrdinalClassifier("ce", **options).fit(X, np.array(LABELS)[y])
    check(model, tmp_path / "model.onnx", new_rows(X))
    expected = model.predict_proba(X)
    decisions = {tuple(um.decision.decide(expected, each)) for each in um.decision.RULES}
    assert len(decisions) == 3, "the rules must differ for this to be a test"


@pytest.mark.parametrize(
    "labels", [[10, 20, 30], [0.0, 1.0, 2.0], [False, True], ["low", "mid", "hoch ä"]], ids=str
)
def test_labels_of_every_kind(labels, tmp_path):
    X, codes = numbers(60, len(labels))
    model = um.OrdinalClassifier(order=labels, **FAST).fit(X, np.array(labels)[codes])
    _, label = run(model, tmp_path / "model.onnx", {"X": X})
    assert label.tolist() == model.predict(X).tolist()
    assert type(label.tolist()[0]) is type(labels[0])


def test_one_class(tmp_path):
    X, _ = numbers(10)
    model = um.OrdinalClassifier(**FAST).fit(X, ["same"] * 10)
    p, label = run(model, tmp_path / "model.onnx", {"X": X[:3]})
    np.testing.assert_array_equal(p, np.ones((3, 1)))
    assert label.tolist() == ["same"] * 3


def mixed_table(n=120):
    rng = np.random.default_rng(5)
    sizes = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], n),
            "age": rng.normal(40, 10, n).astype(np.float32),
            "size": pd.Categorical.from_codes(rng.integers(-1, 3, n), dtype=sizes),
            "sex": rng.choice(["f", "m"], n),
            "note": np.where(rng.random(n) < 0.2, None, rng.choice(["x", "y", ""], n)),
            "smoker": rng.random(n) < 0.3,
            "height": np.where(rng.random(n) < 0.2, np.nan, rng.normal(170, 9, n)).astype(np.float32),
        }
    )
    score = (X.age - 40) / 10 + (X.colour == "red") + X["size"].cat.codes + rng.normal(size=n) * 0.2
    return X, np.searchsorted([-0.5, 0.5, 1.5], score)


def as_inputs(X, empty_is_missing=True):
    """The columns as they are given to a graph."""
    inputs = {}
    for name, column in X.items():
        if column.dtype.kind in "fb":
            inputs[name] = column.to_numpy(np.float32)[:, None]
        else:
            inputs[name] = column.astype(object).where(column.notna(), "").to_numpy(object)[:, None]
    return inputs


@pytest.mark.parametrize("trees", [0, 5])
@pytest.mark.parametrize("numeric", SCALINGS)
def test_text_categories_and_missing_values(numeric, trees, tmp_path):
    X, y = mixed_table()
    X["note"] = X["note"].replace("", "z")
    model = um.OrdinalClassifier("ce", numeric=numeric, **FAST | {"trees": trees}).fit(X, y)
    new = X.copy()
    new["size"] = new["size"].astype(object)
    new.loc[3, "colour"] = "never seen"
    new.loc[4, "sex"] = None
    new.loc[5, "size"] = "XXL"
    new.loc[6, "age"] = np.nan
    p, label = run(model, tmp_path / "model.onnx", as_inputs(new))
    np.testing.assert_allclose(p, model.predict_proba(new), rtol=0, atol=1e-6 if trees else 1e-9)
    assert label.tolist() == model.predict(new).tolist()
    assert [each.name for each in session(tmp_path / "model.onnx").get_inputs()] == list(X)


def test_empty_text_that_is_a_category_is_not_missing(tmp_path):
    X, y = mixed_table()
    X = X[["age", "note"]].assign(note=X["note"].fillna("x"))
    model = um.OrdinalClassifier(**FAST).fit(X, y)
    p, _ = run(model, tmp_path / "model.onnx", as_inputs(X))
    np.testing.assert_allclose(p, model.predict_proba(X), rtol=0, atol=1e-9)


def test_a_table_of_text_alone(tmp_path):
    X, y = mixed_table()
    X = X[["colour", "sex"]]
    for trees in (0, 3):
        model = um.OrdinalClassifier(**FAST | {"trees": trees}).fit(X, y)
        p, _ = run(model, tmp_path / "model.onnx", as_inputs(X))
        np.testing.assert_allclose(p, model.predict_proba(X), rtol=0, atol=1e-6)


def test_a_data_frame_of_numbers_is_one_input(tmp_path):
    X, y = numbers()
    model = um.OrdinalClassifier(**FAST).fit(pd.DataFrame(X, columns=list("pqrs")), y)
    p, _ = run(model, tmp_path / "model.onnx", {"X": X})
    np.testing.assert_allclose(p, model.predict_proba(pd.DataFrame(X, columns=list("pqrs"))), atol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["un", "wu-wass"])
def test_forests(name, missing, tmp_path):
    X, y = numbers()
    if not missing:
        X = np.nan_to_num(X)
    model = um.OrdinalClassifier(name, **FAST | {"trees": 20, "epochs": 1}).fit(X, y)
    assert model._ensemble.share > 0.1
    new = new_rows(X)
    p, label = run(model, tmp_path / "model.onnx", {"X": new})
    np.testing.assert_allclose(p, model.predict_proba(new), rtol=0, atol=1e-6)
    assert label.tolist() == model.predict(new).tolist()
    assert um.simplex.is_unimodal(p, tol=0).all()


def test_the_best_of_a_search(tmp_path):
    X, y = numbers(60, 3)
    search = um.OrdinalClassifierCV(
        ("ce", "un"), folds=2, estimator=um.OrdinalClassifier(**FAST), random_state=0
    ).fit(X, y)
    check(search, tmp_path / "model.onnx", X)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 5, 10, 30])
def test_the_projection_is_that_of_project(n_classes):
    rng = np.random.default_rng(n_classes)
    rows = np.concatenate(
        [
            rng.dirichlet(np.full(n_classes, alpha), 40) for alpha in (0.05, 1, 10)
        ]
        + [np.eye(n_classes), np.full((1, n_classes), 1 / n_classes)]
    )  # fmt: skip
    rows = np.concatenate([rows, um.project(rows)])
    found = evaluated(lambda q: nearest_unimodal(q, n_classes), rows)
    expected = um.project(rows, metric="kl")
    assert um.simplex.is_unimodal(found, tol=0).all()
    assert (found >= 0).all()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    if n_classes > 2:
        assert (expected != rows).any()


def test_a_tie_between_modes_goes_to_the_lower_one():
    rows = np.array([[0.4, 0.2, 0.4], [0.5, 0.0, 0.5], [0.3, 0.2, 0.0, 0.2, 0.3]][:2])
    found = evaluated(lambda q: nearest_unimodal(q, 3), rows)
    np.testing.assert_allclose(found, um.project(rows, metric="kl"), rtol=0, atol=1e-15)
    assert found.argmax(axis=1).tolist() == [0, 0]


def test_rounding_is_taken_away_to_the_last_bit():
    rows = um.simplex.sample(200, 9, seed=0)
    rippled = np.nextafter(rows, np.random.default_rng(0).choice([-1, 1], rows.shape))
    found = evaluated(lambda q: rising_and_falling(q, 9), rippled)
    assert um.simplex.is_unimodal(found, tol=0).all()
    np.testing.assert_allclose(found, rows, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "exact", "x"),
    [
        ("erfc", special.erfc, np.linspace(-7, 26, 500)),
        ("atan", np.arctan, np.concatenate([np.linspace(-3, 3, 301), [-1e300, 1e9, 1e-9, 0.0]])),
        ("softplus", lambda x: np.logaddexp(0, x), np.linspace(-700, 700, 300)),
        ("log_sigmoid", lambda x: -np.logaddexp(0, -x), np.linspace(-1e4, 700, 300)),
        ("log1p", np.log1p, np.concatenate([10.0 ** np.arange(-300, 300, 7), [0.0]])),
    ],
)
def test_functions_are_good_to_the_last_places(name, exact, x):
    found = evaluated(lambda symbol: getattr(symbol, name)(), x)
    relative = 2e-9 if name == "softplus" else 1e-13  # PyTorch's softplus is linear from 20 on
    np.testing.assert_allclose(found, exact(x), rtol=relative, atol=1e-300)


def test_too_many_classes_are_refused_and_what_to_do_works(tmp_path):
    n_classes = MOST_CLASSES + 1
    X, y = numbers(3 * n_classes, n_classes)
    model = um.OrdinalClassifier("un", **FAST | {"epochs": 1}).fit(X, y)
    message = (
        f"an ONNX graph that makes an average unimodal must have at most {MOST_CLASSES} classes, got "
        f"{n_classes}: fit with unimodal=False, or a hard method such as 'un' with members=1 and trees=0"
    )
    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        um.export_onnx(model, path)
    assert not path.exists()
    for options in ({"unimodal": False}, {"members": 1}):
        check(um.OrdinalClassifier("un", **FAST | {"epochs": 1} | options).fit(X, y), path, X)


def test_other_models_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match="model must be an OrdinalClassifier or OrdinalClassifierCV, got dict"
    ):
        um.export_onnx({}, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="not fitted yet"):
        um.export_onnx(um.OrdinalClassifier(), tmp_path / "model.onnx")


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    X, y = numbers(40, 3)
    model = um.OrdinalClassifier(**FAST).fit(X, y)
    path = tmp_path / "folder" / "model.onnx"
    um.export_onnx(model, path)
    before = path.read_bytes()
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        um.export_onnx(model, path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["model.onnx"]


def test_a_graph_runs_without_this_package(tmp_path):
    X, y = numbers(40, 3)
    model = um.OrdinalClassifier(**FAST).fit(X, y)
    um.export_onnx(model, tmp_path / "model.onnx")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy, onnxruntime; s = onnxruntime.InferenceSession(sys.argv[1]);"
        "p, label = s.run(None, {'X': numpy.load(sys.argv[2])}); print(label.tolist());"
        "assert not {'torch', 'unimodal', 'sklearn'} & set(sys.modules)"
    )
    arguments = [str(tmp_path / "model.onnx"), str(tmp_path / "X.npy")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(model.predict(X).tolist())


def test_without_onnx_the_error_says_what_to_install(tmp_path, monkeypatch):
    X, y = numbers(40, 3)
    model = um.OrdinalClassifier(**FAST).fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=re.escape("ONNX graphs need onnx: pip install 'unimodal[onnx]'")):
        um.export_onnx(model, tmp_path / "model.onnx")
