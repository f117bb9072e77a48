"""Cross-validation of methods: every network of every method, fold, seed and lambda in one go."""

import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unimodal import decision, metrics
from unimodal.estimators.base import DistributionClassifier, as_table
from unimodal.estimators.classifier import OrdinalClassifier, Rows, labelled_rows
from unimodal.estimators.ensemble import as_data, member_run
from unimodal.estimators.rows import stratified_folds
from unimodal.estimators.tables import TableEncoder
from unimodal.methods import METHODS
from unimodal.simplex import Values
from unimodal.training import Data, Networks, OnProgress, Progress, Run, Trained, train_each
from unimodal.wording import listed

if TYPE_CHECKING:
    import pandas as pd

LAMBDAS = tuple(10.0**i for i in range(-3, 4))
"""The paper's grid."""
_HELD_OUT = 8
"""One in so many rows to learn from says when to stop."""

Scores = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What is to be compared: a method with its lambda, if it has one, on a fold of a seed's deal."""

    method: str
    lam: float | None
    seed: int
    fold: int


def cross_validate(
    X: Values,
    y: Values,
    methods: Sequence[str] = ("un", "wu-wass"),
    *,
    folds: int = 5,
    seeds: int | Sequence[int] = 1,
    lambdas: Sequence[float] = LAMBDAS,
    order: Sequence[Any] | None = None,
    sample_weight: Values | None = None,
    estimator: OrdinalClassifier | None = None,
    n_jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> "pd.DataFrame":
    """Train a network for every method, lambda, seed and fold, and score it on the fold.

    What is learnt from a table's columns is learnt within each fold. A row that is listed several times, or
    has a whole weight, is dealt and scored copy by copy: one may be learnt from while another is held out.
    Weights that are not whole count in training only.

    Parameters
    ----------
    X, y, sample_weight
        As for `OrdinalClassifier.fit`.
    methods : sequence of str
        Keys of `unimodal.METHODS`.
    folds : int
        Into how many parts the rows are dealt, class by class.
    seeds : int or sequence of ints
        How many deals, or their seeds: all randomness of a row of the result comes from its own.
    lambdas : sequence of float
        Tried by the methods that have one.
    order : list of labels, optional
        As for `OrdinalClassifier`.
    estimator : OrdinalClassifier, optional
        Whose networks are trained, one for each row of the result. Its `method` and `random_state` are
        not used.
    n_jobs : int, optional
        Processes to train in, -1 for one on each core; by default as many as the estimator would.
    on_progress : callable, optional
        Called with `unimodal.training.Progress` during training; by default the estimator's.

    Returns
    -------
    DataFrame
        A row for each network: method, lam, seed, fold, epochs, and every metric of `unimodal.metrics`. If
        interrupted by Ctrl-C: of those that were finished.
    """
    import pandas as pd

    template = clone(estimator) if estimator is not None else OrdinalClassifier()
    if order is not None:
        template.set_params(order=order)
    template.check_parameters()
    n_jobs = template.n_jobs if n_jobs is None else n_jobs
    if on_progress is None and estimator is not None:
        on_progress = estimator.on_progress  # a clone's may be a copy
    chosen = _chosen_seeds(seeds)
    classes, rows = labelled_rows(template, X, y, sample_weight)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got {classes.values.tolist()}")
    settings = _settings(methods, lambdas, chosen, _checked_folds(folds, len(rows.y)))
    scored: list[Scores] = []
    try:
        scored.extend(_validated(template, rows, len(classes), settings, folds, n_jobs, on_progress))
    except KeyboardInterrupt:
        if not scored:
            raise
        warnings.warn(
            f"interrupted: the result holds {len(scored)} of {len(settings)} networks", stacklevel=2
        )
    frame = pd.DataFrame(scored)
    frame["lam"] = frame["lam"].astype(float)
    return frame.sort_values(["method", "lam", "seed", "fold"], ignore_index=True)


def _chosen_seeds(seeds: Any) -> list[int]:
    chosen: Any = range(seeds) if _is_whole(seeds) else seeds
    if not isinstance(chosen, Collection) or not all(_is_whole(seed) and seed >= 0 for seed in chosen):
        raise ValueError(f"seeds must be a whole number or a list of those, not negative, got {seeds!r}")
    return [int(seed) for seed in chosen]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _settings(
    methods: Sequence[str], lambdas: Sequence[Any], seeds: Sequence[int], folds: int
) -> list[Setting]:
    for name, values in (("methods", methods), ("lambdas", lambdas), ("seeds", seeds)):
        if isinstance(values, str) or not isinstance(values, Collection) or not len(values):
            raise ValueError(f"{name} must be a list of at least one, got {values!r}")
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"methods must be among {', '.join(METHODS)}, got {name!r}")
    for lam in lambdas:
        if not isinstance(lam, int | float | np.integer | np.floating) or not 0 <= lam < np.inf:
            raise ValueError(f"lambdas must be finite and not negative, got {lam}")
    return [
        Setting(name, lam, seed, fold)
        for name in methods
        for lam in (lambdas if "lam" in METHODS[name].default_params else [None])
        for seed in seeds
        for fold in range(folds)
    ]


def _own(params: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Those of the parameters that a method takes."""
    known = METHODS[method].default_params
    return {name: value for name, value in params.items() if name in known}


def _check_params(params: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Refuse parameters that no method takes; each gets those that it does."""
    known = {name for method in methods for name in METHODS[method].default_params}
    for name in params:
        if name not in known:
            raise ValueError(
                f"params must be of one of the methods, which take {listed(sorted(known))}, got {name!r}"
            )


def _checked_folds(folds: int, n: int) -> int:
    if not _is_whole(folds) or not 2 <= folds <= n:
        raise ValueError(f"folds must be an integer in [2, {n}], the number of rows, got {folds!r}")
    return int(folds)


def _validated(
    template: OrdinalClassifier,
    rows: Rows,
    n_classes: int,
    settings: Sequence[Setting],
    n_folds: int,
    n_jobs: int | None,
    on_progress: OnProgress | None,
) -> Iterator[Scores]:
    """Score the networks of all settings as they are ready."""
    deals = {seed: _deal(template, rows, n_folds, seed) for seed in dict.fromkeys(s.seed for s in settings)}
    inputs = _same_width([each for deal in deals.values() for each in deal.inputs])
    base = template.settings(len(rows.y) * (n_folds - 1) // n_folds)
    _check_params(base.params, [each.method for each in settings])
    first_source = {seed: i * n_folds for i, seed in enumerate(deals)}
    runs = []
    for each in settings:
        params = dict(base.params) | ({} if each.lam is None else {"lam": float(each.lam)})
        deal = deals[each.seed]
        runs.append(
            member_run(
                replace(base, method=each.method, params=_own(params, each.method)),
                *deal.learnt_and_held_out[each.fold],
                seed=each.seed,
                source=first_source[each.seed] + each.fold,
            )
        )
    data = as_data(inputs, rows.y, rows.weight)
    for i, trained in train_each(data, n_classes, runs, base.recipe, n_jobs=n_jobs, on_progress=on_progress):
        tested = np.flatnonzero(deals[settings[i].seed].folds == settings[i].fold)
        yield _scores(template, settings[i], runs[i], trained, data, rows.y, tested)


@dataclass(frozen=True)
class _Deal:
    """The rows dealt into folds, and what is learnt from each fold's others."""

    folds: Int[np.ndarray, " n"]
    inputs: list[NDArray[np.float32]]
    learnt_and_held_out: list[tuple[NDArray[np.int64], NDArray[np.int64]]]


def _deal(template: OrdinalClassifier, rows: Rows, n_folds: int, seed: int) -> _Deal:
    rng = np.random.default_rng(seed)
    folds = stratified_folds(rows.y, n_folds, rng)
    deal = _Deal(folds, [], [])
    for fold in range(n_folds):
        others = np.flatnonzero(folds != fold)
        some = rows.X.iloc[others] if hasattr(rows.X, "iloc") else rows.X[others]
        encoder = TableEncoder(template.numeric).fit(some, rows.weight[others])
        deal.inputs.append(encoder.transform(rows.X))
        parts = stratified_folds(rows.y[others], min(_HELD_OUT, len(others)), rng)
        deal.learnt_and_held_out.append((others[parts != 0], others[parts == 0]))
    return deal


def _same_width(inputs: Sequence[NDArray[np.float32]]) -> Float[np.ndarray, "sources n inputs"]:
    """Inputs of all folds, in which other columns may be constant, with zeros at the end."""
    width = max(each.shape[1] for each in inputs)
    return np.stack([np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in inputs])


def _scores(
    template: OrdinalClassifier,
    setting: Setting,
    run: Run,
    trained: Trained,
    data: Data,
    y: Int[np.ndarray, " n"],
    tested: NDArray[np.int64],
) -> Scores:
    networks = Networks.of([trained], run.params)
    p = networks.log_prob(data.inputs[run.source, tested]).exp()[0].numpy()
    pred = decision.decide(p, template.rule)
    return vars(setting) | {"epochs": trained.epochs} | metrics.evaluate(y[tested], p, pred)


class OrdinalClassifierCV(DistributionClassifier):
    """`OrdinalClassifier` with the method and the lambda that do best in cross-validation.

    Parameters
    ----------
    methods : sequence of str
        Keys of `unimodal.METHODS` to choose from.
    lambdas : sequence of float
        Tried by the methods that have one.
    scoring : str
        The metric of `unimodal.metrics` to choose by.
    folds : int
        Into how many parts the rows are dealt; fewer where there are not as many rows.
    estimator : OrdinalClassifier, optional
        What is fitted in the end, and whose networks are compared. Its `method` and its
        lambda are not used.
    n_jobs : int, optional
        As for `OrdinalClassifier`; by default the estimator's.
    random_state : int or RandomState, optional
        Seed of the deal, of the networks compared and of the final fit; by default the estimator's. The same
        one gives the same choice and the same model.
    on_progress : callable, optional
        Called with `unimodal.training.Progress`, whose total is that of the comparison and the final fit; by
        default the estimator's.

    Attributes
    ----------
    best_method_ : str
        The method chosen.
    best_lambda_ : float or None
        Its lambda, if it has one.
    cv_results_ : dict of arrays
        Every candidate's method and lambda, and the mean of each metric over the folds.
    best_estimator_ : OrdinalClassifier
        Fitted to all rows.
    classes_ : array, shape (K,)
        The labels in order.
    """

    def __init__(
        self,
        methods: Sequence[str] = ("un", "wu-wass"),
        *,
        lambdas: Sequence[float] = LAMBDAS,
        scoring: str = "rps",
        folds: int = 5,
        estimator: OrdinalClassifier | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.methods = methods
        self.lambdas = lambdas
        self.scoring = scoring
        self.folds = folds
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.on_progress = on_progress

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    @property
    def _usual_rule(self) -> str:
        rule: str = self.best_estimator_.rule
        return rule

    def fit(self, X: Values, y: Values, sample_weight: Values | None = None) -> Self:
        """Choose, and learn from all rows; as `OrdinalClassifier.fit`."""
        if self.scoring not in metrics.METRICS:
            raise ValueError(f"scoring must be one of {', '.join(metrics.METRICS)}, got {self.scoring!r}")
        validate_data(self, X, y, skip_check_array=True)
        template = OrdinalClassifier() if self.estimator is None else clone(self.estimator)
        given = template.random_state if self.random_state is None else self.random_state
        seed = int(check_random_state(given).randint(2**30))
        on_progress = self.on_progress
        if on_progress is None and self.estimator is not None:
            on_progress = self.estimator.on_progress  # a clone's may be a copy
        template.set_params(random_state=seed)
        if self.n_jobs is not None:
            template.set_params(n_jobs=self.n_jobs)
        template.check_parameters()
        classes, rows = labelled_rows(template, X, y, sample_weight)
        if not _is_whole(self.folds) or self.folds < 2:
            raise ValueError(f"folds must be an integer of at least 2, got {self.folds!r}")
        folds = min(int(self.folds), len(rows.y))
        settings = _settings(self.methods, self.lambdas, [seed], max(folds, 1))
        is_compared, epochs = folds > 1 and len(classes) > 1, template.settings(len(rows.y)).recipe.epochs
        comparing, fitting = _in_turn(on_progress, [is_compared * len(settings), template.members], epochs)
        scored: list[Scores] = []
        if is_compared:
            scored = list(
                _validated(template, rows, len(classes), settings, folds, template.n_jobs, comparing)
            )
        results = _means(settings, scored)
        best = _best(results[self.scoring], metrics.METRICS[self.scoring].greater_is_better)
        method, lam = str(results["method"][best]), float(results["lam"][best])
        params = dict(template.params or {}) | ({} if np.isnan(lam) else {"lam": lam})
        template.set_params(method=method, params=_own(params, method), on_progress=fitting)
        template.fit(X, y, sample_weight).set_params(on_progress=on_progress)
        # Only now, so that an interrupted fit leaves nothing, or the model before it, whole.
        self.cv_results_, self.best_method_, self.best_estimator_ = results, method, template
        self.best_lambda_ = None if np.isnan(lam) else lam
        self.classes_ = template.classes_
        return self

    def predict_proba(self, X: Values) -> Float[np.ndarray, "n K"]:
        """As `OrdinalClassifier.predict_proba`."""
        check_is_fitted(self)
        p: NDArray[np.float64] = self.best_estimator_.predict_proba(as_table(self, X))
        return p


def _in_turn(
    on_progress: OnProgress | None, runs: Sequence[int], epochs: int
) -> list[OnProgress] | list[None]:
    """What reports trainings of so many runs, one after another, as if they were one."""
    if on_progress is None:
        return [None] * len(runs)
    start, total = time.monotonic(), sum(runs) * epochs

    def reporting(before: int) -> OnProgress:
        return lambda own: on_progress(Progress(before + own.done, total, time.monotonic() - start))

    return [reporting(sum(runs[:i]) * epochs) for i in range(len(runs))]


def _best(means: NDArray[Any], greater_is_better: bool | None) -> int:
    """The candidate with the best mean; the first of several, or of all where nothing could be scored."""
    worth = means if greater_is_better else -np.abs(means) if greater_is_better is None else -means
    return int(np.where(np.isnan(worth), -np.inf, worth).argmax())


def _means(settings: Sequence[Setting], scored: Sequence[Scores]) -> dict[str, NDArray[Any]]:
    """The mean over folds of each metric, for each method and lambda."""
    candidates = list(dict.fromkeys((each.method, each.lam) for each in settings))
    results: dict[str, NDArray[Any]] = {
        "method": np.array([method for method, _ in candidates]),
        "lam": np.array([np.nan if lam is None else lam for _, lam in candidates]),
    }
    for name in metrics.METRICS:
        of_each = [[s[name] for s in scored if (s["method"], s["lam"]) == each] for each in candidates]
        results[name] = np.array([np.mean(values) if values else np.nan for values in of_each])
    return results
