"""Decision rules against their definitions in exact rational arithmetic, for numpy and torch alike."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unimodal.decision import RULES, count_exceedances, decide, interval


def exact_decision(weights, rule):
    """Decide on integer weights by definition: no rounding anywhere, ties to the lower class."""
    total = sum(weights)
    if rule == "mode":
        return weights.index(max(weights))
    if rule == "median":
        return next(k for k in range(len(weights)) if 2 * sum(weights[: k + 1]) >= total)
    mean = Fraction(sum(k * w for k, w in enumerate(weights)), total)
    return min(range(len(weights)), key=lambda k: (abs(k - mean), k))


WEIGHTS = st.lists(st.integers(0, 6), min_size=1, max_size=9).filter(any)
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@given(WEIGHTS, st.sampled_from(RULES), st.sampled_from(["float64", "float32"]))
def test_every_rule_is_its_definition_ties_and_all(weights, rule, dtype):
    p = np.array(weights, dtype) / np.array(sum(weights), dtype)
    expected = exact_decision(weights, rule)
    assert decide(p, rule) == expected
    assert decide(torch.from_numpy(p), rule).item() == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(any), st.sampled_from(RULES))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_survive_sixteen_bit_floats(dtype, weights, rule):
    p = (torch.tensor(weights, dtype=torch.float64) / sum(weights)).to(DTYPES[dtype])
    expected = exact_decision(weights, rule)
    assert decide(p, rule).item() == expected


@pytest.mark.parametrize(
    ("p", "mode", "median", "mean"),
    [
        ([1.0], 0, 0, 0),
        ([0.5, 0.5], 0, 0, 0),  # ties: all three say the lower class
        ([0.0, 0.5, 0.5], 1, 1, 1),
        ([0.4, 0.0, 0.0, 0.6], 3, 3, 2),
        ([0.45, 0.1, 0.1, 0.1, 0.25], 0, 1, 2),
        ([0.0, 0.0, 1.0], 2, 2, 2),
        ([0.25, 0.25, 0.25, 0.25], 0, 1, 1),
    ],
)
def test_hand_computed_decisions(p, mode, median, mean):
    for array in (np.array(p), torch.tensor(p)):
        assert [int(decide(array, rule)) for rule in RULES] == [mode, median, mean]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_half_reached_after_five_hundred_float32_additions_is_a_half(kind):
    p = np.full((1, 1000), 1e-3, dtype=np.float32)
    assert np.cumsum(p, axis=1)[0, 499] != np.float32(0.5)  # what a naive comparison would see
    p = p if kind == "numpy" else torch.from_numpy(p)
    assert decide(p, "median").tolist() == [499]
    assert decide(p, "mean").tolist() == [499]


def test_softmax_of_a_thousand_equal_logits_has_its_median_in_the_middle():
    log_prob = torch.log_softmax(torch.full((3, 1000), 7.3), dim=-1)
    assert decide(log_prob.exp(), "median").tolist() == [499] * 3
    assert decide(log_prob.exp(), "mean").tolist() == [499] * 3


@pytest.mark.parametrize("total", [0.99999, 1.00001, 0.6])
def test_a_total_beside_one_never_runs_past_the_last_class(total):
    p = np.zeros((2, 6), dtype=np.float32)
    p[0, -1] = p[1, 0] = total
    for rule in RULES:
        assert decide(p, rule).tolist() == [5, 0]
        assert decide(torch.from_numpy(p), rule).tolist() == [5, 0]


@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_decisions_stay_inside_the_classes_and_agree_between_kinds(seed, n_classes):
    p = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.3), size=4).astype(np.float32)
    for rule in RULES:
        decision = decide(p, rule)
        assert decision.dtype == np.int64
        assert ((decision >= 0) & (decision < n_classes)).all()
        np.testing.assert_array_equal(decide(torch.from_numpy(p), rule), decision)


@pytest.mark.parametrize("rule", RULES)
def test_any_axis_and_any_leading_shape(rule):
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3))
    expected = decide(p, rule)
    assert expected.shape == (2, 3)
    for dim in (0, 1, 2, -1, -2, -3):
        moved = np.moveaxis(p, -1, dim)
        np.testing.assert_array_equal(decide(moved, rule, dim=dim), expected)
        tensor = decide(torch.from_numpy(moved.copy()), rule, dim=dim)
        assert tensor.dtype == torch.int64
        np.testing.assert_array_equal(tensor, expected)


@pytest.mark.parametrize("rule", RULES)
def test_no_rows_give_no_decisions(rule):
    assert decide(np.empty((0, 4)), rule).shape == (0,)
    assert decide(torch.empty(0, 4), rule).shape == (0,)


@pytest.mark.parametrize("rule", RULES)
def test_lists_and_counts_are_decided_too(rule):
    assert decide([[3, 0, 1]], rule).tolist() == decide(np.array([[0.75, 0, 0.25]]), rule).tolist()


class Decider(torch.nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def forward(self, p, logits):
        return decide(p, self.rule, dim=1), count_exceedances(logits, dim=1)


@pytest.mark.parametrize("rule", RULES)
def test_vmap_and_export_see_the_same_decisions(rule):
    p = torch.softmax(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    logits = p - 0.2
    expected = decide(p, rule), count_exceedances(logits)
    assert torch.equal(torch.func.vmap(lambda row: decide(row, rule))(p), expected[0])
    assert torch.equal(torch.func.vmap(count_exceedances)(logits), expected[1])
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(Decider(rule), (p, logits), dynamic_shapes=({0: batch}, {0: batch}))
    for rows in (6, 3):
        decisions = program.module()(p[:rows], logits[:rows])
        assert all(torch.equal(a, b[:rows]) for a, b in zip(decisions, expected, strict=True))


def test_exceedances_are_counted_from_zero_up():
    logits = np.array([[2.0, 0.0, -0.1], [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0], [-1.0, 3.0, 3.0]])
    assert count_exceedances(logits).tolist() == [2, 0, 3, 2]
    assert count_exceedances(torch.from_numpy(logits)).tolist() == [2, 0, 3, 2]
    assert count_exceedances(torch.from_numpy(logits.T), dim=0).tolist() == [2, 0, 3, 2]
    assert count_exceedances(torch.empty(3, 0)).tolist() == [0, 0, 0]  # one class has no threshold


def test_an_unknown_rule_names_the_known_ones():
    with pytest.raises(ValueError, match="rule must be one of 'mode', 'median', 'mean', got 'max'"):
        decide(np.ones((1, 1)), "max")


def exact_interval(weights, coverage):
    """The shortest range with enough weight; the heaviest of several, and the lowest of several such."""
    total, n = sum(weights), len(weights)
    enough = [
        (high - low, -sum(weights[low : high + 1]), low, high)
        for low in range(n)
        for high in range(low, n)
        if sum(weights[low : high + 1]) >= coverage * total
    ]
    return min(enough)[2:]


@given(WEIGHTS, st.integers(1, 20), st.sampled_from(["float64", "float32"]))
def test_intervals_are_the_best_of_all_ranges(weights, twentieths, dtype):
    coverage = Fraction(twentieths, 20)
    p = np.array([weights], dtype) / np.array(sum(weights), dtype)
    low, high = interval(p, float(coverage))
    assert (low[0], high[0]) == exact_interval(weights, coverage)
    for ends, expected in zip(interval(torch.from_numpy(p), float(coverage)), (low, high), strict=True):
        assert ends.dtype == torch.int64
        assert ends.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("p", "coverage", "expected"),
    [
        ([1.0], 0.9, (0, 0)),
        ([0.1, 0.5, 0.4], 0.9, (1, 2)),
        ([0.5, 0.1, 0.4], 0.9, (0, 2)),
        ([0.3, 0.4, 0.3], 0.7, (0, 1)),
        ([0.2] * 5, 0.3, (0, 1)),  # rounding must not make the later range the likelier one
        ([0.1] * 10, 0.3, (0, 2)),  # nor 0.1 + 0.1 + 0.1 less or more than 0.3
        ([0.0, 0.0, 1.0], 1.0, (2, 2)),
        ([0.0, 0.5, 0.5, 0.0], 1.0, (1, 2)),
    ],
)
def test_hand_computed_intervals(p, coverage, expected):
    for values in (np.array(p), torch.tensor(p), torch.tensor(p, dtype=torch.float64), p):
        assert tuple(int(end) for end in interval(values, coverage)) == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_intervals_of_many_classes_have_the_coverage_in_any_precision(dtype):
    p = torch.full((1, 250), 1 / 250).to(DTYPES[dtype])
    low, high = interval(p, 0.9)
    assert low.tolist() == [0]
    exact = 225
    slack = {"bfloat16": 1}.get(dtype, 0)  # 0.4 % of 250
    assert exact - slack <= int(high) + 1 <= exact


def test_intervals_along_any_axis_and_of_no_rows():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3))
    expected = interval(p, 0.8)
    assert expected[0].shape == (2, 3)
    for dim in (0, 1, -1, -2):
        moved = np.moveaxis(p, -1, dim)
        for kind in (np.asarray, torch.from_numpy):
            for ends, wanted in zip(interval(kind(moved.copy()), 0.8, dim=dim), expected, strict=True):
                np.testing.assert_array_equal(ends, wanted)
    for ends in interval(np.empty((0, 4)), 0.5):
        assert ends.shape == (0,)


@pytest.mark.parametrize("coverage", [0.0, -0.5, 1.0000001, float("nan"), float("inf")])
def test_coverage_must_be_a_probability(coverage):
    with pytest.raises(ValueError, match=rf"^coverage must lie in \(0, 1\], got {coverage}$"):
        interval(np.array([0.5, 0.5]), coverage)
