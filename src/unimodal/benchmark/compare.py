"""Which method to take for a table: all of them, and what users would pick instead, in the same folds."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from joblib import effective_n_jobs
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from unimodal import decision, metrics
from unimodal.benchmark import peers
from unimodal.benchmark.ranking import Model, Ranked, Take, rank, take
from unimodal.estimators.classifier import OrdinalClassifier, Rows, labelled_rows
from unimodal.estimators.rows import stratified_folds
from unimodal.estimators.search import LAMBDAS, cross_validate
from unimodal.methods import METHODS
from unimodal.projection import project
from unimodal.training import Progress
from unimodal.wording import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ENSEMBLE", "PROJECTED", "Comparison", "compare"]

ENSEMBLE = "ensemble"
"""The name of `OrdinalClassifier` as it comes, among the models."""
PROJECTED = "+u"
"""How the name ends of a peer whose predictions are made unimodal."""

OnStage = Callable[[str, float], None]
Scores = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What was found.

    Attributes
    ----------
    ranked : list of Ranked
        The models, best first.
    take : Take
        The one to take, and why.
    folds : DataFrame
        The scores of every model, lambda, seed and fold; `chosen` marks those that count.
    left_out : dict
        Models that are not ranked, and why.
    finished : bool
        Whether nobody interrupted.
    n_rows : int
        How many rows were dealt into folds.
    """

    ranked: list[Ranked]
    take: Take
    folds: "pd.DataFrame"
    left_out: dict[str, str]
    finished: bool
    n_rows: int


@dataclass(frozen=True)
class _Task:
    """The rows in their folds, and what everybody is trained with."""

    template: OrdinalClassifier
    rows: Rows
    labels: np.ndarray
    folds: Mapping[int, Int[np.ndarray, " n"]]
    n_folds: int
    n_jobs: int | None
    on_stage: OnStage

    def splits(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Seed, fold, the rows to learn from, and those to be scored on."""
        for seed, folds in self.folds.items():
            for fold in range(self.n_folds):
                yield seed, fold, np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    @property
    def n_splits(self) -> int:
        return len(self.folds) * self.n_folds

    def score(self, tested: np.ndarray, p: Float[np.ndarray, "n K"]) -> dict[str, float]:
        y = self.rows.y[tested]
        return metrics.evaluate(y, p, decision.decide(p, self.template.rule))


def compare(
    X: "pd.DataFrame",
    y: Any,
    methods: Sequence[str] | None = None,
    *,
    folds: int = 5,
    seeds: int = 1,
    lambdas: Sequence[float] = LAMBDAS,
    metric: str = "rps",
    order: Sequence[Any] | None = None,
    estimator: OrdinalClassifier | None = None,
    n_jobs: int | None = None,
    on_stage: OnStage | None = None,
) -> Comparison:
    """Cross-validate methods, `OrdinalClassifier` and scikit-learn's classifiers, and rank them.

    Parameters
    ----------
    X, y
        As for `OrdinalClassifier.fit`, X a DataFrame.
    methods : sequence of str, optional
        Keys of `unimodal.METHODS`; by default all. A network of each is trained in every fold.
    folds : int
        Into how many parts the rows are dealt, class by class.
    seeds : int
        How often they are dealt.
    lambdas : sequence of float
        Tried by the methods that have one; chosen for each fold by the others of the same deal.
    metric : str
        What to rank by, a key of `unimodal.metrics.METRICS`.
    order : list of labels, optional
        As for `OrdinalClassifier`.
    estimator : OrdinalClassifier, optional
        The ensemble, and how the networks of the methods are trained.
    n_jobs : int, optional
        Processes, -1 for one on each core.
    on_stage : callable, optional
        Called with the name of a stage and how much of it is done, from 0 to 1.

    Raises
    ------
    KeyboardInterrupt
        If interrupted before anything was finished; later, the result holds what was.
    """
    if metric not in metrics.METRICS:
        guess = did_you_mean(metric, metrics.METRICS)
        raise ValueError(f"metric must be one of {', '.join(metrics.METRICS)}, got {metric!r}{guess}")
    names = list(dict.fromkeys(METHODS if methods is None else methods))
    for name in names:
        if name not in METHODS:
            guess = did_you_mean(name, METHODS)
            raise ValueError(f"methods must be among {', '.join(METHODS)}, got {name!r}{guess}")
    for lam in lambdas:  # `cross_validate` would say so after everybody else is trained
        if not 0 <= lam < np.inf:
            raise ValueError(f"lambdas must be finite and not negative, got {lam}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    task = _task(X, y, folds, seeds, order, estimator, n_jobs, on_stage or (lambda _, __: None))
    scored: list[Scores] = []
    left_out: dict[str, str] = {}
    finished = False
    try:
        _score_peers(task, scored, left_out)
        _score_ensemble(task, scored)
        finished = _score_methods(task, X, y, names, list(dict.fromkeys(lambdas)), scored, left_out)
    except KeyboardInterrupt:
        pass
    return _comparison(task, scored, metric, left_out, finished)


def _task(
    X: "pd.DataFrame",
    y: Any,
    n_folds: int,
    seeds: int,
    order: Sequence[Any] | None,
    estimator: OrdinalClassifier | None,
    n_jobs: int | None,
    on_stage: OnStage,
) -> _Task:
    template = OrdinalClassifier() if estimator is None else clone(estimator)
    if order is not None:
        template.set_params(order=order)
    template.check_parameters()
    classes, rows = labelled_rows(template, X, y, None)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got {classes.values.tolist()}")
    if not 2 <= n_folds <= len(rows.y):
        raise ValueError(f"folds must lie in [2, {len(rows.y)}], the number of rows, got {n_folds}")
    template.settings(len(rows.y))  # refuses what cannot be trained
    # The deal of `cross_validate`.
    folds = {seed: stratified_folds(rows.y, n_folds, np.random.default_rng(seed)) for seed in range(seeds)}
    return _Task(template, rows, classes.values, folds, n_folds, n_jobs, on_stage)


def _score_peers(task: _Task, scored: list[Scores], left_out: dict[str, str]) -> None:
    """Fit every peer in every fold; one that cannot be fitted to this table is left out."""
    X, weight = peers.as_categories(task.rows.X), task.rows.weight
    weighted = bool((weight != 1).any())
    for i, name in enumerate(peers.PEERS):
        own = []
        try:
            for j, (seed, fold, learnt, tested) in enumerate(task.splits()):
                task.on_stage("scikit-learn's models", (i + j / task.n_splits) / len(peers.PEERS))
                model = peers.peer(name, seed)
                with warnings.catch_warnings(), threadpool_limits(effective_n_jobs(task.n_jobs)):
                    warnings.simplefilter("ignore")  # of convergence and rare classes
                    own_weight = weight[learnt] if weighted else None
                    fitted = peers.fit(model, X.iloc[learnt], task.rows.y[learnt], own_weight)
                    p = peers.predict(fitted, X.iloc[tested], len(task.labels))
                for suffix, distributions in (("", p), (PROJECTED, project(p))):
                    scores = task.score(tested, distributions)
                    scores["nll"] = metrics.nll(task.rows.y[tested], peers.floored(distributions))
                    own.append({"model": name + suffix, "seed": seed, "fold": fold} | scores)
        except (ValueError, TypeError) as error:
            left_out[name] = " ".join(str(error).split())
            continue
        scored.extend(own)


def _score_ensemble(task: _Task, scored: list[Scores]) -> None:
    own = []
    for j, (seed, fold, learnt, tested) in enumerate(task.splits()):
        done = j / task.n_splits

        def advance(progress: Progress, done: float = done) -> None:
            task.on_stage("the ensemble", done + progress.done / max(progress.total, 1) / task.n_splits)

        model = clone(task.template).set_params(
            order=task.labels.tolist(),
            class_weight=None,  # it is in the weights of the rows
            random_state=seed,
            n_jobs=task.n_jobs,
            on_progress=advance,
        )
        model.fit(task.rows.X.iloc[learnt], task.labels[task.rows.y[learnt]], task.rows.weight[learnt])
        p = model.predict_proba(task.rows.X.iloc[tested])
        own.append({"model": ENSEMBLE, "seed": seed, "fold": fold} | task.score(tested, p))
    scored.extend(own)


def _score_methods(
    task: _Task,
    X: "pd.DataFrame",
    y: Any,
    names: Sequence[str],
    lambdas: Sequence[float],
    scored: list[Scores],
    left_out: dict[str, str],
) -> bool:
    """Train the networks of all methods; return whether nobody interrupted."""

    def advance(progress: Progress) -> None:
        task.on_stage("the methods", progress.done / max(progress.total, 1))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "interrupted", UserWarning)
        warnings.filterwarnings("ignore", "y holds text and nobody said its order", UserWarning)
        frame = cross_validate(
            X, y, names, folds=task.n_folds, seeds=list(task.folds), lambdas=lambdas,
            estimator=task.template, n_jobs=task.n_jobs, on_progress=advance,
        )  # fmt: skip
    finished = True
    for name in names:
        own = frame[frame["method"] == name]
        has_lam = "lam" in METHODS[name].default_params
        if len(own) < task.n_splits * (len(lambdas) if has_lam else 1):
            finished = False
            left_out[name] = "interrupted"
            continue
        scored.extend(own.rename(columns={"method": "model"}).to_dict("records"))
    return finished


def _comparison(
    task: _Task, scored: list[Scores], metric: str, left_out: dict[str, str], finished: bool
) -> Comparison:
    import pandas as pd

    if not scored:
        raise KeyboardInterrupt
    frame = pd.DataFrame(scored)
    for name in ("lam", "epochs"):
        frame[name] = frame[name].astype(float) if name in frame else np.nan
    first = ["model", "lam", "seed", "fold", "epochs"]
    frame = frame[[*first, *metrics.METRICS]]
    models = {name: _described(name, task.template) for name in dict.fromkeys(frame["model"])}
    ranked = rank(frame, models, metric, task.n_folds)
    frame.insert(1, "kind", [models[name].kind for name in frame["model"]])
    return Comparison(ranked, take(ranked, metric), frame, left_out, finished, len(task.rows.y))


def _described(name: str, template: OrdinalClassifier) -> Model:
    if name in METHODS:
        return Model("method", METHODS[name].always_unimodal)
    if name == ENSEMBLE:
        alone = template.members == 1 and not template.trees and METHODS[template.method].always_unimodal
        return Model("ensemble", bool(template.unimodal) or alone)
    return Model("peer", name.endswith(PROJECTED))
