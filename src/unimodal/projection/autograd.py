"""Provisional."""

from typing import NamedTuple

import numpy as np
import torch

from unimodal.projection.lp import nearest_row


class Solution(NamedTuple):
    nearest: torch.Tensor
    value: torch.Tensor


@torch.library.custom_op("unimodal::provisional", mutates_args=())
def _op(q: torch.Tensor, mode: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = q.detach().double().reshape(-1, q.shape[-1]).numpy()
    out = [nearest_row(r, int(m)) for r, m in zip(rows, mode.reshape(-1).tolist())]
    if not out:
        return torch.empty_like(q), q.new_empty(q.shape[:-1]), torch.empty_like(q)
    p, v, s = zip(*out)
    return tuple(
        torch.as_tensor(np.array(a), dtype=q.dtype).reshape(sh)
        for a, sh in ((p, q.shape), (v, q.shape[:-1]), (s, q.shape))
    )


_op.register_fake(lambda q, mode: (torch.empty_like(q), q.new_empty(q.shape[:-1]), torch.empty_like(q)))
_op.register_autograd(
    lambda ctx, a, b, c: (b.unsqueeze(-1) * ctx.saved_tensors[0], None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[2]),
)


@torch.library.register_vmap("unimodal::provisional")
def _v(info, dims, q, mode):
    q = q.movedim(dims[0], 0) if dims[0] is not None else q.expand(info.batch_size, *q.shape)
    mode = mode.movedim(dims[1], 0) if dims[1] is not None else mode.expand(info.batch_size, *mode.shape)
    return _op(q, mode), (0, 0, 0)


def solve(q, mode, metric="w1", dim=-1):
    p, v, _ = _op(q.movedim(dim, -1).contiguous(), mode)
    return Solution(p.movedim(-1, dim).detach(), v)


def divergence(nearest, log_prob, metric, dim):
    return (torch.special.xlogy(nearest, nearest) - nearest * log_prob).sum(dim)
