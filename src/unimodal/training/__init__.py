"""Training: many small networks as one tensor program."""

from unimodal.training.networks import Architecture
from unimodal.training.plan import OnProgress, Progress, train, train_each
from unimodal.training.prediction import Networks
from unimodal.training.recipe import Recipe, Run
from unimodal.training.stacked import Data, Trained

__all__ = [
    "Architecture",
    "Data",
    "Networks",
    "OnProgress",
    "Progress",
    "Recipe",
    "Run",
    "Trained",
    "train",
    "train_each",
]
