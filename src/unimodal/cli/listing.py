"""The table of methods."""

from typing import Annotated

import typer

from unimodal.cli.output import print_json, print_table

__all__ = ["methods"]


def methods(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the methods: their names, families and parameters."""
    from unimodal.methods import METHODS

    if as_json:
        print_json(
            {
                name: {
                    "symbol": method.symbol,
                    "title": method.title,
                    "family": method.family,
                    "always_unimodal": method.always_unimodal,
                    "default_params": method.default_params,
                    "reference": method.reference,
                }
                for name, method in METHODS.items()
            }
        )
        return
    rows = [
        [name, method.title, method.family, ", ".join(f"{k}={v}" for k, v in method.default_params.items())]
        for name, method in METHODS.items()
    ]
    print_table(["name", "method", "family", "parameters"], rows, left=4)
