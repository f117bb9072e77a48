r"""How far a distribution p is from q, and the slope of the least distance in q.

    w1           \sum_i |P_i - Q_i|, with cumulative sums P and Q
    l2           ||p - q||                       slope: (q - p) / ||p - q||
    kl           KL(q || p) = \sum q log(q / p)  slope: log(q / p)
    reverse-kl   KL(p || q) = \sum p log(p / q)  slope: KL(p || q) + 1 - p / q

By the envelope theorem the slope of the least distance is that of the distance at the nearest p, held
constant. In the last line the first two terms come from p having the mass of q; over distributions
they are constant and change nothing. In w1 the slope is the dual solution, which the solvers return.

Everything is written once, for numpy arrays and torch tensors alike: `xp` is either module. Zeros of
q are those of log_q, so that a q which underflows is no zero.
"""

from typing import Any

METRICS = ("w1", "l2", "kl", "reverse-kl")

LOG_OF_ZERO = -1e6
"""A number far below every logarithm of a float, in place of -inf."""

LARGEST_LOGARITHM = 709.0
"""Almost the largest number whose exponential is finite."""


def logarithm(xp: Any, q: Any) -> Any:
    """Log q, with `LOG_OF_ZERO` for zeros."""
    return xp.where(q > 0, xp.log(xp.where(q > 0, q, 1.0)), LOG_OF_ZERO)


def divergence(xp: Any, q: Any, log_q: Any, p: Any, metric: str) -> Any:
    """How far each p is from its q, along the last axis."""
    if metric == "w1":
        return xp.abs((p - q).cumsum(-1)).sum(-1)
    if metric == "l2":
        square = ((q - p) * (q - p)).sum(-1)
        return xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, 1.0)), 0.0)
    if metric == "kl":  # zeros of p are zeros of q: block means
        return (q * _log_ratio(xp, log_q, p)).sum(-1)
    return xp.where(_impossible(log_q, p), xp.inf, -p * _log_ratio(xp, log_q, p)).sum(-1)


def slope(xp: Any, q: Any, log_q: Any, p: Any, metric: str) -> Any:
    """The slope of the least distance in q, for p nearest to q (w1 apart)."""
    if metric == "kl":
        return xp.where((p > 0) & (q <= 0), -xp.inf, _log_ratio(xp, log_q, p))
    value = divergence(xp, q, log_q, p, metric)[..., None]
    if metric == "l2":
        return (q - p) / xp.where(value > 0, value, 1.0)
    impossible = _impossible(log_q, p)
    log_ratio = xp.where(impossible, 0.0, -_log_ratio(xp, log_q, p))
    ratio = xp.exp(xp.clip(log_ratio, None, LARGEST_LOGARITHM))
    finite = xp.where(value < xp.inf, value, 0.0) + 1 - xp.where(p > 0, ratio, 0.0)
    return xp.where(impossible, -xp.inf, finite)


def _log_ratio(xp: Any, log_q: Any, p: Any) -> Any:
    """Log(q / p), and 0 where p is 0."""
    return xp.where(p > 0, log_q - xp.log(xp.where(p > 0, p, 1.0)), 0.0)


def _impossible(log_q: Any, p: Any) -> Any:
    """Where p has mass and q has none."""
    return (p > 0) & (log_q <= LOG_OF_ZERO)
