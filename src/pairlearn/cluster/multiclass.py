# SPDX-License-Identifier: BSD-3-Clause
"""`MulticlassAUCClassifier` on an engine: a score for each pair of classes, in closed form.

The first pass brings ranges and a sample of each class, the second one the exact moments of all
classes. They give the minimiser of the square loss for every pair of classes. The sample chooses
the ridge, and its held-out scores make the probabilities; its classes weigh as much as all examples
do.
"""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from pairlearn.cluster.moments import ColumnExtents, LabelMoments
from pairlearn.cluster.passes import (
    ClusterReport,
    ColumnSpreads,
    Passes,
    class_weights,
    refuse_others,
    ridge_of,
    scaling_from,
)
from pairlearn.cluster.sample import RowSample, SampledRows
from pairlearn.cluster.statistic import Together
from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier
from pairlearn.estimators.shared.class_moments import ClassSystems
from pairlearn.estimators.shared.examples import check_many_classes, see_features
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import Exact
from pairlearn.folds import seed_of
from pairlearn.solvers.closed_form.grid import Grid
from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_generator

#: The limit on the number of labels, each of which has its own moments.
_MOST_CLASSES = 100
#: The number of examples of each class that choose the ridge.
_SAMPLE = 1_000
_HEEDED = ("loss", "solver", "scaling", "class_weight", "validation_fraction", "n_jobs",
           "random_state")  # fmt: skip


def train_multiclass(passes: Passes, estimator: MulticlassAUCClassifier) -> MulticlassAUCClassifier:
    """Return the classifier that an engine trains; see `fit_on`."""
    refuse_others(estimator, _HEEDED)
    if estimator.loss not in ("auto", "square"):
        raise ValueError(
            f'an engine trains loss="square" (or "auto"), got {estimator.loss!r}; use it, or fit a '
            "sample in the memory of one machine."
        )
    scaled = is_scaled(estimator.scaling)
    check_fraction("validation_fraction", estimator.validation_fraction)
    ridge = ridge_of(estimator.solver, "exact")
    exact = Exact() if ridge is None else Exact(ridge)
    rng = check_generator(estimator.random_state)
    asked = {
        "extents": ColumnExtents(),
        "columns": ColumnSpreads(),
        "sample": RowSample(_SAMPLE, seed_of(rng)),
    }
    found = passes(Together(asked), "sample and ranges")
    columns, sample = found["columns"], found["sample"]
    moments = passes(LabelMoments(_MOST_CLASSES, Grid.of(found["extents"])), "moments")
    classes, values = moments.classes, moments.values
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got 1 class ({classes.tolist()[0]!r}); there is no "
            "pair to tell apart."
        )
    check_many_classes(classes, int(moments.n_examples.sum()))
    # Balanced weights are those of all examples, not of a sample.
    heavy = class_weights(estimator.class_weight, classes.tolist(), values.counts)
    units = scaling_from(columns, scaled=scaled)
    judge = MulticlassAUCClassifier(
        loss="square",
        solver=exact,
        scaling=None,
        class_weight=dict(zip(classes.tolist(), heavy.tolist(), strict=True)),
        validation_fraction=estimator.validation_fraction,
        random_state=copy.deepcopy(rng),
    )
    rows = units.apply(DenseRows(sample.X))
    shares = _as_all(sample, classes, values.counts)
    judge.fit_rows(rows, sample.labels, shares)
    systems = ClassSystems(
        (values.means * units.inverse - units.centre) * units.factor,
        values.covariances * units.weights * units.weights[:, np.newaxis],
        values.counts,
    )
    coef = systems.solve_pairs(judge.ridge_)
    # The sigmoids are about scores of differences from the mean of the sample. In the units of the
    # user, the centre of the scaled rows is somewhere else.
    middle = shares @ rows.matrix / shares.sum()
    shift = (coef - judge.coef_) @ middle + coef @ (units.centre * units.factor)
    sigmoids = judge.sigmoids_.copy()
    sigmoids[:, 1] -= sigmoids[:, 0] * shift
    model = MulticlassAUCClassifier(**estimator.get_params(deep=False))
    model.adopt_pairs(
        classes, units.to_user(coef), sigmoids, power=judge.power_, choice=judge.choice_
    )
    see_features(model, {"n_features": coef.shape[1], "feature_names": passes.feature_names})
    model.cluster_report_ = ClusterReport(passes.n_passes)
    return model


def _as_all(sample: SampledRows, classes: NDArray[np.generic], counts: Vector) -> Vector:
    """Return weights of the sample, whose classes weigh as much as all examples."""
    weight = sample.weight.copy() if len(sample.weight) else np.ones(len(sample.labels))
    for label, total in zip(classes, counts, strict=True):
        own = sample.labels == label
        weight[own] *= total / weight[own].sum()
    return weight
