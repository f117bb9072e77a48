"""Commands that make a model and use it: fit, predict, evaluate, export."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unimodal.cli import inputs
from unimodal.cli.output import advancing, counted, note, print_json, print_line, with_notes
from unimodal.cli.summary import classes_line, print_scores

if TYPE_CHECKING:
    from unimodal.export import Model
    from unimodal.training import Progress

__all__ = ["evaluate", "export", "fit", "predict"]

Table = Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV, TSV or Parquet file.")]
Saved = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[str, typer.Option("--target", metavar="COL", help="The column with the classes.")]
Order = Annotated[
    str | None, typer.Option("--order", metavar="A,B,C", help="The classes, lowest first; quote commas.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL", help="A column to leave out; again for another, or with commas."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Parameters of OrdinalClassifier, in TOML; options win."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="N", help="Processes; -1 for one on each core.")]

_MOST_NUMBERS = 1 << 22
"""Probabilities that are held in memory at a time."""


def fit(
    table: Table,
    target: Target,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL", help="The folder to save the model in.")
    ],
    order: Order = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="NAME", help="One of `unimodal methods`.")
    ] = None,
    members: Annotated[int | None, typer.Option("--members", metavar="N", help="How many networks.")] = None,
    config: Config = None,
    drop: Drop = None,
    weight: Annotated[
        str | None, typer.Option("--weight", metavar="COL", help="The column with the weights of the rows.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            max=2**32 - 1,
            help="The same seed gives the same model. [default: 0]",
        ),
    ] = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Learn from a table and save the model.

    Prints the order of the classes, and how well rows are predicted by members of the ensemble that have
    not seen them: all rows if there are at least 8 members.
    """
    from unimodal.datasets.files import read_table
    from unimodal.export import check_destination, save

    check_destination(output)
    parameters = inputs.read_config(config)
    X, y, weights = inputs.split_table(read_table(table), target, drop, weight)
    for name in X.columns[X.isna().all()]:
        note(f"column {name!r} has no values")
    start = time.perf_counter()
    with with_notes(), advancing() as advance:

        def on_progress(progress: "Progress") -> None:
            advance("training", progress.done / max(progress.total, 1))

        model = inputs.make_classifier(
            parameters,
            method=method,
            order=inputs.as_list(order, "--order"),
            members=members,
            random_state=seed,
            n_jobs=jobs,
            on_progress=on_progress,
        )
        model.fit(X, y, weights)
    seconds = time.perf_counter() - start
    model.target_name_ = target
    save(model, output)
    counts = _counts(model, y)
    if as_json:
        print_json(
            {
                "model": str(output),
                "target": target,
                "method": model.method,
                "rows": len(y),
                "classes": [{"label": label, "rows": rows} for label, rows in counts.items()],
                "seconds": seconds,
                "scores": model.validation_scores_,
                "confusion": model.validation_confusion_,
            }
        )
        return
    print_line(classes_line(target, counts))
    print_line()
    scored = int(model.validation_confusion_.sum())
    seen = f"{scored} of {len(y)} rows" if scored < len(y) else counted(scored, "row")
    title = f"{seen}, each predicted by members of the ensemble that have not seen it"
    print_scores(title, model.validation_scores_, model.validation_confusion_, list(counts))
    parts = [f"{counted(model.members, 'network')} of {model.method}"]
    if model.trees:
        parts.append(counted(model.trees, "tree"))
    print_line(f"{' and '.join(parts)}: {seconds:.1f} s, saved in {output}")


def _counts(model: Any, y: Any) -> dict[Any, int]:
    """How many rows each class has, in the order of the classes."""
    import numpy as np

    from unimodal.estimators.labels import Classes

    codes = Classes(model.classes_).encode(y)
    counts = np.bincount(codes, minlength=len(model.classes_))
    return dict(zip(model.classes_.tolist(), counts.tolist(), strict=True))


def _rule(model: "Model") -> str:
    chosen: Any = getattr(model, "best_estimator_", model)
    return str(chosen.rule)


def _piece(model: "Model") -> int:
    """How many rows to read at a time."""
    return max(256, min(65536, _MOST_NUMBERS // len(model.classes_)))


def predict(
    model: Saved,
    table: Table,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="OUT", help="A CSV, TSV or Parquet file; - for CSV on stdout."
        ),
    ],
    rule: Annotated[
        str | None,
        typer.Option("--rule", metavar="mode|median|mean", help="What to report. [default: the model's own]"),
    ] = None,
    coverage: Annotated[
        float, typer.Option("--coverage", metavar="P", help="Probability of the range from low to high.")
    ] = 0.9,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="COL", help="A column of TABLE to keep; again for another. [default: all]"
        ),
    ] = None,
    only_predictions: Annotated[
        bool, typer.Option("--only-predictions", help="Keep no column of TABLE.")
    ] = False,
) -> None:
    """Predict the rows of a table, of any size, in their order.

    Adds columns: prediction; low and high, the shortest range of classes with enough probability; and the
    probability of each class, p_<class>. Columns are matched by name; the model ignores others.
    """
    from itertools import chain

    from unimodal.datasets.files import stream_table
    from unimodal.datasets.predictions import predictions
    from unimodal.export import load

    if only_predictions and keep:
        raise ValueError("--keep and --only-predictions exclude each other")
    inputs.refuse_itself(output, table)
    fitted = load(model)
    pieces = stream_table(table, _piece(fitted))
    first = next(pieces)
    kept = [] if only_predictions else inputs.columns_among(first, keep, "--keep") if keep else None
    found = predictions(fitted, chain([first], pieces), rule or _rule(fitted), coverage, kept)
    with with_notes():
        rows = _write(found, output)
    if str(output) != "-":
        sys.stderr.write(f"{counted(rows, 'row')} in {output}\n")


def _write(pieces: Any, output: Path) -> int:
    """Write pieces of a table, and count their rows."""
    from unimodal.datasets.files import TableWriter, as_text

    rows = 0
    if str(output) == "-":
        for piece in pieces:
            sys.stdout.write(as_text(piece, header=rows == 0))
            rows += len(piece)
        return rows
    with TableWriter(output) as writer:
        for piece in pieces:
            writer.write(piece)
            rows += len(piece)
    return rows


def evaluate(
    model: Saved,
    table: Table,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COL", help="The column with the classes. [default: as in fit]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure how well a model predicts a labelled table."""
    from unimodal.datasets.files import stream_table
    from unimodal.datasets.predictions import scores
    from unimodal.export import load

    fitted = load(model)
    column = target or getattr(fitted, "target_name_", None)
    if column is None:
        raise ValueError(f"{model} does not know the name of its target: say it with --target")
    with with_notes():
        found, confusion = scores(fitted, stream_table(table, _piece(fitted)), column, _rule(fitted))
    labels = fitted.classes_.tolist()
    counts = dict(zip(labels, confusion.sum(axis=1).tolist(), strict=True))
    if as_json:
        print_json(
            {
                "model": str(model),
                "table": str(table),
                "target": column,
                "rows": int(confusion.sum()),
                "classes": [{"label": label, "rows": rows} for label, rows in counts.items()],
                "scores": found,
                "confusion": confusion,
            }
        )
        return
    print_line(classes_line(column, counts))
    print_line()
    print_scores(f"{counted(int(confusion.sum()), 'row')} of {table}", found, confusion, labels)


def export(
    model: Saved,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="OUT", help="The ONNX file to write.")],
) -> None:
    """Write a model in a format that other programs run."""
    from unimodal import export_onnx
    from unimodal.export import load

    if onnx.is_dir():
        raise ValueError(f"--onnx {onnx} is a folder: name a file")
    with with_notes():
        export_onnx(load(model), onnx)
    sys.stderr.write(f"{model} as {onnx}\n")
