"""The README and the documentation: snippets run, public names occur, links and pictures exist."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, done

import unimodal as um

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = [(page.name, code) for page in PAGES for code in SNIPPET.findall(page.read_text(encoding="utf-8"))]


COMMANDS = [
    (page.name, re.findall(r"^unimodal (.*)$", code, re.MULTILINE))
    for page in PAGES
    for code in re.findall(r"^```(?:console|bash)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    if re.search(r"^unimodal ", code, re.MULTILINE)
]


def pattern(said):
    """What a comment behind a print says was printed: white space is folded, ... stands for anything."""
    return ".*".join(re.escape("".join(part.split())) for part in said.split("..."))


@pytest.mark.parametrize(
    ("page", "code"), SNIPPETS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(SNIPPETS)]
)
def test_snippet_runs_and_prints_what_it_says(page, code):
    printed = []
    exec(compile(code, page, "exec"), {"print": lambda *values: printed.append(" ".join(map(str, values)))})
    said = re.findall(r"^ *print\(.*\)(?:  # (.*))?$", code, re.MULTILINE)
    assert len(printed) == len(said)
    for line, comment in zip(printed, said, strict=True):
        if re.match(r"[\d\[({]", comment):
            assert re.fullmatch(pattern(comment), "".join(line.split())), (
                f"{line!r} was said to be {comment!r}"
            )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """What the commands of the documentation find in their folder, whichever of them is the first."""
    folder = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    size = rng.normal(size=90).round(3)
    frame = pd.DataFrame({"id": range(90), "size": size, "colour": rng.choice(["red", "blue"], 90)})
    graded = frame.assign(grade=np.array(["low", "mid", "high"])[np.digitize(size, [-0.5, 0.5])])
    graded[:60].to_csv(folder / "grades.csv", index=False)
    graded[60:].to_csv(folder / "test.csv", index=False)
    frame.to_csv(folder / "new.csv", index=False)
    (folder / "quick.toml").write_text(QUICK)
    (folder / "wu.toml").write_text(QUICK + "[params]\nlam = 10.0\n")
    names = ["--target", "grade", "--order", "low,mid,high", "--config", folder / "quick.toml"]
    done("fit", folder / "grades.csv", *names, "-o", folder / "model")
    return folder


@pytest.mark.parametrize(
    ("page", "commands"), COMMANDS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(COMMANDS)]
)
def test_commands_run(page, commands, tables, monkeypatch):
    """As they stand; where they train, for a moment only, unless they say how."""
    monkeypatch.chdir(tables)
    for command in commands:
        arguments = shlex.split(command, comments=True)
        if arguments[0] in ("fit", "compare") and "--config" not in arguments:
            arguments += ["--config", "quick.toml"]
        assert done(*arguments) or arguments[0] in ("predict", "export")


@pytest.mark.parametrize("name", um.__all__)
def test_every_public_name_occurs_in_a_snippet(name):
    assert any(re.search(rf"\bum\.{name}\b", code) for _, code in SNIPPETS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = re.findall(r"^make (\w+)", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert {"reproduce", "test"} <= set(commands) <= targets


def test_every_layer_is_explained_to_contributors():
    """In the order in which they depend on each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [layer.strip("()") for layer in contracts["contracts"][0]["layers"]]
    there = {path.stem for path in (ROOT / "src" / "unimodal").iterdir()}
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)/?` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(there.intersection(layers) - {"__main__"})
    place = [layers.index(name) for name in explained]
    assert place == sorted(place)


def test_the_documentation_builds(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "reference" / "index.html").read_text(encoding="utf-8")
    for name in (
        "unimodal.make_method",
        "unimodal.project",
        "unimodal.simplex.sample",
        "unimodal.metrics.qwk",
        "unimodal.OrdinalClassifier.predict_interval",
        "unimodal.cross_validate",
        "unimodal.export_onnx",
        "unimodal.decision.interval",
    ):
        assert f'id="{name}"' in reference, name
    methods = (tmp_path / "methods" / "index.html").read_text(encoding="utf-8")
    assert all(f"<code>{name}</code>" in methods for name in um.METHODS)


def test_importing_the_package_is_light():
    code = "import sys, unimodal; print(sorted({'torch', 'numpy', 'scipy', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_projecting_arrays_does_without_torch():
    code = (
        "import sys, unimodal as um; um.project([[0.5, 0.1, 0.4]]); um.metrics.qwk([0, 1], [0, 1]);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
