"""The command that compares every method, and what users would pick instead, on a table."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unimodal.cli import inputs
from unimodal.cli.models import Config, Drop, Jobs, Json, Order, Table, Target
from unimodal.cli.output import (
    advancing,
    note,
    number,
    percent,
    print_json,
    print_line,
    print_table,
    with_notes,
)

if TYPE_CHECKING:
    from unimodal.benchmark.compare import Comparison
    from unimodal.benchmark.ranking import Ranked

__all__ = ["compare"]

_KINDS = {"method": "network", "ensemble": "ensemble", "peer": "sklearn"}


def compare(
    table: Table,
    target: Target,
    order: Order = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="A,B,C", help="Which methods. [default: all]")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", metavar="N", help="Folds of the cross-validation.")] = 5,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="How often rows are dealt into folds.")
    ] = 1,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="The metric to rank by.")] = "rps",
    lambdas: Annotated[
        str | None,
        typer.Option(
            "--lambdas", metavar="X,Y", help="Tried by methods that have one. [default: 0.001 to 1000]"
        ),
    ] = None,
    drop: Drop = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="A table with the scores of all folds."),
    ] = None,
    config: Config = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Cross-validate every method on a table; say which to take.

    In the same folds are the ensemble that `unimodal fit` trains, and what one might pick instead:
    scikit-learn's logistic regression, random forest and histogram gradient boosting, as they are and
    (+u) with each prediction replaced by the nearest unimodal one.
    """
    from unimodal.benchmark.compare import compare as compared
    from unimodal.datasets.files import TableWriter, read_table
    from unimodal.estimators.search import LAMBDAS

    tried = LAMBDAS if lambdas is None else inputs.as_numbers(lambdas, "--lambdas")
    parameters = inputs.read_config(config)
    writer = None
    if output is not None:
        inputs.refuse_itself(output, table)
        writer = TableWriter(output)
    X, y, _ = inputs.split_table(read_table(table), target, drop)
    with with_notes(), advancing() as advance:
        found = compared(
            X,
            y,
            inputs.as_list(methods, "--methods"),
            folds=folds,
            seeds=seeds,
            lambdas=tried,
            metric=metric,
            estimator=inputs.make_classifier(parameters, order=inputs.as_list(order, "--order")),
            n_jobs=jobs,
            on_stage=advance,
        )
    for name, why in found.left_out.items():
        note(f"{name} is left out: {why}")
    if writer is not None:
        with writer:
            writer.write(found.folds)
    if as_json:
        print_json(_described(found, metric, folds, seeds))
    else:
        _print(found, metric, folds, seeds)
    if not found.finished:
        raise KeyboardInterrupt


def _print(found: "Comparison", metric: str, folds: int, seeds: int) -> None:
    dealt = f"{folds} folds" + (f" of {seeds} deals" if seeds > 1 else "")
    print_line(f"mean {metric} over {dealt}, {found.n_rows} rows; {_better(metric)} is better")
    if not found.finished:
        print_line("interrupted: what was finished")
    print_line()
    header = ["model", "what", "lambda", metric, "95 % interval", "p", "unimodal"]
    print_table(header, [_row(each) for each in found.ranked], left=2)
    print_line()
    print_line(
        "p: of no difference to the first (Nadeau and Bengio's t-test, Holm over all comparisons), * if "
        "below 0.05. +u: predictions made unimodal by unimodal.project. ensemble: what `unimodal fit` trains."
    )
    print_line()
    print_line(f"Take {found.take.name}: {found.take.why}")


def _row(each: "Ranked") -> list[str]:
    interval = each.estimate
    p = "< 0.001" if each.p < 0.0005 else number(each.p)
    tested = "" if each.difference is None else f"{p}{'*' if each.is_worse else ' '}"
    return [
        each.name,
        _KINDS[each.model.kind],
        "" if each.lam is None else f"{each.lam:g}",
        number(interval.mean),
        "undefined" if isnan(interval.low) else f"{number(interval.low)} to {number(interval.high)}",
        tested,
        percent(each.scores["unimodal_share"]),
    ]


def _better(metric: str) -> str:
    from unimodal.metrics import METRICS

    return {True: "higher", False: "lower", None: "nearer to zero"}[METRICS[metric].greater_is_better]


def _described(found: "Comparison", metric: str, folds: int, seeds: int) -> dict[str, Any]:
    return {
        "metric": metric,
        "folds": folds,
        "seeds": seeds,
        "rows": found.n_rows,
        "finished": found.finished,
        "take": found.take._asdict(),
        "left_out": found.left_out,
        "models": [
            {
                "name": each.name,
                "kind": each.model.kind,
                "always_unimodal": each.model.always_unimodal,
                "lambda": each.lam,
                "mean": each.estimate.mean,
                "interval": [each.estimate.low, each.estimate.high],
                "difference": None if each.difference is None else each.difference.mean,
                "difference_interval": None if each.difference is None else each.difference[1:3],
                "p": each.p,
                "significantly_worse": each.is_worse,
                "scores": each.scores,
            }
            for each in found.ranked
        ],
    }
