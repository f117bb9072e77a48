"""Ordinal regression whose predicted distributions have one peak.

Names are imported on first use, so that ``import unimodal`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unimodal import decision, metrics, simplex
    from unimodal.estimators.classifier import OrdinalClassifier
    from unimodal.estimators.search import OrdinalClassifierCV, cross_validate
    from unimodal.export import load, save
    from unimodal.methods import METHODS, make_method
    from unimodal.onnx.export import export_onnx
    from unimodal.projection import distance, project
    from unimodal.validation import OrdinalMetrics

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "OrdinalClassifier",
    "OrdinalClassifierCV",
    "OrdinalMetrics",
    "cross_validate",
    "decision",
    "distance",
    "export_onnx",
    "load",
    "make_method",
    "metrics",
    "project",
    "save",
    "simplex",
]

_HOME = {
    "METHODS": "unimodal.methods",
    "OrdinalClassifier": "unimodal.estimators.classifier",
    "OrdinalClassifierCV": "unimodal.estimators.search",
    "OrdinalMetrics": "unimodal.validation",
    "cross_validate": "unimodal.estimators.search",
    "distance": "unimodal.projection",
    "export_onnx": "unimodal.onnx.export",
    "load": "unimodal.export",
    "make_method": "unimodal.methods",
    "project": "unimodal.projection",
    "save": "unimodal.export",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'unimodal' has no attribute {name!r}")
    home = _HOME.get(name)
    value = getattr(import_module(home), name) if home else import_module(f"unimodal.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
