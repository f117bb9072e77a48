"""Three ways to give a number to a network, each fitted on weighted values.

standard    (x - mean) / standard deviation.
quantile    The normal score of the rank: Φ⁻¹ of the share of samples below x plus half the share at x, at
            most 1000 knots of it with straight lines between them, clipped to ±5.
piecewise   Piecewise linear encoding (Gorishniy, Rubachev and Babenko, "On Embeddings for Numerical
            Features in Tabular Deep Learning", NeurIPS 2022): quantiles b_0 < b_1 < ... bound the bins, and
            component t is clip((x - b_t) / (b_{t+1} - b_t), 0, 1): full below x's bin, empty above it. The
            standardised value is one more component, which alone tells values beyond the outer bounds apart.

All statistics are functions of the distinct values and their shares of the weight. So rows may come in any
order, and an integer weight is, to the last bit, a row that many times.

Standardised values are clipped to ±1e4, that no single huge value drowns a network: of n samples none is
farther than sqrt(n - 1) standard deviations from the mean, so a fit never meets this bound below 1e8 rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

__all__ = [
    "FAR",
    "HUGE",
    "SCALINGS",
    "Arrays",
    "Distribution",
    "Scaling",
    "distribution",
    "fit_scaling",
    "load_scaling",
]

Arrays: TypeAlias = dict[str, np.ndarray]
Column: TypeAlias = Float[np.ndarray, " n"]

HUGE = 1e300
"""Values are clipped to ±1e300, so that differences and sums of them stay finite."""
FAR = 1e4
_MAX_SCORE = 5.0
_MAX_KNOTS = 1000


@dataclass(frozen=True)
class Distribution:
    """Distinct values, in ascending order, and the total weight up to each of them."""

    values: Float[np.ndarray, " m"]
    cumulative: Float[np.ndarray, " m"]

    @property
    def total(self) -> float:
        return float(self.cumulative[-1])

    def shares(self) -> Float[np.ndarray, " m"]:
        return np.diff(self.cumulative, prepend=0.0) / self.total

    def median(self) -> float:
        """The middle value, or the mean of two: as of the repeated rows."""
        half = self.total / 2
        at = [int(np.searchsorted(self.cumulative, half, side)) for side in ("left", "right")]
        low, high = self.values[np.minimum(at, len(self.values) - 1)].tolist()
        return float(low / 2 + high / 2) if low != high else float(low)


def distribution(values: Column, weight: Column | None) -> Distribution:
    """Count what occurs: positions in memory and zero weights leave no trace."""
    values = values + 0.0  # -0.0 and 0.0 are one value
    if weight is None:
        distinct, counts = np.unique(values, return_counts=True)
        return Distribution(distinct, np.cumsum(counts, dtype=np.float64))
    order = values.argsort(kind="stable")
    ascending = values[order]
    last = np.append(np.flatnonzero(np.diff(ascending)), len(ascending) - 1)
    return Distribution(ascending[last], weight[order].cumsum()[last])


@runtime_checkable
class Scaling(Protocol):
    """Numbers in, components for a network out."""

    @property
    def components(self) -> tuple[str, ...]:
        """What tells the outputs of one column apart."""

    def transform(self, x: Column) -> Float[np.ndarray, "n components"]: ...

    def arrays(self) -> Arrays: ...


@dataclass(frozen=True)
class Standard:
    """Standardised values; a constant column, whose spread is 0, gives zeros."""

    center: float
    spread: float

    @classmethod
    def fit(cls, found: Distribution) -> "Standard":
        shares = found.shares()
        center = float((found.values * shares).sum())
        away = found.values - center
        scale = float(np.abs(away).max())
        if len(found.values) == 1 or scale == 0:
            return cls(float(found.values[0]), 0.0)
        return cls(center, scale * float(np.sqrt(((away / scale) ** 2 * shares).sum())))

    @property
    def components(self) -> tuple[str, ...]:
        return ("",)

    def transform(self, x: Column) -> Float[np.ndarray, "n 1"]:
        if self.spread == 0:
            return np.zeros((len(x), 1))
        with np.errstate(over="ignore"):
            return ((x - self.center) / self.spread).clip(-FAR, FAR)[:, None]

    def arrays(self) -> Arrays:
        return {"standard": np.array([self.center, self.spread])}


@dataclass(frozen=True)
class Quantile:
    """Normal scores of ranks."""

    knots: Float[np.ndarray, " m"]
    scores: Float[np.ndarray, " m"]

    @classmethod
    def fit(cls, found: Distribution) -> "Quantile":
        middle = (found.cumulative - found.shares() * found.total / 2) / found.total
        picked = np.arange(len(middle))
        if len(middle) > _MAX_KNOTS:
            levels = np.linspace(0, found.total, _MAX_KNOTS)
            picked = np.unique(np.searchsorted(found.cumulative, levels))
        return cls(found.values[picked], ndtri(middle[picked]).clip(-_MAX_SCORE, _MAX_SCORE))

    @property
    def components(self) -> tuple[str, ...]:
        return ("",)

    def transform(self, x: Column) -> Float[np.ndarray, "n 1"]:
        if len(self.knots) == 1:
            return np.full((len(x), 1), self.scores[0])
        # Unlike np.interp by shares of a step, not slopes: these overflow between the smallest numbers.
        i = np.searchsorted(self.knots, x, side="right").clip(1, len(self.knots) - 1)
        low, high = self.knots[i - 1], self.knots[i]
        share = (x.clip(self.knots[0], self.knots[-1]) - low) / (high - low)
        score = self.scores[i - 1] + share * (self.scores[i] - self.scores[i - 1])
        return np.asarray(np.minimum(score, self.scores[i]))[:, None]

    def arrays(self) -> Arrays:
        return {"knots": self.knots, "scores": self.scores}


@dataclass(frozen=True)
class Piecewise:
    """How far x has come through each bin, and its standardised value."""

    edges: Float[np.ndarray, " edges"]
    standard: Standard

    @classmethod
    def fit(cls, found: Distribution, bins: int) -> "Piecewise":
        levels = np.arange(bins + 1) * found.total / bins
        edges = found.values[np.searchsorted(found.cumulative, levels).clip(max=len(found.values) - 1)]
        return cls(np.unique(edges), Standard.fit(found))

    @property
    def components(self) -> tuple[str, ...]:
        return (
            "",
            *(f"[{low:.6g}, {high:.6g}]" for low, high in zip(self.edges, self.edges[1:], strict=False)),
        )

    def transform(self, x: Column) -> Float[np.ndarray, "n components"]:
        with np.errstate(over="ignore"):
            passed = (x[:, None] - self.edges[:-1]) / np.diff(self.edges)
        return np.concatenate([self.standard.transform(x), passed.clip(0, 1)], axis=1)

    def arrays(self) -> Arrays:
        return {"edges": self.edges} | self.standard.arrays()


SCALINGS = ("standard", "quantile", "piecewise")


def fit_scaling(kind: str, found: Distribution, bins: int) -> Scaling:
    """Fit one of `SCALINGS`."""
    if kind == "standard":
        return Standard.fit(found)
    return Quantile.fit(found) if kind == "quantile" else Piecewise.fit(found, bins)


def load_scaling(kind: str, arrays: Mapping[str, np.ndarray]) -> Scaling:
    """Take up the arrays of a fitted scaling, or say which of them is damaged."""
    if kind == "quantile":
        knots, scores = _stored(arrays, "knots"), _stored(arrays, "scores")
        if knots.size != scores.size or knots.size == 0 or (np.diff(knots) <= 0).any():
            raise ValueError(f"knots must ascend, one for each score, got {knots.size} and {scores.size}")
        return Quantile(knots, scores)
    standard = _stored(arrays, "standard")
    if standard.size != 2 or standard[1] < 0:
        raise ValueError(f"standard must be a center and a spread, got {standard.tolist()}")
    fitted = Standard(*standard.tolist())
    if kind == "standard":
        return fitted
    edges = _stored(arrays, "edges")
    if edges.size == 0 or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges must ascend, got {edges.tolist()}")
    return Piecewise(edges, fitted)


def _stored(arrays: Mapping[str, np.ndarray], name: str) -> Float[np.ndarray, " m"]:
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"{name} is missing")
    if array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a list of finite float64, got {array.dtype} of shape {array.shape}")
    return array
