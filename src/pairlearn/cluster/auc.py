# SPDX-License-Identifier: BSD-3-Clause
r"""`AUCClassifier` on an engine: the square loss over all pairs, from class moments.

A pass brings how far the columns reach, a sample of each class, and with ``ranges`` the moments.
The sample fits the map and chooses the ridge on folds. Another pass brings the moments on their
grid, which give the coefficients in closed form, those of one machine. The last pass is a histogram
of the scores: threshold, probabilities and the training AUC.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.cluster.moments import ColumnExtents, LabelledMoments, LabelMoments, in_order
from pairlearn.cluster.passes import ClusterReport, Passes, class_weights, nameless, refuse_others
from pairlearn.cluster.sample import RowSample, SampledRows
from pairlearn.cluster.scores import HistogramAUC, ScoreHistogram, score_edges, score_range
from pairlearn.cluster.statistic import Mapped, State, Statistic, Together
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.auc.composition import Task
from pairlearn.estimators.auc.ways.moments import (
    check_memory,
    check_ranges,
    ridge_on,
    warn_of_wide_ranges,
)
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import check_known, two_classes
from pairlearn.estimators.shared.judged_maps import choose_features
from pairlearn.estimators.shared.maps import (
    as_map,
    check_named,
    fit_map,
    is_linear,
)
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import SOLVERS, Exact, Moments
from pairlearn.features import FeatureMap, Identity
from pairlearn.folds import seed_of
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, extents_of
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import SIZE, Drawn
from pairlearn.solvers.top.objectives import AllPairs
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_generator

#: Parameters of the estimator that a fit on an engine heeds.
_HEEDED = ("features", "loss", "solver", "scaling", "decision", "class_weight",
           "validation_fraction", "random_state")  # fmt: skip
#: The number of bins of the histogram.
_BINS = 16_384


class WeightFacts(Statistic):
    """What weights rows have: statistics of examples do not see those of weight 0.

    Who takes rows back needs to know of them: for rows without weights it could not be told which
    of them were learned.
    """

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the facts of one chunk."""
        if not X.shape[0]:
            return {}
        weight = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, float)
        counted = weight[weight != 0.0]
        return {
            "n_rows": np.array(len(counted)),
            "all_given": np.array(sample_weight is not None),
            "not_one": np.array(bool((weight != 1.0).any())),
            "zeros": np.array(len(counted) < len(weight)),
            "lightest": np.array(counted.min(initial=np.inf)),
            "heaviest": np.array(counted.max(initial=0.0)),
        }

    def combine(self, a: State, b: State) -> State:
        """Join the facts."""
        join = {"n_rows": np.add, "all_given": np.logical_and, "lightest": np.minimum,
                "heaviest": np.maximum}  # fmt: skip
        return {name: np.asarray(join.get(name, np.logical_or)(a[name], b[name])) for name in a}

    def finish(self, state: State) -> State:
        """Return the facts."""
        return self.needs(state)


@dataclass(frozen=True)
class _First:
    """What the first pass brings."""

    extents: Extents
    sample: SampledRows
    classes: NDArray[Any]
    weighed: bool
    #: With ranges only.
    moments: LabelledMoments | None


def train_auc(passes: Passes, estimator: AUCClassifier) -> AUCClassifier:
    """Return the classifier that an engine trains; see `fit_on`."""
    refuse_others(estimator, _HEEDED)
    check_named(estimator.features)
    solver, loss = solver_of(estimator), _square(estimator.loss)
    check_ranges(solver, estimator.features)
    scaled = is_scaled(estimator.scaling)
    fraction = estimator.validation_fraction
    check_fraction("validation_fraction", fraction)
    rng = check_generator(estimator.random_state)
    first = _first_pass(passes, solver, rng)
    rows, y = DenseRows(first.sample.X), _signs(first)
    features, judged = _features(estimator.features, rows, y, first, fraction, rng)
    check_memory(features.n_outputs, solver)
    moments = _moments(passes, features, first, solver)
    task = Task(AllPairs(), loss, features, scaled, rng, fraction)
    drawn = Drawn(rows.X, y, first.sample.weight, first.sample.keys)
    choice: Choice = ridge_on(drawn, moments, task, solver.given_ridge)
    assert choice.ridge is not None
    w = moments.problem(scaled=scaled).solve(choice.ridge, margin=task.margin)
    if is_linear(estimator.features):
        warn_of_wide_ranges(moments, rows.X)
    if judged is not None:
        choice = replace(choice, features=judged)
    histogram = _histogram(passes, w, features, moments, first)
    return _adopted(passes, estimator, solver, first, moments, w, choice, loss, histogram)


def solver_of(estimator: AUCClassifier) -> Moments:
    """Return the solver by moments; `Exact` lends its ridge, and "auto" is `Moments`.

    >>> solver_of(AUCClassifier(solver=Exact(0.1))), solver_of(AUCClassifier())
    (Moments(ridge=0.1), Moments())
    """
    solver = Moments() if estimator.solver == "auto" else SOLVERS.make(estimator.solver)
    if type(solver) is Exact:
        return Moments(solver.ridge)
    if not isinstance(solver, Moments):
        raise ValueError(
            "an engine trains AUCClassifier by class moments, the same model as on one machine: "
            f'solver="auto", Moments(...) or Exact(ridge), got {solver!r}; fit others in memory.'
        )
    if solver.memory not in ("auto", np.inf):
        raise ValueError(
            f"memory={solver.memory!r} is for a stream: partitions have no order, and all rows "
            'weigh alike. Leave memory at "auto".'
        )
    return solver


def _square(loss: str | PairLoss) -> PairLoss:
    chosen = LOSSES.make("square" if loss == "auto" else loss, also="auto")
    if not chosen.by_moments:
        raise ValueError(
            f"an engine trains the square loss, whose moments are exact, got loss={chosen!r}; use "
            'loss="square" or "auto", or fit a sample in the memory of one machine.'
        )
    return chosen


def _first_pass(passes: Passes, solver: Moments, rng: np.random.Generator) -> _First:
    asked: dict[str, Statistic] = {
        "extents": ColumnExtents(),
        "sample": RowSample(SIZE, seed_of(rng)),
        "weights": WeightFacts(),
    }
    if solver.ranges is not None:
        asked["moments"] = LabelMoments(grid=solver.grid)
    found = passes(Together(asked), "sample and ranges")
    classes = np.unique(found["sample"].labels)
    if len(classes) > 2:
        raise ValueError(
            f"y has {len(classes)} classes ({', '.join(map(repr, classes[:5].tolist()))}), and "
            "AUCClassifier on an engine is about two; fit_on trains MulticlassAUCClassifier."
        )
    two_classes(classes)
    weighed = bool(found["weights"]["not_one"])
    return _First(found["extents"], found["sample"], classes, weighed, found.get("moments"))


def _signs(first: _First) -> Vector:
    return np.where(first.sample.labels == first.classes[1], 1.0, -1.0)


def _features(
    named: str | FeatureMap,
    rows: DenseRows,
    y: Vector,
    first: _First,
    fraction: float,
    rng: np.random.Generator,
) -> tuple[FeatureMap, Any]:
    """Return the map, fitted to the sample, and the choice if there was one."""
    sample, judged = first.sample, None
    if named == "auto":
        # Neither has the weights of classes, which move the threshold only.
        weight, draws, limits = sample.weight, copy.deepcopy(rng), (fraction, np.inf)
        judged, named = choose_features(
            rows, y, weight, draws, sample.keys, *limits, counts=weight
        )[:2]
    if is_linear(named):
        return Identity.of(rows.shape[1]), judged
    return fit_map(as_map(named, rows, y), rows, rng, sample.keys, counts=sample.weight), judged


def _moments(passes: Passes, features: FeatureMap, first: _First, solver: Moments) -> MappedMoments:
    """Return the moments of all mapped rows."""
    linear, m = isinstance(features, Identity), features.n_outputs
    if first.moments is not None:
        return MappedMoments.none(features, grid=solver.grid(m)).holding(first.moments.table[::-1])
    extents = first.extents
    if not linear and features.bounds().is_finite:
        bounds = extents_of(features, DenseRows(first.sample.X))
        names = ("low", "high", "exponents", "n_values")
        extents = replace(extents, **{name: getattr(bounds, name) for name in names})
    elif not linear:
        extents = passes(Mapped(ColumnExtents(), features), "ranges of mapped rows")
    asked: Statistic = LabelMoments(grid=Grid.of(extents))
    found = passes(asked if linear else Mapped(asked, features), "moments")
    return MappedMoments.none(features, extents).holding(found.table[::-1])


def _histogram(
    passes: Passes, w: Vector, features: FeatureMap, moments: MappedMoments, first: _First
) -> HistogramAUC:
    """Return the histogram of the scores of all examples."""
    norm, scores = features.bounds().norm, first.sample.X
    low, high = first.extents.low, first.extents.high
    if isinstance(features, Identity):
        ends = score_range(w, low, high)
    else:
        scores = features.transform(scores)
        # By Cauchy and Schwarz no score is further from zero than |w| times the norm.
        reach = norm * float(np.linalg.norm(w))
        ends = (-reach, reach) if np.isfinite(norm) else score_range(w, moments.low, moments.high)
    statistic: Statistic = ScoreHistogram(w, score_edges(scores @ w, *ends, _BINS), first.classes)
    if not isinstance(features, Identity):
        statistic = Mapped(statistic, features)
    return passes(statistic, "scores")  # type: ignore[no-any-return]


def _adopted(
    passes: Passes,
    estimator: AUCClassifier,
    solver: Moments,
    first: _First,
    moments: MappedMoments,
    w: Vector,
    choice: Choice,
    loss: PairLoss,
    histogram: HistogramAUC,
) -> AUCClassifier:
    """Return the model with its coefficients, threshold and probabilities."""
    counts, n = moments.values.counts[::-1], histogram.n_examples
    scores, is_positive, weight = histogram.bins.points()
    # As numbers of examples, whatever the unit of their weights.
    weight = weight * (n / weight.sum())
    known = [c.item() if isinstance(c, np.generic) else c for c in first.classes]
    heavy = class_weights(estimator.class_weight, known, counts)
    model = AUCClassifier(**estimator.get_params(deep=False)).set_params(solver=solver)
    model.adopt_solution(
        w,
        features=None if isinstance(moments.features, Identity) else moments.features,
        classes=first.classes,
        feature_names=passes.feature_names,
        loss=loss,
        choice=choice,
        trace=Trace(passes.n_passes, passes.n_passes * int(counts[0] * counts[1])),
        scores=(scores, is_positive, weight * np.where(is_positive, heavy[1], heavy[0])),
        n_examples=n,
        fingerprint=first.sample.fingerprint,
        kept=moments if solver.keep_state else None,
        weighed=first.weighed,
    )
    model.cluster_report_ = ClusterReport(passes.n_passes, histogram.auc, histogram.half_width)
    return model


def forget_on(
    engine: Any, model: AUCClassifier, *, progress: Callable[[int, str], None] | None = None
) -> AUCClassifier:
    """Let a model forget the rows of an engine, as `AUCClassifier.partial_unfit` does in memory.

    Parameters
    ----------
    engine : object with `run`, or callable
        As of `fit_on`, with the rows to be forgotten.
    model : AUCClassifier
        A model by ``solver=Moments(keep_state=True)``, of `fit_on` or of `AUCClassifier.fit`.
    progress : callable, optional
        Called before the pass with its number and its purpose.

    Returns
    -------
    AUCClassifier
        The model, which has changed; `forgetting_certificate_` names the states.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import AUCClassifier, Moments
    >>> from pairlearn.cluster import fit_on, forget_on
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    >>> solver = Moments(0.1, keep_state=True, ranges=(-5, 5))
    >>> rows = lambda X, y: lambda statistic: statistic.partial_state(X, y)
    >>> model = fit_on(rows(X, y), AUCClassifier(solver=solver))
    >>> model = forget_on(rows(X[:50], y[:50]), model)
    >>> without = AUCClassifier(solver=solver).fit(X[50:], y[50:])
    >>> bool((model.coef_ == without.coef_).all()), model.n_examples_
    (True, 250)
    """
    whole, unit = model.kept_moments(), model.kept_unit()
    rows, features = whole.alike(), whole.features
    asked: Statistic = LabelMoments(len(model.classes_) + 1, whole.grid)
    if not isinstance(features, Identity):
        asked = Mapped(asked, features)
    both = Together({"moments": _Divided(asked, unit), "weights": WeightFacts()})
    passes = Passes(engine, progress)
    nameless(model, passes.feature_names)
    found = passes(both, "rows to be forgotten")
    facts = found["weights"]
    gone: LabelledMoments | None = found["moments"]
    if gone is not None:
        check_known(gone.classes, model.classes_)
        rows = whole.holding(in_order(gone.table, gone.classes, model.classes_)[::-1])
    span = float(facts["lightest"]), float(facts["heaviest"])
    weighed, zeros = bool(facts["all_given"]), bool(facts["zeros"])
    return model.take_back(rows, int(facts["n_rows"]), span=span, weighed=weighed, zeros=zeros)


class _Divided(Statistic):
    """A statistic of rows whose weights are divided by a unit; of no rows it is None."""

    def __init__(self, statistic: Statistic, unit: float) -> None:
        self.statistic, self.unit = statistic, unit

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        weight = sample_weight
        if self.unit != 1.0 and weight is not None:
            weight = np.asarray(weight, dtype=np.float64) / self.unit
        return self.statistic.partial_state(X, y, weight)

    def combine(self, a: State, b: State) -> State:
        return self.statistic.combine(a, b)

    def finish(self, state: State) -> Any:
        return self.statistic.finish(state) if state else None
