"""Inputs on which other libraries, or the paper's own code, were seen to fail: here each must be right."""

import math
import pickle

import pytest
import torch

from unimodal import make_method
from unimodal.objectives.soft_labels import TARGETS


def confidently_wrong(n_classes, logit, dtype=torch.float32):
    outputs = torch.zeros(1, n_classes, dtype=dtype)
    outputs[0, 0] = logit
    return outputs.requires_grad_(), torch.tensor([n_classes - 1])


@pytest.mark.parametrize("logit", [12.0, 89.0, 1000.0])
def test_cdw_at_logits_where_one_minus_p_rounds_to_zero(logit):
    method = make_method("cdw", 5)
    outputs, y = confidently_wrong(5, logit)
    loss = method.loss(outputs, y)
    # 4^5 log(1 - p_0) outweighs everything, and 1 - p_0 is 4 e^-logit
    assert loss.item() == pytest.approx(4**5 * (logit - math.log(4)), rel=1e-3)
    (slope,) = torch.autograd.grad(loss.sum(), outputs)
    assert slope[0, 0].item() == pytest.approx(4**5, rel=1e-3)


def test_cdw_weighs_by_the_fifth_power_as_its_paper_does():
    assert make_method("cdw", 5).objective.alpha == 5.0


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog", "cauchit"])
@pytest.mark.parametrize("output", [-300.0, -20.0, 20.0, 300.0])
def test_cumulative_links_keep_a_gradient_in_both_tails(link, output):
    method = make_method("pom", 5, link=link)
    outputs = torch.full((5, 1), output, requires_grad=True)
    loss = method.loss(outputs, torch.arange(5))
    assert bool(loss.isfinite().all())
    (slope,) = torch.autograd.grad(loss.sum(), outputs)
    assert bool(slope.isfinite().all())
    wrong = 0 if output > 0 else 4
    assert abs(slope[wrong].item()) > 1e-3  # a wrong and certain sample still pulls


def test_cumulative_log_probabilities_are_not_capped():
    method = make_method("pom", 3).double()
    outputs = torch.tensor([[400.0]], dtype=torch.float64)
    assert method.loss(outputs, torch.tensor([0])).item() == pytest.approx(400 + math.log(2), rel=1e-6)


def test_the_largest_probability_of_the_cumulative_model_can_be_one():
    method = make_method("pom", 5)
    assert method.log_prob(torch.tensor([[50.0]])).exp().max().item() == pytest.approx(1.0)


def test_two_classes_are_enough_for_every_threshold_model():
    for name in ("pom", "oe", "stick", "ord-acl"):
        assert make_method(name, 2).log_prob(torch.zeros(1, 1)).exp().tolist() == [[0.5, 0.5]]


def test_stick_breaking_leaves_the_own_stick_out():
    method = make_method("stick", 5)
    p = method.log_prob(torch.zeros(4)).exp()
    torch.testing.assert_close(p, torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625]))
    assert method.log_prob(torch.full((4,), -9.0)).exp()[-1].item() > 0.99


@pytest.mark.parametrize("n_classes", [2, 5, 15, 70])
@pytest.mark.parametrize("target", TARGETS)
def test_soft_labels_peak_at_the_label_for_every_class(target, n_classes):
    y = torch.arange(n_classes)
    soft = TARGETS[target](y, torch.zeros(n_classes, n_classes), 1.0, -1)
    assert bool((soft.gather(1, y[:, None]) >= soft).all())
    torch.testing.assert_close(soft.exp().sum(-1), torch.ones(n_classes), rtol=0, atol=1e-5)
    if target != "uniform":
        assert torch.equal(soft.argmax(-1), y)


@pytest.mark.parametrize("target", TARGETS)
def test_every_soft_label_of_ur_trains(target):
    method = make_method("ur", 6, target=target)
    outputs, y = confidently_wrong(6, 3.0)
    (slope,) = torch.autograd.grad(method.loss(outputs, y).sum(), outputs)
    assert slope[0, 0].item() > 0


@pytest.mark.parametrize("output", [-104.0, -1000.0])
def test_poisson_below_the_underflow_of_softplus(output):
    log_prob = make_method("pu", 4).log_prob(torch.tensor([output]))
    # log λ is the output itself there: p_k ∝ λ^k / k!
    expected = [0.0, output - math.log(2), 2 * output - math.log(6), 3 * output - math.log(24)]
    torch.testing.assert_close(log_prob, torch.tensor(expected), rtol=1e-5, atol=1e-3)


def test_v_shaped_stereotype_at_logits_of_fifty():
    log_prob = make_method("vs-sl", 5).log_prob(torch.full((5,), 50.0))
    assert log_prob.argmax().item() == 0
    assert bool(log_prob.isfinite().all())


@pytest.mark.parametrize("name", ["oe", "pom"])
@pytest.mark.parametrize("published", [True, False])
def test_native_decisions_of_threshold_models(name, published):
    method = make_method(name, 5, published=published)
    outputs = torch.randn(20, method.n_outputs, generator=torch.Generator().manual_seed(0))
    above = torch.sigmoid(method.head.exceedance_logits(outputs))
    assert torch.equal(method.predict(outputs), (above >= 0.5).sum(-1))


@pytest.mark.parametrize("name", ["oe", "co2", "cdw", "wu-wass", "pom"])
def test_float16_outputs_do_not_overflow(name):
    method = make_method(name, 5)
    outputs = torch.full((5, method.n_outputs), 60000.0, dtype=torch.float16)
    assert bool(method.loss(outputs, torch.arange(5)).isfinite().all())


@pytest.mark.parametrize("name", ["oe", "stick", "un"])
def test_probabilities_agree_after_pickling(name):
    method = make_method(name, 5)
    outputs = torch.randn(3, method.n_outputs)
    assert torch.equal(pickle.loads(pickle.dumps(method))(outputs), method(outputs))


@pytest.mark.parametrize("name", ["ce", "oe", "cdw", "wu-wass", "pom"])
def test_the_rarest_class_can_be_weighted_class_zero_included(name):
    """One loss per sample, unreduced: weights of any class are a multiplication away."""
    method = make_method(name, 3)
    outputs = torch.randn(4, method.n_outputs, requires_grad=True)
    y = torch.tensor([0, 1, 2, 0])
    weights = torch.tensor([5.0, 1.0, 1.0])
    (slope,) = torch.autograd.grad((weights[y] * method.loss(outputs, y)).sum(), outputs)
    (plain,) = torch.autograd.grad(method.loss(outputs, y).sum(), outputs)
    torch.testing.assert_close(slope, weights[y][:, None] * plain)
