"""One list, METHODS, drives every property that a method must have."""

import copy
import pickle
import subprocess
import sys

import pytest
import reference
import torch

import unimodal as um
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


@pytest.mark.parametrize("n_classes", (*SIZES, 1000))
@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_log_probabilities_are_normalised(name, published, n_classes):
    method = make(name, n_classes, published=published)
    outputs, _ = draw(method, 7, dtype=torch.float32)
    log_prob = method.log_prob(outputs)
    assert log_prob.shape == (7, n_classes)
    assert log_prob.dtype == torch.float32
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(7), rtol=0, atol=3e-5)


@pytest.mark.parametrize("n_classes", (*SIZES, 1000))
@pytest.mark.parametrize("name", HARD)
def test_hard_methods_are_unimodal_to_the_last_bit(name, n_classes):
    method = make(name, n_classes)
    for scale in (1e-3, 1.0, 5.0, 100.0, 1e4):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            outputs = draw(method, 500 if n_classes < 100 else 40, scale=scale)[0].to(dtype)
            assert valley(method.log_prob(outputs)) == 0.0
            assert valley(method.log_prob(outputs.movedim(-1, 0).contiguous(), dim=0), dim=0) == 0.0


@pytest.mark.parametrize("name", ["ce", "oe", "stick"])
def test_free_methods_do_reach_several_peaks(name):
    method = make(name, 10)
    assert valley(method.log_prob(draw(method, 100)[0])) > 0.1


@pytest.mark.parametrize("family", ["hard", "non-unimodal", "soft"])
def test_the_families_are_what_the_heads_do(family):
    for method in METHODS.values():
        if method.family == family:
            assert method.always_unimodal == (family == "hard")


@pytest.mark.parametrize("n_classes", [2, 3, 5, 9])
@pytest.mark.parametrize("name", NAMES)
def test_agreement_with_the_slow_definition(name, n_classes):
    method = make(name, n_classes).double()
    outputs, y = draw(method, 12, scale=0.7)
    log_prob, losses = method.log_prob(outputs), None
    expected = [reference.probabilities(name, z, n_classes) for z in outputs.tolist()]
    # the learned thresholds start from float32 numbers, everything else is float64 throughout
    precision = 1e-6 if name == "pom" else 1e-11
    torch.testing.assert_close(
        log_prob.exp(), torch.tensor(expected, dtype=torch.float64), rtol=precision, atol=precision
    )
    if name == "wu-kl":
        nearest = um.project(log_prob.exp(), y)
        slow = [
            reference.nll(p, label) + sum(a * torch.log(a / b) for a, b in zip(near, p, strict=True) if a > 0)
            for p, near, label in zip(log_prob.exp(), nearest, y.tolist(), strict=True)
        ]
    else:
        slow = [
            reference.loss(name, z, k, n_classes) for z, k in zip(outputs.tolist(), y.tolist(), strict=True)
        ]
    losses = method.loss(outputs, y)
    torch.testing.assert_close(
        losses, torch.tensor(slow, dtype=torch.float64), rtol=max(precision, 1e-9), atol=max(precision, 1e-9)
    )


def test_published_variants():
    pom = make("pom", published=True).double()
    outputs, y = draw(pom, 6)
    for z, label, loss in zip(outputs.tolist(), y.tolist(), pom.loss(outputs, y).tolist(), strict=True):
        assert loss == pytest.approx(reference.binary([reference.sigmoid(z[0])] * 4, label), abs=1e-11)
    ur = make("ur", published=True)
    outputs, y = draw(ur, 6)
    for z, label, loss in zip(outputs.tolist(), y.tolist(), ur.loss(outputs, y).tolist(), strict=True):
        p = reference.softmax(z, 5)
        assert loss == pytest.approx(reference.smoothed(p, label, published=True), abs=1e-11)


@pytest.mark.parametrize(("published", "floor"), [(True, 0.398), (False, 0.064)])
def test_the_swapped_weights_of_ur_keep_the_nll_away_from_zero(published, floor):
    """Car's classes: at the optimum of the published loss even a perfect classifier has NLL 0.40."""
    ur = make("ur", 4, published=published)
    y = torch.arange(4)
    f = torch.softmax(-(torch.arange(4.0) - y[:, None]).abs(), -1)
    share = 0.85 if published else 0.15
    optimum = (share * f + (1 - share) * torch.eye(4)).log().requires_grad_()
    (slope,) = torch.autograd.grad(ur.loss(optimum, y).sum(), optimum)
    torch.testing.assert_close(slope, torch.zeros(4, 4), rtol=0, atol=1e-6)
    counts = torch.tensor([1210.0, 384.0, 69.0, 65.0])
    nll = -(optimum.detach().diagonal() * counts).sum() / counts.sum()
    assert float(nll) == pytest.approx(floor, abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_not_negative(name):
    method = make(name, 6)
    outputs, y = draw(method, 200, scale=4.0)
    assert float(method.loss(outputs, y).detach().min()) >= 0


@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_gradcheck(name, published):
    for n_classes in (3, 5):
        method = make(name, n_classes, published=published).double()
        outputs, y = draw(method, 6, seed=n_classes)
        outputs.requires_grad_()
        assert torch.autograd.gradcheck(method.log_prob, (outputs,))
        assert torch.autograd.gradcheck(lambda z, m=method, y=y: m.loss(z, y), (outputs,))
        params = tuple(method.parameters())
        if params:
            loss = method.loss(outputs, y).sum()
            for gradient in torch.autograd.grad(loss, params):
                assert bool(gradient.isfinite().all())
                assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog", "cauchit"])
def test_links(link):
    for n_classes in (2, 3, 8):
        pom = make("pom", n_classes, link=link).double()
        outputs, y = draw(pom, 8)
        expected = [reference.cumulative(z, n_classes, link) for z in outputs.tolist()]
        torch.testing.assert_close(
            pom.log_prob(outputs).exp(), torch.tensor(expected, dtype=torch.float64), rtol=2e-6, atol=1e-7
        )
        start = pom.log_prob(torch.zeros(1, 1, dtype=torch.float64))
        torch.testing.assert_close(start.exp(), torch.full_like(start, 1 / n_classes), rtol=1e-6, atol=0)
        assert torch.autograd.gradcheck(lambda z, m=pom, y=y: m.loss(z, y), (outputs.requires_grad_(),))
        assert torch.autograd.gradcheck(
            lambda *_, m=pom, z=outputs, y=y: m.loss(z, y), tuple(pom.parameters())
        )


EXTREMES = (0.0, 1e-30, 20.0, -20.0, 50.0, -50.0, 89.0, -104.0, 1e3, -1e3, 1e4, -1e4)


@pytest.mark.parametrize("n_classes", [2, 5, 1000])
@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_finite_at_extreme_outputs(name, published, n_classes):
    if name == "pom":
        methods = [make(name, n_classes, published=published)]
        if not published:
            methods += [make(name, n_classes, link=k) for k in ("probit", "cloglog", "loglog", "cauchit")]
    else:
        methods = [make(name, n_classes, published=published)]
    for method in methods:
        rows = [torch.full((method.n_outputs,), value) for value in EXTREMES]
        rows += [
            draw(method, scale=scale, seed=int(scale), dtype=torch.float32)[0].clamp(-1e4, 1e4)
            for scale in (30, 300, 9000)
        ]
        alternating = torch.ones(method.n_outputs)
        alternating[1::2] = -1
        rows += [alternating * 1e4, alternating * -1e4]
        outputs = torch.stack(rows).requires_grad_()
        for label in sorted({0, 1, n_classes // 2, n_classes - 1}):
            log_prob = method.log_prob(outputs)
            assert bool(log_prob.isfinite().all())
            loss = method.loss(outputs, torch.full((len(rows),), label))
            assert bool(loss.isfinite().all())
            inputs = (outputs, *method.parameters())
            used = torch.autograd.grad(loss.sum(), inputs, allow_unused=True)
            assert all(bool(g.isfinite().all()) for g in used if g is not None)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_and_half_precision_outputs(name):
    method = make(name)
    outputs, y = draw(method, 9, scale=3.0)
    outputs = outputs.bfloat16()
    expected = method.loss(outputs.float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = method.loss(outputs, y)
        single = method.loss(outputs.float(), y)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(single, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_batch_of_one_and_empty_batch(name):
    method = make(name)
    outputs, y = draw(method, 3)
    losses = method.loss(outputs, y)
    torch.testing.assert_close(method.loss(outputs[1:2], y[1:2]), losses[1:2])
    assert method.loss(outputs[:0], y[:0]).shape == (0,)
    assert method.log_prob(outputs[:0]).shape == (0, 5)
    assert method.predict(outputs[:0]).shape == (0,)
    torch.testing.assert_close(method.loss(outputs[0], y[0]), losses[0])


@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_any_layout_gives_the_same_numbers(name, published):
    """(n, K), (runs, n, K), class-major (runs, K, n), strided: one sample at a time agrees with all."""
    method = make(name, published=published)
    outputs, y = draw(method, 3, 4)
    losses, log_prob, decisions = method.loss(outputs, y), method.log_prob(outputs), method.predict(outputs)
    for run in range(3):
        for i in range(4):
            torch.testing.assert_close(method.loss(outputs[run, i], y[run, i]), losses[run, i])
    for dim in (0, 1, 2, -1, -2, -3):
        moved = outputs.movedim(-1, dim)
        for layout in (moved, moved.contiguous()):
            torch.testing.assert_close(method.loss(layout, y, dim=dim), losses)
            torch.testing.assert_close(method.log_prob(layout, dim=dim).movedim(dim, -1), log_prob)
            assert torch.equal(method.predict(layout, dim=dim), decisions)
    flipped = method.loss(outputs.flip(0), y.flip(0)).flip(0)
    torch.testing.assert_close(flipped, losses)


PER_RUN = {
    "lam": (0.5, 1.0, 30.0),
    "alpha": (1.0, 2.5, 5.0),
    "eta": (0.1, 0.15, 0.4),
    "delta": (0.0, 0.05, 0.2),
    "tau": (0.5, 1.0, 2.0),
}


@pytest.mark.parametrize("dim", [-1, -2])
@pytest.mark.parametrize("name", NAMES)
def test_parameters_per_run(name, dim):
    defaults = METHODS[name].default_params
    for parameter, values in PER_RUN.items():
        if not isinstance(defaults.get(parameter), float):
            continue
        method = make(name, **{parameter: torch.tensor(values, dtype=torch.float64)[:, None]})
        outputs, y = draw(method, 3, 4)
        stacked = method.loss(outputs.movedim(-1, dim), y, dim=dim)
        for run, value in enumerate(values):
            single = make(name, **{parameter: value}).loss(outputs[run], y[run])
            torch.testing.assert_close(stacked[run], single)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_equals_the_batch(name):
    method = make(name)
    outputs, y = draw(method, 3, 4)
    torch.testing.assert_close(torch.func.vmap(method.loss)(outputs, y), method.loss(outputs, y))
    torch.testing.assert_close(torch.func.vmap(method.log_prob)(outputs), method.log_prob(outputs))

    def total(z, y):
        return method.loss(z, y).sum()

    per_run = torch.func.vmap(torch.func.grad(total))(outputs, y)
    torch.testing.assert_close(per_run, torch.func.grad(total)(outputs, y))


@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_pickle_deepcopy_and_state_dict(name, published):
    method = make(name, published=published)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(torch.randn_like(parameter))
    outputs, y = draw(method, 5)
    expected = method.loss(outputs, y)
    fresh = make(name, published=published)
    fresh.load_state_dict(method.state_dict())
    for twin in (copy.deepcopy(method), pickle.loads(pickle.dumps(method)), fresh):
        assert torch.equal(twin.loss(outputs, y), expected)
        assert repr(twin) == repr(method)


@pytest.mark.parametrize("name", NAMES)
def test_tensor_parameters_move_with_the_module(name):
    for parameter, values in PER_RUN.items():
        if isinstance(METHODS[name].default_params.get(parameter), float):
            method = make(name, **{parameter: torch.tensor(values)[:, None]}).to("meta")
            assert {b.device.type for b in method.buffers()} == {"meta"}
    method = make(name)
    assert {p.device.type for p in method.to("meta").parameters()} <= {"meta"}


@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_heads_export(name, published):
    head = make(name, published=published).head
    outputs = draw(make(name, published=published), 4, dtype=torch.float32)[0]
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(head, (outputs,), dynamic_shapes=({0: batch},))
    larger = outputs.repeat(3, 1)
    torch.testing.assert_close(program.module()(larger), head(larger), rtol=0, atol=1e-6)


def test_compile():
    """In a process of its own: the compiler can't see through the run-time shape checks of the tests."""
    code = """
import torch, unimodal as um
torch.manual_seed(0)
for name in ("ce", "un", "pom", "oe", "co2", "cdw", "ur", "wu-wass"):
    method = um.make_method(name, 5)
    z = torch.randn(6, method.n_outputs, requires_grad=True)
    y = torch.randint(0, 5, (6,))
    compiled = torch.compile(lambda z, y: method.loss(z, y).mean(), backend="aot_eager")
    a, = torch.autograd.grad(compiled(z, y), z)
    b, = torch.autograd.grad(method.loss(z, y).mean(), z)
    torch.testing.assert_close(a, b)
print("same")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_checked(name):
    method = make(name)
    outputs, _ = draw(method, 3)
    cases = {
        "y must lie in \\[0, 4\\], got 9 at row 1": torch.tensor([0, 9, 1]),
        "y must lie in \\[0, 4\\], got -1 at row 2": torch.tensor([0, 4, -1]),
        "y must hold integer labels, got torch.float32": torch.tensor([0.0, 1.0, 2.0]),
        "y must hold integer labels, got torch.bool": torch.tensor([True, False, True]),
        "y must have the shape of outputs without dim -1, \\(3,\\), got \\(2,\\)": torch.tensor([0, 1]),
        "y must have the shape of outputs without dim -1, \\(3,\\), got \\(3, 1\\)": torch.tensor(
            [[0], [1], [2]]
        ),
    }
    for message, y in cases.items():
        with pytest.raises(ValueError, match=message):
            method.loss(outputs, y)
    with pytest.raises(ValueError, match=r"got 7 at row \(1, 0\)"):
        method.loss(outputs.expand(2, 3, -1), torch.tensor([[0, 1, 2], [7, 8, 9]]))
    for dtype in (torch.uint8, torch.int8, torch.int32):
        y = torch.tensor([0, 4, 2], dtype=dtype)
        assert torch.equal(method.loss(outputs, y), method.loss(outputs, y.long()))


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_checked(name):
    method = make(name)
    wrong = torch.zeros(3, method.n_outputs + 1)
    with pytest.raises(
        ValueError, match=rf"outputs must have n_outputs={method.n_outputs} .* got shape \(3, "
    ):
        method.log_prob(wrong)
    with pytest.raises(ValueError, match="n_outputs"):
        method.loss(wrong, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"outputs must be floating point, got torch.int64"):
        method.log_prob(torch.zeros(3, method.n_outputs, dtype=torch.long))
    with pytest.raises(ValueError, match=r"dim must lie in \[-2, 1\] for shape .*, got 2"):
        method.log_prob(torch.zeros(3, method.n_outputs), dim=2)
    with pytest.raises(ValueError, match=r"got a scalar"):
        method.log_prob(torch.tensor(0.0))


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_decides(name):
    method = make(name)
    outputs, _ = draw(method, 50)
    p = method.log_prob(outputs).exp()
    assert torch.equal(method.predict(outputs, rule="mode"), p.argmax(-1))
    for rule in ("mode", "median", "mean", None):
        decided = method.predict(outputs, rule=rule)
        assert decided.dtype == torch.int64
        assert int(decided.min()) >= 0
        assert int(decided.max()) <= 4
    with pytest.raises(ValueError, match="rule must be one of 'mode', 'median', 'mean', got 'maximum'"):
        method.predict(outputs, rule="maximum")


def test_native_decisions_count_exceedances():
    oe = make("oe")
    outputs = torch.tensor([[1.0, -2.0, 3.0, -1.0], [-1.0, -1.0, -1.0, -1.0], [0.0, 0.0, 0.0, 0.0]])
    assert oe.predict(outputs).tolist() == [2, 0, 4]
    pom = make("pom", published=True)
    with torch.no_grad():
        pom.head.thresholds.copy_(torch.tensor([1.0, -1.0, 0.5, 2.0]))
    assert pom.predict(torch.tensor([[-3.0], [0.0], [0.7], [5.0]])).tolist() == [0, 1, 2, 4]
