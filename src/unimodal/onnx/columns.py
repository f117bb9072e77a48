"""The columns of a table as formulas of a graph: what comes in, and what networks and trees read of it.

A table of numbers is one input "X" of float32. With text in it, every column is an input of its own by its
name: (n, 1) of float32, or of text, spelled as when the model was fitted. Missing are NaN, and "" where that
is no category. The arithmetic is that of `unimodal.estimators.scaling`, in float64, with outputs in float32.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from unimodal.estimators.columns import CategoryColumn, Column, NumberColumn, RankColumn
from unimodal.estimators.scaling import FAR, HUGE, Piecewise, Quantile, Scaling, Standard
from unimodal.onnx.graph import ML, Graph, Symbol

Place: TypeAlias = tuple[int, Symbol]
"""The number of a column, and what is known of it."""
Block: TypeAlias = tuple[list[int], Symbol]
"""The number of each output's column, and the outputs."""

_TABLE = "X"
_MISSING = -2


@dataclass(frozen=True)
class Inputs:
    """What networks and trees read, and the declared inputs of the graph."""

    encoded: Symbol
    raw: Symbol
    declared: list[Any]

    @property
    def first(self) -> Symbol:
        """An input, from whose shape the number of rows is known."""
        return Symbol(self.encoded.graph, self.declared[0].name)


def input_names(columns: list[Column]) -> list[str]:
    """What the inputs of a table with these columns are called."""
    return [_TABLE] if _is_numeric(columns) else [column.name for column in columns]


def read(graph: Graph, columns: list[Column]) -> Inputs:
    """Declare the inputs of a table with these columns, and encode them."""
    numbers, categories, declared = _given(graph, columns)
    encoded, raw = [], []  # pairs: the column of each output, and the outputs
    if numbers is not None:
        raw.append(numbers)
        encoded = _encoded_numbers(numbers[1], [(j, _number(columns[j])) for j in numbers[0]])
    for j, code in categories:
        column = columns[j]
        assert isinstance(column, CategoryColumn)
        block = [j] * len(column.output_names), _shown(column, code)
        encoded.append(block)
        raw.append(block)
    return Inputs(_by_column(encoded).float().double(), _by_column(raw), declared)


def _given(graph: Graph, columns: list[Column]) -> tuple[Block | None, list[Place], list[Any]]:
    """Numbers, NaN where they are missing; codes of categories; and the declared inputs."""
    import onnx

    declare = onnx.helper.make_tensor_value_info
    float32, text = onnx.TensorProto.FLOAT, onnx.TensorProto.STRING
    if _is_numeric(columns):
        table = Symbol(graph, _TABLE).double()
        whole = [declare(_TABLE, float32, ["n", len(columns)])]
        return (list(range(len(columns))), table), [], whole
    numbers, categories, declared = [], [], []
    for j, column in enumerate(columns):
        given = Symbol(graph, column.name)
        is_number = isinstance(column, NumberColumn)
        declared.append(declare(column.name, float32 if is_number else text, ["n", 1]))
        if isinstance(column, CategoryColumn):
            categories.append((j, _codes(given, column.categories)))
        elif isinstance(column, RankColumn):
            code = _codes(given, column.categories)
            numbers.append((j, graph.where(code.is_below(np.int64(0)), np.nan, code.double())))
        else:
            numbers.append((j, given.double()))
    block = ([j for j, _ in numbers], graph.joined([values for _, values in numbers])) if numbers else None
    return block, categories, declared


def _is_numeric(columns: list[Column]) -> bool:
    return all(isinstance(column, NumberColumn) for column in columns)


def _by_column(blocks: list[Block]) -> Symbol:
    """Put outputs in the order of their columns."""
    of_each = [j for columns, _ in blocks for j in columns]
    joined = blocks[0][1].graph.joined([values for _, values in blocks])
    return joined if of_each == sorted(of_each) else joined.taken(np.argsort(of_each, kind="stable"))


def _number(column: Column) -> NumberColumn:
    if isinstance(column, RankColumn):
        return column.ranks
    assert isinstance(column, NumberColumn)
    return column


def _codes(given: Symbol, categories: tuple[str, ...]) -> Symbol:
    """The place of each text among the categories, -1 for others, -2 where it is missing."""
    places = {category: i for i, category in enumerate(categories)}
    places.setdefault("", _MISSING)
    return given.graph.op(
        "LabelEncoder",
        given,
        domain=ML,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=-1,
    )


def _shown(column: CategoryColumn, code: Symbol) -> Symbol:
    first = 1 if len(column.categories) == 2 else 0
    places = [*range(first, len(column.categories)), *([_MISSING] if column.flag else [])]
    return code.graph.op("Equal", code, np.array([places], dtype=np.int64)).double()


def _encoded_numbers(values: Symbol, columns: list[tuple[int, NumberColumn]]) -> list[Block]:
    """All outputs of columns of numbers: those that are clip((x - low) / width), then others, then flags."""
    graph = values.graph
    missing = graph.op("IsNaN", values)
    medians = np.array([[column.median for _, column in columns]])
    filled = graph.where(missing, medians, values).at_least(-HUGE).at_most(HUGE)
    blocks: list[Block] = []
    linear = [
        (source, *numbers)
        for source, (_, column) in enumerate(columns)
        for numbers in _linear(column.scaling)
    ]
    if linear:
        sources, low, width, least, most = zip(*linear, strict=True)
        steps = [np.array([numbers], dtype=np.float64) for numbers in (low, width, least, most)]
        outputs = ((filled.taken(sources) - steps[0]) / steps[1]).at_least(steps[2]).at_most(steps[3])
        blocks.append(([columns[source][0] for source in sources], outputs))
    for source, (j, column) in enumerate(columns):
        if isinstance(column.scaling, Quantile):
            blocks.append(([j], _quantile(filled.taken([source]), column.scaling)))
    flagged = [source for source, (_, column) in enumerate(columns) if column.flag]
    if flagged:
        blocks.append(([columns[source][0] for source in flagged], missing.taken(flagged).double()))
    return blocks


def _linear(scaling: Scaling) -> list[tuple[float, float, float, float]]:
    """Low, width and bounds of each output of this form."""
    standard = scaling.standard if isinstance(scaling, Piecewise) else scaling
    outputs: list[tuple[float, float, float, float]] = []
    if isinstance(standard, Standard):
        is_constant = standard.spread == 0
        outputs.append((0, 1, 0, 0) if is_constant else (standard.center, standard.spread, -FAR, FAR))
    if isinstance(scaling, Piecewise):
        low, width = scaling.edges[:-1].tolist(), np.diff(scaling.edges).tolist()
        outputs += [(*each, 0, 1) for each in zip(low, width, strict=True)]
    return outputs


def _quantile(x: Symbol, scaling: Quantile) -> Symbol:
    knots, scores = scaling.knots, scaling.scores
    if len(knots) == 1:
        return x * 0.0 + float(scores[0])
    graph = x.graph
    passed = x.is_at_least(knots[None]).integer()
    count = graph.op("ReduceSum", passed, np.array([-1]), keepdims=1)
    i = count.at_least(np.int64(1)).at_most(np.int64(len(knots) - 1))

    def at(values: np.ndarray, place: Symbol) -> Symbol:
        return graph.constant(values).taken_at(place)

    before = i - np.int64(1)
    low, high = at(knots, before), at(knots, i)
    share = (x.at_least(float(knots[0])).at_most(float(knots[-1])) - low) / (high - low)
    score = at(scores, before) + share * (at(scores, i) - at(scores, before))
    return score.at_most(at(scores, i))
