"""Shape annotations are executed in every test; numba kernels, which cannot be wrapped, are left out."""

import os

import hypothesis
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
