"""The list that drives the tests of the methods, and what they are tried on."""

import torch

from unimodal.methods import METHODS, make_method

NAMES = list(METHODS)
VARIANTS = [(name, False) for name in NAMES] + [(name, True) for name in NAMES if METHODS[name].published]
HARD = [name for name in NAMES if METHODS[name].always_unimodal]
SIZES = (2, 3, 5, 10, 70)


def make(name, n_classes=5, **params):
    torch.manual_seed(0)
    return make_method(name, n_classes, **params)


def draw(method, *shape, scale=2.0, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    outputs = scale * torch.randn(*shape, method.n_outputs, generator=generator, dtype=dtype)
    y = torch.randint(0, method.n_classes, shape, generator=generator)
    return outputs, y


def valley(log_prob, dim=-1):
    """Depth of the deepest valley: exactly zero for a unimodal sequence."""
    left = log_prob.cummax(dim).values
    right = log_prob.flip(dim).cummax(dim).values.flip(dim)
    return float((torch.minimum(left, right) - log_prob).max())
