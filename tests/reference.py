"""Slow, independent definitions of every method: plain loops over one sample, from the method's paper."""

import math

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.stats import norm

CDFS = {
    "logit": lambda t: 1 / (1 + math.exp(-t)),
    "probit": norm.cdf,
    "cloglog": lambda t: 1 - math.exp(-math.exp(t)),
    "loglog": lambda t: math.exp(-math.exp(-t)),
    "cauchit": lambda t: 0.5 + math.atan(t) / math.pi,
}


def normalise(weights):
    return [w / sum(weights) for w in weights]


def softplus(x):
    return math.log1p(math.exp(x))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(z, n_classes):
    return normalise([math.exp(v) for v in z])


def cumulative(z, n_classes, link="logit"):
    quantiles = {
        "logit": lambda p: math.log(p / (1 - p)),
        "probit": norm.ppf,
        "cloglog": lambda p: math.log(-math.log(1 - p)),
        "loglog": lambda p: -math.log(-math.log(p)),
        "cauchit": lambda p: math.tan(math.pi * (p - 0.5)),
    }
    below = [CDFS[link](quantiles[link](k / n_classes) - z[0]) for k in range(1, n_classes)]
    edges = [0.0, *below, 1.0]
    return [edges[k + 1] - edges[k] for k in range(n_classes)]


def encoding(z, n_classes, floor=1e-7):
    above = [1.0, *(sigmoid(v) for v in z), 0.0]
    return normalise([max(above[k] - above[k + 1], floor) for k in range(n_classes)])


def unordered_thresholds(z, n_classes):
    return encoding([z[0]] * (n_classes - 1), n_classes)


def binomial(z, n_classes):
    distribution = torch.distributions.Binomial(n_classes - 1, logits=torch.tensor(z[0], dtype=torch.float64))
    return distribution.log_prob(torch.arange(n_classes, dtype=torch.float64)).exp().tolist()


def poisson(z, n_classes):
    distribution = torch.distributions.Poisson(torch.tensor(softplus(z[0]), dtype=torch.float64))
    counts = torch.arange(1, n_classes + 1, dtype=torch.float64)
    return normalise(distribution.log_prob(counts).exp().tolist())


def ordered_scores(z):
    return [z[0] + sum(math.exp(v) for v in z[1 : k + 1]) for k in range(len(z))]


def ord_acl(z, n_classes):
    scores = ordered_scores(z)
    return normalise([math.exp(-sum(scores[:k])) for k in range(n_classes)])


def vs_sl(z, n_classes):
    return normalise([math.exp(-(s**2)) for s in ordered_scores(z)])


def unimodalnet(z, n_classes):
    u = [softplus(v) for v in z]
    return normalise([math.exp(min(sum(u[: k + 1]), sum(u[k:]))) for k in range(n_classes)])


def stick_breaking(z, n_classes):
    rest, p = 1.0, []
    for v in z:
        p.append(rest * sigmoid(v))
        rest -= p[-1]
    return [*p, rest]


def nll(p, y):
    return -math.log(p[y])


def binary(above, y):
    return -sum(math.log(q if y > k else 1 - q) for k, q in enumerate(above))


def weighted(p, y, alpha):
    return -sum(abs(i - y) ** alpha * math.log(1 - p[i]) for i in range(len(p)))


def smoothed(p, y, eta=0.15, tau=1.0, published=False):
    f = normalise([math.exp(-abs(i - y) / tau) for i in range(len(p))])
    share = 1 - eta if published else eta
    target = [share * f[i] + (1 - share) * (i == y) for i in range(len(p))]
    return -sum(t * math.log(q) for t, q in zip(target, p, strict=True))


def hinge(x):
    return max(x, 0.0)


def u(p, y, delta):
    total = 0.0
    for k in range(len(p) - 1):
        total += hinge(delta + p[k] - p[k + 1]) if k < y else hinge(delta + p[k + 1] - p[k])
    return total


def uu(p, y, delta):
    total = 0.0
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            if j <= y:
                total += hinge(delta + p[i] - p[j])
            elif i >= y:
                total += hinge(delta + p[j] - p[i])
    return total


def qul(p, y, delta):
    total = 0.0
    for j in range(len(p)):
        if j == y:
            continue
        side = -1 if j < y else 1
        total += hinge(delta + p[j] - p[y if abs(j - y) == 1 else y + side])
    return total


def entropy(p):
    return -sum(q * math.log(q) for q in p)


TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def transport_plan(q, mode, cost=None):
    """The paper's K×K linear program: (cost, nearest unimodal distribution), for |i-j| or any cost."""
    n = len(q)
    cost = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) if cost is None else cost
    moves = np.eye(n * n).reshape(n, n, n * n)  # moves[i, j] selects the mass moved from j to i
    masses = moves.sum(1)
    order = [masses[i] - masses[i + 1] if i < mode else masses[i + 1] - masses[i] for i in range(n - 1)]
    solved = linprog(
        cost.ravel(), A_ub=np.array(order), b_ub=np.zeros(n - 1), A_eq=moves.sum(0), b_eq=q, options=TIGHT
    )
    return solved.fun, masses @ solved.x


PROBABILITIES = {
    "pom": cumulative,
    "oe": encoding,
    "bu": binomial,
    "pu": poisson,
    "ord-acl": ord_acl,
    "vs-sl": vs_sl,
    "un": unimodalnet,
    "stick": stick_breaking,
}

LOSSES = {
    "oe": lambda p, y, z: binary([sigmoid(v) for v in z], y),
    "cdw": lambda p, y, z: weighted(p, y, 5),
    "oll": lambda p, y, z: weighted(p, y, 1.5),
    "ur": lambda p, y, z: smoothed(p, y),
    "co": lambda p, y, z: nll(p, y) + u(p, y, 0.0),
    "co2": lambda p, y, z: nll(p, y) + u(p, y, 0.05),
    "ho2": lambda p, y, z: entropy(p) + u(p, y, 0.05),
    "qul-ce": lambda p, y, z: nll(p, y) + qul(p, y, 0.05),
    "qul-ho": lambda p, y, z: entropy(p) + qul(p, y, 0.05),
    "wu-wass": lambda p, y, z: nll(p, y) + transport_plan(p, y)[0],
}


def probabilities(name, z, n_classes):
    return PROBABILITIES.get(name, softmax)(z, n_classes)


def loss(name, z, y, n_classes):
    p = probabilities(name, z, n_classes)
    return LOSSES.get(name, lambda p, y, z: nll(p, y))(p, y, z)
