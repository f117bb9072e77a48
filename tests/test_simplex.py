"""The unimodal set: membership, volume, sampling, paths and extreme points against slow definitions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import chisquare, ks_2samp

from unimodal.simplex import (
    as_distribution,
    as_integers,
    extreme_points,
    fraction,
    is_unimodal,
    modes,
    path,
    sample,
)

SEEDS = st.integers(0, 2**32 - 1)


def rises_then_falls(p):
    """Slow definition: some mode has p sorted up to it and down from it."""
    return any(
        all(p[i] <= p[i + 1] for i in range(m)) and all(p[i] >= p[i + 1] for i in range(m, len(p) - 1))
        for m in range(len(p))
    )


def uniform_simplex(n, n_classes, seed):
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n)


KINDS = st.sampled_from(["inside", "corner"])
RECIPES = st.tuples(st.integers(1, 12), KINDS, KINDS, SEEDS)


def unimodal_pair(recipe):
    """Two unimodal distributions over as many classes, with plateaus and zeros among them."""
    n_classes, *kinds, seed = recipe
    rng = np.random.default_rng(seed)
    return [
        sample(1, n_classes, seed=rng)[0]
        if kind == "inside"
        else rng.choice(extreme_points(n_classes, int(rng.integers(n_classes))))
        for kind in kinds
    ]


# Membership and modes


@given(st.lists(st.integers(0, 4), min_size=1, max_size=7))
def test_exact_membership_is_the_definition(values):
    assert is_unimodal(np.array(values, float), tol=0) is rises_then_falls(values)


@given(SEEDS)
def test_membership_is_elementwise_over_any_leading_shape(seed):
    p = np.random.default_rng(seed).integers(0, 4, size=(2, 3, 5)).astype(float)
    flags = is_unimodal(p, tol=0)
    assert flags.shape == (2, 3)
    assert all(flags[i] == rises_then_falls(p[i]) for i in np.ndindex(2, 3))


@pytest.mark.parametrize("tol", [0.0, 0.05, 0.1, 0.2, 0.5])
def test_tolerance_bounds_the_depth_of_the_valley(tol):
    p = [0.3, 0.2, 0.1, 0.4]  # the deepest valley is 0.3 - 0.1
    assert is_unimodal(p, tol=tol) is (tol >= 0.3 - 0.1)


@pytest.mark.parametrize(
    ("dtype", "ripple"), [("float64", 1e-9), ("float32", 1e-6), ("float16", 5e-4), ("bfloat16", 4e-3)]
)
def test_default_tolerance_follows_the_dtype(dtype, ripple):
    def valley(depth):
        return torch.tensor([depth, 0.0, 1 - depth], dtype=getattr(torch, dtype))

    assert is_unimodal(valley(0.9 * ripple))
    assert not is_unimodal(valley(1.1 * ripple))
    if dtype != "bfloat16":
        assert is_unimodal(valley(0.9 * ripple).numpy())
        assert not is_unimodal(valley(1.1 * ripple).numpy())


def test_log_probabilities_of_minus_infinity_are_ordered_values():
    assert is_unimodal([-np.inf, -np.inf, 0.0, -np.inf], tol=0)
    assert not is_unimodal([-1.0, -np.inf, -1.0])
    assert modes([-np.inf, 0.0, -np.inf]) == (1, 1)


def test_membership_of_no_rows_is_empty():
    assert is_unimodal(np.empty((0, 4))).shape == (0,)


def test_tensors_with_gradient_are_accepted():
    p = torch.tensor([[0.5, 0.1, 0.4], [0.1, 0.8, 0.1]], requires_grad=True)
    np.testing.assert_array_equal(is_unimodal(p), [False, True])


@pytest.mark.parametrize(
    ("p", "interval"),
    [
        ([1.0], (0, 0)),
        ([0.0, 1.0], (1, 1)),
        ([0.25] * 4, (0, 3)),
        ([0.1, 0.3, 0.3, 0.3, 0.0], (1, 3)),
        ([0.5, 0.5, 0.0], (0, 1)),
    ],
)
def test_modes_of_known_plateaus(p, interval):
    assert modes(p) == interval


@given(RECIPES)
def test_modes_are_exactly_the_m_whose_set_holds_p(recipe):
    p = unimodal_pair(recipe)[0]
    members = [m for m in range(len(p)) if (np.diff(p[: m + 1]) >= 0).all() and (np.diff(p[m:]) <= 0).all()]
    first, last = modes(p, tol=0)
    assert members == list(range(first, last + 1))


def test_modes_of_many_rows_and_their_tolerance():
    p = np.array([[[0.2, 0.4, 0.4]], [[0.6, 0.35, 0.05]]])
    first, last = modes(p)
    np.testing.assert_array_equal(first, [[1], [0]])
    np.testing.assert_array_equal(last, [[2], [0]])
    assert modes(p[1, 0], tol=0.3) == (0, 1)


def test_modes_of_a_bimodal_row_are_refused_with_its_place():
    with pytest.raises(ValueError, match=r"p must be unimodal, got a valley of depth 0\.3 at row 1"):
        modes([[0.2, 0.6, 0.2], [0.4, 0.1, 0.5]])


# Volume


@pytest.mark.parametrize("n_classes", [3, 4, 5, 6])
def test_fraction_is_the_published_table_and_the_monte_carlo_share(n_classes):
    published = {3: 0.667, 4: 0.333, 5: 0.133, 6: 0.044}[n_classes]
    assert round(fraction(n_classes), 3) == published
    n = 200_000
    hits = is_unimodal(uniform_simplex(n, n_classes, seed=n_classes), tol=0).sum()
    share = fraction(n_classes)
    assert abs(hits / n - share) < 4 * math.sqrt(share * (1 - share) / n)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 6])
def test_exact_fraction_is_the_share_of_unimodal_orders(n_classes):
    orders = list(itertools.permutations(range(n_classes)))
    assert fraction(n_classes, exact=True) == Fraction(sum(map(rises_then_falls, orders)), len(orders))


@pytest.mark.parametrize("n_classes", [20, 170, 171, 178])
def test_float_fraction_is_correctly_rounded(n_classes):
    exact = fraction(n_classes, exact=True)
    value = fraction(n_classes)
    assert value > 0
    neighbours = [math.nextafter(value, 0), math.nextafter(value, 1)]
    assert all(abs(Fraction(value) - exact) <= abs(Fraction(other) - exact) for other in neighbours)


def test_fraction_of_a_thousand_classes_underflows_to_zero_but_is_exact():
    assert fraction(1000) == 0.0
    assert fraction(5000) == 0.0
    assert fraction(1000, exact=True) * math.factorial(1000) == 2**999


# Sampling


@pytest.mark.parametrize("n_classes", [1, 2, 3, 20, 1000])
@pytest.mark.parametrize("where", [None, "first", "last", "middle"])
def test_samples_lie_in_their_set(n_classes, where):
    mode = {None: None, "first": 0, "last": n_classes - 1, "middle": n_classes // 2}[where]
    p = sample(50, n_classes, mode=mode, seed=0)
    assert p.shape == (50, n_classes)
    assert is_unimodal(p, tol=0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert (p >= 0).all()
    if mode is not None:
        np.testing.assert_array_equal(p.argmax(axis=1), mode)


def test_samples_take_one_mode_each():
    mode = np.arange(40) % 5
    np.testing.assert_array_equal(sample(40, 5, mode=mode, seed=1).argmax(axis=1), mode)
    np.testing.assert_array_equal(sample(40, 5, mode=torch.tensor(mode), seed=1).argmax(axis=1), mode)


def same_distribution(drawn, kept):
    """Smallest p-value over the classes and two mixed directions, Bonferroni-corrected."""
    n_classes = drawn.shape[1]
    directions = np.concatenate(
        [np.eye(n_classes), np.arange(n_classes)[None], np.sin(np.arange(n_classes))[None] * 7]
    )
    return len(directions) * min(ks_2samp(drawn @ d, kept @ d).pvalue for d in directions)


@pytest.mark.parametrize("n_classes", [3, 4, 5, 6])
def test_the_union_is_sampled_as_by_rejection(n_classes):
    pool = uniform_simplex(400_000, n_classes, seed=10 + n_classes)
    kept = pool[is_unimodal(pool, tol=0)][:15_000]
    drawn = sample(15_000, n_classes, seed=20 + n_classes)
    assert same_distribution(drawn, kept) > 0.01
    expected = [math.comb(n_classes - 1, m) / 2 ** (n_classes - 1) for m in range(n_classes)]
    for points in (drawn, kept):
        counts = np.bincount(points.argmax(axis=1), minlength=n_classes)
        assert chisquare(counts, len(points) * np.array(expected)).pvalue > 0.01


@pytest.mark.parametrize(("n_classes", "mode"), [(3, 0), (3, 1), (4, 2), (5, 2), (5, 4), (6, 3)])
def test_a_fixed_mode_is_sampled_as_by_rejection(n_classes, mode):
    pool = uniform_simplex(400_000, n_classes, seed=30 + n_classes)
    kept = pool[is_unimodal(pool, tol=0) & (pool.argmax(axis=1) == mode)][:10_000]
    assert same_distribution(sample(10_000, n_classes, mode=mode, seed=40 + mode), kept) > 0.01


def test_the_comparison_with_rejection_can_tell_a_wrong_sampler():
    kept = sample(10_000, 4, mode=1, seed=0)
    assert same_distribution(sample(10_000, 4, mode=2, seed=1), kept) < 1e-6
    mixture = np.random.default_rng(2).dirichlet(np.ones(6), size=10_000) @ extreme_points(4, 1)
    assert same_distribution(mixture, kept) < 1e-6


def test_seeds_repeat_and_generators_advance():
    np.testing.assert_array_equal(sample(5, 6, seed=3), sample(5, 6, seed=3))
    rng = np.random.default_rng(3)
    first, second = sample(5, 6, seed=rng), sample(5, 6, seed=rng)
    np.testing.assert_array_equal(first, sample(5, 6, seed=3))
    assert (first != second).all()
    assert sample(0, 6).shape == (0, 6)


# Paths


@given(RECIPES, st.sampled_from(["auto", "uniform"]))
def test_every_point_of_every_path_is_exactly_unimodal(recipe, via):
    p, q = unimodal_pair(recipe)
    t = np.concatenate([np.linspace(0, 1, 41), np.random.default_rng(0).random(20)])
    points = path(p, q, t, via=via)
    assert is_unimodal(points, tol=0).all()
    assert (points >= 0).all()
    np.testing.assert_allclose(points.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(points[0], p)
    np.testing.assert_array_equal(points[40], q)
    assert abs(np.diff(points[:41], axis=0)).max() <= 4 / 40 + 1e-12  # Lipschitz: no jumps


def test_a_shared_mode_gives_the_straight_segment():
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.4, 0.4])
    np.testing.assert_allclose(path(p, q, [0.25]), [0.75 * p + 0.25 * q])


def test_the_constructive_path_stops_at_the_corners_and_the_uniform_distribution():
    p, q = [0.7, 0.2, 0.1], [0.0, 0.2, 0.8]
    stops = [p, [1, 0, 0], [1 / 3] * 3, [0, 0, 1], q]
    for via in ("auto", "uniform"):
        np.testing.assert_array_equal(path(p, q, np.linspace(0, 1, 5), via=via), stops)
    np.testing.assert_array_equal(path(p, p, 0.5, via="uniform"), [1 / 3] * 3)


def test_a_single_time_gives_a_single_point():
    assert path([0.2, 0.8], [0.4, 0.6], 0.5).shape == (2,)
    np.testing.assert_array_equal(path([1.0], [1.0], [0.0, 0.3, 1.0]), np.ones((3, 1)))


def test_the_path_crosses_a_thousand_classes():
    p, q = sample(2, 1000, seed=5)
    assert is_unimodal(path(p, q, np.linspace(0, 1, 101)), tol=0).all()


# Extreme points


def peel(p, mode):
    """Write a member of S_mode as a mixture of interval-uniforms: cut it into horizontal layers."""
    weights = {}
    floor = 0.0
    for level in np.unique(p):
        (inside,) = np.nonzero(p >= level)
        weights[inside[0], inside[-1]] = (level - floor) * len(inside)
        floor = level
    return weights


@pytest.mark.parametrize("n_classes", [1, 2, 3, 6])
def test_extreme_points_are_the_uniform_intervals_around_the_mode(n_classes):
    for mode in range(n_classes):
        expected = [
            [1 / (b - a + 1) if a <= k <= b else 0.0 for k in range(n_classes)]
            for a in range(mode + 1)
            for b in range(mode, n_classes)
        ]
        np.testing.assert_allclose(extreme_points(n_classes, mode), expected)


def test_extreme_points_of_a_thousand_classes():
    points = extreme_points(1000, 1)
    assert points.shape == (2 * 999, 1000)
    np.testing.assert_allclose(points.sum(axis=1), 1)


@given(st.integers(1, 30), SEEDS)
def test_the_hull_of_the_extreme_points_is_the_set(n_classes, seed):
    mode = seed % n_classes
    corners = extreme_points(n_classes, mode)
    intervals = [(a, b) for a in range(mode + 1) for b in range(mode, n_classes)]
    # inside: every member is a mixture of corners ...
    p = sample(1, n_classes, mode=mode, seed=seed)[0]
    weights = peel(p, mode)
    assert min(weights.values()) >= 0
    np.testing.assert_allclose(sum(weights.values()), 1)
    np.testing.assert_allclose(
        sum(w * corners[intervals.index(i)] for i, w in weights.items()), p, atol=1e-12
    )
    # ... and every mixture of corners is a member
    mixture = np.random.default_rng(seed).dirichlet(np.full(len(corners), 0.3)) @ corners
    first, last = modes(mixture)
    assert first <= mode <= last


@pytest.mark.parametrize(("n_classes", "mode"), [(2, 0), (4, 1), (5, 2), (6, 0)])
def test_no_extreme_point_is_a_mixture_of_the_others(n_classes, mode):
    corners = extreme_points(n_classes, mode)

    def in_hull(point, of):
        a_eq = np.vstack([of.T, np.ones(len(of))])
        return linprog(np.zeros(len(of)), A_eq=a_eq, b_eq=[*point, 1], method="highs").status == 0

    for i, corner in enumerate(corners):
        assert in_hull(corner, corners)
        assert not in_hull(corner, np.delete(corners, i, axis=0))


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: is_unimodal([0.5, np.nan]), "p must not contain NaN, got one at class 1"),
        (lambda: is_unimodal([[0.5, 0.5], [np.nan, 1]]), "NaN, got one at row 1, class 0"),
        (lambda: is_unimodal(np.full((1, 2, 3), np.nan)), r"got one at index \(0, 0, 0\)"),
        (lambda: is_unimodal(0.5), r"at least one class on its last axis, got shape \(\)"),
        (lambda: is_unimodal(np.empty((3, 0))), r"at least one class on its last axis, got shape \(3, 0\)"),
        (lambda: is_unimodal([[1.0], [0.5, 0.5]]), "p must be a rectangular array"),
        (lambda: is_unimodal([1.0], tol=-0.1), r"tol must be at least 0, got -0\.1"),
        (lambda: is_unimodal([1.0], tol=float("nan")), "tol must be at least 0, got nan"),
        (lambda: fraction(0), "n_classes must be at least 1, got 0"),
        (lambda: sample(-1, 3), "n must be at least 0, got -1"),
        (lambda: sample(3, 0), "n_classes must be at least 1, got 0"),
        (lambda: sample(3, 4, mode=4), r"mode must lie in \[0, 3\], got 4"),
        (lambda: sample(3, 4, mode=[0, 1, -1]), r"mode must lie in \[0, 3\], got -1 at row 2"),
        (lambda: sample(3, 4, mode=[0, 1]), r"mode must be an integer or of shape \(3,\), got shape \(2,\)"),
        (lambda: sample(3, 4, mode=1.5), r"mode must hold integers, got 1\.5"),
        (lambda: extreme_points(4, 4), r"mode must lie in \[0, 3\], got 4"),
        (lambda: path([0.4, 0.2, 0.4], [1, 0, 0], 0), r"p must be unimodal, got a valley of depth 0\.2"),
        (lambda: path([1, 0, 0], [0.4, 0.2, 0.4], 0), r"q must be unimodal, got a valley of depth 0\.2"),
        (lambda: path([1, 0], [1, 0, 0], 0), r"q must have as many classes as p \(2\), got 3"),
        (
            lambda: path([[1, 0]], [1, 0], 0),
            r"p must be one distribution, of shape \(K,\), got shape \(1, 2\)",
        ),
        (lambda: path([0.5, 0.6], [1, 0], 0), r"p must sum to 1, got 1\.1"),
        (lambda: path([1.5, -0.5], [1, 0], 0), r"p must not be negative, got -0\.5 at class 1"),
        (lambda: path([1, 0], [1, 0], [0, 1.5]), r"t must lie in \[0, 1\], got 1\.5 at position 1"),
        (lambda: path([1, 0], [1, 0], float("nan")), r"t must lie in \[0, 1\], got nan"),
        (lambda: path([1, 0], [1, 0], [[0.5]]), r"t must be a number or a list of them, got shape \(1, 1\)"),
        (lambda: as_distribution([[1, 0], [np.inf, 0]]), "p must sum to 1, got inf at row 1"),
        (lambda: as_integers(["low"], "y"), "y must hold integers, got dtype <U3"),
        (lambda: as_integers([0, -1], "y"), "y must be at least 0, got -1 at row 1"),
    ],
)
def test_bad_input_is_named_with_its_value_and_place(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="via must be 'auto' or 'uniform', got 'moon'"):
        path([1.0], [1.0], 0, via="moon")


def test_text_is_no_distribution():
    with pytest.raises(TypeError, match="p must hold real numbers, got dtype <U3"):
        is_unimodal(["low", "mid"])
