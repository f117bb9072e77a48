"""The command line: it parses and calls, and prints what it gets."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit code: 0 done, 2 wrong use or bad input, 130 interrupted, 1 else."""
    try:
        from unimodal.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("rich", "typer"):
            raise
        sys.stderr.write("error: the command line needs typer and rich: pip install 'unimodal[cli]'\n")
        return 1
    return run(argv)
