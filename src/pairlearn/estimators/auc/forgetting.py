# SPDX-License-Identifier: BSD-3-Clause
"""How an AUC classifier forgets rows: its exact moments are kept, and rows are taken back.

The coefficients are then those of the other rows, on the same grid and with the same ridge.
Threshold and calibration belong to scores of all rows. They are carried over to the new scores,
so that the mean scores of both classes stand where they stood. A stream with ranges has a sample of
its rows, and takes rows back from it, too; ridge, threshold and calibration are then found anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.auc.streams import AUCStreams
from pairlearn.estimators.shared.decisions import Decision, Isotonic, Sigmoid
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import check_known, rows_and_labels
from pairlearn.estimators.shared.published import DEFERRED, publish
from pairlearn.estimators.shared.weights import (
    chunk_weights,
    example_weights,
    kept_of_chunk,
)
from pairlearn.typing import Vector
from pairlearn.validation import warn_caller

if TYPE_CHECKING:
    from pairlearn.solvers.closed_form.mapped_moments import MappedMoments

#: A column whose standard deviation is fewer quanta than this has too coarse a grid.
_FEW_QUANTA = 256.0
#: A range of more quanta than this is that of values far beyond the others.
_FAR_QUANTA = 2.0**46
#: Two weights are one if they differ by less than this share, as those of another precision do.
_ROUNDING = 1e-9
#: What forgotten rows may have had a part in and what stays.
KEPT = ("grid", "ranges of features", "feature map", "ridge", "threshold", "calibration")


@dataclass(frozen=True, eq=False)
class Kept:
    """What a model needs to forget: the moments, and how coefficients follow from them."""

    moments: MappedMoments
    choice: Choice
    margin: float
    is_scaled: bool
    signs: NDArray[np.int64] | None
    #: The divisor of the weights of the fit.
    unit: float
    #: The weight of each row before that, 1 without weights; None if they differ.
    each: float | None
    #: Whether rows had other weights than 1, be it 0.
    weighed: bool
    #: Whether rows may have had weight 0.
    zeros: bool

    def coef(self, moments: MappedMoments) -> Vector:
        """Return the coefficients that follow from moments."""
        assert self.choice.ridge is not None
        problem = moments.problem(scaled=self.is_scaled)
        return problem.solve(self.choice.ridge, signs=self.signs, margin=self.margin)

    @property
    def left(self) -> tuple[str, ...]:
        """What forgotten rows may have had a part in."""
        if not self.moments.has_given_grid:
            return KEPT
        # Nothing but the moments depends on the rows, where the ridge was given.
        return KEPT[-2:] if self.choice.evidence is None else KEPT[-3:]


def span_of(weight: Vector) -> tuple[float, float]:
    """Return the smallest and the largest weight; no weights are those of 1."""
    return (float(weight.min()), float(weight.max())) if len(weight) else (1.0, 1.0)


def weight_of_each(weight: Vector) -> float | None:
    """Return the weight that each row has, 1 without weights; None if they differ."""
    low, high = span_of(weight)
    return low if low == high else None


def told_weight(moments: MappedMoments, n_examples: int) -> float | None:
    """Return 1.0 if moments tell that each of their rows weighs 1; None if they do not."""
    # Whole weights are as many as their sum only if each is 1; a grid of fractions is finer.
    whole = moments.grid.weight_exponent == 0
    return 1.0 if whole and moments.table.totals.sum() == n_examples else None


class AUCForgetting(AUCStreams):
    """Rows that an `AUCClassifier` learned and gives back."""

    def partial_unfit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget rows that `fit` or a stream learned, as if they had never come.

        The coefficients become those of the other rows, with the grid of `fit`, its ranges and map
        of features, and its ridge. Threshold and calibration are carried over to the new
        scores. None of these is found anew: where the rows had a part in them, fit again.
        `forgetting_certificate_` says so, and names the states before and after.

        With ``Moments(ranges=...)`` grid and scales do not depend on the rows. Then the
        coefficients are those of a fit without them, bit for bit, if the ridge is given. A stream,
        which must have ranges, finds ridge, threshold and calibration anew from its sample.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Rows that the model has seen, each as often as it is to be forgotten.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            Their weights when they were learned; needed if there were any. Rows of weight 0 were
            not counted, and are not taken back.

        Returns
        -------
        self
            The classifier. Rows without which a class would have fewer than no examples, or a
            negative variance, are refused and leave it as it was; a stream also refuses those that
            should be in its sample and are not. Other rows that were never learned cannot be told:
            the moments do not list their rows.

        Examples
        --------
        >>> from pairlearn import AUCClassifier, Moments
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
        >>> model = AUCClassifier(solver=Moments(0.1, keep_state=True)).fit(X, y)
        >>> model.partial_unfit(X[:20], y[:20]).n_examples_, model.forgetting_certificate_.n_rows
        (180, 20)
        """
        check_is_fitted(self, "classes_")
        kept, stream = self.kept_moments(), self._stream
        rows, labels = rows_and_labels(self, X, y, reset=False, minimum=1)
        check_known(labels, self.classes_)
        weight, given = chunk_weights(sample_weight, len(labels)), sample_weight is not None
        zeros = not weight.all()
        # Rows without weight were never counted: they are not there to be taken back.
        some = kept_of_chunk(weight, begun=True)
        if some is not None:
            weight, rows, labels = weight[some], rows.take(some), labels[some]
        self._check_weighed(span_of(weight), len(labels), given=given, zeros=zeros)
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        weight = example_weights(weight if given else None, None, labels) / self.kept_unit()
        if stream is None:
            own = weight if len(weight) else None
            gone = kept.alike().plus(rows, signs, own)
            return self._without(gone, len(labels))
        states = [one.table.state() for one in stream.take_back(rows, signs, weight)]
        self._adopt_stream(stream, self.classes_)
        self._certify(states, len(labels))
        return self

    def _certify(self, states: list[Any], n_rows: int, **facts: Any) -> None:
        from pairlearn.solvers.closed_form.forgetting import ForgettingCertificate

        self.forgetting_certificate_ = ForgettingCertificate.of(*states, n_rows=n_rows, **facts)

    def kept_moments(self) -> MappedMoments:
        """Return the moments that rows can be taken back from; an error says why there are none."""
        if self._kept is not None:
            return self._kept.moments  # type: ignore[no-any-return]
        if hasattr(self._stream, "take_back"):
            return self._stream.moments  # type: ignore[no-any-return]
        raise ValueError(self._why_not())

    def kept_unit(self) -> float:
        """Return the divisor of all weights in `kept_moments`; those of classes are not there."""
        kept: Kept | None = self._kept
        return 1.0 if kept is None or kept.moments.has_given_grid else kept.unit

    def take_back(
        self,
        gone: MappedMoments,
        n_rows: int,
        *,
        span: tuple[float, float],
        weighed: bool = True,
        zeros: bool = False,
    ) -> Self:
        """Forget `n_rows` rows whose moments on the grid of `kept_moments` are known.

        Weights are divided by `kept_unit` there. `span` holds the smallest and the largest weight;
        `weighed` tells whether all rows were given one, `zeros` whether some were given 0.
        """
        if self._kept is not None:
            self._check_weighed(span, n_rows, given=weighed, zeros=zeros)
        return self._without(gone, n_rows)

    def _without(self, gone: MappedMoments, n_rows: int) -> Self:
        self.kept_moments()  # it says why there are none
        kept: Kept | None = self._kept
        if kept is None:
            raise ValueError(
                "a stream takes rows back from its sample, too, and needs the rows themselves in "
                "memory; use partial_unfit, or unlearn_many of an OnlineLearner."
            )
        rest = kept.moments.without(gone)
        if not rest.values.counts.all():
            raise ValueError(
                "no example of one of the classes would be left; a model needs both. Fit it anew "
                "when there are other examples."
            )
        if self.n_examples_ - n_rows < len(self.classes_):
            raise ValueError(
                f"{n_rows} of {self.n_examples_} rows cannot be taken back: weight is left in both "
                "classes, and no row that has it. Take back rows with the weights that they had."
            )
        w = kept.coef(rest)
        states = [one.table.state() for one in (kept.moments, gone, rest)]
        decision = _carried(self._decided(), kept, rest, self.coef_[0], w)
        if isinstance(self.decision, (int, float)):
            decision = float(self.decision), decision[1]
        self._kept = replace(kept, moments=rest)
        self._certify(states, n_rows, kept=kept.left)
        self.n_examples_ -= n_rows
        self.data_fingerprint_ = None
        publish(self, coef_=w[np.newaxis], _decision=decision, **{DEFERRED: ()})
        _warn_of_coarse_grid(rest, scaled=kept.is_scaled)
        return self

    def _check_weighed(
        self, span: tuple[float, float], n_rows: int, *, given: bool, zeros: bool
    ) -> None:
        """Refuse rows without weights that had some, and weights that no row can have had.

        `span` is from the smallest to the largest weight of `n_rows` rows that weigh anything;
        `zeros` tells whether there are others.
        """
        kept: Kept | None = self._kept
        each = told_weight(self.kept_moments(), self.n_examples_) if kept is None else kept.each
        wrong = zeros and kept is not None and not kept.zeros
        if not n_rows and not wrong:
            return
        if not given and (each != 1.0 or (kept is not None and kept.weighed)):
            raise ValueError(
                f"the {self.n_examples_} rows were learned with sample_weight; give the weights of "
                "these rows, too."
            )
        if each is not None and max(abs(end - each) for end in span) > _ROUNDING * each:
            wrong = True
        if wrong:
            raise ValueError(
                "the rows were learned without sample_weight, or with one weight for all, and "
                "these rows have another; take them back with the weights they were learned with."
            )

    def _why_not(self) -> str:
        """Return why this model cannot forget, and what can."""
        cure = "fit AUCClassifier(solver=Moments(keep_state=True)) on two classes"
        if len(self.classes_) > 2:
            return f"more than two classes have no moments that rows are taken back from; {cure}."
        if self._stream is not None and self._stream.kind == "moments":
            return (
                "a stream that forgets by its half-lives cannot take rows back; give "
                f"Moments(ranges=...), with which it remembers everything, or {cure}."
            )
        if self.solver_ == "moments":
            return (
                "this model has no moments to take rows from: they were not kept, or a model file "
                f"was loaded, which does not hold them; {cure}."
            )
        return (
            f"coefficients of solver {self.solver_!r} do not say what each row had a part in; "
            f"{cure}, or fit anew without the rows."
        )


def _carried(
    before: Decision, kept: Kept, rest: MappedMoments, old: Vector, new: Vector
) -> Decision:
    """Return threshold and calibration for new scores: class means stand where they stood."""
    had = kept.moments.values
    low, high = float(had.means[1] @ old), float(had.means[1] @ old + had.difference @ old)
    left = rest.values
    bottom, gap = float(left.means[1] @ new), float(left.difference @ new)
    if not (gap > 0.0 and high > low):
        return before
    # Score s of the new coefficients stands where slope s + shift stood.
    slope = (high - low) / gap
    shift = low - slope * bottom
    threshold, calibrator = before
    threshold = (threshold - shift) / slope
    if isinstance(calibrator, Sigmoid):
        moved = calibrator.intercept + calibrator.slope * shift
        return threshold, Sigmoid(calibrator.slope * slope, moved)
    return threshold, Isotonic((calibrator.knots - shift) / slope, calibrator.values)


def _warn_of_coarse_grid(moments: MappedMoments, *, scaled: bool) -> None:
    """Warn if a feature has few quanta left, or the scale of values that are gone."""
    quanta = np.ldexp(1.0, moments.grid.exponents)
    spread = np.sqrt(np.maximum(moments.values.variances.max(axis=0), 0.0))
    # A column that has no spread left is constant, unless values far out made its quantum.
    far = moments.high - moments.low > _FAR_QUANTA * quanta
    few = np.flatnonzero((spread < _FEW_QUANTA * quanta) & ((spread > 0.0) | far))
    if len(few):
        warn_caller(
            f"Feature {int(few[0])} varies by fewer than {_FEW_QUANTA:.0f} steps of its grid, "
            "which was made for rows that are gone; fit anew for more digits.",
            UserWarning,
        )
    elif scaled:
        warn_of_wide_ranges(moments)


def warn_of_wide_ranges(moments: MappedMoments) -> None:
    """Warn if a feature has the scale of values that are gone: it then counts for little."""
    wide = moments.too_wide()
    if len(wide):
        warn_caller(
            f"Feature {int(wide[0])} has the range, and so the scale, of rows that are gone, and "
            "hardly counts; fit anew, or give Moments(ranges=...).",
            UserWarning,
        )
