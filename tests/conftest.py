"""Shape annotations are executed in every test; numba kernels, which cannot be wrapped, are left out."""

import os

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

CHECKED = (
    "unimodal.simplex",
    "unimodal.decision",
    "unimodal.projection.api",
    "unimodal.heads",
    "unimodal.objectives",
    "unimodal.methods",
    "unimodal.estimators.labels",
    "unimodal.estimators.scaling",
    "unimodal.estimators.columns",
    "unimodal.estimators.tables",
    "unimodal.metrics",
    "unimodal.validation",
    "unimodal.estimators.forest",
    "unimodal.training.networks",
    "unimodal.training.stacked",
    "unimodal.training.plan",
    "unimodal.benchmark.statistics",
)
install_import_hook(CHECKED, "beartype.beartype")

hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
hypothesis.settings.load_profile("default")
torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture
def folder(model_folder, monkeypatch):
    """A folder with a table, parameters to train quickly, and a model; a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    return model_folder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    from command_line import QUICK, done, fit_arguments, table

    made = tmp_path_factory.mktemp("cli")
    table().to_csv(made / "t.csv", index=False)
    (made / "quick.toml").write_text(QUICK)
    done(*fit_arguments(made, made / "model"))
    return made
