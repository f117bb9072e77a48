"""Ordinal regression whose predicted distributions have one peak.

Names are imported on first use, so that ``import unimodal`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unimodal import decision, metrics, simplex
    from unimodal.methods import METHODS, make_method
    from unimodal.projection import distance, project
    from unimodal.validation import OrdinalMetrics

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "OrdinalMetrics",
    "decision",
    "distance",
    "make_method",
    "metrics",
    "project",
    "simplex",
]

_HOME = {
    "METHODS": "unimodal.methods",
    "OrdinalMetrics": "unimodal.validation",
    "distance": "unimodal.projection",
    "make_method": "unimodal.methods",
    "project": "unimodal.projection",
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
