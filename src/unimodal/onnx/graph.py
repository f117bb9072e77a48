"""Formulas that write down an ONNX graph: symbols stand for its tensors, arithmetic adds its nodes.

Everything is computed in float64. Runtimes have few functions in that precision; the others are made of
those few here:

    log(1 + u)   u log(w) / (w - 1) with w = 1 + u, in which the rounding of w cancels (Kahan)
    erfc(x)      t exp(P(t) - x²) with t = 2 / (2 + x) for x >= 0, and erfc(-x) = 2 - erfc(x)
    atan(x)      x P(x²) for |x| <= 1, and atan(x) = ±π/2 - atan(1/x)

with Chebyshev interpolants P that are good to a few units of the last place.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.polynomial import Chebyshev
from scipy.special import erfcx

Number: TypeAlias = "Symbol | float | np.ndarray | np.generic"

ML = "ai.onnx.ml"
_INNER = "inner/"
"""What names of tensors begin with that are no inputs or outputs."""
_DEGREE = 28
_SOFTPLUS_IS_LINEAR_FROM = 20.0
"""PyTorch's threshold."""


class Graph:
    """Nodes and constants, as they are written down.

    Parameters
    ----------
    taken : collection of str
        Names of inputs and outputs, which nothing else gets.
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._prefix = ""
        while any(name.startswith(self._prefix + _INNER) for name in taken):
            self._prefix += "_"
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[Any, ...], Symbol] = {}

    def constant(self, values: Any) -> "Symbol":
        """A tensor that is known; equal ones are stored once."""
        import onnx

        array = np.asarray(values)
        texts = array.dtype.kind == "U"
        content = tuple(array.ravel().tolist()) if texts else array.tobytes()
        key = array.dtype.str, array.shape, content
        if key not in self._known:
            symbol = Symbol(self, f"{self._prefix}{_INNER}constant{len(self.constants)}")
            if texts:
                of_texts = [text.encode() for text in array.ravel().tolist()]
                tensor = onnx.helper.make_tensor(symbol.name, onnx.TensorProto.STRING, array.shape, of_texts)
            else:
                tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(array), symbol.name)
            self.constants.append(tensor)
            self._known[key] = symbol
        return self._known[key]

    def lifted(self, value: Any) -> "Symbol":
        """A symbol for a number, an array or a symbol; numbers are float64."""
        if isinstance(value, Symbol):
            return value
        return self.constant(np.float64(value) if isinstance(value, int | float) else value)

    def op(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> "Symbol":
        """Add a node with one output."""
        import onnx

        name = f"{self._prefix}{_INNER}{kind.lower()}{len(self.nodes)}"
        names = [self.lifted(each).name for each in inputs]
        self.nodes.append(onnx.helper.make_node(kind, names, [name], name=name, domain=domain, **attributes))
        return Symbol(self, name)

    def joined(self, parts: "Sequence[Symbol]", axis: int = -1) -> "Symbol":
        """Put tensors one after another."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def where(self, condition: "Symbol", this: Number, other: Number) -> "Symbol":
        """Choose entry by entry."""
        return self.op("Where", condition, this, other)


class Symbol:
    """A tensor of the graph; the last axis is the one that functions act along."""

    __array_ufunc__ = None  # so that array - symbol is a symbol

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    def _op(self, kind: str, *others: Any, **attributes: Any) -> "Symbol":
        return self.graph.op(kind, self, *others, **attributes)

    def __add__(self, other: Number) -> "Symbol":
        return self._op("Add", other)

    def __radd__(self, other: Number) -> "Symbol":
        return self._op("Add", other)

    def __sub__(self, other: Number) -> "Symbol":
        return self._op("Sub", other)

    def __rsub__(self, other: Number) -> "Symbol":
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: Number) -> "Symbol":
        return self._op("Mul", other)

    def __rmul__(self, other: Number) -> "Symbol":
        return self._op("Mul", other)

    def __truediv__(self, other: Number) -> "Symbol":
        return self._op("Div", other)

    def __rtruediv__(self, other: Number) -> "Symbol":
        return self.graph.op("Div", other, self)

    def __neg__(self) -> "Symbol":
        return self._op("Neg")

    def __matmul__(self, other: Number) -> "Symbol":
        return self._op("MatMul", other)

    def is_below(self, other: Number) -> "Symbol":
        return self._op("Less", other)

    def is_above(self, other: Number) -> "Symbol":
        return self._op("Greater", other)

    def is_at_most(self, other: Number) -> "Symbol":
        return self._op("LessOrEqual", other)

    def is_at_least(self, other: Number) -> "Symbol":
        return self._op("GreaterOrEqual", other)

    def at_least(self, other: Number) -> "Symbol":
        return self._op("Max", other)

    def at_most(self, other: Number) -> "Symbol":
        return self._op("Min", other)

    def abs(self) -> "Symbol":
        return self._op("Abs")

    def exp(self) -> "Symbol":
        return self._op("Exp")

    def log(self) -> "Symbol":
        return self._op("Log")

    def tanh(self) -> "Symbol":
        return self._op("Tanh")

    def sigmoid(self) -> "Symbol":
        return self._op("Sigmoid")

    def double(self) -> "Symbol":
        return self._op("Cast", to=11)

    def float(self) -> "Symbol":
        return self._op("Cast", to=1)

    def integer(self) -> "Symbol":
        return self._op("Cast", to=7)

    def sum(self) -> "Symbol":
        return self._op("ReduceSum", np.array([-1]), keepdims=1)

    def max(self, axis: int = -1, keepdims: int = 1) -> "Symbol":
        return self._op("ReduceMax", axes=[axis], keepdims=keepdims)

    def min(self, axis: int = -1, keepdims: int = 1) -> "Symbol":
        return self._op("ReduceMin", axes=[axis], keepdims=keepdims)

    def cumsum(self) -> "Symbol":
        return self._op("CumSum", np.array(-1))

    def part(self, start: int, stop: int) -> "Symbol":
        """A slice."""
        return self._op("Slice", np.array([start]), np.array([stop]), np.array([-1]))

    def taken(self, places: Any, axis: int = -1) -> "Symbol":
        """What is at these places."""
        return self._op("Gather", np.asarray(places, dtype=np.int64), axis=axis)

    def taken_at(self, places: "Symbol") -> "Symbol":
        """What is at places that are computed, along the first axis."""
        return self._op("Gather", places, axis=0)

    def unsqueezed(self, axis: int) -> "Symbol":
        return self._op("Unsqueeze", np.array([axis]))

    def padded(self, before: int, after: int, rank: int, value: Any = 0.0) -> "Symbol":
        """Numbers before and after, in a tensor of so many axes."""
        pads = [0] * (rank - 1) + [before] + [0] * (rank - 1) + [after]
        return self._op("Pad", np.array(pads), value)

    def log_softmax(self) -> "Symbol":
        return self._op("LogSoftmax", axis=-1)

    def log1p(self) -> "Symbol":
        """Log(1 + u) for u >= 0, to a relative precision."""
        w = 1.0 + self
        rounded_away = w.is_at_most(1.0)
        safe = self.graph.where(rounded_away, 2.0, w)
        return self.graph.where(rounded_away, self, self * safe.log() / (safe - 1.0))

    def softplus(self) -> "Symbol":
        is_linear = self.is_above(_SOFTPLUS_IS_LINEAR_FROM)
        return self.graph.where(is_linear, self, self.at_most(_SOFTPLUS_IS_LINEAR_FROM).exp().log1p())

    def log_sigmoid(self) -> "Symbol":
        return self.at_most(0.0) - (-self.abs()).exp().log1p()

    def erfc(self) -> "Symbol":
        def log_rest(t: np.ndarray) -> np.ndarray:
            t = np.maximum(t, 1e-300)
            rest: np.ndarray = np.log(erfcx(2 / t - 2) / t)
            return rest

        size = self.abs()
        t = 2.0 / (size + 2.0)
        tail = t * (_chebyshev(log_rest, t) - size * size).exp()
        return self.graph.where(self.is_below(0.0), 2.0 - tail, tail)

    def atan(self) -> "Symbol":
        def quotient(square: np.ndarray) -> np.ndarray:
            x = np.sqrt(np.maximum(square, 1e-16))
            of_square: np.ndarray = np.arctan(x) / x
            return of_square

        size = self.abs()
        is_large = size.is_above(1.0)
        small = self.graph.where(is_large, 1.0 / size.at_least(1.0), size)
        angle = small * _chebyshev(quotient, small * small)
        angle = self.graph.where(is_large, math.pi / 2 - angle, angle)
        return self.graph.where(self.is_below(0.0), -angle, angle)


def _chebyshev(function: Any, x: Symbol) -> Symbol:
    """A function on [0, 1] by interpolation, summed by Clenshaw's recurrence."""
    coefficients: list[float] = Chebyshev.interpolate(function, _DEGREE, domain=[0, 1]).coef.tolist()
    y = 4.0 * x - 2.0
    last, before = x * 0.0 + coefficients[-1], x * 0.0
    for coefficient in coefficients[-2:0:-1]:
        last, before = coefficient + y * last - before, last
    return coefficients[0] + 0.5 * y * last - before
