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

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.base import Scaled, Statistic, Together
from pairlearn.distributed.binned import BinnedScores, ScoreBins, SlopeSums
from pairlearn.distributed.bins import score_edges, score_range
from pairlearn.distributed.fingerprints import Fingerprints
from pairlearn.distributed.histogram import HistogramAUC, ScoreHistogram
from pairlearn.distributed.moments import LabelledMoments, LabelMoments
from pairlearn.distributed.passes import Pass, Passes, scaling_by_passes
from pairlearn.distributed.sample import RowSample, SampledRows
from pairlearn.distributed.scales import FeatureScales, Scales
from pairlearn.estimators.auc import AUCClassifier
from pairlearn.estimators.auc_choice import Choice
from pairlearn.estimators.by_name import is_scaled
from pairlearn.estimators.exact import choose_ridge, is_exact
from pairlearn.estimators.objectives import as_objective
from pairlearn.estimators.scaling import Scaling, warn_of_outliers
from pairlearn.losses import PairLoss, SmoothedHinge, Square, get_loss
from pairlearn.solvers.batch import descend
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.solution import Trace
from pairlearn.validation import check_count, check_fraction, check_generator, check_positive

__all__ = ["DistributedFit", "train_auc"]

Vector = NDArray[np.float64]

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
    threshold: float | str = "balanced_accuracy",
    costs: tuple[float, float] | None = None,
    calibrate: str = "sigmoid",
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
    validation_fraction, threshold, costs, calibrate
        As of `AUCClassifier`.
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
    chosen = _convex(loss)
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
    units = scaling_by_passes(scales, scaled, passes)
    if scaled and not scales.sparse:
        warn_of_outliers(DenseRows(first["sample"].X), units)
    search = _Search(passes, scales, units, moments.classes, first["sample"], chosen, n_bins)
    choice = Choice(ridge=given)
    start = None
    if units.n_constant == len(units.factor):
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
                as_objective("auc", max_fpr=None, min_tpr=None, power=None),
            )
        assert choice.ridge is not None
        stopped = False
        if type(chosen) is Square:
            v = local.solve(ridge=choice.ridge, margin=chosen.margin)
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
        warnings.warn(
            f"The search stopped after {max_passes} iterations; raise max_passes or tolerance.",
            RuntimeWarning,
            stacklevel=2,
        )
    histogram = search.histogram(v)
    # All pairs of 16,384 bins are too many for a loss without a sort.
    coarse = histogram.bins.coarser(_HISTOGRAM // _CERTIFIED)
    objective = coarse.risk(chosen)[0] + (choice.ridge or 0.0) * float(v @ v)
    scores, positive, weight = histogram.bins.points()
    n_examples = int(moments.n_examples.sum())
    n_pairs = int(moments.n_examples[0]) * int(moments.n_examples[1])
    model = AUCClassifier(
        loss,
        ridge=ridge,
        scaling=scaling,
        threshold=threshold,
        costs=costs,
        calibrate=calibrate,
        validation_fraction=validation_fraction,
    ).adopt_solution(
        units.to_user(v),
        classes=moments.classes,
        feature_names=feature_names,
        loss=chosen,
        choice=choice,
        trace=Trace(passes.n_passes, passes.n_passes * n_pairs),
        # In the units of the user, the centre of the scaled rows is somewhere else.
        scores=(scores + float(v @ (units.centre * units.factor)), positive, weight),
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
        self.sample_y = np.where(sample.labels == classes[1], 1.0, -1.0)
        columns = scales.columns
        self._low = (columns.low - units.centre) * units.factor
        self._high = (columns.high - units.centre) * units.factor

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
        return self._passes(Scaled(statistic, self._units), purpose)


def _convex(loss: str | PairLoss) -> PairLoss:
    chosen = get_loss("squared_hinge" if loss == "auto" else loss)
    if not (chosen.convex and chosen.opposite_labels_only):
        raise ValueError(
            f"Passes over partitions minimise a convex loss of opposite pairs, got {chosen!r}; use "
            '"squared_hinge", "square", "logistic" or "hinge".'
        )
    return chosen
