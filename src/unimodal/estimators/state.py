"""Estimators as plain data: what JSON can hold, and arrays. Nothing that could run when it is read.

`to_state` and `from_state` are inverse up to the last bit of every prediction. States come from files, so
whatever they say is checked before it is used; a `ValueError` says what is wrong.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from unimodal.estimators.classifier import OrdinalClassifier
from unimodal.estimators.ensemble import Ensemble
from unimodal.estimators.forest import Forest
from unimodal.estimators.labels import Classes
from unimodal.estimators.search import OrdinalClassifierCV
from unimodal.estimators.tables import TableEncoder
from unimodal.methods import METHODS
from unimodal.metrics import METRICS
from unimodal.training import Architecture, Networks, Recipe

Arrays = dict[str, np.ndarray]
State = dict[str, Any]

_NOT_STORED = ("estimator", "on_progress", "random_state")


def to_state(model: OrdinalClassifier | OrdinalClassifierCV) -> tuple[State, Arrays]:
    """Say everything that predictions depend on; and the name of the target, for those who know it."""
    state, arrays = _described(model)
    if hasattr(model, "target_name_"):
        state["target"] = str(model.target_name_)
    return state, arrays


def _described(model: OrdinalClassifier | OrdinalClassifierCV) -> tuple[State, Arrays]:
    if isinstance(model, OrdinalClassifierCV):
        state, arrays = to_state(model.best_estimator_)
        return {
            "kind": "OrdinalClassifierCV",
            "parameters": _parameters(model),
            "best_lambda": model.best_lambda_,
            "cv_results": {name: _plain(values) for name, values in model.cv_results_.items()},
            "best_estimator": state,
        }, arrays
    columns, of_columns = model._encoder.to_state()
    arrays = {f"columns/{name}": array for name, array in of_columns.items()}
    state = {
        "kind": "OrdinalClassifier",
        "parameters": _parameters(model),
        "classes": model._labels.to_json(),
        "columns": columns,
        "scores": _plain(model.validation_scores_),
        "confusion": _plain(model.validation_confusion_),
    }
    if model._ensemble is not None:
        state["ensemble"], of_ensemble = _ensemble_state(model._ensemble)
        arrays |= of_ensemble
    return state, arrays


def from_state(state: State, arrays: Mapping[str, np.ndarray]) -> OrdinalClassifier | OrdinalClassifierCV:
    """Make the estimator of which `to_state` said this."""
    kinds: dict[str, Callable[..., OrdinalClassifier | OrdinalClassifierCV]] = {
        "OrdinalClassifier": _classifier,
        "OrdinalClassifierCV": _chosen,
    }
    try:
        if state["kind"] not in kinds:
            raise ValueError(f"the model must be an {' or '.join(kinds)}, got {state['kind']!r}")
        model = kinds[state["kind"]](state, arrays)
        if "target" in state:
            model.target_name_ = str(state["target"])
        return model
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the model's description is damaged: {type(error).__name__}: {error}") from None


def _chosen(state: State, arrays: Mapping[str, np.ndarray]) -> OrdinalClassifierCV:
    best = from_state(state["best_estimator"], arrays)
    if not isinstance(best, OrdinalClassifier):
        raise ValueError("the best estimator must be an OrdinalClassifier")
    model = OrdinalClassifierCV(**_known_parameters(OrdinalClassifierCV, state["parameters"]))
    model.best_estimator_ = best
    model.best_method_, lam = best.method, state["best_lambda"]
    model.best_lambda_ = None if lam is None else float(lam)
    results = {name: _numbers(values) for name, values in state["cv_results"].items() if name != "method"}
    methods = [str(name) for name in state["cv_results"]["method"]]
    if set(results) != {"lam", *METRICS} or any(len(each) != len(methods) for each in results.values()):
        raise ValueError("cv_results must have a column for lam and for each metric, all of the same length")
    model.cv_results_ = {"method": np.array(methods)} | results
    model.classes_ = best.classes_
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(best, name):
            setattr(model, name, getattr(best, name))
    return model


def _classifier(state: State, arrays: Mapping[str, np.ndarray]) -> OrdinalClassifier:
    model = OrdinalClassifier(**_known_parameters(OrdinalClassifier, state["parameters"]))
    model.check_parameters()
    model._labels = Classes.from_json(state["classes"])
    model.classes_ = model._labels.values
    model._encoder = TableEncoder.from_state(state["columns"], _within(arrays, "columns/"))
    model.n_features_in_ = model._encoder.n_features_in_
    if hasattr(model._encoder, "feature_names_in_"):
        model.feature_names_in_ = model._encoder.feature_names_in_
    model._ensemble = None
    n_classes = len(model.classes_)
    if n_classes > 1:
        model._ensemble = _ensemble(state["ensemble"], arrays, model._encoder, n_classes)
    model.validation_scores_ = {name: float(state["scores"][name]) for name in METRICS}
    confusion = np.array(state["confusion"], dtype=np.int64)
    if confusion.shape != (n_classes, n_classes):
        raise ValueError(f"confusion must have shape {(n_classes, n_classes)}, got {confusion.shape}")
    model.validation_confusion_ = confusion
    return model


def _ensemble_state(ensemble: Ensemble) -> tuple[State, Arrays]:
    networks = ensemble.networks
    arrays = {"networks": networks.parameters.numpy()}
    if ensemble.forest is not None:
        arrays |= {f"forest/{name}": array for name, array in ensemble.forest.to_state().items()}
    architecture = networks.architecture
    return {
        "n_inputs": architecture.n_inputs,
        "method": architecture.method,
        "hidden": list(architecture.hidden),
        "activation": architecture.activation,
        "published": architecture.published,
        "params": _plain(networks.params),
        "share": ensemble.share,
        "unimodal": ensemble.unimodal,
    }, arrays


def _ensemble(
    state: State, arrays: Mapping[str, np.ndarray], encoder: TableEncoder, n_classes: int
) -> Ensemble:
    if state["method"] not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {state['method']!r}")
    if state["n_inputs"] != encoder.n_outputs_:
        raise ValueError(f"n_inputs must be {encoder.n_outputs_}, got {state['n_inputs']!r}")
    for name in ("published", "unimodal"):
        if not isinstance(state[name], bool):
            raise ValueError(f"{name} must be true or false, got {state[name]!r}")
    share = float(state["share"])
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1], got {share}")
    recipe = Recipe(hidden=tuple(state["hidden"]), activation=state["activation"])
    params = {name: _restored(value) for name, value in state["params"].items()}
    architecture = Architecture(
        encoder.n_outputs_,
        n_classes,
        state["method"],
        recipe.hidden,
        recipe.activation,
        state["published"],
        tuple(sorted(params.items())),
    )
    parameters = np.array(arrays["networks"])
    if parameters.ndim != 2 or parameters.shape[1] != architecture.n_parameters or not len(parameters):
        wanted = f"(members, {architecture.n_parameters})"
        raise ValueError(f"networks must have shape {wanted}, got {parameters.shape}")
    if parameters.dtype != np.float32 or not np.isfinite(parameters).all():
        raise ValueError("networks must hold finite numbers of float32")
    networks = Networks(architecture, torch.from_numpy(parameters), params)
    return Ensemble(networks, _forest(arrays, encoder, n_classes), share, state["unimodal"])


def _forest(arrays: Mapping[str, np.ndarray], encoder: TableEncoder, n_classes: int) -> Forest | None:
    of_forest = _within(arrays, "forest/")
    if not of_forest:
        return None
    forest = Forest.from_state(of_forest)
    found = forest.n_features, forest.leaves.shape[1]
    if found != (encoder.n_raw_, n_classes):
        raise ValueError(
            f"the forest must be of {encoder.n_raw_} columns and {n_classes} classes, "
            f"got {found[0]} and {found[1]}"
        )
    return forest


def _within(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _parameters(model: BaseEstimator) -> State:
    stored = {name: value for name, value in model.get_params(deep=False).items() if name not in _NOT_STORED}
    result: State = _plain(stored)
    return result


def _known_parameters(kind: type[BaseEstimator], parameters: State) -> State:
    unknown = sorted(set(parameters) - set(kind._get_param_names()))
    if unknown:
        raise ValueError(f"parameters must be those of {kind.__name__}, got {unknown[0]!r}")
    return {name: _restored(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    """What JSON can hold: infinities and NaN as text, mappings whose keys are not text as pairs."""
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, and what pandas makes of them
        value = value.tolist()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(each) for key, each in value.items()}
        return {"pairs": [[_plain(key), _plain(each)] for key, each in value.items()]}
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(each) for each in value)
    if isinstance(value, dict) and set(value) == {"pairs"}:
        return {_restored(key): _restored(each) for key, each in value["pairs"]}
    return value


def _numbers(values: Any) -> np.ndarray:
    return np.array([float(value) for value in values])
