"""A scikit-learn classifier for ordered classes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from unimodal import decision, metrics
from unimodal.estimators import ensemble
from unimodal.estimators.base import DistributionClassifier, as_table
from unimodal.estimators.ensemble import Ensemble, Settings, Table
from unimodal.estimators.labels import Classes
from unimodal.estimators.rows import balanced, canonical
from unimodal.estimators.tables import TableEncoder
from unimodal.methods import METHODS
from unimodal.simplex import Values
from unimodal.training import OnProgress, Recipe

_BATCHES = 32
_BATCH_SIZES = (32, 1024)


class Rows(NamedTuple):
    """The rows of a table to learn from, in an order of their own."""

    X: Any
    y: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]


class OrdinalClassifier(DistributionClassifier):
    """Classifier for ordered classes whose predicted distributions have one peak.

    Several networks are trained at the same time, each on other rows, and averaged. Tables may have text,
    Categoricals and missing values; numbers are scaled inside.

    Parameters
    ----------
    method : str
        A key of `unimodal.METHODS`.
    order : list of labels, optional
        The classes, lowest first. By default the order of an ordered Categorical, else the sorted labels.
    params : mapping, optional
        Parameters of the method, such as ``{"lam": 10}``.
    members : int
        How many networks.
    trees : int
        How many randomised trees are grown beside them and mixed in, as far as that makes rows likelier
        which neither has seen; 0 for none.
    unimodal : bool
        Whether the average is replaced by the nearest distribution with one peak.
    numeric : {"piecewise", "quantile", "standard"}
        How columns of numbers are scaled, see `TableEncoder`.
    hidden : tuple of ints
        Widths of the hidden layers.
    activation, dropout, optimiser, lr, weight_decay, schedule, epochs, patience
        See `unimodal.training.Recipe`.
    batch_size : int, optional
        Rows in a step of training; by default between 32 and 1024, more for more rows.
    class_weight : {"balanced"} or mapping, optional
        Weights of the classes: the same total for each, or by label.
    rule : {"mode", "median", "mean"}
        What `predict` reports of a distribution.
    n_jobs : int, optional
        Processes that train networks, and threads that grow trees; -1 for one on each core, by default one.
        Networks do not depend on it but for rounding.
    random_state : int or RandomState, optional
        Seed; the same one and the same `n_jobs` give the same model, to the last bit on the same machine.
    on_progress : callable, optional
        Called with `unimodal.training.Progress` while networks are trained: after every epoch in one
        process, less often in several.

    Attributes
    ----------
    classes_ : array, shape (K,)
        The labels in order, which is that of the columns of `predict_proba`.
    validation_scores_ : dict
        Every metric of `unimodal.metrics` on the rows that some member has not learnt from, predicted by
        those members: all rows if there are eight members or more. These rows did say when the members
        should stop, and how much of the trees to mix in. Weights that are not whole do not count.
    validation_confusion_ : array, shape (K, K)
        The same predictions counted: true classes in rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    classes_: NDArray[Any]
    validation_scores_: dict[str, float]
    validation_confusion_: Int[np.ndarray, "K K"]

    def __init__(
        self,
        method: str = "un",
        *,
        order: Sequence[Any] | None = None,
        params: Mapping[str, Any] | None = None,
        members: int = 8,
        trees: int = 200,
        unimodal: bool = True,
        numeric: str = "piecewise",
        hidden: tuple[int, ...] = (128,),
        activation: str = "relu",
        dropout: float = 0.1,
        optimiser: str = "adamw",
        lr: float = 2e-3,
        weight_decay: float = 1e-2,
        schedule: str = "constant",
        batch_size: int | None = None,
        epochs: int = 200,
        patience: int | None = 16,
        class_weight: str | Mapping[Any, float] | None = None,
        rule: str = "mode",
        n_jobs: int | None = None,
        random_state: Any = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.method = method
        self.order = order
        self.params = params
        self.members = members
        self.trees = trees
        self.unimodal = unimodal
        self.numeric = numeric
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.optimiser = optimiser
        self.lr = lr
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size
        self.epochs = epochs
        self.patience = patience
        self.class_weight = class_weight
        self.rule = rule
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.on_progress = on_progress

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_ensemble")

    @property
    def _usual_rule(self) -> str:
        return self.rule

    def fit(self, X: Values, y: Values, sample_weight: Values | None = None) -> Self:
        """Learn from a table and its labels.

        Parameters
        ----------
        X : DataFrame or array, shape (n, d)
            Numbers, and in a DataFrame text and Categoricals too; NaN is a missing value.
        y : n labels
            Whole numbers, text, booleans or a Categorical.
        sample_weight : n numbers, optional
            A row of weight 2 is the same as the row twice.
        """
        self.check_parameters()
        validate_data(self, X, y, skip_check_array=True)
        labels, rows = labelled_rows(self, X, y, sample_weight)
        encoder = TableEncoder(self.numeric).fit(rows.X, rows.weight)
        table = Table(encoder.transform(rows.X), encoder.raw(rows.X), rows.y, rows.weight, len(labels.values))
        seed = int(check_random_state(self.random_state).randint(2**31 - self.members))
        trained: Ensemble | None = None
        unseen, is_unseen = np.ones((len(table.y), 1)), np.ones(len(table.y), dtype=np.bool_)
        if table.n_classes > 1:
            settings = self.settings(len(table.y))
            trained, unseen, is_unseen = ensemble.fit(table, settings, seed, self.n_jobs, self.on_progress)
        # Only now, so that nobody takes what an interrupted fit leaves behind for a model.
        self._labels, self._encoder, self._ensemble = labels, encoder, trained
        self.classes_ = labels.values
        self._validate(table.y[is_unseen], unseen[is_unseen])
        return self

    def _validate(self, y: Int[np.ndarray, " n"], p: Float[np.ndarray, "n K"]) -> None:
        """Score what is said of rows that were not seen; a single row is always seen."""
        n_classes = len(self.classes_)
        self.validation_confusion_ = np.zeros((n_classes, n_classes), dtype=np.int64)
        self.validation_scores_ = metrics.scores({})
        if len(y):
            pred = decision.decide(p, self.rule)
            self.validation_confusion_ = metrics.confusion(y, pred, n_classes=n_classes)
            self.validation_scores_ = metrics.evaluate(y, p, pred)

    def check_parameters(self) -> None:
        """Refuse what would otherwise fail after the training, or with a word about something else."""
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if self.rule not in decision.RULES:
            raise ValueError(f"rule must be one of {', '.join(map(repr, decision.RULES))}, got {self.rule!r}")
        for name, low in (("members", 1), ("trees", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
        hidden: Any = self.hidden
        if isinstance(hidden, str) or not isinstance(hidden, Iterable):
            raise ValueError(f"hidden must be a tuple of integers, got {hidden!r}")

    def settings(self, n: int) -> Settings:
        """How networks are trained on n rows."""
        low, high = _BATCH_SIZES
        size = self.batch_size
        if size is None:
            size = min(high, max(low, 2 ** round(np.log2(max(n, 1) / _BATCHES))))
        recipe = Recipe(
            tuple(self.hidden),
            self.activation,
            self.dropout,
            self.optimiser,
            self.lr,
            self.weight_decay,
            self.schedule,
            size,
            self.epochs,
            self.patience,
        )
        return Settings(recipe, self.method, self.params or {}, self.members, self.trees, bool(self.unimodal))

    def predict_proba(self, X: Values) -> Float[np.ndarray, "n K"]:
        """The distribution of each row; columns in the order of `classes_`.

        Parameters
        ----------
        X : DataFrame or array, shape (n, d)
            The columns of the table that it was fitted on.
        """
        check_is_fitted(self)
        X = as_table(self, X)
        inputs = self._encoder.transform(X)
        if self._ensemble is None:
            return np.ones((len(inputs), 1))
        raw = self._encoder.raw(X) if self._ensemble.forest is not None else None
        return self._ensemble.proba(inputs, raw)


def labelled_rows(
    estimator: OrdinalClassifier, X: Values, y: Values, sample_weight: Values | None
) -> tuple[Classes, Rows]:
    """The classes of a target, and the rows of a table that an estimator learns from."""
    check_consistent_length(X, y)
    classes = Classes.of(y, estimator.order)
    codes = classes.encode(y)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise ValueError("sample_weight must not be 0 for every row")
    chosen = canonical(TableEncoder(estimator.numeric).fit(X).raw(X), codes, weight)
    codes = codes[chosen.rows]
    weight = chosen.weight * _weight_of_classes(estimator.class_weight, classes, codes, chosen.weight)[codes]
    if not weight.any():
        raise ValueError("class_weight must not be 0 for every class that occurs")
    some = np.flatnonzero(weight > 0)
    picked = chosen.rows[some]
    table = X.iloc[picked] if hasattr(X, "iloc") else np.asarray(X)[picked]
    return classes, Rows(table, codes[some], weight[some])


def _weight_of_classes(
    class_weight: str | Mapping[Any, float] | None,
    classes: Classes,
    codes: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " K"]:
    result = np.ones(len(classes))
    if class_weight is None:
        return result
    if isinstance(class_weight, str) and class_weight == "balanced":
        return balanced(codes, weight, len(classes))
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced' or a mapping, got {class_weight!r}")
    result[classes.encode(list(class_weight), "class_weight")] = list(class_weight.values())
    if not (np.isfinite(result) & (result >= 0)).all():
        raise ValueError(f"class_weight must be finite and not negative, got {dict(class_weight)}")
    return result
