"""One list, METHODS, drives every property that a method must have: its numbers."""

import pytest
import reference
import torch
from every_method import HARD, NAMES, SIZES, VARIANTS, draw, make, valley

import unimodal as um
from unimodal.heads.numerics import unimodal_hull
from unimodal.methods import METHODS


@pytest.mark.parametrize("n_classes", [*SIZES, 1000])
@pytest.mark.parametrize(("name", "published"), VARIANTS)
def test_log_probabilities_are_normalised(name, published, n_classes):
    method = make(name, n_classes, published=published)
    outputs, _ = draw(method, 7, dtype=torch.float32)
    log_prob = method.log_prob(outputs)
    assert log_prob.shape == (7, n_classes)
    assert log_prob.dtype == torch.float32
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(7), rtol=0, atol=3e-5)


@pytest.mark.parametrize("n_classes", [*SIZES, 1000])
@pytest.mark.parametrize("name", HARD)
def test_hard_methods_are_unimodal_to_the_last_bit(name, n_classes):
    method = make(name, n_classes)
    for scale in (1e-3, 1.0, 5.0, 100.0, 1e4):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            outputs = draw(method, 500 if n_classes < 100 else 40, scale=scale)[0].to(dtype)
            assert valley(method.log_prob(outputs)) == 0.0
            assert valley(method.log_prob(outputs.movedim(-1, 0).contiguous(), dim=0), dim=0) == 0.0


def test_a_sum_that_is_not_monotone_is_mended_where_it_is_computed_in_parallel():
    heights = torch.tensor(
        [[0.0, 1.0, 0.75, 2.0, 3.0, 1.5, 1.75, 0.5], [1.0, 2.0, 3.0, 2.5, 2.0, 2.0, 1.0, 0.0]]
    )
    mended = unimodal_hull(heights, dim=-1)
    assert mended.tolist() == [[0.0, 1.0, 1.0, 2.0, 3.0, 1.75, 1.75, 0.5], heights[1].tolist()]
    assert torch.equal(unimodal_hull(heights.T, dim=-2), mended.T)


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


@pytest.mark.parametrize(("published", "floor"), [(True, 0.398), (False, 0.059)])
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


@pytest.mark.parametrize(
    ("name", "published"), [variant for variant in VARIANTS if variant[0] != "wu-kl"]
)  # which holds its target constant: its gradient is tested beside the projection
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


@pytest.mark.parametrize("name", ["un", "ord-acl", "vs-sl", "cdw", "wu-wass"])
def test_gradients_written_by_hand_can_be_differentiated_again(name):
    method = make(name, 4)
    outputs, y = draw(method, 4, seed=1)
    outputs.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: method.loss(z, y), (outputs,))


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
