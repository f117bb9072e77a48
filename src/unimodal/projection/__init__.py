"""The nearest unimodal distribution: `project` and `distance`, and `solve` for objectives.

Nothing here imports PyTorch before a name that needs it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unimodal.projection.api import distance, project

if TYPE_CHECKING:
    from unimodal.projection.autograd import Solution, divergence, solve

__all__ = ["Solution", "distance", "divergence", "project", "solve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'unimodal.projection' has no attribute {name!r}")
    value = getattr(import_module("unimodal.projection.autograd"), name)
    globals()[name] = value
    return value
