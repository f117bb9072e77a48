"""The projection in tensor operations: against the linear program, the kernels and its certificates."""

import numpy as np
import pytest
import torch
from distributions import check_certificate, draw, each_kind, mixed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from unimodal.projection import kernels, lockstep, pooling
from unimodal.projection.divergences import LOG_OF_ZERO
from unimodal.projection.lp import nearest_row


def by_pivoting(q, mode):
    p, value, slope, certified = kernels.solve(q.numpy(), mode.numpy())
    assert certified.all()
    return p, value, slope


# The answer


@each_kind
@pytest.mark.parametrize("n_classes", [2, 3, 5, 8, 12])
def test_the_nearest_is_that_of_the_linear_program(kind, n_classes):
    q, mode = draw(kind, 5, n_classes)
    p, value, _, certified = lockstep.solve(q, mode)
    assert certified.all()
    for row in range(len(q)):
        expected, distance, _ = nearest_row(q[row].numpy(), int(mode[row]))
        np.testing.assert_allclose(p[row], expected, rtol=0, atol=1e-9)
        assert float(value[row]) == pytest.approx(distance, rel=0, abs=1e-9)


@pytest.mark.parametrize(
    ("n_classes", "n_each"), [(1, 2), (2, 20), (4, 50), (10, 50), (30, 10), (70, 4), (200, 3)]
)
def test_the_nearest_is_that_of_the_kernel(n_classes, n_each):
    q, mode = mixed(n_each, n_classes)
    p, value, _, certified = lockstep.solve(q, mode)
    expected, distance, _ = by_pivoting(q, mode)
    assert certified.all()
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(value, distance, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_classes", [3, 10, 70])
def test_the_gradient_is_that_of_the_kernel_away_from_kinks(n_classes):
    q, mode = draw("dirichlet 1", 20, n_classes)
    expected = by_pivoting(q, mode)[2]
    np.testing.assert_allclose(lockstep.solve(q, mode)[2], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("n_classes", "n_each"), [(2, 20), (5, 50), (20, 10), (60, 4)])
def test_primal_and_dual_solution_certify_each_other(n_classes, n_each):
    q, mode = mixed(n_each, n_classes)
    check_certificate(q, mode, *lockstep.solve(q, mode)[:3])


def test_a_thousand_classes_are_certified():
    q, mode = draw("dirichlet 1", 3, 1000)
    *solution, certified = lockstep.solve(q, mode)
    assert certified.all()
    check_certificate(q, mode, *solution)


@pytest.mark.parametrize("n_classes", [1, 2, 7, 50])
def test_what_is_unimodal_stays_as_it_is(n_classes):
    q, mode = draw("dirichlet 1", 20, n_classes)
    q = torch.tensor(pooling.pooled(q.numpy(), mode.numpy()))
    p, value, slope, certified = lockstep.solve(q, mode)
    assert torch.equal(p, q)
    assert not value.any()
    assert not slope.any()
    assert certified.all()


def test_a_row_with_nan_is_not_certified_and_leaves_the_others_alone():
    q, mode = draw("dirichlet 1", 10, 6)
    expected = lockstep.solve(q, mode)
    q[3, 2] = torch.nan
    found = lockstep.solve(q, mode)
    assert not found[3][3]
    others = torch.arange(10) != 3
    assert all(torch.equal(a[others], b[others]) for a, b in zip(found, expected, strict=True))


# Pooling


@pytest.mark.parametrize(("n_classes", "n_each"), [(1, 2), (2, 20), (5, 50), (30, 20), (200, 2)])
def test_pooling_is_that_of_the_kernel(n_classes, n_each):
    q, mode = mixed(n_each, n_classes)
    expected = pooling.pooled(q.numpy(), mode.numpy())
    np.testing.assert_allclose(lockstep.pooled(q, mode), expected, rtol=0, atol=1e-12)


def test_pooling_keeps_logarithms_of_zero_away_from_others():
    q, mode = draw("sparse", 200, 12)
    logits = q.log().clamp(min=LOG_OF_ZERO)
    expected = pooling.pooled(logits.numpy(), mode.numpy())
    np.testing.assert_allclose(lockstep.pooled(logits, mode), expected, rtol=1e-12)


# The unknown mode


@pytest.mark.parametrize(("n_classes", "n_each"), [(1, 2), (2, 10), (5, 20), (12, 5), (30, 2)])
def test_the_best_mode_is_the_lowest_of_the_nearest(n_classes, n_each):
    q, _ = mixed(n_each, n_classes)
    p, value, slope, mode, certified = lockstep.best_mode_solve(q)
    every_mode = torch.arange(n_classes).expand(len(q), -1)
    distance = lockstep.solve(q.repeat_interleave(n_classes, 0), every_mode.flatten())[1].view(len(q), -1)
    equally_good = distance <= distance.amin(1, keepdim=True) + 1e-12
    assert torch.equal(mode, equally_good.int().argmax(1))
    assert certified.all()
    assert all(
        torch.equal(*pair) for pair in zip((p, value, slope), lockstep.solve(q, mode)[:3], strict=True)
    )


def test_the_lower_of_two_equally_good_modes_is_chosen():
    q = torch.tensor([[0.5, 0.0, 0.5], [0.4, 0.2, 0.4]], dtype=torch.float64)
    assert lockstep.best_mode_solve(q)[3].tolist() == [0, 0]


# Batches


def test_no_rows_give_no_rows():
    for n_classes in (1, 2, 9):
        q, mode = torch.empty(0, n_classes, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
        assert [x.shape for x in lockstep.solve(q, mode)] == [(0, n_classes), (0,), (0, n_classes), (0,)]
        assert [len(x) for x in lockstep.best_mode_solve(q)] == [0] * 5
        assert lockstep.pooled(q, mode).shape == (0, n_classes)


@pytest.mark.parametrize(("n_classes", "n_each"), [(3, 20), (10, 20), (60, 4)])
def test_a_row_does_not_depend_on_the_others_to_the_last_bit(n_classes, n_each):
    q, mode = mixed(n_each, n_classes)
    together = lockstep.solve(q, mode)
    some = torch.tensor(np.random.default_rng(0).permutation(len(q))[: len(q) // 3])
    for rows in (some, *some[:5, None]):
        alone = lockstep.solve(q[rows], mode[rows])
        assert all(torch.equal(a[rows], b) for a, b in zip(together, alone, strict=True))


def test_neither_does_it_depend_on_the_memory(monkeypatch):
    q, mode = mixed(2, 12)
    expected = (*lockstep.solve(q, mode), *lockstep.best_mode_solve(q))
    monkeypatch.setattr(lockstep, "_BUDGET", 100_000)
    found = (*lockstep.solve(q, mode), *lockstep.best_mode_solve(q))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


# The device


class Remote(torch.Tensor):
    """A tensor on a device of its own: it says "meta", and only `OnDevice` gets at its content."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, content):
        return torch.Tensor._make_wrapper_subclass(
            cls, content.shape, strides=content.stride(), dtype=content.dtype, device="meta"
        )

    def __init__(self, content):
        self.content = content

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        raise AssertionError(f"{operation} outside of OnDevice")


class OnDevice(TorchDispatchMode):
    """Runs operations on remote tensors; objects to those that bring one to the host or read its values."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        remote = any(isinstance(x, Remote) for x in tensors)
        device = kwargs.get("device")
        assert not (remote and device is not None and device.type == "cpu"), f"{operation} copies to the host"
        assert operation is not torch.ops.aten._local_scalar_dense.default, "a value is read"
        if device is not None and device.type == "meta":
            remote, kwargs["device"] = True, torch.device("cpu")
        else:
            assert not remote or all(isinstance(x, Remote) or x.ndim == 0 for x in tensors), (
                f"{operation} mixes"
            )
        args, kwargs = tree_map(lambda x: x.content if isinstance(x, Remote) else x, (args, kwargs))
        result = operation(*args, **kwargs)
        return tree_map(lambda x: Remote(x) if remote and isinstance(x, torch.Tensor) else x, result)


@pytest.mark.parametrize("n_classes", [1, 2, 9])
def test_tensors_stay_on_their_device(n_classes):
    q, mode = mixed(2, n_classes)
    expected = (*lockstep.solve(q, mode), *lockstep.best_mode_solve(q), lockstep.pooled(q, mode))
    far_q, far_mode = Remote(q), Remote(mode)
    with OnDevice():
        found = (
            *lockstep.solve(far_q, far_mode),
            *lockstep.best_mode_solve(far_q),
            lockstep.pooled(far_q, far_mode),
        )
    assert all(torch.equal(a.content, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "leave", [torch.Tensor.cpu, torch.Tensor.tolist, torch.Tensor.numpy, lambda x: bool(x[0])]
)
def test_the_pretended_device_objects_to_copies(leave):
    with OnDevice(), pytest.raises((AssertionError, RuntimeError, TypeError)):
        leave(Remote(torch.ones(3)))
