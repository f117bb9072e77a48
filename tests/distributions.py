"""Rows of every kind on which the projection is tried, and the proof that a projection is right."""

import numpy as np
import pytest
import torch


def dirichlet(alpha):
    return lambda rng, n, n_classes: rng.dirichlet(np.full(n_classes, alpha), n)


def softmax(scale):
    def draw(rng, n, n_classes):
        logits = scale * rng.normal(size=(n, n_classes))
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    return draw


def rounded(rng, n, n_classes):
    return dirichlet(1)(rng, n, n_classes).round(2)


def one_hot(rng, n, n_classes):
    return np.eye(n_classes)[rng.integers(n_classes, size=n)]


def uniform(rng, n, n_classes):
    return np.full((n, n_classes), 1 / n_classes)


def zeros(rng, n, n_classes):
    return np.zeros((n, n_classes))


def sparse(rng, n, n_classes):
    return np.where(rng.random((n, n_classes)) < 0.6, 0.0, dirichlet(1)(rng, n, n_classes))


def valley(rng, n, n_classes):
    halves = np.sort(dirichlet(1)(rng, n, n_classes), axis=1)
    return np.concatenate([halves[:, ::-2], halves[:, n_classes % 2 :: 2]], axis=1)


def denormal(rng, n, n_classes):
    q = dirichlet(1)(rng, n, n_classes)
    q[:, ::2] *= 1e-310
    return q


def wrong_sum(rng, n, n_classes):
    return dirichlet(1)(rng, n, n_classes) * (1 + rng.choice([-1e-6, 1e-6], size=(n, 1)))


KINDS = {
    "dirichlet 0.1": dirichlet(0.1),
    "dirichlet 1": dirichlet(1),
    "dirichlet 10": dirichlet(10),
    "softmax 0.5": softmax(0.5),
    "softmax 2": softmax(2),
    "softmax 100": softmax(100),
    "rounded": rounded,
    "one-hot": one_hot,
    "uniform": uniform,
    "zeros": zeros,
    "sparse": sparse,
    "valley": valley,
    "denormal": denormal,
    "wrong sum": wrong_sum,
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def draw(kind, n, n_classes):
    """Rows of one kind, with both edge modes and random ones."""
    rng = np.random.default_rng(n_classes)
    mode = rng.integers(n_classes, size=n)
    mode[:2] = 0, n_classes - 1
    return torch.tensor(KINDS[kind](rng, n, n_classes)), torch.tensor(mode)


def mixed(n_each, n_classes, kinds=tuple(KINDS)):
    """Rows of several kinds in one batch."""
    q, mode = zip(*(draw(kind, n_each, n_classes) for kind in kinds), strict=True)
    return torch.cat(q), torch.cat(mode)


def check_certificate(q, mode, p, value, slope):
    """The primal and the dual solution are feasible and have the same value, whatever found them."""
    rising = torch.arange(1, q.shape[1]) <= mode[:, None]
    assert (torch.where(rising, p.diff(dim=1), -p.diff(dim=1)) >= 0).all()  # to the last bit
    assert (p >= 0).all()
    excess = (p - q).cumsum(1)
    assert excess[:, -1].abs().max() <= 1e-12
    assert (excess.abs().sum(1) - value).abs().max() <= max(1e-11, 1e-13 * q.shape[1])

    assert ((slope * q).sum(1) - value).abs().max() <= 1e-11
    assert (slope.diff(dim=1).abs() <= 1 + 1e-9).all()
    # The multipliers mu, up to a constant for which there has to be room. They reach 1e5.
    mu = np.pad(slope.numpy().astype(np.longdouble).cumsum(1), ((0, 0), (1, 0)))
    before_mode = np.arange(mu.shape[1]) <= mode.numpy()[:, None]
    lowest = np.where(before_mode, mu, np.inf).min(1)
    highest = np.where(before_mode, -np.inf, mu).max(1)
    assert (lowest >= highest - 1e-9).all()
