r"""Wasserstein regularisation in one pass: -log p_y + lambda W1(p, S_y) and its slope.

At batches of 32 the projection takes microseconds, and every operation around it as much again. For
ordinary tensors of the CPU one kernel does all of it, from log p to the loss and its slope in log p,

    lambda psi_j p_j - [j = y],

psi being the slope of the distance in p (`pivoting`).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unimodal.projection import ties
from unimodal.projection.compiled import Flags, Floats, Ints, allocating_kernel, kernel, over_rows
from unimodal.projection.kernels import work_per_row
from unimodal.projection.pivoting import solve_row
from unimodal.projection.tableau import Work, workspace


def regularised_likelihood(log_p: Tensor, y: Tensor, lam: float | Tensor) -> Tensor | None:
    """The loss of each distribution along the last axis, given by its logarithms, with its gradient.

    None where a row was not certified, which the linear program is for.
    """
    function: Any = _Regularised.apply
    loss, certified = function(log_p, y, lam)
    return loss if certified else None


class _Regularised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_p: Tensor, y: Tensor, lam: float | Tensor) -> tuple[Tensor, bool]:
        rows = np.ascontiguousarray(log_p.numpy()).reshape(-1, log_p.shape[-1])
        labels = y.numpy().ravel()
        if isinstance(lam, Tensor):
            strengths = lam.expand(y.shape).numpy().astype(np.float64).ravel()
        else:
            strengths = np.full(len(labels), lam)
        loss, slope = np.empty(len(labels), rows.dtype), np.empty_like(rows)
        certified = np.empty(len(rows), dtype=np.bool_)
        n_classes = rows.shape[1]
        arrays = rows, labels, strengths, ties.weights(n_classes), loss, slope, certified
        over_rows(_regularise_rows, rows.shape, work_per_row(n_classes), *arrays)
        ctx.save_for_backward(log_p, y, torch.from_numpy(slope).view(log_p.shape))
        return torch.from_numpy(loss).view(y.shape), bool(certified.all())

    @staticmethod
    def backward(ctx: Any, outer: Tensor, _: None) -> tuple[Tensor, None, None]:
        log_p, y, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again: psi is constant, p is not
            is_label = torch.nn.functional.one_hot(y, log_p.shape[-1]).to(slope.dtype)
            slope = (slope + is_label) * (log_p - log_p.detach()).exp() - is_label
        return outer.unsqueeze(-1) * slope, None, None


@allocating_kernel
def _regularise_rows(
    log_p: Floats,
    y: Ints,
    lam: Floats,
    weights: Floats,
    loss: Floats,
    slope: Floats,
    certified: Flags,
    first: int,
    last: int,
    terms: Floats,
) -> None:
    n = log_p.shape[1]
    q, p, psi, distance, work = np.empty(n), np.empty(n), np.empty(n), np.empty(1), workspace(n, terms)
    for row in range(first, last):
        here = slice(row, row + 1)
        certified[row] = _regularise_row(
            log_p[row], y[row], lam[row], weights, loss[here], slope[row], q, p, psi, distance, work
        )


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
    for j in range(len(q)):
        q[j] = np.exp(np.float64(log_p[j]))
    certified = solve_row(q, y, weights, p, psi, distance, work)
    loss[0] = lam * distance[0] - log_p[y]
    for j in range(len(q)):
        slope[j] = lam * psi[j] * q[j]
    slope[y] -= 1.0
    return certified
