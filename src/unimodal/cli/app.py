"""The commands under their names, and what becomes of errors: one line on stderr and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unimodal import __version__
from unimodal.cli import comparing, listing, models
from unimodal.cli.output import complain
from unimodal.cli.wording import in_options, one_line

__all__ = ["app", "run"]

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

_USERS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors of the operating system that another path avoids."""

app = typer.Typer(
    name="unimodal",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("methods")(listing.methods)
app.command("fit")(models.fit)
app.command("predict")(models.predict)
app.command("evaluate")(models.evaluate)
app.command("compare")(comparing.compare)
app.command("export")(models.export)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unimodal {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Ordinal regression whose predicted distributions have one peak.

    Tables are CSV, TSV or Parquet files with a header. Results go to stdout, everything else to stderr.
    """


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        returned = typer.main.get_command(app).main(arguments, prog_name="unimodal", standalone_mode=False)
        sys.stdout.flush()
        if returned == INTERRUPTED:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        return returned if isinstance(returned, int) else DONE
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return INTERRUPTED
    except typer.TyperException as error:
        complain(error.format_message())
        return error.exit_code
    except BrokenPipeError:  # whoever read stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except ValueError as error:
        complain(in_options(one_line(error)))
        return WRONG_USE
    except ImportError as error:
        complain(one_line(error))
        return FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        complain(f"{where}{error.strerror or one_line(error)}")
        return WRONG_USE if isinstance(error, _USERS) else FAILED
