# SPDX-License-Identifier: BSD-3-Clause
"""Exact class moments of a query: a state that merges, can be taken back, and makes a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pairlearn.cluster.arrow import BATCH_ROWS, OnArrow
from pairlearn.cluster.moments import ColumnExtents, LabelMoments, in_order
from pairlearn.cluster.passes import Passes
from pairlearn.cluster.statistic import Together
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.auc.forgetting import warn_of_wide_ranges
from pairlearn.estimators.shared.decisions import DecisionRule
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import two_classes
from pairlearn.estimators.shared.solvers import Moments
from pairlearn.features import Identity
from pairlearn.losses import Square
from pairlearn.solvers.closed_form.forgetting import ForgettingCertificate
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.solution import Trace
from pairlearn.validation import check_positive

#: Quantiles of normal scores of each class, from which threshold and probabilities are found.
_QUANTILES = 2_000


@dataclass(frozen=True, eq=False)
class TableMoments:
    """The exact moments of the two classes of a query.

    Parameters
    ----------
    moments : ClassMoments
        Whole numbers on a grid.
    classes : ndarray of shape (2,)
        The labels; the second one is positive.
    feature_names : tuple of str
        The columns.
    extents : Extents
        How far the columns reach: those of the first query, which made the grid, and of all rows
        since. The scale of a column depends on its range.
    n_examples : int
        The number of rows; those of weight 0 do not count.
    weighed : bool
        Whether the rows have weights.
    """

    moments: ClassMoments
    classes: NDArray[Any]
    feature_names: tuple[str, ...]
    extents: Extents
    n_examples: int
    weighed: bool

    @property
    def grid(self) -> Grid:
        """The grid."""
        assert self.moments.grid is not None
        return self.moments.grid

    def digest(self) -> str:
        """Return a digest of the state: equal for equal sums on equal grids, and only for them."""
        return self.moments.digest()

    def _like(self, other: TableMoments) -> None:
        for name in ("feature_names", "classes"):
            ours, theirs = (list(getattr(one, name)) for one in (self, other))
            if ours != theirs:
                raise ValueError(
                    f"moments of {name} {ours} and of {theirs} do not belong together; ask for the "
                    "second ones with like= the first."
                )
        if self.weighed != other.weighed:
            raise ValueError(
                "moments of rows with weights and of rows without do not belong together; ask for "
                "both with weight=, or for both without."
            )

    def merge(self, other: TableMoments) -> TableMoments:
        """Return the moments of the rows of both."""
        self._like(other)
        assert self.moments.table is not None
        both = ClassMoments.of(self.moments.table).merge(other.moments)
        n_rows = self.extents.n_rows + other.extents.n_rows
        return replace(
            self,
            moments=both,
            extents=replace(_widened(self.extents, other.extents), n_rows=n_rows),
            n_examples=self.n_examples + other.n_examples,
        )

    def without(self, gone: TableMoments) -> TableMoments:
        """Return the moments without those of some of the rows, as if these had never come.

        Parameters
        ----------
        gone : TableMoments
            The moments of rows that are among these, asked for with ``like=`` these moments.

        Returns
        -------
        TableMoments
            The moments of the other rows, on the same grid.
        """
        self._like(gone)
        rest = self.moments.without(gone.moments)
        if self.n_examples - gone.n_examples < np.count_nonzero(rest.counts):
            raise ValueError(
                f"{gone.n_examples} of {self.n_examples} rows cannot be taken back: weight is "
                "left, and no row that has it. Take back rows with the weights that they had."
            )
        return replace(self, moments=rest, n_examples=self.n_examples - gone.n_examples)

    def certificate(self, gone: TableMoments) -> ForgettingCertificate:
        """Return the certificate that the rows of `gone` were taken back from these moments."""
        states = [one.moments.state() for one in (self, gone, self.without(gone))]
        kept = ("grid", "ranges of features", "ridge")
        return ForgettingCertificate.of(*states, n_rows=gone.n_examples, kept=kept)

    def model(
        self,
        ridge: float,
        *,
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
    ) -> AUCClassifier:
        """Return the classifier of these moments: the square loss in closed form.

        Parameters
        ----------
        ridge : float
            The weight of the squared norm of the coefficients, for features of mean variance 1.
        scaling, decision : see `AUCClassifier`
            As of `AUCClassifier`.

        Returns
        -------
        AUCClassifier
            The model. Without weights its coefficients are those of
            ``AUCClassifier(solver=Moments(ridge))`` for the same rows in memory up to rounding, and
            bit for bit where `Moments` has the ``ranges`` of these rows.
            Moments do not know single scores: threshold and probabilities are those of scores that
            are normal in each class, with the mean and the variance that the moments tell.
        """
        ridge = check_positive("ridge", ridge)
        model = AUCClassifier(
            loss="square", solver=Moments(ridge), scaling=scaling, decision=decision
        )
        if not self.moments.counts.all():
            raise ValueError("no row of one of the classes is there; a model needs both classes.")
        features = Identity.of(len(self.feature_names))
        assert self.moments.table is not None
        mapped = MappedMoments(features, self.moments.table, self.extents.low, self.extents.high)
        if scaling is not None:
            warn_of_wide_ranges(mapped)
        loss = Square()
        w = mapped.problem(scaled=scaling is not None).solve(ridge, margin=loss.parameter)
        return model.adopt_solution(
            w,
            classes=self.classes,
            feature_names=list(self.feature_names),
            loss=loss,
            choice=Choice(ridge=ridge),
            trace=Trace(n_steps=self.n_examples, n_gradients=self.n_examples),
            scores=self._normal_scores(w),
            n_examples=self.n_examples,
            fingerprint=None,
        )

    def _normal_scores(self, w: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return scores, which are positive, and weights, of two normal classes."""
        values = self.moments.values
        z = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        scores = [
            mean @ w + np.sqrt(max(float(w @ covariance @ w), 0.0)) * z
            for mean, covariance in zip(values.means, values.covariances, strict=True)
        ]
        # As numbers of examples, whatever the unit of their weights.
        counts = values.counts * (self.n_examples / values.counts.sum())
        return (
            np.concatenate(scores),
            np.repeat([True, False], _QUANTILES),
            np.repeat(counts / _QUANTILES, _QUANTILES),
        )


def batch_moments(
    source: Any,
    query: str | None = None,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    batch_rows: int = BATCH_ROWS,
    like: TableMoments | None = None,
) -> TableMoments:
    """Return the exact class moments of a query from its Arrow batches, in two passes.

    Parameters
    ----------
    source, query, target, columns, weight, batch_rows : see `OnArrow`
        As of `OnArrow`.
    like : TableMoments, optional
        Moments whose grid, columns and labels to take, so that the new ones can be merged with them
        or taken from them. One pass is then enough. Both have weights, or neither has.

    Returns
    -------
    TableMoments
        The moments.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [20.0, 30.0, 40.0, 50.0], "bought": [0, 0, 1, 1]})
    >>> whole = batch_moments(table, target="bought")
    >>> gone = batch_moments(table.slice(3), target="bought", like=whole)
    >>> rest = whole.without(gone)
    >>> rest.moments.means[:, 0], rest.n_examples
    (array([40., 25.]), 3)
    """
    check_weight(weight, like)
    if like is not None and columns is None:
        columns = like.feature_names
    engine = OnArrow(
        source, query, target=target, columns=columns, weight=weight, batch_rows=batch_rows
    )
    if engine.feature_names is None:
        raise ValueError("columns must be a list of names, not a column of lists.")
    passes = Passes(engine)
    if like is None:
        reach: Extents = passes(ColumnExtents(), "ranges")
        found = passes(LabelMoments(grid=Grid.of(reach)), "moments")
    else:
        both = Together({"extents": ColumnExtents(), "moments": LabelMoments(grid=like.grid)})
        results = passes(both, "moments")
        reach, found = _widened(like.extents, results["extents"]), results["moments"]
    n, names = int(found.n_examples.sum()), engine.feature_names
    weighed = weight is not None
    return table_moments(found.table, found.classes, n, names, reach, like, weighed=weighed)


def check_weight(weight: str | None, like: TableMoments | None) -> None:
    """Refuse a column of weights, or none, where other moments have none, or some."""
    if like is not None and like.weighed != (weight is not None):
        there = "with weights" if like.weighed else "without weights"
        cure = "name their column" if like.weighed else "leave it out"
        raise ValueError(
            f"like= are moments of rows {there}, and weight is {weight!r}; rows that are merged or "
            f"taken back need weights if the others have some, and only then: {cure}, or ask for "
            "all moments anew."
        )


def _widened(extents: Extents, other: Extents) -> Extents:
    """Return extents whose range of values and of weights holds that of others, too."""
    low, high = np.minimum(extents.low, other.low), np.maximum(extents.high, other.high)
    largest = max(extents.largest_weight, other.largest_weight)
    return replace(extents, low=low, high=high, largest_weight=largest)


def table_moments(
    table: Table,
    labels: Sequence[Any] | NDArray[Any],
    n_rows: int,
    feature_names: Sequence[str],
    extents: Extents,
    like: TableMoments | None,
    *,
    weighed: bool,
) -> TableMoments:
    """Return the moments of exact sums of labels; `like` allows a label to be absent."""
    present = np.asarray(labels).tolist()
    if like is None:
        classes = np.array(sorted(present))
        two_classes(classes)
    else:
        classes = like.classes
        unknown = [label for label in present if label not in classes.tolist()]
        if unknown:
            raise ValueError(f"the label {unknown[0]!r} is neither of {classes.tolist()}.")
    # A statement is written for the number of rows that the extents tell.
    return TableMoments(
        ClassMoments.of(in_order(table, labels, classes)[::-1]),
        classes,
        tuple(feature_names),
        replace(extents, n_rows=max(extents.n_rows, n_rows)),
        n_rows,
        weighed,
    )
