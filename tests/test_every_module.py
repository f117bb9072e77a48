"""One list, METHODS, drives every property that a method must have: its behaviour as a PyTorch module."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from every_method import NAMES, VARIANTS, draw, make

from unimodal.methods import METHODS


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
