"""Whether one model is better than another, from the scores of both in the same folds.

The folds of a cross-validation share most of their training rows, so their scores are not independent, and
the t-test that takes them for independent finds differences where there are none. Nadeau and Bengio
(Machine Learning 52, 2003) correct its variance: with J differences of sample variance s², from models
trained on n_1 rows and tested on n_2,

    t = mean / sqrt((1/J + n_2/n_1) s²),    with J - 1 degrees of freedom,

and Bouckaert and Frank (PAKDD 2004) find that it holds for repeated k-fold cross-validation, where
n_2/n_1 = 1/(k-1). Of several comparisons, Holm's procedure (Scandinavian Journal of Statistics 6, 1979) keeps
the probability of a single false finding below the level.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

__all__ = ["Estimate", "estimate", "holm"]


class Estimate(NamedTuple):
    """A mean over folds with its confidence interval, and the p-value of its being zero."""

    mean: float
    low: float
    high: float
    p: float


def estimate(values: Float[np.ndarray, " folds"], n_folds: int, confidence: float = 0.95) -> Estimate:
    """Estimate the mean of scores, or of differences, from repeated cross-validation.

    Parameters
    ----------
    values : array
        One for each fold of each repetition.
    n_folds : int
        Into how many folds the rows were dealt in each repetition, at least 2.
    confidence : float
        Of the interval.
    """
    n = len(values)
    mean = float(values.mean())
    if n < 2 or not np.isfinite(values).all():
        return Estimate(mean, np.nan, np.nan, np.nan)
    error = float(np.sqrt((1 / n + 1 / (n_folds - 1)) * values.var(ddof=1)))
    if error <= 1e-12 * abs(mean) or error == 0:  # the same in all folds, up to rounding
        return Estimate(mean, mean, mean, float(mean == 0))
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, n - 1))
    return Estimate(mean, mean - half, mean + half, p)


def holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """Adjust the p-values of several tests; NaN stands for a test that was not made."""
    adjusted = np.full(len(p), np.nan)
    made = np.flatnonzero(~np.isnan(p))
    ranked = made[np.argsort(p[made], kind="stable")]
    steps = p[ranked] * np.arange(len(ranked), 0, -1)
    adjusted[ranked] = np.maximum.accumulate(steps).clip(max=1.0)
    return adjusted
