"""The projection as a PyTorch operation: gradients, transforms, devices, processes."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from distributions import KINDS, draw, each_kind, mixed

import unimodal as um
from unimodal.objectives import NearestUnimodal
from unimodal.projection import autograd
from unimodal.projection.divergences import METRICS, divergence

OTHER_METRICS = [metric for metric in METRICS if metric != "w1"]


@pytest.fixture
def torch_engine(monkeypatch):
    """What tensors of other devices go through, for tensors of the CPU."""
    monkeypatch.setattr(autograd, "KERNEL_DEVICES", set())


def kernels_and_lockstep(monkeypatch, function):
    with_kernels = function()
    monkeypatch.setattr(autograd, "KERNEL_DEVICES", set())
    return with_kernels, function()


# Both engines


@each_kind
@pytest.mark.parametrize("metric", METRICS)
def test_both_engines_return_the_same(monkeypatch, kind, metric):
    if kind in ("rounded", "zeros", "sparse", "denormal"):
        q = draw("dirichlet 1", 30, 9)[0] if kind == "zeros" else draw(kind, 30, 9)[0]
        q = q / q.sum(-1, keepdim=True)
        q[~q.isfinite()] = 1 / 9
    else:
        q = draw(kind, 30, 9)[0]
    mode = draw(kind, 30, 9)[1]
    for arguments in ({"mode": mode}, {}):
        ours, theirs = kernels_and_lockstep(
            monkeypatch,
            lambda arguments=arguments: (
                *um.project(q, metric=metric, return_mode=True, **arguments),
                um.distance(q, metric=metric, **arguments),
            ),
        )
        monkeypatch.undo()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


# Gradients


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_classes", [2, 3, 5, 12])
@pytest.mark.parametrize("engine", ["kernels", "lockstep"])
def test_the_slope_is_the_derivative_away_from_kinks(monkeypatch, metric, n_classes, engine):
    if engine == "lockstep":
        monkeypatch.setattr(autograd, "KERNEL_DEVICES", set())
    q, mode = draw("dirichlet 10", 6, n_classes)
    # where the nearest is the row itself the euclidean distance has a kink
    far = um.distance(q, mode) > 1e-3
    q, mode = q[far].requires_grad_(), mode[far]
    for some in (mode, None):
        kink = some is None and bool((um.distance(q.detach(), None) < 1e-3).any())
        if len(q) and not kink:
            assert torch.autograd.gradcheck(lambda p, some=some: um.distance(p, some, metric), (q,))


@each_kind
@pytest.mark.parametrize("n_classes", [2, 3, 6, 20])
def test_on_kinks_the_slope_supports_the_distance_from_below(kind, n_classes):
    """For a fixed mode the distance is convex in q: any subgradient's plane lies below it."""
    if kind in ("rounded", "zeros", "sparse", "denormal"):
        kind = "one-hot"
    q, mode = draw(kind, 20, n_classes)
    q.requires_grad_()
    value = um.distance(q, mode)
    (slope,) = torch.autograd.grad(value.sum(), q)
    elsewhere = draw("dirichlet 1", 20, n_classes)[0]
    for weight in (1e-3, 0.1, 1.0):
        other = (1 - weight) * q.detach() + weight * elsewhere
        plane = value + (slope * (other - q)).sum(-1)
        assert bool((um.distance(other, mode) >= plane - 1e-12).all())


def test_the_second_derivative_of_w1_is_zero_and_of_the_others_refused():
    q, mode = draw("dirichlet 1", 5, 6)
    q.requires_grad_()
    (slope,) = torch.autograd.grad(um.distance(q, mode).square().sum(), q, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), q)
    # of the square it is 2 s s', by the product rule
    (plain,) = torch.autograd.grad(um.distance(q, mode).sum(), q)
    torch.testing.assert_close(second, 2 * plain * plain.sum(-1, keepdim=True))
    for metric in OTHER_METRICS:
        (slope,) = torch.autograd.grad(um.distance(q, mode, metric).sum(), q, create_graph=True)
        with pytest.raises(RuntimeError, match="can be differentiated twice in metric 'w1' only"):
            torch.autograd.grad(slope.square().sum(), q)


def test_projections_carry_no_gradient():
    q = torch.tensor([0.5, 0.1, 0.4], requires_grad=True)
    assert not um.project(q).requires_grad
    assert um.distance(q).requires_grad


# Transforms


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("engine", ["kernels", "lockstep"])
def test_vmap(monkeypatch, metric, engine):
    if engine == "lockstep":
        monkeypatch.setattr(autograd, "KERNEL_DEVICES", set())
    q, mode = draw("dirichlet 1", 12, 5)
    q, mode = q.reshape(3, 4, 5), mode.reshape(3, 4)
    vmap, grad = torch.func.vmap, torch.func.grad

    def value(p, m=None):
        return um.distance(p, m, metric)

    torch.testing.assert_close(vmap(value)(q, mode), value(q, mode))
    torch.testing.assert_close(vmap(vmap(value))(q, mode), value(q, mode))
    torch.testing.assert_close(vmap(value)(q), value(q))
    torch.testing.assert_close(vmap(value, in_dims=(1, None))(q.movedim(0, 1), mode[0]), value(q, mode[0]))
    torch.testing.assert_close(vmap(lambda p: value(p, 2))(q), value(q, 2))
    torch.testing.assert_close(vmap(lambda p: um.project(p, 2, metric))(q), um.project(q, 2, metric))
    slopes = grad(lambda p: value(p, mode).sum())(q)
    torch.testing.assert_close(vmap(vmap(grad(value)))(q, mode), slopes)


def test_bad_rows_are_named_inside_vmap_too():
    q = torch.tensor([[[0.5, 0.5]], [[0.5, 0.6]]])
    with pytest.raises(ValueError, match=r"q must sum to 1, got 1\.1"):
        torch.func.vmap(um.distance)(q)


def test_under_autocast_the_computation_is_not_rounded():
    q = torch.softmax(torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), -1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = um.distance(q, 2)
        half = um.distance(q.bfloat16(), 2)
    assert inside.dtype == half.dtype == torch.float32
    assert torch.equal(inside, um.distance(q, 2))
    torch.testing.assert_close(half, inside, rtol=0, atol=0.05)


@pytest.mark.parametrize("metric", METRICS)
def test_compile_and_export(metric):
    """In a process of its own: the compiler can't see through the run-time shape checks of the tests."""
    run(
        f"""
        import torch, unimodal as um
        q = torch.softmax(torch.randn(6, 5), -1).requires_grad_()
        f = lambda q: um.distance(q, 2, {metric!r}).sum()
        a, = torch.autograd.grad(torch.compile(f, backend="aot_eager", fullgraph=True)(q), q)
        b, = torch.autograd.grad(f(q), q)
        torch.testing.assert_close(a, b)
        class Nearest(torch.nn.Module):
            def forward(self, q):
                return um.project(q, 2, {metric!r})
        n = torch.export.Dim("n")
        program = torch.export.export(Nearest(), (q.detach(),), dynamic_shapes=({{0: n}},))
        more = torch.softmax(torch.randn(9, 5), -1)
        assert torch.equal(program.module()(more), um.project(more, 2, {metric!r}))
    """,
        warnings="default",
    )


# Regularisation


@pytest.mark.parametrize("penalty", METRICS)
@pytest.mark.parametrize("projection", METRICS)
def test_any_pair_of_projection_and_penalty(projection, penalty):
    method = um.make_method("wu-wass", 5, lam=3.0, projection=projection, penalty=penalty)
    outputs = torch.randn(9, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.arange(9) % 5
    log_p = method.log_prob(outputs)
    nearest = um.project(log_p.exp(), y, projection)
    penalties = divergence(torch, log_p.exp(), log_p, nearest, penalty)
    expected = 3 * penalties - log_p.gather(1, y[:, None]).squeeze(1)
    torch.testing.assert_close(method.loss(outputs, y), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_a_pair_of_equals_has_the_gradient_of_the_distance(metric):
    method = um.make_method("wu-wass", 5, projection=metric, penalty=metric).double()
    outputs = torch.randn(9, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    outputs.requires_grad_()
    y = torch.arange(9) % 5
    assert torch.autograd.gradcheck(lambda z: method.loss(z, y), (outputs,))


def test_the_target_of_wu_kl_is_held_constant():
    method = um.make_method("wu-kl", 5)
    outputs = torch.randn(9, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    outputs.requires_grad_()
    y = torch.arange(9) % 5
    target = um.project(method.log_prob(outputs.detach()).exp(), y)

    def with_target(z):
        log_p = torch.log_softmax(z, -1)
        return (torch.special.xlogy(target, target) - target * log_p).sum(-1) - log_p.gather(1, y[:, None])[
            :, 0
        ]

    (slope,) = torch.autograd.grad(method.loss(outputs, y).sum(), outputs)
    (expected,) = torch.autograd.grad(with_target(outputs).sum(), outputs)
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("penalty", METRICS)
@pytest.mark.parametrize("projection", METRICS)
def test_every_pair_is_finite_where_probabilities_underflow(projection, penalty):
    objective = NearestUnimodal(projection=projection, penalty=penalty)
    head = um.make_method("ce", 6).head
    outputs = torch.tensor([[1e4, 0, -1e4, 5e3, 0, 0], [0, 200, 0, 0, 200, 0], [0.0, 0, 0, 0, 0, 0]])
    for label in range(6):
        z = outputs.clone().requires_grad_()
        loss = objective(head, z, torch.full((3,), label))
        assert bool(loss.isfinite().all())
        (slope,) = torch.autograd.grad(loss.sum(), z)
        assert bool(slope.isfinite().all())


@pytest.mark.parametrize("name", ["wu-wass", "wu-kl"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_training_that_has_diverged_sees_nan_in_its_own_rows(name, bad):
    method = um.make_method(name, 6)
    outputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 3, 5, 1])
    expected = method.loss(outputs, y)
    outputs[2, 3] = bad
    found = method.loss(outputs, y)
    assert found.isnan().tolist() == [False, False, True, False]
    assert torch.equal(found[[0, 1, 3]], expected[[0, 1, 3]])


@pytest.mark.parametrize("name", ["wu-wass", "wu-kl"])
def test_labels_that_nobody_could_check_are_checked_before_the_kernels(name):
    """Under vmap a method sees no values, and its objective alone looks at none."""
    method = um.make_method(name, 5)
    outputs, y = torch.randn(3, 4, 5), torch.zeros(3, 4, dtype=torch.long)
    for label in (5, 5_000_000, -1):
        y[1, 2] = label
        for loss in (torch.func.vmap(method.loss), lambda z, y: method.objective(method.head, z, y)):
            with pytest.raises(ValueError, match=rf"mode must lie in \[0, 4\], got {label}"):
                loss(outputs, y)


def test_a_lambda_with_more_axes_than_the_labels_and_one_that_wants_a_gradient():
    outputs, y = torch.randn(4, 5), torch.tensor([0, 1, 2, 4])
    lam = torch.tensor([[0.1], [1.0], [2.0]], requires_grad=True)
    losses = um.make_method("wu-wass", 5, lam=lam).loss(outputs, y)
    single = [um.make_method("wu-wass", 5, lam=value).loss(outputs, y) for (value,) in lam.tolist()]
    torch.testing.assert_close(losses, torch.stack(single))
    (slope,) = torch.autograd.grad(losses.sum(), lam)
    distance = um.distance(torch.softmax(outputs, -1), y).sum()
    torch.testing.assert_close(slope, distance.expand(3, 1))


# Threads and processes


def run(code, warnings="error", **environment):
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_any_number_of_threads_may_project_at_once():
    from concurrent.futures import ThreadPoolExecutor

    q, mode = (part.numpy() for part in mixed(100, 20, [k for k in KINDS if "dirichlet" in k]))
    expected = um.project(q, mode)
    with ThreadPoolExecutor(16) as pool:
        for found in pool.map(lambda _: um.project(q, mode), range(64)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_may_be_forked_and_spawned_after_projecting(method, tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(
        textwrap.dedent(f"""
            import multiprocessing
            import numpy as np
            import unimodal as um

            q = np.random.default_rng(0).dirichlet(np.ones(9), 20000)

            def work(_):
                return um.project(q)

            if __name__ == "__main__":
                expected = um.project(q)
                with multiprocessing.get_context({method!r}).Pool(2) as pool:
                    assert all((found == expected).all() for found in pool.map(work, range(4)))
        """)
    )
    run(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")


def test_where_nothing_can_be_written_kernels_are_compiled_all_the_same(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    code = "import unimodal as um; print(um.project([0.5, 0.0, 0.5], 0))"
    assert run(code, NUMBA_CACHE_DIR=str(blocked / "cache")).strip() == "[0.5  0.25 0.25]"


def test_kernels_of_other_folders_are_compiled_anew_when_their_file_has_changed(tmp_path):
    path = tmp_path / "kernels_elsewhere.py"
    source = "from unimodal.projection.compiled import kernel\n@kernel\ndef number(x):\n    return x + {}\n"
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom kernels_elsewhere import number\n"
    for age, number in enumerate((1, 2)):
        path.write_text(source.format(number))
        os.utime(path, (age + 1e9, age + 1e9))
        assert run(code + "print(number(1))", PYTHONDONTWRITEBYTECODE="1").strip() == str(1 + number)
