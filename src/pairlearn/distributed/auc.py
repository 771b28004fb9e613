# SPDX-License-Identifier: BSD-3-Clause
r"""AUC maximisation from passes over partitioned examples, whatever runs the passes.

An engine is one function: it takes a statistic and returns the merged state of all partitions. The
first pass brings scales, class moments and a sample of each class. The square loss is then solved
in closed form. For any other convex loss L-BFGS, in the coordinates of the moments and from the
solution of the square loss, asks for the bins of the scores of each w that it tries
(`distributed.binned`): one pass an evaluation. The sample chooses the ridge and places the bins.
The last pass is a histogram of the scores, from which threshold, probabilities and the training AUC
come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.passes import Pass, Passes, scaling_by_passes
from pairlearn.distributed.statistics.base import Scaled, Statistic, Together
from pairlearn.distributed.statistics.binned import BinnedScores, ScoreBins, SlopeSums
from pairlearn.distributed.statistics.histogram import (
    HistogramAUC,
    ScoreHistogram,
    score_edges,
    score_range,
)
from pairlearn.distributed.statistics.mapped import Mapped, MappedLabelMoments
from pairlearn.distributed.statistics.moments import LabelledMoments, LabelMoments
from pairlearn.distributed.statistics.sample import Fingerprints, RowSample, SampledRows
from pairlearn.distributed.statistics.scales import FeatureScales, Scales
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.auc.ways.ridge import choose_ridge, is_exact
from pairlearn.estimators.shared.by_name import is_scaled
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.maps import as_map, check_named, fit_map, fit_moments, is_linear
from pairlearn.estimators.shared.rules import DecisionRule
from pairlearn.estimators.shared.scaling import Scaling, warn_of_outliers
from pairlearn.estimators.shared.solvers import Exact, Moments
from pairlearn.features import FeatureMap
from pairlearn.losses import LOSSES, PairLoss, SmoothedHinge
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments
from pairlearn.solvers.exact.batch import descend
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.objectives import AllPairs
from pairlearn.typing import Vector
from pairlearn.validation import (
    check_count,
    check_fraction,
    check_generator,
    check_positive,
    warn_caller,
)

__all__ = ["DistributedFit", "train_auc"]

#: With more features than this the mean rows of all bins are not moved: two passes an evaluation.
_MANY_FEATURES = 1_000
#: Bins of the last histogram, and those that the bound on the objective is computed from.
_HISTOGRAM, _CERTIFIED = 16_384, 1_024


@dataclass(frozen=True)
class DistributedFit:
    """A model and what the passes say of it."""

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
    loss: str | PairLoss = "squared_hinge",
    ridge: float | str = "auto",
    scaling: str | None = "auto",
    n_bins: int = 512,
    tolerance: float = 1e-6,
    max_passes: int = 100,
    sample_size: int = 2_500,
    validation_fraction: float = 0.2,
    decision: float | str | DecisionRule = "balanced_accuracy",
    class_weight: Mapping[Any, float] | str | None = None,
    features: str | FeatureMap = "linear",
    random_state: Any = None,
    feature_names: list[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> DistributedFit:
    """Train an `AUCClassifier` by passes over partitioned examples.

    Parameters
    ----------
    run : callable
        Takes a `Statistic`, returns the merged state of all partitions. Partition k calls
        ``statistic.of_part(k).partial_state(X, y, sample_weight)``.
    loss : str or PairLoss, default="squared_hinge"
        "square" needs no more passes than the first and the last; or any convex loss of opposite
        pairs.
    ridge : float or "auto", default="auto"
        As of `AUCClassifier`; chosen on the sample, with the smoothed hinge for the hinge.
    scaling : "auto" or None, default="auto"
        As of `AUCClassifier`.
    n_bins : int, default=512
        Bins of scores for each class.
    tolerance : float, default=1e-6
        Stop when an iteration lowers the objective by less than this share of it.
    max_passes : int, default=100
        Most passes of the search.
    sample_size : int, default=2500
        Examples of each class that come to the client.
    validation_fraction, decision, class_weight : see `AUCClassifier`
        As of `AUCClassifier`. Weights of classes move threshold and probabilities, not the
        coefficients: every pair has one example of each.
    features : "linear", "hats", "fourier" or FeatureMap, default="linear"
        As of `AUCClassifier`, with the square loss. A map that is not fitted is fitted to the
        sample.
    random_state : int, Generator or None, default=None
        Decides on the sample and its folds.
    feature_names : list of str, optional
        Names of the columns.
    progress : callable, optional
        Called before each pass with its number and what it is for.

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
    (True, 2)
    """
    mapped = not is_linear(features)
    chosen = _square(loss, features) if mapped else _convex(loss)
    scaled = is_scaled(scaling)
    given = None if ridge == "auto" else float(ridge)
    if given is not None and not given >= 0.0:
        raise ValueError(f'ridge must be at least 0 or "auto", got {ridge!r}.')
    check_fraction("validation_fraction", validation_fraction)
    check_positive("tolerance", tolerance)
    check_count("n_bins", n_bins, minimum=2)
    check_count("max_passes", max_passes)
    rng = check_generator(random_state)
    passes = Passes(run, progress)
    first = passes(
        Together(
            {
                "scales": FeatureScales(),
                "moments": LabelMoments(),
                "sample": RowSample(sample_size, seed=int(rng.integers(2**31))),
                "data": Fingerprints(),
            }
        ),
        "moments",
    )
    scales: Scales = first["scales"]
    moments: LabelledMoments = first["moments"]
    two = moments.two_classes()
    weights = _class_weights(class_weight, moments)
    # A map has features of its own, whose scales its moments know.
    units = scaling_by_passes(scales, scaled and not mapped, passes)
    if scaled and not mapped and not scales.sparse:
        warn_of_outliers(DenseRows(first["sample"].X), units)
    search = _Search(passes, scales, units, moments.classes, first["sample"], chosen, n_bins)
    choice = Choice(ridge=given)
    start = None
    if mapped:
        fitted, v, choice = search.mapped(features, given, scaled, validation_fraction, rng)
        stopped = False
    elif units.n_constant == len(units.factor):
        # A warning has said so: no coefficient makes a difference.
        v, stopped, choice = np.zeros(len(units.factor)), False, Choice()
    else:
        local = two.scaled(units.weights)
        if given is None:
            judged = chosen if is_exact(chosen) else SmoothedHinge()
            choice, start = choose_ridge(
                DenseRows(search.sample_rows),
                search.sample_y,
                judged,
                first["sample"].weight,
                validation_fraction,
                None,
                rng,
                AllPairs(),
            )
        assert choice.ridge is not None
        stopped = False
        if chosen.by_moments:
            v = local.solve(ridge=choice.ridge, margin=chosen.parameter)
        else:
            v, _, stopped = descend(
                search.risk,
                local.solve(ridge=choice.ridge) if start is None else start,
                local.pair_scatter,
                ridge=choice.ridge,
                tolerance=tolerance,
                max_iterations=max_passes,
            )
    if stopped:
        warn_caller(
            f"The search stopped after {max_passes} iterations; raise max_passes or tolerance.",
            RuntimeWarning,
        )
    histogram = search.histogram(v)
    # All pairs of 16,384 bins are too many for a loss without a sort.
    coarse = histogram.bins.coarser(_HISTOGRAM // _CERTIFIED)
    objective = coarse.risk(chosen)[0] + (choice.ridge or 0.0) * float(v @ v)
    scores, positive, weight = histogram.bins.points()
    weight = weight * np.where(positive, weights[1], weights[0])
    n_examples = int(moments.n_examples.sum())
    n_pairs = int(moments.n_examples[0]) * int(moments.n_examples[1])
    model = AUCClassifier(
        loss=loss,
        solver=Moments(ridge) if mapped else Exact(ridge),
        scaling=scaling,
        features=features,
        class_weight=dict(class_weight) if isinstance(class_weight, Mapping) else class_weight,
        decision=decision,
        validation_fraction=validation_fraction,
    ).adopt_solution(
        v if mapped else units.to_user(v),
        features=fitted if mapped else None,
        classes=moments.classes,
        feature_names=feature_names,
        loss=chosen,
        choice=choice,
        trace=Trace(passes.n_passes, passes.n_passes * n_pairs),
        # In the units of the user, the centre of the scaled rows is somewhere else.
        scores=(
            scores if mapped else scores + float(v @ (units.centre * units.factor)),
            positive,
            weight,
        ),
        n_examples=n_examples,
        fingerprint=first["data"],
    )
    return DistributedFit(
        model=model,
        n_passes=passes.n_passes,
        training_auc=histogram.auc,
        auc_half_width=histogram.half_width,
        objective=objective,
        binning_error=coarse.excess(chosen),
    )


class _Search:
    """What is asked of the data at one w after the other, in scaled units."""

    def __init__(
        self,
        passes: Passes,
        scales: Scales,
        units: Scaling,
        classes: NDArray[Any],
        sample: SampledRows,
        loss: PairLoss,
        n_bins: int,
    ) -> None:
        self._passes, self._units, self._classes = passes, units, classes
        self._loss, self._n_bins = loss, n_bins
        rows = units.apply(DenseRows(sample.X))
        assert isinstance(rows, DenseRows)
        self.sample_rows = rows.X
        self._sample_weight = sample.weight
        self.sample_y = np.where(sample.labels == classes[1], 1.0, -1.0)
        columns = scales.columns
        self._low = (columns.low - units.centre) * units.factor
        self._high = (columns.high - units.centre) * units.factor
        self._features: FeatureMap | None = None

    def mapped(
        self,
        features: str | FeatureMap,
        ridge: float | None,
        scaled: bool,
        validation_fraction: float,
        rng: np.random.Generator,
    ) -> tuple[FeatureMap, Vector, Choice]:
        """Return a map fitted to the sample, the solution of the square loss and its ridge."""
        rows, y = DenseRows(self.sample_rows), self.sample_y
        fitted = fit_map(as_map(features, rows, y), rows, rng)
        asked = MappedLabelMoments(fitted, self._classes)
        choice = Choice(ridge=ridge)
        if ridge is None:
            _, choice = fit_moments(
                fitted,
                rows,
                y,
                loss=self._loss,
                ridge=None,
                weight=self._sample_weight,
                validation_fraction=validation_fraction,
                max_memory=np.inf,
                scaled=scaled,
                rng=rng,
            )
        assert choice.ridge is not None
        moments: MappedMoments = self._passes(asked, "moments of mapped rows")
        margin = float(self._loss.margin)  # type: ignore[attr-defined]
        w = moments.problem(scaled=scaled).solve(choice.ridge, margin=margin)
        self._features, norm = fitted, fitted.bounds().norm
        self.sample_rows = fitted.transform(self.sample_rows)
        if np.isfinite(norm):
            # By Cauchy and Schwarz no score is further from zero than |w| times the norm.
            reach = norm * np.abs(w) / max(float(np.linalg.norm(w)), np.finfo(float).tiny)
            self._low, self._high = -reach, reach
        else:
            self._low, self._high = moments.low, moments.high
        return fitted, w, choice

    def risk(self, v: Vector) -> tuple[float, Vector]:
        """Return the mean loss over opposite pairs and its gradient: one pass, or two."""
        edges = self._edges(v, self._n_bins)
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


def _square(loss: str | PairLoss, features: str | FeatureMap) -> PairLoss:
    """Return the square loss, which is what mapped features are fitted with."""
    check_named(features)
    if isinstance(features, str) and features == "auto":
        raise ValueError(
            'features="auto" compares maps on data in memory; choose one with '
            'AUCClassifier(features="auto") on a sample, and pass "hats", "fourier" or its map.'
        )
    chosen = LOSSES.make("square" if loss == "auto" else loss)
    if not chosen.by_moments:
        raise ValueError(
            f'On a cluster mapped features are fitted with loss="square", got {chosen!r}; use it, '
            'or features="linear".'
        )
    return chosen


def _class_weights(
    class_weight: Mapping[Any, float] | str | None, moments: LabelledMoments
) -> tuple[float, float]:
    """Return the weights of the two classes, the negative one first."""
    if class_weight is None:
        return 1.0, 1.0
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f'class_weight must be a dict, "balanced" or None, got {class_weight!r}.'
            )
        share = moments.n_examples / moments.n_examples.sum()
        return float(0.5 / share[0]), float(0.5 / share[1])
    names = moments.classes.tolist()
    unknown = [label for label in class_weight if label not in names]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, the labels are {names}.")
    negative, positive = (
        check_positive(f"class_weight of {name!r}", class_weight.get(name, 1.0)) for name in names
    )
    return negative, positive
