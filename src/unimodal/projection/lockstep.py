r"""The W1 projection of a whole batch in lockstep: `pivoting` in plain tensor operations, on any device.

All rows take the same step of the dual simplex at the same time. `pivoting` derives the method, and the names
and tolerances are its own; the distribution is the same too, being the only lexicographic minimiser,
whatever path leads to it. (Where the distance has a kink, its gradient is one of several.) Only the
way to compute things differs:

- Pooling is a min-max formula. In a chain that has to rise, value j is the largest over a <= j of the
  smallest over b >= j of mean(y_a ... y_b); a chain that has to fall is one that has to rise with its sign
  changed. The mode then takes up the largest values of both chains for as long as its mean grows.
- T_start maps the nonbasic variables to the basic ones. Applied to a vector, it sums w up twice inside each
  block, which is exact where w = -+1. Its row i comes from the hat function around node i (with 0 at the
  ends beside i), by summation by parts.
- A pivot adds one rank-one term to the tableau of its row; the tableau itself is never formed. Rows
  that are done leave the batch, so all that are left have equally many terms.
- The multipliers of the last basis are refined always, not on demand.

What a row gets does not depend on the others: every operation is elementwise or goes along one row, and there
are no matrix products, whose kernels depend on the shape of the batch. On the CPU equal rows get equal
bits in any batch; a GPU may still choose the order of a sum by the number of rows. The host reads
nothing but how many rows are left to do.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor
from torch.nn.functional import pad

from unimodal.projection import ties
from unimodal.projection.certificate import CERTIFIED
from unimodal.projection.pivoting import FEASIBLE, PIVOT
from unimodal.projection.ties import SAME_DISTANCE

__all__ = ["best_mode_solve", "pooled", "solve", "xp"]

Rows = Float64[Tensor, "n K"]
Numbers = Float64[Tensor, " n"]
Modes = Int64[Tensor, " n"]
Flags = Bool[Tensor, " n"]
Nodes = Float64[Tensor, "n nodes"]  # nodes = K + 1
Indices = Int64[Tensor, "n nodes"]
Terms = Float64[Tensor, "n t nodes"]
Vectors = Float64[Tensor, "n c nodes"]
Number = Float64[Tensor, "n 1"]
Index = Int64[Tensor, "n 1"]
Weights = Float64[Tensor, " variables"]  # the r_i of `ties` for w_i, 0 for lambda_i

xp = torch

_BUDGET = 2**28
"""Bytes that temporary tensors may take, give or take those of the size of q."""


@torch.no_grad()
def solve(q: Rows, mode: Modes) -> tuple[Rows, Numbers, Rows, Flags]:
    """The nearest distributions, their distances, the distances' gradients, and which rows are certified."""
    n_classes = q.shape[1]
    p, value, slope = q.clone(), torch.zeros_like(q[:, 0]), torch.zeros_like(q)
    certified = _rises_and_falls(q, mode)
    # Six numbers for each node and pivot: the terms, a copy of one side and the products in `times`.
    # Rows were seen to take up to 0.4 K pivots.
    bytes_per_row = 8 * 6 * (n_classes + 1) * (n_classes // 2 + 10)
    for rows in _chunks((~certified).nonzero().squeeze(1), bytes_per_row):
        p[rows], value[rows], slope[rows], certified[rows] = _solve_chunk(q[rows], mode[rows])
    return p, value, slope, certified


@torch.no_grad()
def best_mode_solve(q: Rows) -> tuple[Rows, Numbers, Rows, Modes, Flags]:
    """As `solve`, for the mode with the least distance, the lowest one of those that are equally good.

    Modes are tried in the order of lower bounds, 1, 2, 4, ... of them, until these exceed the least distance.
    """
    n_classes = q.shape[1]
    bound, order = _lower_bounds(q).sort(dim=1, stable=True)  # (n, K)
    rank = torch.arange(n_classes, device=q.device)
    distance = torch.full_like(q, torch.inf)
    certified = torch.ones_like(q, dtype=torch.bool)
    n_tried = 0
    while n_tried < n_classes:
        promising = bound <= distance.amin(1, keepdim=True) + SAME_DISTANCE  # (n, K)
        pairs = (promising & (rank >= n_tried) & (rank <= 2 * n_tried)).nonzero()  # (pairs, 2)
        for row, column in (part.unbind(1) for part in _chunks(pairs, 8 * 3 * n_classes)):
            mode = order[row, column]
            _, distance[row, mode], _, certified[row, mode] = solve(q[row], mode)
        n_tried = 2 * n_tried + 1
    best = (distance <= distance.amin(1, keepdim=True) + SAME_DISTANCE).int().argmax(1)  # (n,)
    p, value, slope, _ = solve(q, best)
    return p, value, slope, best, certified.all(1)


@torch.no_grad()
def pooled(y: Rows, mode: Modes) -> Rows:
    """The nearest sequences in L2 that rise to the mode and fall after it."""
    n_classes = y.shape[1]
    classes = torch.arange(n_classes, device=y.device)
    sign = _signs(mode, n_classes)  # (n, K)
    rising = (sign * y)[:, None]  # (n, 1, K), as a chain has to before and after the mode
    last, root = classes, mode[:, None, None]
    chain = torch.full_like(y, -torch.inf)
    for starts in _chunks(classes, 8 * 8 * max(y.numel(), 1)):
        first = starts[:, None]
        inside = (last >= first) & ((last < root) | (first > root))  # (n, starts, K)
        mean = torch.where(inside, rising, 0.0).cumsum(2) / (last - first + 1)
        smallest = _running_min_from_right(torch.where(inside, mean, torch.inf))
        chain = torch.maximum(chain, torch.where(inside, smallest, -torch.inf).amax(1))  # (n, K)
    chain = sign * chain

    is_root = classes == mode[:, None]  # (n, K)
    beside = torch.where(is_root, -torch.inf, chain).sort(dim=1, descending=True).values[:, :-1]
    taken_up = torch.cat([y.gather(1, mode[:, None]), beside], 1)  # (n, K)
    top = (taken_up.cumsum(1) / (classes + 1)).amax(1, keepdim=True)  # (n, 1)
    result = torch.where(is_root, top, torch.minimum(chain, top))
    return torch.where(_rises_and_falls(y, mode)[:, None], y, result)


class _Tableau(NamedTuple):
    """T_start, given by its blocks, and the rank-one terms added since."""

    sign: Nodes
    is_end: Bool[Tensor, "n nodes"]
    before: Indices  # the last end before each node
    after: Indices  # the first end after it
    left: Terms
    right: Terms

    def row(self, node: Index) -> Nodes:
        """One row of the tableau."""
        nodes = torch.arange(self.sign.shape[1], device=node.device).double()
        a, b = self.before.gather(1, node), self.after.gather(1, node)  # (n, 1)
        hat = torch.minimum((nodes - a) / (node - a), (b - nodes) / (b - node)).clamp(min=0.0)  # (n, nodes)
        inner = self.sign.gather(1, node) * (node - a) * (b - node) / (b - a)  # (n, 1)
        height = torch.where(self.is_end.gather(1, node), 1.0, inner)
        start = height * torch.where(self.is_end, self.sign * _bend(hat), -hat)  # (n, nodes)
        factor = self.left.gather(2, node[:, None].expand(-1, self.left.shape[1], -1))  # (n, t, 1)
        return start + (factor * self.right).sum(1)

    def times(self, nonbasic: Vectors) -> Vectors:
        """The basic variables for c choices of the nonbasic ones; those of the outer nodes mean nothing."""
        nodes = torch.arange(self.sign.shape[1], device=nonbasic.device).double()
        is_end, sign = self.is_end[:, None], self.sign[:, None]  # (n, 1, nodes)
        a, b = self.before[:, None], self.after[:, None]
        at_a, at_b = a.expand_as(nonbasic), b.expand_as(nonbasic)  # (n, c, nodes), as all that follows
        rise = torch.where(is_end, 0.0, nonbasic).cumsum(2)
        total = rise.cumsum(2) - rise
        total_a, rise_a = total.gather(2, at_a), rise.gather(2, at_a)
        total_b = total.gather(2, at_b) - total_a - (b - a) * rise_a
        end = sign * nonbasic
        end_a, end_b = end.gather(2, at_a), end.gather(2, at_b)
        sagging = total - total_a - (nodes - a) * rise_a
        mu = torch.where(is_end, end, end_a + sagging + (nodes - a) * ((end_b - end_a - total_b) / (b - a)))
        start = torch.where(is_end, _bend(mu), sign * mu)
        factor = (self.right[:, None] * nonbasic[:, :, None]).sum(3, keepdim=True)  # (n, c, t, 1)
        return start + (factor * self.left[:, None]).sum(2)

    def with_term(self, left: Nodes, right: Nodes) -> "_Tableau":
        """One rank-one term more."""
        return self._replace(
            left=torch.cat([self.left, left[:, None]], 1), right=torch.cat([self.right, right[:, None]], 1)
        )


class _Basis(NamedTuple):
    """A basis and its solution. Variables are numbered lambda_i -> i and w_i -> K + 1 + i."""

    basic: Indices
    nonbasic: Indices
    value: Nodes  # of the basic variables
    tie: Nodes  # their infinitesimal part
    cost: Nodes  # reduced costs of the nonbasic variables
    side: Nodes  # +1 for a nonbasic variable at its lower bound, -1 at the upper one


def _solve_chunk(q: Rows, mode: Modes) -> tuple[Rows, Numbers, Rows, Flags]:
    """`solve` for rows that are not unimodal yet. Those given up are NaN."""
    n_classes = q.shape[1]
    weights = pad(torch.tensor(ties.weights(n_classes), device=q.device), (n_classes + 1, 0))
    p, slope = torch.full_like(q, torch.nan), torch.full_like(q, torch.nan)
    value, certified = torch.full_like(q[:, 0], torch.nan), torch.zeros_like(mode, dtype=torch.bool)
    rows = torch.arange(len(q), device=q.device)  # those left to do
    tableau, basis = _start(q, mode, weights)
    for _ in range(2 * n_classes + 50):
        node = _leaving(basis, weights)
        going = (node >= 0).nonzero().squeeze(1)
        if len(going) < len(rows):
            stopped = (node < 0).nonzero().squeeze(1)
            done = rows[stopped]
            p[done], value[done], slope[done], certified[done] = _read_off(
                q[done],
                mode[done],
                _Tableau(*(x[stopped] for x in tableau)),
                _Basis(*(x[stopped] for x in basis)),
            )
            rows, node = rows[going], node[going]
            tableau, basis = _Tableau(*(x[going] for x in tableau)), _Basis(*(x[going] for x in basis))
        if not len(rows):
            break
        tableau, basis = _pivot(node[:, None], tableau, basis, weights)
    return p, value, slope, certified


def _start(q: Rows, mode: Modes, weights: Weights) -> tuple[_Tableau, _Basis]:
    """Pool, and set up the basis of the pooled solution."""
    n, n_classes = q.shape
    nodes = torch.arange(n_classes + 1, device=q.device)
    p = pooled(q, mode)
    is_end = pad(p[:, 1:] != p[:, :-1], (1, 1), value=True)  # (n, nodes), as all that follows
    sign = _signs(mode, n_classes + 1)
    ends_so_far = torch.where(is_end, nodes, 0).cummax(1).values
    ends_to_come = _running_min_from_right(torch.where(is_end, nodes, n_classes))
    before, after = pad(ends_so_far[:, :-1], (1, 0)), pad(ends_to_come[:, 1:], (0, 1), value=n_classes)
    no_terms = q.new_zeros(n, 0, n_classes + 1)
    tableau = _Tableau(sign, is_end, before, after, no_terms, no_terms)

    lambdas, ws = nodes.expand_as(before), (n_classes + 1 + nodes).expand_as(before)
    basic, nonbasic = torch.where(is_end, ws, lambdas), torch.where(is_end, lambdas, ws)
    side = torch.where(is_end, 1.0, sign)
    step = -sign * pad(p, (1, 1)).diff(dim=1)
    excess = pad((p - q).cumsum(1), (1, 0))
    cost = _clamped(torch.where(is_end, step, excess), side)
    bound = torch.where(is_end, 0.0, -side)
    value, tie = tableau.times(torch.stack([bound, bound * weights[nonbasic]], 1)).unbind(1)
    return tableau, _Basis(basic, nonbasic, value, tie, cost, side)


def _leaving(basis: _Basis, weights: Weights) -> Modes:
    """The row that lies farthest beyond its bound, or -1 if none does."""
    basic, value, tie = basis.basic[:, 1:-1], basis.value[:, 1:-1], basis.tie[:, 1:-1]  # (n, K-1)
    is_w = basic >= basis.value.shape[1]
    over = torch.where(is_w, value.abs() - 1.0, -value)
    over_tie = torch.where(is_w, value.sign() * tie - weights[basic], -tie)
    worst, row = over.max(1)  # (n,)
    worst_tie, row_tie = torch.where(over > -FEASIBLE, over_tie, -torch.inf).max(1)
    by_tie = torch.where(worst_tie > FEASIBLE, row_tie + 1, -1)
    return torch.where(worst > FEASIBLE, row + 1, by_tie)


def _pivot(node: Index, tableau: _Tableau, basis: _Basis, weights: Weights) -> tuple[_Tableau, _Basis]:
    """Let the variable of row `node` leave for the bound it has crossed; NaN if no variable can enter."""
    n = basis.value.shape[1]
    nodes = torch.arange(n, device=node.device)
    leaving = basis.basic.gather(1, node)  # (n, 1)
    bound = torch.where(leaving >= n, basis.value.gather(1, node).sign(), 0.0)
    bound_tie = bound * weights[leaving]
    direction = 1.0 - 2.0 * (bound > 0.0).double()
    step, step_tie = bound - basis.value.gather(1, node), bound_tie - basis.tie.gather(1, node)
    row = tableau.row(node)  # (n, nodes)
    entering, pivot, flips = _entering(row, direction, step, step_tie, basis, weights)

    at_node, at_entering = nodes == node, nodes == entering  # (n, nodes)
    flipped = torch.where(flips, 2.0 * basis.side, 0.0)
    vectors = torch.stack([at_entering.double(), flipped, flipped * weights[basis.nonbasic]], 1)
    column, change, change_tie = tableau.times(vectors).unbind(1)
    value, tie = basis.value + change, basis.tie + change_tie
    step = (bound - value.gather(1, node)) / pivot  # (n, 1)
    step_tie = (bound_tie - tie.gather(1, node)) / pivot
    variable = basis.nonbasic.gather(1, entering)
    start = torch.where(variable >= n, -basis.side.gather(1, entering), 0.0)
    slide = basis.cost.gather(1, entering) / pivot

    side = torch.where(at_entering, direction, torch.where(flips, -basis.side, basis.side))  # (n, nodes)
    right = torch.where(at_entering, 1.0 / pivot - 1.0, -row / pivot)
    return tableau.with_term(column + at_node, right), _Basis(
        basic=torch.where(at_node, variable, basis.basic),
        nonbasic=torch.where(at_entering, leaving, basis.nonbasic),
        value=torch.where(at_node, start + step, value + column * step),
        tie=torch.where(at_node, start * weights[variable] + step_tie, tie + column * step_tie),
        cost=torch.where(at_entering, slide, _clamped(basis.cost - slide * row, side)),
        side=side,
    )


def _entering(
    row: Nodes, direction: Number, step: Number, step_tie: Number, basis: _Basis, weights: Weights
) -> tuple[Index, Number, Bool[Tensor, "n nodes"]]:
    """Choose the column that enters, by smallest ratio, flipping bounds for as long as that helps.

    Returns the column, its pivot (NaN if none can enter) and the columns that are to be flipped.
    """
    n = row.shape[1]
    eligible = row * basis.side * direction > PIVOT  # (n, nodes), as all that follows
    ratio = torch.where(eligible, (basis.cost / row).abs(), torch.inf)
    order = ratio.sort(dim=1, stable=True).indices
    can_flip = eligible & (basis.nonbasic >= n)
    gain = torch.where(can_flip, 2.0 * row.abs(), torch.inf)
    gain_tie = torch.where(can_flip, gain * weights[basis.nonbasic], 0.0)
    left = step.abs() - gain.gather(1, order).cumsum(1)
    left_tie = step_tie * direction - gain_tie.gather(1, order).cumsum(1)
    helps = (left > FEASIBLE) | ((left > -FEASIBLE) & (left_tie > FEASIBLE))  # up to some column of the order
    flips = torch.zeros_like(helps).scatter(1, order, helps)
    entering = order.gather(1, helps.sum(1, keepdim=True).clamp(max=n - 1))  # (n, 1)
    can_enter = (eligible & ~flips).gather(1, entering)
    return entering, torch.where(can_enter, row.gather(1, entering), torch.nan), flips


def _read_off(q: Rows, mode: Modes, tableau: _Tableau, basis: _Basis) -> tuple[Rows, Numbers, Rows, Flags]:
    """The primal and the dual solution of the final basis, and whether they certify each other."""
    n = basis.value.shape[1]
    by_variable = q.new_zeros(len(q), 2 * n)
    excess = by_variable.scatter(1, basis.nonbasic, basis.cost)[:, n:]  # (n, nodes)
    p = q + excess.diff(dim=1)
    value = excess.abs().sum(1)

    multiplier = by_variable.scatter(1, basis.basic, basis.value)[:, :n]  # (n, nodes), as all that follows
    bend = by_variable.scatter(1, basis.nonbasic, -basis.side)[:, n:]
    lacking = (bend - _bend(tableau.sign * multiplier)).gather(1, basis.nonbasic % n)
    lacking = torch.where(basis.nonbasic >= n, lacking, 0.0)
    refined = basis.value + tableau.times(lacking[:, None])[:, 0]
    multiplier = by_variable.scatter(1, basis.basic, refined)[:, :n]
    slope = _slopes(tableau.sign * multiplier, bend)

    gap = ((slope * q).sum(1) - value).abs()
    negative = (-multiplier).amax(1).clamp(min=0.0)
    excess = pad(slope.diff(dim=1).abs() - 1.0, (0, 1)).amax(1).clamp(min=0.0)
    disorder = (-tableau.sign * pad(p, (1, 1)).diff(dim=1)).amax(1).clamp(min=0.0)
    certified = gap + 2.0 * negative + excess * value + (n - 1) * disorder <= CERTIFIED
    return _settled(p.clamp(min=0.0), mode), value, slope, certified


def _slopes(mu: Nodes, bend: Nodes) -> Rows:
    """mu_{j+1} - mu_j: in runs, of one number and whole numbers, where w is nonbasic and given by `bend`."""
    n = mu.shape[1]
    nodes = torch.arange(n, device=mu.device)
    is_end = bend == 0.0  # (n, nodes), as all that follows
    first = torch.where(is_end, nodes, 0).cummax(1).values[:, :-1]  # (n, K), node j or the end before it
    last = _running_min_from_right(torch.where(is_end, nodes, n))[:, 1:]
    level = bend.cumsum(1)
    total = pad(level[:, :-1].cumsum(1), (1, 0))
    inner = total.gather(1, last) - total.gather(1, first)
    mean = (mu.gather(1, last) - mu.gather(1, first) - inner) / (last - first)
    return mean + level[:, :-1]


def _lower_bounds(q: Rows) -> Rows:
    """For each mode what |mu_i| = 1/2 at the nodes where the order is violated gives.

    One of the two nodes beside the mode has to do without, since mu changes its sign there and |w| <= 1.
    """
    step = pad(q, (1, 1)).diff(dim=1)  # (n, nodes)
    falls, rises = (-step).clamp(min=0.0), step.clamp(min=0.0)
    before = falls.cumsum(1)[:, :-1]  # (n, K)
    after = rises.flip(1).cumsum(1).flip(1)[:, 1:]
    return 0.5 * (before + after - torch.minimum(falls[:, :-1], rises[:, 1:]))


def _rises_and_falls(q: Rows, mode: Modes) -> Flags:
    """Whether q is unimodal with this mode already."""
    return (q.diff(dim=1) * _signs(mode, q.shape[1])[:, 1:] >= 0.0).all(1)


def _settled(p: Rows, mode: Modes) -> Rows:
    """Take away the rounding that breaks the order, to the last bit."""
    classes, root = torch.arange(p.shape[1], device=p.device), mode[:, None]
    to_root = _running_min_from_right(torch.where(classes <= root, p, torch.inf))  # (n, K)
    from_root = torch.where(classes >= root, p, torch.inf).cummin(1).values
    return torch.where(classes <= root, to_root, from_root)


def _signs(mode: Modes, length: int) -> Float64[Tensor, "n length"]:
    """+1 up to the mode, -1 after it."""
    return 1.0 - 2.0 * (torch.arange(length, device=mode.device) > mode[:, None]).double()


def _clamped(cost: Nodes, side: Nodes) -> Nodes:
    """Reduced costs without the rounding that gives them the wrong sign."""
    return torch.where(side > 0.0, cost.clamp(max=0.0), cost.clamp(min=0.0))


def _bend(x: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Second differences, with x = 0 beyond the ends."""
    return pad(x, (1, 1)).diff(n=2)


def _running_min_from_right(x: Tensor) -> Tensor:
    return x.flip(-1).cummin(-1).values.flip(-1)


def _chunks(x: Tensor, bytes_each: int) -> Iterator[Tensor]:
    """The entries of x, as many at a time as fit the budget."""
    size = max(1, _BUDGET // bytes_each)
    for first in range(0, len(x), size):
        yield x[first : first + size]
