"""How networks are trained, and what a single run of training is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unimodal.heads.base import chosen

ACTIVATIONS = ("relu", "gelu", "tanh")
OPTIMISERS = ("adam", "adamw")
SCHEDULES = ("constant", "cosine", "warm-cosine")

_AT_LEAST = {"lr": 0.0, "weight_decay": 0.0, "dropout": 0.0, "batch_size": 1, "epochs": 1, "patience": 1}


@dataclass(frozen=True)
class Recipe:
    """What all networks of a stack have in common. The defaults are those of the paper's tables.

    Attributes
    ----------
    hidden : tuple of ints
        Widths of the hidden layers; empty for a linear model.
    activation : {"relu", "gelu", "tanh"}
        What follows each hidden layer.
    dropout : float
        Share of hidden units left out in each step of training.
    optimiser : {"adam", "adamw"}
        AdamW takes the weight decay out of the gradient.
    lr, weight_decay : float
        Learning rate and weight decay, which also acts on biases, as in PyTorch.
    schedule : {"constant", "cosine", "warm-cosine"}
        How the learning rate changes from step to step: not, to zero along a half cosine, or the same after
        it has risen linearly over the first tenth.
    batch_size, epochs : int
        Rows in a step, and how often all rows are seen. The last batch of an epoch may be smaller.
    patience : int, optional
        After how many epochs without a lower validation loss a run stops. A run with validation rows keeps
        the weights of its best epoch in any case, and stops when the loss is no longer a number.
    """

    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    dropout: float = 0.0
    optimiser: str = "adam"
    lr: float = 1e-4
    weight_decay: float = 0.0
    schedule: str = "constant"
    batch_size: int = 32
    epochs: int = 1000
    patience: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for width in self.hidden:
            _check_number("hidden", width, 1, whole=True)
        chosen("activation", self.activation, ACTIVATIONS)
        chosen("optimiser", self.optimiser, OPTIMISERS)
        chosen("schedule", self.schedule, SCHEDULES)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _AT_LEAST and value is not None:
                low = _AT_LEAST[each.name]
                _check_number(each.name, value, low, whole=isinstance(low, int))
        if self.dropout >= 1:
            raise ValueError(f"dropout must be below 1, got {self.dropout}")


def _check_number(name: str, value: Any, low: float, whole: bool) -> None:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not low <= value < math.inf:
        what = "an integer" if whole else "a number"
        raise ValueError(f"{name} must be {what} of at least {low}, got {value!r}")


@dataclass(frozen=True)
class Run:
    """One network to be trained.

    Attributes
    ----------
    rows : integer array
        The rows it learns from.
    seed : int
        Where its initial weights, the order of its batches and its dropout come from.
    method, published, params
        As for `make_method`.
    validation : integer array, optional
        The rows on which it is stopped early.
    source : int
        Which matrix of inputs it reads, where there are several of the same rows.
    """

    rows: NDArray[np.int64]
    seed: int
    method: str = "ce"
    params: Mapping[str, Any] = field(default_factory=dict)
    published: bool = False
    validation: NDArray[np.int64] | None = None
    source: int = 0

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise ValueError("rows must not be empty")
        if self.validation is not None and not len(self.validation):
            raise ValueError("validation must not be empty; leave it out to train without")

    def batches(self, batch_size: int) -> int:
        """How many batches an epoch has."""
        return -(-len(self.rows) // batch_size)
