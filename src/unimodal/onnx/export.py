"""A fitted classifier as one ONNX graph: columns, networks, forest, mixture, nearest unimodal distribution.

The graph computes in float64 what `OrdinalClassifier.predict_proba` and `predict` do.
"""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unimodal import __version__
from unimodal.estimators.classifier import OrdinalClassifier
from unimodal.estimators.ensemble import Ensemble
from unimodal.estimators.search import OrdinalClassifierCV
from unimodal.methods import make_method
from unimodal.onnx import columns, forests, heads
from unimodal.onnx.graph import ML, Graph, Symbol
from unimodal.onnx.pooling import MOST_CLASSES, nearest_unimodal, rising_and_falling
from unimodal.training import Networks

_OPSET, _ML_OPSET, _IR = 17, 3, 8
_OUTPUTS = "probabilities", "label"
_ROUNDING = 1e-12
"""As in `unimodal.decision`."""


def export_onnx(model: OrdinalClassifier | OrdinalClassifierCV, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as an ONNX graph, which runs without this package.

    Its outputs are "probabilities" (n, K), the columns of `predict_proba`, and "label" (n,), what `predict`
    says by the model's rule. A table of numbers comes in as "X" (n, d) of float32. If the model was fitted
    on a table with text, each column comes in by its name, as (n, 1) of float32 or of text. Missing values
    are NaN, and "" in text.

    Parameters
    ----------
    model : OrdinalClassifier or OrdinalClassifierCV
        The model; fitted.
    path : path
        The file, such as ``model.onnx``.

    Raises
    ------
    ValueError
        If the model averages over more than 64 classes and makes the average unimodal, or if an input would
        have the name of an output.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX graphs need onnx: pip install 'unimodal[onnx]'") from error
    if not isinstance(model, OrdinalClassifier | OrdinalClassifierCV):
        raise ValueError(
            f"model must be an OrdinalClassifier or OrdinalClassifierCV, got {type(model).__name__}"
        )
    check_is_fitted(model)
    chosen = model.best_estimator_ if isinstance(model, OrdinalClassifierCV) else model
    names = columns.input_names(chosen._encoder._columns)
    for name in ("", *_OUTPUTS):
        if name in names:
            raise ValueError(
                f"an ONNX graph cannot have an input with the name {name!r}: rename this column, then fit"
            )
    graph = Graph([*names, *_OUTPUTS])
    inputs = columns.read(graph, chosen._encoder._columns)
    p = _proba(chosen, inputs)
    label = graph.constant(chosen.classes_).taken_at(_decision(p, chosen.rule, len(chosen.classes_)))
    kind = onnx.helper.np_dtype_to_tensor_dtype(chosen.classes_.dtype)
    for name, symbol in zip(_OUTPUTS, (p, label), strict=True):
        graph.nodes.append(onnx.helper.make_node("Identity", [symbol.name], [name]))
    declare = onnx.helper.make_tensor_value_info
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "unimodal",
            inputs.declared,
            [
                declare(_OUTPUTS[0], onnx.TensorProto.DOUBLE, ["n", len(chosen.classes_)]),
                declare(_OUTPUTS[1], kind, ["n"]),
            ],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid(ML, _ML_OPSET)],
        ir_version=_IR,
        producer_name="unimodal",
        producer_version=__version__,
    )
    onnx.checker.check_model(proto)
    _write(proto.SerializeToString(), Path(path))


def _write(content: bytes, path: Path) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _proba(model: OrdinalClassifier, inputs: columns.Inputs) -> Symbol:
    ensemble = model._ensemble
    graph = inputs.encoded.graph
    if ensemble is None:  # one class
        n = graph.op("Shape", inputs.first, start=0, end=1)
        return graph.op("Expand", np.ones((1, 1)), graph.joined([n, graph.constant(np.array([1]))]))
    members = _members(ensemble.networks, inputs.encoded)
    p = graph.op("ReduceMean", members, axes=[0], keepdims=0)
    if ensemble.forest is not None:
        p = (1 - ensemble.share) * p + ensemble.share * forests.predict(ensemble.forest, inputs.raw)
    return _unimodal(p / p.sum(), ensemble)


def _unimodal(p: Symbol, ensemble: Ensemble) -> Symbol:
    """Take the nearest unimodal distribution, where there is need to."""
    architecture = ensemble.networks.architecture
    n_classes = architecture.n_classes
    is_single = len(ensemble.networks.parameters) == 1 and ensemble.forest is None
    if is_single and architecture.template.always_unimodal:
        return rising_and_falling(p, n_classes)
    if not ensemble.unimodal or n_classes < 3:
        return p
    if n_classes > MOST_CLASSES:
        raise ValueError(
            f"an ONNX graph that makes an average unimodal must have at most {MOST_CLASSES} classes, got "
            f"{n_classes}: fit with unimodal=False, or a hard method such as 'un' with members=1 and trees=0"
        )
    return nearest_unimodal(p, n_classes)


def _members(networks: Networks, encoded: Symbol) -> Symbol:
    """What each network predicts, (members, n, K)."""
    architecture = networks.architecture
    views = {name: view.numpy() for name, view in architecture.views(networks.parameters).items()}

    def weights(values: Any) -> Symbol:
        return encoded.graph.constant(np.ascontiguousarray(values)).double()

    x = encoded.unsqueezed(0)
    for i in range(len(architecture.hidden)):
        weight, bias = views[f"weight{i}"], views.get(f"bias{i}")
        if i == 0:
            weight, bias = weight[:, :-1], weight[:, -1:]
        x = _ACTIVATIONS[architecture.activation](x @ weights(weight) + weights(bias))
    outputs = x @ weights(views["weight"].transpose(0, 2, 1)) + weights(views["bias"].transpose(0, 2, 1))
    head = make_method(
        architecture.method, architecture.n_classes, published=architecture.published, **networks.params
    ).head
    own = {
        name.removeprefix("head."): views[name].astype(np.float64)
        for name, _ in architecture.template.named_parameters()
    }
    return heads.proba(head, outputs, own)


_ACTIVATIONS = {
    "relu": lambda x: x.at_least(0.0),
    "tanh": lambda x: x.tanh(),
    "gelu": lambda x: 0.5 * x * (x * -(0.5**0.5)).erfc(),
}


def _decision(p: Symbol, rule: str, n_classes: int) -> Symbol:
    """The class of each row by a rule of `unimodal.decision`."""
    graph = p.graph
    if rule == "mode":
        return graph.op("ArgMax", p, axis=-1, keepdims=0)
    below, total = p.cumsum(), p.sum()
    if rule == "median":
        passed = below.is_below((0.5 - _ROUNDING) * total)
    else:
        expectation = (1.0 - below / total).sum()
        passed = (expectation - _ROUNDING * n_classes).is_above(np.arange(n_classes)[None] + 0.5)
    return graph.op("ReduceSum", passed.integer(), np.array([-1]), keepdims=0)
