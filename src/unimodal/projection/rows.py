"""The nearest unimodal distribution of each row, whichever engine does the arithmetic.

An engine is a module with `xp`, the array library it computes in, and functions of float64 rows (n, K):

    solve(q, mode)        -> nearest, value, slope, certified          in W1
    best_mode_solve(q)    -> nearest, value, slope, mode, certified    the same, mode unknown
    pooled(y, mode)       -> the L2 projection on sequences that rise to the mode and fall after it

`kernels` is compiled code on numpy arrays, `lockstep` is PyTorch on any device. A row that an engine
could not certify goes to the linear program of `lp`.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from unimodal.projection import lp
from unimodal.projection.divergences import divergence, slope
from unimodal.projection.ties import SAME_DISTANCE

_CHUNK = 1 << 22
"""Entries of the (rows, modes, classes) array in which a best mode is sought."""


class Solution(NamedTuple):
    """Nearest distributions, their distances, the distances' slopes in q, and the modes."""

    nearest: Any
    value: Any
    slope: Any
    mode: Any


def solve(engine: ModuleType, q: Any, log_q: Any, mode: Any, metric: str) -> Solution:
    """Project every row of q; `mode` holds one mode for each, or is None for the best one of each.

    `log_q` is only looked at by the Kullback-Leibler divergences.
    """
    if metric == "w1":
        return _solve_w1(engine, q, mode)
    if mode is None:
        mode = _best_modes(engine, q, log_q, metric)
    nearest = _pooled(engine, q, log_q, mode, metric)
    result = (engine.xp, q, log_q, nearest, metric)
    return Solution(nearest, engine.xp.clip(divergence(*result), 0, None), slope(*result), mode)


def _solve_w1(engine: ModuleType, q: Any, mode: Any) -> Solution:
    if mode is None:
        nearest, value, slopes, modes, certified = engine.best_mode_solve(q)
    else:
        nearest, value, slopes, certified = engine.solve(q, mode)
        modes = mode
    if not bool(certified.all()):
        # Where there is NaN, as in a training that has diverged, the result is NaN as well.
        hopeless = (value != value) & (q != q).any(-1)
        for row, is_done in enumerate((certified | hopeless).tolist()):
            if not is_done:
                by_program = _by_program(q[row].tolist(), mode if mode is None else int(mode[row]))
                results = (nearest, value, slopes, modes) if mode is None else (nearest, value, slopes)
                for result, values in zip(results, by_program, strict=False):
                    result[row] = engine.xp.asarray(values, device=q.device)
    return Solution(nearest, value, slopes, modes)


def _by_program(q: list[float], mode: int | None) -> Solution:
    solved = {m: lp.nearest_row(np.array(q), m) for m in (range(len(q)) if mode is None else [mode])}
    least = min(value for _, value, _ in solved.values())
    best = next(m for m, (_, value, _) in solved.items() if value <= least + SAME_DISTANCE)
    return Solution(*solved[best], best)


def _pooled(engine: ModuleType, q: Any, log_q: Any, mode: Any, metric: str) -> Any:
    """Pooling solves all three of them (see `pooling`)."""
    if metric != "reverse-kl":
        return engine.pooled(q, mode)
    xp, log_p = engine.xp, engine.pooled(log_q, mode)
    p = xp.exp(log_p - xp.amax(log_p, axis=-1)[:, None])
    is_same = (log_p == log_q).all(-1)[:, None]
    return xp.where(is_same, q, p * (q.sum(-1) / p.sum(-1))[:, None])


def _best_modes(engine: ModuleType, q: Any, log_q: Any, metric: str) -> Any:
    xp, (n_rows, n_classes) = engine.xp, q.shape
    best = xp.arange(n_rows, device=q.device)
    step = max(1, _CHUNK // n_classes**2)
    for start in range(0, n_rows, step):
        some, some_log = q[start : start + step], log_q[start : start + step]
        pair = xp.arange(len(some) * n_classes, device=q.device)
        row, mode = pair // n_classes, pair % n_classes
        nearest = _pooled(engine, some[row], some_log[row], mode, metric)
        value = divergence(xp, some[row], some_log[row], nearest, metric).reshape(-1, n_classes)
        good = value <= xp.amin(value, axis=-1)[:, None] + SAME_DISTANCE
        best[start : start + step] = (good * 1).argmax(-1)
    return best
