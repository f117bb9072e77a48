"""Elementary functions against SciPy, where single precision is hardest."""

import math

import numpy as np
import torch
from scipy.special import erfcx
from scipy.special import log_ndtr as exact_log_ndtr

from unimodal.heads.numerics import log_ndtr


def test_the_logarithm_of_the_normal_distribution_in_both_tails():
    x = torch.cat([torch.linspace(-40, 12, 521), torch.tensor([-2e4, -1e4, 1e4])]).requires_grad_()
    value = log_ndtr(x)
    (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    t = x.detach().double().numpy()
    np.testing.assert_allclose(value.detach(), exact_log_ndtr(t), rtol=2e-5, atol=1e-37)
    np.testing.assert_allclose(
        slope.detach(), math.sqrt(2 / math.pi) / erfcx(-t / math.sqrt(2)), rtol=2e-5, atol=1e-30
    )
    assert curvature.isfinite().all()
    x = x.detach().double()[:-1].requires_grad_()
    assert torch.autograd.gradcheck(log_ndtr, x[::40])
    assert torch.autograd.gradgradcheck(log_ndtr, x[::40])


def test_it_is_mapped_as_a_whole():
    """PyTorch would warn of a loop over the rows."""
    x = torch.linspace(-5, 5, 12, dtype=torch.float64).view(3, 4)
    mapped = torch.func.vmap(torch.func.grad(lambda row: log_ndtr(row).sum()))(x)
    (expected,) = torch.autograd.grad(log_ndtr(x.requires_grad_()).sum(), x)
    torch.testing.assert_close(mapped, expected, rtol=0, atol=1e-15)
