"""PyTorch's own threads: the same numbers as without them, and a way on wherever they are not to be had."""

import os
import subprocess
import sys

import pytest
import torch

from unimodal.projection import team, training


def problem(n_rows=64, n_classes=100, seed=0):
    generator = torch.Generator().manual_seed(seed)
    log_p = torch.randn(n_rows, n_classes, generator=generator).log_softmax(-1)
    return log_p, torch.randint(0, n_classes, (n_rows,), generator=generator)


def loss_and_slope(log_p, y, lam=3.0):
    log_p = log_p.clone().requires_grad_()
    loss = training.regularised_likelihood(log_p, y, lam)
    (slope,) = torch.autograd.grad(loss.sum(), log_p)
    return loss.detach(), slope


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch):
    """Whether a team did what it was asked to, call by call."""
    answers = []

    def recorded(*arguments):
        answers.append(team.run_in_team(*arguments))
        return answers[-1]

    monkeypatch.setattr(training, "run_in_team", recorded)
    return answers


@pytest.mark.parametrize("n_rows", [33, 64, 501])
def test_a_team_computes_the_same_to_the_bit(monkeypatch, two_threads, calls, n_rows):
    log_p, y = problem(n_rows)
    lam = torch.linspace(0.0, 9.0, n_rows)
    with monkeypatch.context() as alone:
        if team._library() is not None:
            alone.delattr(training, "over_rows")  # not one row is left to others
        together = loss_and_slope(log_p, y, lam)
    assert calls == [team._library() is not None]
    monkeypatch.setattr(training, "run_in_team", lambda *_: False)
    for ours, theirs in zip(together, loss_and_slope(log_p, y, lam), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PyTorch brings GNU's library on Linux only")
def test_the_library_of_pytorch_is_found():
    assert team._library() is not None


def test_little_work_and_double_precision_are_not_for_the_team(two_threads, calls):
    loss_and_slope(*problem(4, 5))
    log_p, y = problem()
    loss_and_slope(log_p.double(), y)
    assert calls == []


def test_a_row_that_is_not_certified_ends_on_the_general_path(two_threads, calls):
    log_p, y = problem()
    log_p[5, 3] = torch.nan
    assert training.regularised_likelihood(log_p, y, 1.0) is None
    assert len(calls) == 1


def test_without_the_library_and_after_a_fork_helpers_do_it(monkeypatch, two_threads):
    log_p, y = problem()
    expected = loss_and_slope(log_p, y)
    monkeypatch.setattr(team, "_library", lambda: None)
    assert not team.run_in_team(training._regularise_part, [], 2)
    assert torch.equal(loss_and_slope(log_p, y)[1], expected[1])
    monkeypatch.undo()
    monkeypatch.setattr(team, "_is_forked", True)
    assert not team.run_in_team(training._regularise_part, [], 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_without_the_team():
    code = """
import os, sys, torch
from unimodal.projection import team, training
torch.set_num_threads(2)
log_p = torch.randn(64, 100).log_softmax(-1)
y = torch.randint(0, 100, (64,))
mine = training.regularised_likelihood(log_p, y, 1.0)
child = os.fork()
if child == 0:
    same = torch.equal(training.regularised_likelihood(log_p, y, 1.0), mine)
    os._exit(0 if same and team._is_forked else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "0", done.stderr
