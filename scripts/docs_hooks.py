"""What the documentation takes from the code, so that it cannot fall behind: called by mkdocs."""

import re
from inspect import getdoc
from pathlib import Path
from typing import Any

from unimodal.methods import METHODS
from unimodal.metrics import METRICS

README = Path(__file__).parents[1] / "README.md"
RESULTS = README.parent / "benchmarks" / "RESULTS.md"
REPOSITORY_FILES = {"benchmarks/RESULTS.md": "the repository's benchmarks folder"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the marked places of a page."""
    parts = {
        "readme": readme,
        "methods": methods_table,
        "metrics": metrics_table,
        "projection_results": projection_results,
    }
    return re.sub(r"<!-- (\w+) -->", lambda mark: parts[mark[1]](), markdown)


def readme() -> str:
    """The README as a page: its links, which start at the repository, start at `docs`."""
    text = README.read_text(encoding="utf-8").replace("](docs/", "](")
    for path, name in REPOSITORY_FILES.items():
        text = re.sub(rf"\[([^\]]*)\]\({re.escape(path)}\)", rf"\1 (`{path}`, in {name})", text)
    return text


def projection_results() -> str:
    """The first table of the projection's measurements."""
    section = RESULTS.read_text(encoding="utf-8").split("## Projection", 1)[1]
    return section[section.index("|") :].split("\n\n", 1)[0]


def methods_table() -> str:
    """One line for each method."""
    lines = ["| name | method | family | outputs | parameters | reference |", "|---|---|---|---|---|---|"]
    for method in METHODS.values():
        outputs = {1: "1", 6: "K-1", 7: "K"}[method.build(7).n_outputs]
        params = ", ".join(f"`{name}={value!r}`" for name, value in method.default_params.items())
        lines.append(
            f"| `{method.name}` | {method.symbol}: {method.title} | {method.family} | {outputs} "
            f"| {params} | {method.reference} |"
        )
    return "\n".join(lines)


def metrics_table() -> str:
    """One line for each metric."""
    better = {True: "higher", False: "lower", None: "near zero"}
    lines = ["| name | what it is | better |", "|---|---|---|"]
    for name, metric in METRICS.items():
        what = (getdoc(metric.function) or "").split("\n", 1)[0]
        lines.append(f"| `{name}` | {what} | {better[metric.greater_is_better]} |")
    return "\n".join(lines)
