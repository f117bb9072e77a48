"""Models that are trained in no time, and what they are trained on."""

import numpy as np
import pandas as pd

import unimodal as um

FAST = {"epochs": 3, "hidden": (8,), "members": 3, "trees": 0, "batch_size": 64, "random_state": 0}
GRADES = ["low", "mid", "high"]


def make(n=90, n_classes=3, seed=0):
    """Columns, and ordered classes of about the same size that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X @ [1.0, -0.5, 0.2] + 0.3 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]), score)


def table(n=60, seed=0):
    """Columns of every kind."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(40, 9, n)),
            "colour": rng.choice(["red", "grün", None], n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"], ordered=True),
            "children": pd.array(rng.choice([0, 1, 2, None], n), dtype="Int64"),
            "member": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "share": pd.array(rng.random(n), dtype="Float64"),
            "city": pd.array(rng.choice(["Rome", "Bonn"], n), dtype="string"),
        }
    )


def fitted(X, y, *weight, **options):
    return um.OrdinalClassifier(**FAST | options).fit(X, y, *weight)
