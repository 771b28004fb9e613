# SPDX-License-Identifier: BSD-3-Clause
r"""AUC maximisation from passes over partitioned examples, whatever runs the passes.

An engine is one function: it takes a statistic and returns the merged state of all partitions. The
first pass brings scales, class moments and a sample of each class. The square loss is then solved
in closed form. For any other convex loss, L-BFGS starts from the solution of the square loss and
works in the coordinates of the moments. For each w that it tries it asks for the bins of the scores
(`statistics.binned`), which takes one pass. The sample chooses the ridge and places the bins. The
last pass is a histogram of the scores, which gives threshold, probabilities and the training AUC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.distributed.first_passes import FirstPasses, class_weights
from pairlearn.distributed.passes import (
    ByPasses,
    Pass,
    Passes,
    auc_solver,
    scaling_by_passes,
)
from pairlearn.distributed.statistics.base import Scaled, Statistic
from pairlearn.distributed.statistics.binned import BinnedScores, ScoreBins, SlopeSums
from pairlearn.distributed.statistics.histogram import (
    HistogramAUC,
    ScoreHistogram,
    score_edges,
    score_range,
)
from pairlearn.distributed.statistics.mapped import Mapped, MappedLabelMoments
from pairlearn.distributed.statistics.moments import ColumnExtents
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.auc.task import Task
from pairlearn.estimators.auc.ways.exact_moments import (
    check_memory,
    ridge_on,
    warn_of_wide_ranges,
)
from pairlearn.estimators.auc.ways.ridge import choose_ridge, is_exact
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.maps import (
    as_map,
    check_named,
    fit_map,
    is_linear,
)
from pairlearn.estimators.shared.rules import DecisionRule
from pairlearn.estimators.shared.scaling import is_scaled, warn_of_outliers
from pairlearn.estimators.shared.solvers import Exact, Moments, Solver
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import LOSSES, PairLoss, SmoothedHinge
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, extents_of
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import Drawn
from pairlearn.solvers.top.objectives import AllPairs
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_generator

#: With more features than this, partitions do not send the mean row of each bin. A gradient then
#: takes two passes.
_MANY_FEATURES = 1_000
#: The facts of extents that are about columns; the others are about rows.
_OF_COLUMNS = ("low", "high", "exponents", "n_values")
#: The number of bins of the last histogram.
_HISTOGRAM = 16_384
#: The number of bins that the bound on the objective is computed from.
_CERTIFIED = 1_024


@dataclass(frozen=True)
class DistributedFit:
    """A model and what the passes tell about it."""

    model: AUCClassifier
    #: Passes over the data.
    n_passes: int
    #: The AUC of the training examples lies within `auc_half_width` of this.
    training_auc: float
    auc_half_width: float
    #: The objective at the solution lies between `objective` and `objective + binning_error`.
    objective: float
    binning_error: float


def train_auc(
    run: Pass,
    *,
    features: str | FeatureMap = "linear",
    loss: str | PairLoss = "auto",
    solver: str | Solver = "passes",
    scaling: str | None = "auto",
    decision: float | str | DecisionRule = "balanced_accuracy",
    class_weight: Mapping[Any, float] | str | None = None,
    validation_fraction: float = 0.2,
    random_state: Any = None,
    feature_names: list[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> DistributedFit:
    """Train an `AUCClassifier` of two classes by passes; `train_multiclass` is for more.

    Parameters
    ----------
    run : callable
        Takes a `Statistic`, returns the merged state of all partitions. Partition k calls
        ``statistic.of_part(k).partial_state(X, y, sample_weight)``.
    features : "linear", "hats", "fourier", "auto" or FeatureMap, default="linear"
        As of `AUCClassifier`, with the square loss. A map that is not fitted is fitted to the
        sample, and "auto" chooses one on folds of the sample.
    loss : str or PairLoss, default="auto"
        Any convex loss of opposite pairs. "auto" is the squared hinge, and the square loss for
        mapped features. "square" needs only the first two passes and the last.
    solver : "passes", ByPasses, Exact or Moments, default="passes"
        The ridge, and the settings of the search. `Moments` is the square loss by the way of
        `AUCClassifier`: the coefficients are those of `AUCClassifier.fit` on all rows, bit for bit,
        for rows with weights if there are ``ranges``. With ``keep_state=True`` rows can be taken
        back, see `forget_auc`.
    scaling, decision, class_weight, validation_fraction : see `AUCClassifier`
        As of `AUCClassifier`. Class weights move threshold and probabilities, not the
        coefficients: every pair has one example of each class.
    random_state : int, Generator or None, default=None
        Draws the sample and its folds.
    feature_names : list of str, optional
        Names of the columns.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    DistributedFit
        The model and what is known about it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    >>> parts = [(X[k::3], y[k::3]) for k in range(3)]
    >>> def run(statistic):
    ...     states = [statistic.of_part(k).partial_state(*part) for k, part in enumerate(parts)]
    ...     return statistic.merge_all(states)
    >>> fit = train_auc(run, loss="square", random_state=0)
    >>> bool(abs(fit.model.score(X, y) - fit.training_auc) <= fit.auc_half_width), fit.n_passes
    (True, 3)
    """
    check_named(features)
    given = auc_solver(solver, features)
    by_moments = given if isinstance(given, Moments) else None
    as_loss = _convex if by_moments is None else _square
    chosen = as_loss(loss) if is_linear(features) else _square(loss)
    settings = ByPasses(given.ridge) if isinstance(given, Moments) else given
    scaled = is_scaled(scaling)
    check_fraction("validation_fraction", validation_fraction)
    rng = check_generator(random_state)
    passes = Passes(run, progress)
    first = FirstPasses.of(
        passes,
        settings.sample_size,
        rng,
        mapped=not is_linear(features),
        grid=None if by_moments is None or by_moments.ranges is None else by_moments.grid,
    )
    weights = class_weights(class_weight, first.moments)
    used, judged = features, None
    if isinstance(features, str) and features == "auto":
        judged, used = first.judged_map(validation_fraction, rng)
    mapped = not is_linear(used)
    if judged is not None and not mapped:
        chosen, first = as_loss(loss), first.of_rows(passes)
    in_units = scaled and not mapped and by_moments is None
    search = _Search(passes, first, chosen, settings, scaled=in_units)
    if mapped:
        most = np.inf if by_moments is None else by_moments.max_memory
        found = search.mapped(used, scaled, validation_fraction, rng, most)
    elif by_moments is not None:
        found = search.by_moments(by_moments, scaled, validation_fraction, rng)
    else:
        found = search.linear(validation_fraction, rng)
    if judged is not None:
        found = replace(found, choice=replace(found.choice, features=judged))
    if by_moments is None or not by_moments.keep_state:
        found = replace(found, kept=None)
    model = AUCClassifier(
        features=features,
        loss=loss,
        solver=by_moments or (Moments(settings.ridge) if mapped else Exact(settings.ridge)),
        scaling=scaling,
        decision=decision,
        class_weight=dict(class_weight) if isinstance(class_weight, Mapping) else class_weight,
        validation_fraction=validation_fraction,
    )
    return search.finished(found, model, weights, feature_names)


@dataclass(frozen=True)
class _Found:
    """A solution in scaled units, or of mapped features."""

    v: Vector
    choice: Choice
    features: FeatureMap | None = None
    #: The moments that it follows from, in the units of the user or of the map.
    kept: MappedMoments | None = None


class _Search:
    """The search for coefficients, in scaled units: each question is a pass."""

    def __init__(
        self, passes: Passes, first: FirstPasses, loss: PairLoss, solver: ByPasses, *, scaled: bool
    ) -> None:
        self._passes, self._first, self._loss, self._solver = passes, first, loss, solver
        scales, sample, self._classes = first.scales, first.sample, first.moments.classes
        self._two = first.moments.two_classes()
        # A map has features of its own, whose scales its moments know.
        self._units = units = scaling_by_passes(scales, scaled, passes)
        if scaled and not scales.sparse:
            warn_of_outliers(DenseRows(sample.X), units)
        rows = units.apply(DenseRows(sample.X))
        assert isinstance(rows, DenseRows)
        self.sample_rows = rows.X
        self.sample_y = np.where(sample.labels == self._classes[1], 1.0, -1.0)
        columns = scales.columns
        self._low = (columns.low - units.centre) * units.factor
        self._high = (columns.high - units.centre) * units.factor
        self._features: FeatureMap | None = None

    def linear(self, validation_fraction: float, rng: np.random.Generator) -> _Found:
        """Return the solution for linear features."""
        units, loss, choice, start = (
            self._units, self._loss, Choice(ridge=self._solver.given_ridge), None,
        )  # fmt: skip
        if units.n_constant == len(units.factor):
            # A warning has said so: no coefficient makes a difference.
            return _Found(np.zeros(len(units.factor)), Choice())
        if choice.ridge is None:
            smooth = loss if is_exact(loss) else SmoothedHinge()
            sample = self._first.sample
            task = Task(AllPairs(), smooth, None, True, rng, validation_fraction, keys=sample.keys)
            rows, weight = DenseRows(self.sample_rows), sample.weight
            choice, start = choose_ridge(task, rows, self.sample_y, weight)
        assert choice.ridge is not None
        two = self._two.scaled(units.weights)
        if loss.by_moments:
            return _Found(two.solve(ridge=choice.ridge, margin=loss.parameter), choice)
        start = two.solve(ridge=choice.ridge) if start is None else start
        v = self._solver.minimise(self.risk, start, two.pair_scatter, choice.ridge)
        return _Found(v, choice)

    def mapped(
        self,
        features: str | FeatureMap,
        scaled: bool,
        validation_fraction: float,
        rng: np.random.Generator,
        max_memory: float = np.inf,
    ) -> _Found:
        """Fit a map to the sample; return the solution of the square loss on mapped features."""
        rows, y = DenseRows(self.sample_rows), self.sample_y
        sample = self._first.sample
        named, keys = as_map(features, rows, y), sample.keys
        fitted = fit_map(named, rows, rng, keys, counts=sample.weight)
        check_memory(fitted.n_outputs, Moments(max_memory=max_memory))
        if fitted.bounds().is_finite:
            of_rows, bounds = self._first.extents, extents_of(fitted, rows)
            extents = replace(of_rows, **{name: getattr(bounds, name) for name in _OF_COLUMNS})
        else:
            extents = self._passes(Mapped(ColumnExtents(), fitted), "extents of mapped rows")
        asked = MappedLabelMoments(fitted, self._classes, extents)
        moments: MappedMoments = self._passes(asked, "moments of mapped rows")
        task = Task(AllPairs(), self._loss, fitted, scaled, rng, validation_fraction)
        drawn = Drawn(self.sample_rows, y, sample.weight, sample.keys)
        choice = ridge_on(drawn, moments, task, self._solver.given_ridge)
        assert choice.ridge is not None
        w = moments.problem(scaled=scaled).solve(choice.ridge, margin=task.margin)
        self._features, norm = fitted, fitted.bounds().norm
        self.sample_rows = fitted.transform(self.sample_rows)
        if np.isfinite(norm):
            # By Cauchy and Schwarz no score is further from zero than |w| times the norm.
            reach = norm * np.abs(w) / max(float(np.linalg.norm(w)), np.finfo(float).tiny)
            self._low, self._high = -reach, reach
        else:
            self._low, self._high = moments.low, moments.high
        return _Found(w, choice, fitted, moments)

    def by_moments(
        self, solver: Moments, scaled: bool, validation_fraction: float, rng: np.random.Generator
    ) -> _Found:
        """Return the solution of the square loss as `AUCClassifier` finds it from its moments."""
        first, sample = self._first, self._first.sample
        features = Identity.of(len(self._units.factor))
        check_memory(features.n_outputs, solver)
        grid = solver.grid(features.n_outputs)
        moments = MappedMoments(features, first.extents if grid is None else None, grid=grid)
        moments.moments.sums = first.moments.sums[1], first.moments.sums[0]
        task = Task(AllPairs(), self._loss, features, scaled, rng, validation_fraction)
        drawn = Drawn(sample.X, self.sample_y, sample.weight, sample.keys)
        choice = ridge_on(drawn, moments, task, solver.given_ridge)
        assert choice.ridge is not None
        w = moments.problem(scaled=scaled).solve(choice.ridge, margin=task.margin)
        warn_of_wide_ranges(moments, sample.X)
        return _Found(w, choice, kept=moments)

    def risk(self, v: Vector) -> tuple[float, Vector]:
        """Return the mean loss over opposite pairs and its gradient: one pass, or two."""
        edges = self._edges(v, self._solver.n_bins)
        if len(v) <= _MANY_FEATURES:
            statistic = BinnedScores(v, edges, self._classes)
            return self._ask(statistic, "pair gradient").risk(self._loss)  # type: ignore[no-any-return]
        found: HistogramAUC = self._ask(ScoreHistogram(v, edges, self._classes), "scores")
        bins: ScoreBins = found.bins
        value, slopes = bins.risk(self._loss)
        sums = SlopeSums(v, edges, self._classes, slopes, bins.weight)
        return value, self._ask(sums, "pair gradient")

    def histogram(self, v: Vector) -> HistogramAUC:
        """Return the histogram of the scores of all examples."""
        edges = self._edges(v, _HISTOGRAM)
        return self._ask(ScoreHistogram(v, edges, self._classes), "histogram")  # type: ignore[no-any-return]

    def finished(
        self,
        found: _Found,
        model: AUCClassifier,
        class_weights: tuple[float, float],
        feature_names: list[str] | None,
    ) -> DistributedFit:
        """Make the last pass, and give the model its solution."""
        v, choice, units = found.v, found.choice, self._units
        histogram = self.histogram(v)
        # All pairs of 16,384 bins are too many for a loss without a sort.
        coarse = histogram.bins.coarser(_HISTOGRAM // _CERTIFIED)
        scores, positive, weight = histogram.bins.points()
        if found.features is None:
            # In the units of the user, the centre of the scaled rows is somewhere else.
            scores = scores + float(v @ (units.centre * units.factor))
        n_examples = self._first.moments.n_examples
        # As numbers of examples, whatever the unit of their weights.
        weight = weight * (n_examples.sum() / weight.sum())
        n_passes = self._passes.n_passes
        model.adopt_solution(
            units.to_user(v) if found.features is None else v,
            features=found.features,
            classes=self._classes,
            feature_names=feature_names,
            loss=self._loss,
            choice=choice,
            trace=Trace(n_passes, n_passes * int(n_examples[0]) * int(n_examples[1])),
            scores=(scores, positive, weight * np.where(positive, *class_weights[::-1])),
            n_examples=int(n_examples.sum()),
            fingerprint=self._first.sample.fingerprint,
            kept=found.kept,
            weighed=self._first.weighed,
        )
        return DistributedFit(
            model=model,
            n_passes=n_passes,
            training_auc=histogram.auc,
            auc_half_width=histogram.half_width,
            objective=coarse.risk(self._loss)[0] + (choice.ridge or 0.0) * float(v @ v),
            binning_error=coarse.excess(self._loss),
        )

    def _edges(self, v: Vector, n_bins: int) -> Vector:
        low, high = score_range(v, self._low, self._high)
        return score_edges(self.sample_rows @ v, low, high, n_bins)

    def _ask(self, statistic: Statistic, purpose: str) -> Any:
        if self._features is not None:
            return self._passes(Mapped(statistic, self._features), purpose)
        return self._passes(Scaled(statistic, self._units), purpose)


def _convex(loss: str | PairLoss) -> PairLoss:
    chosen = LOSSES.make("squared_hinge" if loss == "auto" else loss)
    if not (chosen.convex and chosen.opposite_labels_only):
        raise ValueError(
            f"Passes over partitions minimise a convex loss of opposite pairs, got {chosen!r}; use "
            '"squared_hinge", "square", "logistic" or "hinge".'
        )
    return chosen


def _square(loss: str | PairLoss) -> PairLoss:
    """Return the square loss, which is what mapped features are fitted with."""
    chosen = LOSSES.make("square" if loss == "auto" else loss)
    if not chosen.by_moments:
        raise ValueError(
            f'On a cluster mapped features are fitted with loss="square", got {chosen!r}; use it, '
            'or features="linear".'
        )
    return chosen
