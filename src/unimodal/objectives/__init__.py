"""Objectives: what training penalises, per sample. One file per family."""

from unimodal.objectives.base import DistributionObjective, Objective
from unimodal.objectives.distance import ClassDistanceWeighted
from unimodal.objectives.likelihood import BinaryLikelihood, NegativeLogLikelihood
from unimodal.objectives.order import OrderPenalty
from unimodal.objectives.soft_labels import UnimodalRegularisation
from unimodal.objectives.wasserstein import NearestUnimodal

__all__ = [
    "BinaryLikelihood",
    "ClassDistanceWeighted",
    "DistributionObjective",
    "NearestUnimodal",
    "NegativeLogLikelihood",
    "Objective",
    "OrderPenalty",
    "UnimodalRegularisation",
]
