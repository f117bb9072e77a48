"""The nearest unimodal distribution: exact, unique, and as a tool of its own."""

import numpy as np
import pytest
import reference
import torch
from distributions import KINDS, check_certificate, draw, each_kind, mixed

import unimodal as um
from unimodal.projection import kernels, rows, ties, transport
from unimodal.projection.compiled import allocating_kernel, exp, vectors
from unimodal.projection.divergences import METRICS
from unimodal.projection.lp import nearest_row

OTHER_METRICS = [metric for metric in METRICS if metric != "w1"]
DISTRIBUTIONS = [kind for kind in KINDS if kind not in ("rounded", "zeros", "sparse", "denormal")]


# The answer in W1


@each_kind
@pytest.mark.parametrize("n_classes", [1, 2, 3, 5, 8, 12, 30, 70, 150])
def test_primal_and_dual_solution_certify_each_other(kind, n_classes):
    q, mode = draw(kind, 60 if n_classes < 100 else 10, n_classes)
    p, value, slope, certified = kernels.solve(q.numpy(), mode.numpy())
    assert certified.all()
    check_certificate(q, mode, *map(torch.from_numpy, (p, value, slope)))


def test_a_thousand_classes_are_certified():
    q, mode = draw("dirichlet 1", 4, 1000)
    p, value, slope, certified = kernels.solve(q.numpy(), mode.numpy())
    assert certified.all()
    check_certificate(q, mode, *map(torch.from_numpy, (p, value, slope)))


@each_kind
@pytest.mark.parametrize("n_classes", [2, 3, 6, 11])
def test_the_distance_is_the_optimum_of_the_papers_program(kind, n_classes):
    q, mode = draw(kind, 5, n_classes)
    value = kernels.solve(q.numpy(), mode.numpy())[1]
    expected = [reference.transport_plan(row, m)[0] for row, m in zip(q.numpy(), mode.tolist(), strict=True)]
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-9)


@each_kind
@pytest.mark.parametrize("n_classes", [2, 4, 7, 12])
def test_the_nearest_is_the_one_that_the_tie_break_defines(kind, n_classes):
    q, mode = draw(kind, 5, n_classes)
    nearest = kernels.solve(q.numpy(), mode.numpy())[0]
    expected = [nearest_row(row, m)[0] for row, m in zip(q.numpy(), mode.tolist(), strict=True)]
    np.testing.assert_allclose(nearest, expected, rtol=0, atol=1e-9)


def test_the_known_example_of_two_equally_near_distributions():
    q, both = np.array([0.4, 0.3, 0.05, 0.25]), np.array([[1 / 4] * 4, [1 / 3, 1 / 3, 1 / 3, 0]])
    moved = np.abs(np.cumsum(both - q, axis=1)[:, :-1])
    np.testing.assert_allclose(moved.sum(axis=1), 0.35)
    p = um.project(q, mode=2)
    assert um.distance(q, mode=2) == pytest.approx(0.35, abs=1e-15)
    weight = ties.weights(4)[1:-1]
    assert np.abs(np.cumsum(p - q)[:-1]) @ weight <= (moved @ weight).min() + 1e-12


def test_ties_are_broken_by_weights_that_no_rational_relation_ties_again():
    weight = ties.weights(1000)[1:-1]
    assert len(np.unique(weight.round(9))) == 999
    assert 0.1 <= weight.min() <= weight.max() <= 1.1


def test_rows_that_are_not_certified_are_solved_by_the_program(monkeypatch):
    q, mode = draw("dirichlet 1", 6, 7)
    q, mode = q.numpy(), mode.numpy()
    expected = [um.project(q, mode), um.distance(q, mode), *um.project(q, return_mode=True)]

    def gives_up(function):
        def solve(*arguments):
            *parts, certified = function(*arguments)
            for part in parts:
                part[1::2] = -1
            certified[1::2] = False
            return (*parts, certified)

        return solve

    monkeypatch.setattr(kernels, "solve", gives_up(kernels.solve))
    monkeypatch.setattr(kernels, "best_mode_solve", gives_up(kernels.best_mode_solve))
    found = [um.project(q, mode), um.distance(q, mode), *um.project(q, return_mode=True)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


# The arithmetic of the kernels


@allocating_kernel
def every_exp(x):
    result = vectors(len(x))
    for i in range(len(x)):
        result[i] = exp(x[i])
    return result


def test_the_exponential_of_the_kernels_is_right_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([-rng.exponential(3, 20_000), rng.uniform(-707, 709, 20_000), [0.0, -0.0, -707, 709]])
    np.testing.assert_array_max_ulp(every_exp(x), np.exp(x), 2)
    edges = np.array([np.nan, np.inf, -np.inf, 710.0, 1e300, -746.0, -1e300])
    np.testing.assert_array_equal(every_exp(edges), [np.nan, np.inf, 0, np.inf, np.inf, 0, 0])
    assert 0 <= every_exp(np.array([-708.0]))[0] < 1e-306  # what is smaller may be lost


@pytest.mark.parametrize("size", [1, 2, 5, 8, 13, 104])
def test_scratch_space_begins_where_a_vector_of_the_processor_does(size):
    space = [every_exp(np.zeros(size)) for _ in range(20)]
    assert all(len(part) == size and part.ctypes.data % 64 == 0 for part in space)


# Other geometries


def slope_in_p(q, p, metric):
    if metric == "l2":
        return p - q
    if metric == "kl":
        return np.where(q > 0, -q / np.where(p > 0, p, 1), 0)
    return np.log(np.where(p > 0, p, 1e-300) / q)


@pytest.mark.parametrize("metric", OTHER_METRICS)
@pytest.mark.parametrize("kind", ["dirichlet 1", "dirichlet 10", "softmax 2", "uniform", "valley"])
@pytest.mark.parametrize("n_classes", [2, 3, 6, 12])
def test_no_corner_of_the_set_lies_in_a_direction_of_descent(metric, kind, n_classes):
    """The condition for a convex function to be least over the hull of the corners."""
    q, mode = (part.numpy() for part in draw(kind, 20, n_classes))
    p = um.project(q, mode, metric)
    np.testing.assert_allclose(p.sum(axis=1), q.sum(axis=1), rtol=1e-12)
    for row, m in enumerate(mode):
        assert um.simplex.is_unimodal(p[row], tol=0)
        assert p[row].max() == p[row, m]
        descent = slope_in_p(q[row], p[row], metric)
        assert ((um.simplex.extreme_points(n_classes, m) - p[row]) @ descent).min() >= -1e-10


@pytest.mark.parametrize("metric", OTHER_METRICS)
def test_distances_are_what_they_are_called(metric):
    q, mode = (part.numpy() for part in draw("dirichlet 1", 50, 5))
    p = um.project(q, mode, metric)
    expected = {
        "l2": np.linalg.norm(p - q, axis=1),
        "kl": (q * np.log(q / p)).sum(axis=1),
        "reverse-kl": (p * np.log(p / q)).sum(axis=1),
    }[metric]
    np.testing.assert_allclose(um.distance(q, mode, metric), expected, rtol=1e-9, atol=1e-12)


def test_zeros_in_the_divergences():
    q = np.array([0.5, 0.0, 0.5])
    np.testing.assert_allclose(um.project(q, 0, "kl"), [0.5, 0.25, 0.25])
    assert um.distance(q, 0, "kl") == pytest.approx(0.5 * np.log(2))
    assert (
        um.distance(q, 0, "reverse-kl") == 0.5 * np.log(2) + np.inf or um.project(q, 0, "reverse-kl")[2] == 0
    )
    assert um.distance([0.0, 1.0, 0.0], 1, "reverse-kl") == 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_what_is_unimodal_stays_as_it_is(metric, kind):
    q, mode = (part.numpy() for part in draw(kind, 20, 7))
    p = um.project(q, mode, "l2")
    np.testing.assert_array_equal(um.project(p, mode, metric), p)
    assert not um.distance(p, mode, metric).any()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_classes", [1, 2, 3, 5, 9])
def test_the_best_mode_is_the_lowest_of_the_nearest(metric, n_classes):
    q = torch.cat([draw(kind, 6, n_classes)[0] for kind in DISTRIBUTIONS]).numpy()
    every = np.array([um.distance(q, mode, metric) for mode in range(n_classes)])
    p, mode = um.project(q, metric=metric, return_mode=True)
    np.testing.assert_array_equal(mode, (every <= every.min(axis=0) + 1e-12).argmax(axis=0))
    np.testing.assert_array_equal(um.distance(q, metric=metric), np.choose(mode, every))
    np.testing.assert_array_equal(p, um.project(q, mode, metric))


def test_a_best_mode_is_sought_in_pieces_where_there_are_many_rows(monkeypatch):
    q = draw("dirichlet 1", 50, 5)[0].numpy()
    expected = um.project(q, metric="kl", return_mode=True)
    monkeypatch.setattr(rows, "_CHUNK", 200)
    for a, b in zip(um.project(q, metric="kl", return_mode=True), expected, strict=True):
        np.testing.assert_array_equal(a, b)


# Any cost


def test_the_program_with_cost_i_minus_j_is_w1():
    q, mode = (part.numpy() for part in draw("dirichlet 1", 20, 6))
    cost = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(um.distance(q, mode, cost=cost), um.distance(q, mode), atol=1e-9)
    nearest, best = um.project(q, cost=cost, return_mode=True)
    np.testing.assert_allclose(um.distance(q, cost=cost), um.distance(q), atol=1e-9)
    np.testing.assert_allclose(np.abs(np.cumsum(nearest - q, 1)).sum(1), um.distance(q), atol=1e-8)
    np.testing.assert_array_equal(best, um.project(q, return_mode=True)[1])


@pytest.mark.parametrize("seed", range(4))
def test_any_cost_is_the_papers_program(seed):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 8))
    cost = rng.random((n_classes, n_classes)) * (rng.random((n_classes, n_classes)) < 0.8)
    q, mode = (part.numpy() for part in draw("dirichlet 1", 6, n_classes))
    expected = [reference.transport_plan(row, m, cost)[0] for row, m in zip(q, mode, strict=True)]
    np.testing.assert_allclose(um.distance(q, mode, cost=cost), expected, atol=1e-9)
    p = um.project(q, mode, cost=cost)
    assert um.simplex.is_unimodal(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_squared_costs_give_the_squared_w2_distance():
    cost = np.subtract.outer(np.arange(5), np.arange(5)) ** 2
    q, p = np.array([0.3, 0.0, 0.4, 0.0, 0.3]), um.project([0.3, 0.0, 0.4, 0.0, 0.3], 2, cost=cost)
    grid = (np.arange(100_000) + 0.5) / 100_000  # W2 of distributions on a line compares quantiles
    quantiles = [np.searchsorted(np.cumsum(x), grid) for x in (q, p)]
    w2 = np.mean(np.subtract(*quantiles) ** 2)
    assert um.distance(q, 2, cost=cost) == pytest.approx(w2, abs=1e-4)


def test_a_program_without_a_solution_says_so():
    program = transport._Program(np.ones((3, 3)), 1)
    with pytest.raises(RuntimeError, match="the transport program was not solved"):
        program.nearest(np.array([-1.0, 1.0, 1.0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_kernels_leave_rows_with_nan_and_infinities_as_nan(bad):
    q, mode = (part.numpy() for part in draw("dirichlet 1", 5, 8))
    expected = (*kernels.solve(q, mode), *kernels.best_mode_solve(q), kernels.pooled(q, mode))
    q[3, 4] = bad
    found = (*kernels.solve(q, mode), *kernels.best_mode_solve(q), kernels.pooled(q, mode))
    assert not found[3][3]
    assert not found[8][3]
    for part in (found[0], found[1], found[4], found[5], found[9]):
        assert np.isnan(part[3]).all()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.delete(a, 3, axis=0), np.delete(b, 3, axis=0))


# As a tool


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 3), (0,), (2, 0)])
@pytest.mark.parametrize("metric", METRICS)
def test_any_leading_shape(shape, metric):
    q = np.random.default_rng(0).dirichlet(np.ones(4), size=shape)
    mode = np.random.default_rng(1).integers(4, size=shape)
    for array in (q, torch.tensor(q)):
        p, best = um.project(array, metric=metric, return_mode=True)
        assert tuple(p.shape) == (*shape, 4)
        assert tuple(best.shape) == shape
        assert tuple(um.distance(array, mode, metric).shape) == shape
    if q.size:
        flat = um.project(q.reshape(-1, 4), mode.reshape(-1), metric)
        np.testing.assert_array_equal(um.project(q, mode, metric), flat.reshape(q.shape))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("metric", METRICS)
def test_dtypes_come_back_and_stay_exactly_unimodal(dtype, metric):
    q = torch.softmax(3 * torch.randn(50, 9, generator=torch.Generator().manual_seed(0)), -1)
    q = q.to(getattr(torch, dtype))
    p = um.project(q, 4, metric)
    assert p.dtype == q.dtype
    assert um.simplex.is_unimodal(p, tol=0).all()
    wide = torch.float64 if dtype == "float64" else torch.float32
    assert um.distance(q, 4, metric).dtype == wide
    if dtype != "bfloat16":
        np.testing.assert_array_equal(um.project(q.numpy(), 4, metric), p.numpy())
        assert um.project(q.numpy(), 4, metric).dtype == dtype


def test_modes_are_given_in_any_way_that_fits():
    q = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3))
    expected = um.project(q, np.full((2, 3), 2))
    for mode in (2, np.int8(2), [2], [2, 2, 2], [[2], [2]], np.full((2, 3), 2.0), torch.tensor(2)):
        np.testing.assert_array_equal(um.project(q, mode), expected)
        if not isinstance(mode, np.ndarray) or mode.dtype != float:
            assert torch.equal(um.project(torch.tensor(q), mode), torch.tensor(expected))


def test_memory_layout_does_not_matter_and_input_is_left_alone():
    q = np.random.default_rng(0).dirichlet(np.ones(5), size=8)
    expected = um.project(q, 1)
    strided = np.repeat(q, 2, axis=0)[::2]
    fortran = np.asfortranarray(q)
    frozen = q.copy()
    frozen.flags.writeable = False
    for layout in (strided, fortran, frozen, q.tolist()):
        np.testing.assert_array_equal(um.project(layout, 1), expected)
    np.testing.assert_array_equal(q, frozen)
    np.testing.assert_array_equal(um.project(torch.tensor(q).T.contiguous().T, 1), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_a_row_does_not_depend_on_the_batch_the_order_or_the_threads(metric):
    q, mode = (part.numpy() for part in mixed(40, 11, DISTRIBUTIONS))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = um.project(q, mode, metric), um.distance(q, mode, metric)
        best = um.project(q, metric=metric)
        torch.set_num_threads(4)
        order = np.random.default_rng(0).permutation(len(q))
        many = np.concatenate([order] * 20)  # enough for several threads
        np.testing.assert_array_equal(um.project(q[many], mode[many], metric), expected[0][many])
        np.testing.assert_array_equal(um.distance(q[many], mode[many], metric), expected[1][many])
        np.testing.assert_array_equal(um.project(q[order[:50]], metric=metric), best[order[:50]])
        for row in order[:10]:
            np.testing.assert_array_equal(um.project(q[row], mode[row], metric), expected[0][row])
    finally:
        torch.set_num_threads(threads)


GOOD = [0.5, 0.25, 0.25]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
@pytest.mark.parametrize(
    ("q", "arguments", "message"),
    [
        ([GOOD, [0.5, -0.1, 0.6]], {}, r"q must not be negative, got -0\.1 at row 1, class 1"),
        ([GOOD, [0.5, float("nan"), 0.5]], {}, r"q must not contain NaN, got one at row 1, class 1"),
        ([GOOD, [0.5, 0.2, 0.2]], {}, r"q must sum to 1, got 0\.9 at row 1"),
        ([GOOD, [float("inf"), 0.0, 0.0]], {}, r"q must sum to 1, got inf at row 1"),
        (0.5, {}, r"q must have at least one class on its last axis, got shape \(\)"),
        ([[]], {}, r"q must have at least one class on its last axis, got shape \(1, 0\)"),
        ([GOOD, GOOD], {"mode": 3}, r"mode must lie in \[0, 2\], got 3"),
        ([GOOD, GOOD], {"mode": [0, -1]}, r"mode must lie in \[0, 2\], got -1 at row 1"),
        (
            [GOOD, GOOD],
            {"mode": [0, 1, 2]},
            r"mode must be an integer or have shape \(2,\), got shape \(3,\)",
        ),
        ([GOOD, GOOD], {"mode": 0.5}, r"mode must hold integers, got 0\.5"),
        ([GOOD], {"metric": "w2"}, "metric must be one of 'w1', 'l2', 'kl', 'reverse-kl', got 'w2'"),
        ([GOOD], {"cost": np.ones((2, 2))}, r"cost must have shape \(3, 3\), got \(2, 2\)"),
        ([GOOD], {"cost": -np.eye(3)}, r"cost must be finite and not negative, got -1 at row 0, column 0"),
        ([GOOD], {"cost": np.full((3, 3), np.inf)}, "cost must be finite and not negative, got inf at row 0"),
        ([GOOD], {"cost": np.full((3, 3), np.nan)}, "cost must not contain NaN, got one at row 0, class 0"),
        ([GOOD], {"cost": np.ones((3, 3)), "metric": "l2"}, "metric must be left out when there is a cost"),
    ],
)
def test_bad_input_is_named_with_its_value_and_place(kind, q, arguments, message):
    for function in (um.project, um.distance):
        with pytest.raises(ValueError, match=message):
            function(kind(q), **arguments)


def test_tensors_of_integers_are_refused():
    with pytest.raises(ValueError, match=r"q must be floating point, got torch\.int64"):
        um.project(torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"mode must hold integers, got dtype torch\.float32"):
        um.project(torch.tensor([0.5, 0.5]), torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"mode must lie in \[0, 1\], got 2"):
        um.project(torch.tensor([0.5, 0.5]), torch.tensor(2))
