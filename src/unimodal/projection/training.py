r"""Wasserstein regularisation in one pass: -log p_y + lambda W1(p, S_y) and its slope.

At batches of 32 the projection takes microseconds, and every operation around it as much again. For
ordinary tensors of the CPU one kernel does all of it, from log p to the loss and its slope in log p,

    lambda psi_j p_j - [j = y],

psi being the slope of the distance in p (`pivoting`).
"""

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray
from numpy.typing import NDArray
from torch import Tensor

from unimodal.projection import ties
from unimodal.projection.autograd import is_plain
from unimodal.projection.compiled import (
    Floats,
    Ints,
    Terms,
    allocating_kernel,
    exp,
    kernel,
    over_rows,
    threads_worth,
)
from unimodal.projection.kernels import row_time
from unimodal.projection.pivoting import solve_row
from unimodal.projection.tableau import Work, workspace
from unimodal.projection.team import run_in_team, thread_count, thread_number


def regularised_likelihood(log_p: Tensor, y: Tensor, lam: float | Tensor) -> Tensor | None:
    """The loss of each distribution along the last axis, given by its logarithms, with its gradient.

    None where this kernel has nothing to say: for tensors that are not plain, for a `lam` that wants a
    gradient or has more axes than y, for labels out of range, and for rows that it could not certify.
    """
    if not is_plain(log_p, y) or (isinstance(lam, Tensor) and not _is_constant(lam, y)):
        return None
    function: Any = _Regularised.apply
    try:
        loss: Tensor = function(log_p, y, lam)
    except _NotCertifiedError:
        return None
    return loss


def _is_constant(lam: Tensor, y: Tensor) -> bool:
    """Whether there is one number for each label, or one for several, and no gradient to compute."""
    fits = np.broadcast_shapes(lam.shape, y.shape) == tuple(y.shape)
    return fits and is_plain(lam) and not lam.requires_grad


class _NotCertifiedError(Exception):
    pass


class _Regularised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_p: Tensor, y: Tensor, lam: float | Tensor) -> Tensor:
        values, labels = log_p.numpy(), y.numpy().ravel()
        n_classes = values.shape[-1]
        rows = np.ascontiguousarray(values).reshape(-1, n_classes)
        if isinstance(lam, Tensor):
            strengths = lam.expand(y.shape).numpy().astype(np.float64).ravel()
        else:
            strengths = np.array([lam], dtype=np.float64)
        loss, slope = np.empty(len(rows), rows.dtype), np.empty_like(rows)
        arrays = rows, labels, strengths, ties.weights(n_classes), loss, slope
        if not _regularise_in_team(*arrays) and not over_rows(
            _regularise_rows, rows.shape, row_time(n_classes), *arrays
        ):
            raise _NotCertifiedError
        ctx.save_for_backward(log_p, y, torch.from_numpy(slope).view(log_p.shape))
        return torch.from_numpy(loss).view(y.shape)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        log_p, y, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again: psi is constant, p is not
            is_label = torch.nn.functional.one_hot(y, log_p.shape[-1]).to(slope.dtype)
            slope = (slope + is_label) * (log_p - log_p.detach()).exp() - is_label
        return outer.unsqueeze(-1) * slope, None, None


def _regularise_in_team(
    rows: NDArray[Any],
    labels: NDArray[np.int64],
    strengths: NDArray[np.float64],
    weights: NDArray[np.float64],
    loss: NDArray[Any],
    slope: NDArray[Any],
) -> bool:
    """Let PyTorch's threads do it, if several are worth it; False unless all rows are certified."""
    n_rows, n_classes = rows.shape
    threads = threads_worth(n_rows * row_time(n_classes))
    if threads == 1 or rows.dtype != np.float32:
        return False
    certified = np.zeros(threads, dtype=np.int64)
    with ExitStack() as stack:
        terms = [stack.enter_context(Terms(part, n_classes)) for part in range(threads)]
        sizes = np.array([n_rows, n_classes, len(strengths), terms[0].shape[1], terms[0].shape[2]])
        arrays = sizes, certified, rows, labels, strengths, weights, loss, slope, *terms
        return run_in_team(_regularise_part, arrays, threads) and int(certified.sum()) == n_rows


def _regularise_part(pointers: Any) -> None:
    """Do one thread's rows, and say how many of them are certified if all of them are."""
    sizes = carray(pointers[0], (5,)).view(np.int64)
    n, K = sizes[0], sizes[1]
    thread, threads = thread_number(), thread_count()
    first, last = n * thread // threads, n * (thread + 1) // threads
    all_certified = _regularise_rows(
        _singles(pointers[2], n * K).reshape((n, K)),
        carray(pointers[3], (n,)).view(np.int64),
        carray(pointers[4], (sizes[2],)),
        carray(pointers[5], (K + 1,)),
        _singles(pointers[6], n),
        _singles(pointers[7], n * K).reshape((n, K)),
        first,
        last,
        carray(pointers[8 + thread], (2, sizes[3], sizes[4])),
    )
    if all_certified:
        carray(pointers[1], (thread + 1,)).view(np.int64)[thread] = last - first


@allocating_kernel
def _singles(pointer: Any, count: int) -> Any:
    """Numbers of float32 behind a pointer."""
    return carray(pointer, ((count + 1) // 2,)).view(np.float32)[:count]


@allocating_kernel
def _regularise_rows(
    log_p: Floats,
    y: Ints,
    lam: Floats,
    weights: Floats,
    loss: Floats,
    slope: Floats,
    first: int,
    last: int,
    terms: Floats,
) -> bool:
    """Solve the rows from `first` to `last`; `lam` has one number for each, or one for all."""
    certified = True
    n = log_p.shape[1]
    q, p, psi, distance, work = np.empty(n), np.empty(n), np.empty(n), np.empty(1), workspace(n, terms)
    for row in range(first, last):
        strength = lam[min(row, len(lam) - 1)]
        certified &= _regularise_row(
            log_p[row], y[row], strength, weights, loss[row : row + 1], slope[row], q, p, psi, distance, work
        )
    return certified


@kernel
def _regularise_row(
    log_p: Floats,
    y: int,
    lam: float,
    weights: Floats,
    loss: Floats,
    slope: Floats,
    q: Floats,
    p: Floats,
    psi: Floats,
    distance: Floats,
    work: Work,
) -> bool:
    if y < 0 or y >= len(q):
        return False
    for j in range(len(q)):
        q[j] = exp(np.float64(log_p[j]))
    certified = solve_row(q, y, False, weights, p, psi, distance, work)
    loss[0] = lam * distance[0] - log_p[y]
    for j in range(len(q)):
        slope[j] = lam * psi[j] * q[j]
    slope[y] -= 1.0
    return certified
