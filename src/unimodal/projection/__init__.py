"""The nearest unimodal distribution: `project` and `distance`. Neither imports PyTorch by itself."""

from unimodal.projection.api import distance, project

__all__ = ["distance", "project"]
