# SPDX-License-Identifier: BSD-3-Clause
"""Many classes over partitions: a score for each pair of classes, from one set of moments.

The first pass brings scales and a sample of each class, the second one the exact moments of all
classes. They give the minimiser of the square loss for every pair of classes in closed form. The
sample chooses the ridge, and its held-out scores make the probabilities; its classes weigh as much
as all examples do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.first_passes import in_two_passes
from pairlearn.distributed.passes import ClassPasses, Pass, Passes, scaling_by_passes
from pairlearn.distributed.statistics.base import OfOthers, State, Statistic, Together
from pairlearn.distributed.statistics.histogram import ScoreHistogram, score_edges, score_range
from pairlearn.distributed.statistics.moments import ColumnExtents, LabelledMoments
from pairlearn.distributed.statistics.sample import RowSample, SampledRows
from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier
from pairlearn.estimators.shared.class_moments import ClassSystems
from pairlearn.estimators.shared.examples import check_known, check_many_classes
from pairlearn.estimators.shared.features_seen import see_features
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import Exact, Solver
from pairlearn.folds import seed_of
from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_generator

#: The number of bins of the scores of a pair, and of examples of each class that place them.
_BINS, _PLACING = 8_192, 500


def train_multiclass(
    run: Pass,
    *,
    solver: str | Solver = "class_passes",
    scaling: str | None = "auto",
    class_weight: Mapping[Any, float] | str | None = None,
    validation_fraction: float = 0.2,
    random_state: Any = None,
    feature_names: list[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> MulticlassAUCClassifier:
    """Train a `MulticlassAUCClassifier` with the square loss by passes over partitions.

    Parameters
    ----------
    run : callable
        As of `train_auc`.
    solver : "class_passes", ClassPasses or Exact, default="class_passes"
        The ridge, and the size of the sample that chooses it.
    scaling, class_weight, validation_fraction : see `MulticlassAUCClassifier`
        As of `MulticlassAUCClassifier`.
    random_state : int, Generator or None, default=None
        Draws the sample and its folds.
    feature_names : list of str, optional
        Names of the columns.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    MulticlassAUCClassifier
        The classifier. `choice_` has M on held-out folds of the sample.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 300)
    >>> X = rng.normal(size=(300, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[y]
    >>> parts = [(X[k::3], y[k::3]) for k in range(3)]
    >>> def run(statistic):
    ...     states = [statistic.of_part(k).partial_state(*part) for k, part in enumerate(parts)]
    ...     return statistic.merge_all(states)
    >>> model = train_multiclass(run, solver=Exact(0.1))
    >>> memory = MulticlassAUCClassifier(loss="square", solver=Exact(0.1)).fit(X, y)
    >>> bool(np.allclose(model.coef_, memory.coef_, rtol=1e-9))
    True
    """
    settings = ClassPasses.of(solver)
    scaled = is_scaled(scaling)
    check_fraction("validation_fraction", validation_fraction)
    rng = check_generator(random_state)
    passes = Passes(run, progress)
    found = in_two_passes(passes, settings.sample_size, seed_of(rng), settings.max_classes)
    moments: LabelledMoments = found["moments"]
    classes, values = moments.classes, moments.values
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got 1 class ({classes.tolist()[0]!r}); there is no "
            "pair to tell apart."
        )
    check_many_classes(classes, int(moments.n_examples.sum()))
    scales = found["scales"].of_classes(values.counts, values.means, values.scatters)
    units = scaling_by_passes(scales, scaled, passes)
    sample: SampledRows = found["sample"]
    judge = MulticlassAUCClassifier(
        loss="square",
        solver=Exact(settings.ridge),
        scaling=None,
        class_weight=_known_weights(class_weight, moments),
        validation_fraction=validation_fraction,
        random_state=copy.deepcopy(rng),
    )
    source = DenseRows(sample.X)
    rows, shares = units.apply(source), _as_all(sample, classes, values.counts)
    judge.fit_rows(rows, sample.labels, shares)
    weights = units.weights
    systems = ClassSystems(
        (values.means * units.inverse - units.centre) * units.factor,
        values.covariances * weights * weights[:, np.newaxis],
        values.counts,
    )
    coef = systems.solve_pairs(judge.ridge_)
    # The sigmoids are about scores of differences from the mean of the sample. In the units of the
    # user, the centre of the scaled rows is somewhere else.
    middle = shares @ rows.matrix / shares.sum()
    shift = (coef - judge.coef_) @ middle + coef @ (units.centre * units.factor)
    sigmoids = judge.sigmoids_.copy()
    sigmoids[:, 1] -= sigmoids[:, 0] * shift
    model = MulticlassAUCClassifier(
        loss="square",
        solver=Exact(settings.ridge),
        scaling=scaling,
        class_weight=dict(class_weight) if isinstance(class_weight, Mapping) else class_weight,
        validation_fraction=validation_fraction,
    )
    model.adopt_pairs(
        classes, units.to_user(coef), sigmoids, power=judge.power_, choice=judge.choice_
    )
    see_features(model, {"n_features": coef.shape[1], "feature_names": feature_names})
    return model


def score_multiclass(run: Pass, model: MulticlassAUCClassifier) -> tuple[float, float]:
    """Return Hand and Till's M of partitioned examples, and its certified half-width.

    Parameters
    ----------
    run : callable
        As of `train_auc`.
    model : MulticlassAUCClassifier
        The model.

    Returns
    -------
    auc : float
        M, where a class that is missing is left out.
    half_width : float
        ``model.score`` of all examples lies within it of `auc`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 300)
    >>> X = rng.normal(size=(300, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[y]
    >>> run = lambda statistic: statistic.of_part(0).partial_state(X, y)
    >>> model = train_multiclass(run, solver=Exact(0.1))
    >>> auc, half_width = score_multiclass(run, model)
    >>> bool(abs(auc - model.score(X, y)) <= half_width < 1e-3)
    True
    """
    passes, known = Passes(run), model.classes_.tolist()
    asked = {"extents": ColumnExtents(), "sample": RowSample(_PLACING)}
    found = passes(Together(asked), "ranges of scores")
    sample, extents = found["sample"], found["extents"]
    check_known(sample.labels, model.classes_)
    there = np.isin(model.classes_, sample.labels)
    if np.count_nonzero(there) < 2:
        raise ValueError(
            f"y holds {sample.labels[0]!r} only; M is about pairs of classes and needs two."
        )
    histograms = {}
    for w, (first, second) in zip(model.coef_, combinations(range(len(known)), 2), strict=True):
        if there[first] and there[second]:
            low, high = score_range(w, extents.low, extents.high)
            edges = score_edges(sample.X @ w, low, high, _BINS)
            pair = known[first], known[second]
            histograms[f"{first} {second}"] = OfClasses(ScoreHistogram(w, edges, pair), pair)
    results = passes(Together(histograms), "histograms").values()
    return (
        float(np.mean([one.auc for one in results])),
        float(np.mean([one.half_width for one in results])),
    )


class OfClasses(OfOthers):
    """A statistic of the examples of some classes.

    Parameters
    ----------
    statistic : Statistic
        The statistic of these examples.
    classes : sequence of labels
        Their classes.

    Examples
    --------
    >>> from pairlearn.distributed import LabelMoments
    >>> statistic = OfClasses(LabelMoments(), ["a", "b"])
    >>> state = statistic.partial_state(np.eye(3), np.array(["a", "b", "c"]))
    >>> statistic.finish(state).n_examples
    array([1, 1])
    """

    def __init__(self, statistic: Statistic, classes: Any) -> None:
        self.statistic, self.classes = statistic, np.asarray(classes)

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of the examples of these classes."""
        index = np.flatnonzero(np.isin(np.asarray(y), self.classes))
        if not len(index):
            return {}
        weight = None if sample_weight is None else np.asarray(sample_weight)[index]
        return self.statistic.partial_state(X[index], np.asarray(y)[index], weight)


def _as_all(sample: SampledRows, classes: NDArray[Any], counts: Vector) -> Vector:
    """Return weights of the sample with which its classes weigh as much as all examples do."""
    own = sample.weight if len(sample.weight) else np.ones(len(sample.labels))
    code = np.searchsorted(classes, sample.labels)
    shares = counts / np.bincount(code, own, minlength=len(classes))
    return np.asarray(own * shares[code])


def _known_weights(
    class_weight: Mapping[Any, float] | str | None, moments: LabelledMoments
) -> dict[Any, float] | str | None:
    """Return the weights of classes; balanced ones are those of all examples, not of a sample."""
    if class_weight == "balanced":
        n = moments.counts
        found = n.sum() / (len(n) * n)
        return dict(zip(moments.classes.tolist(), found.tolist(), strict=True))
    return dict(class_weight) if isinstance(class_weight, Mapping) else class_weight
