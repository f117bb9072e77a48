"""The heads as formulas of a graph: outputs (members, n, outputs) in, probabilities (members, n, K) out.

The formulas are those of `unimodal.heads`, in whose files they are explained.
"""
# ruff: noqa: ARG001  # a formula takes what all of them are given

import math
from collections.abc import Callable, Mapping

import numpy as np

from unimodal.heads import (
    Binomial,
    CumulativeLink,
    Head,
    OrderedAdjacentCategories,
    OrdinalEncoding,
    Poisson,
    Softmax,
    StickBreaking,
    UnimodalNet,
    UnorderedThresholds,
    VShapedStereotype,
)
from unimodal.heads.links import SMALLEST_GAP
from unimodal.heads.numerics import EXP_LINEAR_FROM
from unimodal.onnx.graph import Number, Symbol

Own = Mapping[str, np.ndarray]
"""The parameters of the heads themselves, (members, ...)."""


def proba(head: Head, outputs: Symbol, own: Own) -> Symbol:
    """What the outputs of networks mean, by this head."""
    if type(head) not in _FORMULAS:
        raise ValueError(f"no ONNX graph is known for the head {type(head).__name__}")
    result: Symbol = _FORMULAS[type(head)](head, outputs, own)
    return result


def _softmax(head: Softmax, z: Symbol, own: Own) -> Symbol:
    return z.log_softmax().exp()


def _accumulated(increments: Symbol) -> Symbol:
    return increments.cumsum().padded(1, 0, rank=3).log_softmax().exp()


def _tempered(head: Binomial | Poisson, ratios: Symbol, own: Own) -> Symbol:
    return _accumulated(ratios / _temperature(head, own))


def _temperature(head: Binomial | Poisson, own: Own) -> Number:
    tau: Number = np.exp(own["log_tau"])[:, None, None] if head.learn_tau else float(head.tau)
    return tau


def _binomial(head: Binomial, z: Symbol, own: Own) -> Symbol:
    k = np.arange(1.0, head.n_classes)
    return _tempered(head, z + np.log((head.n_classes - k) / k), own)


def _poisson(head: Poisson, z: Symbol, own: Own) -> Symbol:
    bounded = z.at_least(-40.0)
    log_rate = bounded.softplus().log() + (z - bounded)
    k = np.arange(head.first + 1.0, head.first + head.n_classes)
    return _tempered(head, log_rate - np.log(k), own)


def _cumulative_link(head: CumulativeLink, z: Symbol, own: Own) -> Symbol:
    gaps = np.logaddexp(0, own["raw_gaps"]) + SMALLEST_GAP
    thresholds = np.concatenate([own["first"], gaps], axis=1).cumsum(axis=1)
    t = thresholds[:, None] - z
    if head.link == "logit":
        shares = -np.logaddexp(0, -own["raw_gaps"])[:, None]
        log_cdf = t.log_sigmoid()
        inner = np.pad(shares, ((0, 0), (0, 0), (1, 1)))
        log_masses: Symbol = log_cdf.padded(0, 1, 3) + (log_cdf - t).padded(1, 0, 3) + inner
        return log_masses.exp()
    cdf: Symbol = _CDF[head.link](t)
    return _differences(cdf)


def _differences(cdf: Symbol) -> Symbol:
    """The masses between cumulative probabilities."""
    return (cdf.padded(0, 1, 3, value=1.0) - cdf.padded(1, 0, 3)).at_least(0.0)


_CDF: Mapping[str, Callable[[Symbol], Symbol]] = {
    "probit": lambda t: 0.5 * (t * -math.sqrt(0.5)).erfc(),
    "cloglog": lambda t: 1.0 - (-_guarded_exp(t)).exp(),
    "loglog": lambda t: (-_guarded_exp(-t)).exp(),
    "cauchit": lambda t: 0.5 + t.atan() / math.pi,
}


def _ordinal_encoding(head: OrdinalEncoding, z: Symbol, own: Own) -> Symbol:
    above = z.sigmoid()
    masses = (above.padded(1, 0, 3, value=1.0) - above.padded(0, 1, 3)).at_least(head.floor)
    return masses / masses.sum()


def _unordered_thresholds(head: UnorderedThresholds, z: Symbol, own: Own) -> Symbol:
    return _ordinal_encoding(head, z - own["thresholds"][:, None], own)


def _stick_breaking(head: StickBreaking, z: Symbol, own: Own) -> Symbol:
    log_taken = z.log_sigmoid()
    log_rest = (log_taken - z).cumsum()
    return (log_rest.padded(1, 0, 3) + log_taken.padded(0, 1, 3)).exp()


def _guarded_exp(x: Symbol) -> Symbol:
    return x.at_most(EXP_LINEAR_FROM).exp() * ((x - EXP_LINEAR_FROM).at_least(0.0) + 1.0)


def _ordered(head: OrderedAdjacentCategories | VShapedStereotype, z: Symbol) -> Symbol:
    first, rest = z.part(0, 1), z.part(1, head.n_outputs)
    if head.n_outputs == 1:
        return z
    rises = _guarded_exp(rest) if head.rho == "exp" else rest * rest
    return z.graph.joined([first, rises]).cumsum()


def _adjacent(head: OrderedAdjacentCategories, z: Symbol, own: Own) -> Symbol:
    return _accumulated(-_ordered(head, z))


def _stereotype(head: VShapedStereotype, z: Symbol, own: Own) -> Symbol:
    ordered = _ordered(head, z)
    return (-(ordered * ordered if head.tau == "square" else ordered.abs())).log_softmax().exp()


def _unimodal_net(head: UnimodalNet, z: Symbol, own: Own) -> Symbol:
    shifted = z + head.shift
    steps = shifted.softplus() if head.activation == "softplus" else shifted.at_least(0.0)
    rising = steps.cumsum()
    n = head.n_classes
    falling = rising.part(n - 1, n) - rising.padded(1, -1, 3)
    return rising.at_most(falling).log_softmax().exp()


_FORMULAS: Mapping[type[Head], Callable[..., Symbol]] = {
    Softmax: _softmax,
    Binomial: _binomial,
    Poisson: _poisson,
    CumulativeLink: _cumulative_link,
    OrdinalEncoding: _ordinal_encoding,
    UnorderedThresholds: _unordered_thresholds,
    StickBreaking: _stick_breaking,
    OrderedAdjacentCategories: _adjacent,
    VShapedStereotype: _stereotype,
    UnimodalNet: _unimodal_net,
}
