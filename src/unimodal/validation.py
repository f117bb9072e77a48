"""Metrics that stream through a validation loop, by torchmetrics' interface: Lightning's loop or anybody's.

Every metric of `unimodal.metrics` is a formula of sums over the samples. A state holds one such sum: the
confusion table, which the metrics of decided classes share; the sum and the number of the values that a
metric averages; or the bins of `ece`. So memory doesn't grow with the samples; batches, and processes that
reduce by "sum", add up to what `unimodal.metrics.evaluate` says of all the samples together; and no
formula is repeated here.
"""

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import torch

from unimodal.metrics import METRICS, Samples, check, scores, statistics
from unimodal.simplex import Values

try:
    import torchmetrics
except ModuleNotFoundError as error:
    raise ImportError("unimodal.validation needs torchmetrics: pip install 'unimodal[images]'") from error

__all__ = ["OrdinalMetrics"]

_WITHOUT_DOUBLES = {"mps"}


class OrdinalMetrics(torchmetrics.Metric):
    """The metrics of `unimodal.metrics.METRICS` from batch after batch: all, some, or one.

    Parameters
    ----------
    n_classes : int
        K.
    metrics : str or sequence of str, optional
        One name, to compute one scalar; or several, by default all, to compute a dict of scalars.
    published : bool
        Compute "nll" and "unimodal_share" as the paper's tables do.
    **kwargs
        Options of `torchmetrics.Metric`.

    Notes
    -----
    Lightning logs a single metric by ``self.log("qwk", self.qwk)``, and several by
    ``self.log_dict(self.metrics.compute())`` at the end of an epoch, followed by a reset. The single
    metrics of one `torchmetrics.MetricCollection` share their confusion table.

    Sums stay in double precision when a model around them is cast to half; on MPS, which has none, they
    are kept in single precision.

    Examples
    --------
    >>> import torch
    >>> metrics = OrdinalMetrics(3, ["mae", "nll"])
    >>> metrics.update(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([0]))
    >>> metrics.update(torch.tensor([[0.25, 0.25, 0.5]]), torch.tensor([1]))
    >>> {name: round(value.item(), 3) for name, value in metrics.compute().items()}
    {'mae': 0.5, 'nll': 1.04}
    """

    is_differentiable = False
    full_state_update = False

    def __init__(
        self,
        n_classes: SupportsIndex,
        metrics: str | Sequence[str] | None = None,
        published: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.n_classes = index(n_classes)
        if self.n_classes < 1:
            raise ValueError(f"n_classes must be at least 1, got {self.n_classes}")
        self.names = _names(metrics)
        self.is_single = isinstance(metrics, str)
        self.published = published
        # A MetricCollection may merge states of the same name: the published sums have others.
        prefix = "published_" if published else ""
        self.states: dict[str, str] = {}
        for name, zeros in statistics(_no_samples(self.n_classes), self.names, published).items():
            self.states[name] = prefix + name
            self.add_state(self.states[name], _as_tensor(zeros, self.device), dist_reduce_fx="sum")

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The direction that all these metrics have in common, if they have."""
        directions = {METRICS[name].greater_is_better for name in self.names or METRICS}
        return directions.pop() if len(directions) == 1 else None

    def update(self, p: Values, y: Values, pred: Values | None = None) -> None:
        """Add a batch.

        Parameters
        ----------
        p : array or tensor, shape (n, K) or (n,)
            Probabilities; or classes, which leave the metrics of probabilities undefined: nan if all
            metrics are computed by default, an error if one was asked for.
        y : n labels
            True classes.
        pred : n classes, optional
            The decisions that the class metrics judge; the modes of p by default.
        """
        batch = statistics(check(y, p, pred, self.n_classes), self.names, self.published)
        for name, state in self.states.items():
            total = getattr(self, state)
            new = _as_tensor(batch[name], total.device) if name in batch else math.nan
            setattr(self, state, total + new)

    def compute(self) -> torch.Tensor | dict[str, torch.Tensor]:
        """Score all batches since the last reset, as `unimodal.metrics.evaluate` would; nan without any."""
        sums = {name: getattr(self, state).cpu().numpy() for name, state in self.states.items()}
        values = {
            name: _as_tensor(np.array(score), self.device) for name, score in scores(sums, self.names).items()
        }
        return values[self.names[0]] if self.is_single else values

    def _apply(
        self, fn: Callable[[torch.Tensor], torch.Tensor], *args: Any, **kwargs: Any
    ) -> torch.nn.Module:
        """Follow a model to its device, but not to its precision."""
        device = fn(torch.empty(0, device=self.device)).device
        moved: torch.nn.Module = super()._apply(lambda state: _move(state, device), *args, **kwargs)
        return moved


def _names(metrics: str | Sequence[str] | None) -> tuple[str, ...]:
    """Check the names; none means all."""
    names = () if metrics is None else (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if metrics is not None and not names:
        raise ValueError("metrics must name at least one metric, got none")
    for name in names:
        if name not in METRICS:
            raise ValueError(f"metrics must be among {', '.join(METRICS)}, got {name!r}")
    return names


def _no_samples(n_classes: int) -> Samples:
    """Samples whose statistics are zeros of the right shape."""
    labels, proba = np.empty(0, dtype=np.int64), np.empty((0, n_classes))
    return Samples(labels, labels, n_classes, proba, proba)


def _as_tensor(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return _move(torch.from_numpy(values), device)


def _move(state: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Move to a device, floating point in the widest that it has."""
    widest = torch.float32 if device.type in _WITHOUT_DOUBLES else torch.float64
    return state.to(device, widest if state.is_floating_point() else state.dtype)
