"""Provisional."""

import numpy as np

from unimodal.projection.lp import nearest_row


def project(q, mode=None, metric="w1"):
    import torch

    t = isinstance(q, torch.Tensor)
    a = np.asarray(q.detach() if t else q, dtype=np.float64)
    rows = a.reshape(-1, a.shape[-1])
    m = np.broadcast_to(np.asarray(mode), a.shape[:-1]).ravel()
    p = np.array([nearest_row(r, int(k))[0] for r, k in zip(rows, m)]).reshape(a.shape)
    return torch.as_tensor(p, dtype=q.dtype) if t else p


def distance(q, mode=None, metric="w1"):
    a = np.asarray(q, dtype=np.float64)
    rows = a.reshape(-1, a.shape[-1])
    ms = (
        [range(a.shape[-1])] * len(rows)
        if mode is None
        else [[int(k)] for k in np.broadcast_to(np.asarray(mode), a.shape[:-1]).ravel()]
    )
    return np.array([min(nearest_row(r, k)[1] for k in m) for r, m in zip(rows, ms)]).reshape(a.shape[:-1])
