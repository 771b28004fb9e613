# SPDX-License-Identifier: BSD-3-Clause
"""How the classifier chooses: what it takes as data, and its step size and radius.

A grid of models is trained on one sample path (`solvers.sweep`) on a part of the training data and
scored by AUC on the rest. The grid is relative to the data: with v the mean squared distance of two
examples of opposite labels, a step of c / v moves the score of a typical pair by about c, and a
ball of radius rho / sqrt(v) allows typical scores of about rho. So the choice does not depend on
the unit of the features. ``step_size="theory"`` reads of the data only the number of examples and
the largest norm of a row, which stands for the bound B of the theorems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.averaging import Averaging, DelayedByStepSize
from pairlearn.folds import Fold, deal, members_of, n_folds_of, splits_of
from pairlearn.metrics import roc_auc
from pairlearn.pairings import Pairing, PreviousExample
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.top.objectives import TopOfList
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.theory import Advice

__all__ = [
    "MOST_FEATURES",
    "Choice",
    "FeatureChoice",
    "JudgedFeatures",
    "Tried",
    "advice_for",
    "choose",
    "find_classes",
    "hold_out",
    "opposite_scale",
    "relative_radii",
    "relative_steps",
    "two_classes",
]


def two_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the two kinds of labels, sorted, or say why there are not two.

    Examples
    --------
    >>> two_classes(np.array([3, 1, 3]))
    array([1, 3])
    """
    classes = find_classes(labels)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y has {len(classes)} classes. Use AUCClassifier, or train one classifier per pair of "
            "classes (sklearn.multiclass.OneVsOneClassifier)."
        )
    return classes


def find_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the kinds of labels, sorted; refuse less than two of them, and no kinds at all.

    Examples
    --------
    >>> find_classes(np.array(["b", "a", "c"]))
    array(['a', 'b', 'c'], dtype='<U1')
    """
    if labels.dtype.kind in "iuf":
        # Two numbers are found without sorting all of them.
        low, high = labels.min(), labels.max()
        if low != high and ((labels == low) | (labels == high)).all():
            return np.array([low, high])
    classes = np.unique(labels)
    if len(classes) > 2:
        check_classification_targets(labels)
    if len(classes) < 2:
        raise ValueError(
            f"AUC needs examples of both classes, but y has one class: {classes.tolist()}. "
            "Add examples of the other class."
        )
    return np.asarray(classes)


#: Above so many features a closed form is no cheap judge, and "auto" is linear.
MOST_FEATURES = 2_000
#: Relative step sizes c, half a decade apart.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: Relative radii rho.
_RADII = (3.0, 10.0, 30.0, np.inf)
#: At most so many examples of each class are used to train the grid, and so many to score it.
_TRAIN_CAP, _SCORE_CAP = 10_000, 1_000
#: At most so many active pairs are used to train the grid.
_PAIR_CAP = 25_000
#: With fewer held-out examples of the rarer class than this, the folds take turns.
_ENOUGH = 200


@dataclass(frozen=True)
class Tried:
    """One candidate and what it was worth on held-out examples."""

    #: What was tried, by name.
    values: dict[str, float]
    #: Mean AUC over the folds.
    auc: float
    #: Its standard error over the folds; NaN for a single one.
    standard_error: float
    n_folds: int

    @classmethod
    def of(cls, values: dict[str, float], aucs: Sequence[float]) -> Tried:
        """Return the candidate with the AUC that it reached on each fold."""
        n = len(aucs)
        error = float(np.std(aucs, ddof=1) / np.sqrt(n)) if n > 1 else math.nan
        return cls(values, float(np.mean(aucs)), error, n)


@dataclass(frozen=True)
class JudgedFeatures:
    """A candidate and what it was worth on held-out examples."""

    #: "linear", "hats" or "fourier".
    name: str
    #: Mean AUC over the folds, with the best ridge.
    auc: float
    #: Standard error of its difference to the best candidate; 0 for that one.
    standard_error: float
    ridge: float
    #: Number of mapped features.
    n_features: int


@dataclass(frozen=True)
class FeatureChoice:
    """Which features a fit chose, and on what evidence."""

    name: str
    #: All candidates, from the simplest on; none where the number of features left no choice. One
    #: that was behind on a part of the examples is left out.
    judged: tuple[JudgedFeatures, ...] = ()

    @property
    def reason(self) -> str:
        """Why, for a person."""
        if not self.judged:
            return f"{self.name}: more than {MOST_FEATURES:,} features, others were not tried"
        told = ", ".join(f"{one.name} {one.auc:.4f}" for one in self.judged)
        best = max(self.judged, key=lambda one: one.auc)
        if best is self.judged[0]:
            return f"{self.name} is the simplest and has the best held-out AUC ({told})"
        if best.name == self.name:
            return f"{self.name} has the best held-out AUC ({told}), by more than a standard error"
        own = next(one for one in self.judged if one.name == self.name)
        return (
            f"{self.name} is the simplest within a standard error ({own.standard_error:.4f}) of "
            f"{best.name} by held-out AUC ({told})"
        )


@dataclass(frozen=True)
class Choice:
    """What a fit chose, and on what evidence."""

    step_size: float | None = None
    radius: float = np.inf
    ridge: float | None = None
    #: The chosen candidate; None where nothing was to be chosen.
    evidence: Tried | None = None
    #: All candidates, in the order in which they were tried.
    tried: tuple[Tried, ...] = ()
    #: Which features were chosen, and why; None where they were given.
    features: FeatureChoice | None = None
    #: What an exact fit minimised for the top of the list; None for the mean over all pairs.
    top: TopOfList | None = None
    #: The ridge of the minimiser for all pairs that the model is pulled towards, where it is.
    anchor_ridge: float | None = None
    #: The share of Fisher's discriminant in the coefficients, or in those that they are pulled to.
    fisher: float = 0.0

    @property
    def auc(self) -> float | None:
        """The held-out AUC of the chosen candidate."""
        return None if self.evidence is None else self.evidence.auc


def opposite_scale(rows: Rows, y: Vector, rng: np.random.Generator) -> float:
    """Return the mean squared distance of opposite examples, from at most 1000 of each class."""
    spreads = []
    for label in (-1.0, 1.0):
        members = np.flatnonzero(y == label)
        if len(members) > 1000:
            members = rng.choice(members, 1000, replace=False)
        spreads.append(rows.take(members).spread())
    (mean_a, spread_a), (mean_b, spread_b) = spreads
    scale = spread_a + spread_b + float(((mean_a - mean_b) ** 2).sum())
    return max(scale, float(np.finfo(float).tiny))


def relative_steps(scale: float) -> tuple[float, ...]:
    """Return the step sizes of the grid for data of pair scale `scale`."""
    return tuple(float(step / scale) for step in _STEPS)


def relative_radii(scale: float) -> tuple[float, ...]:
    """Return the radii of the grid for data of pair scale `scale`."""
    return tuple(float(radius / np.sqrt(scale)) for radius in _RADII)


def choose(
    problem: Problem,
    rows: Rows,
    y: Vector,
    *,
    n_steps: int,
    pairing: Pairing,
    schedule: Schedule,
    averaging: Averaging,
    step_sizes: tuple[float, ...],
    radii: tuple[float, ...],
    validation_fraction: float,
    example_weight: Vector,
    rng: np.random.Generator,
) -> Choice:
    """Return the best of a grid by held-out AUC.

    Parameters
    ----------
    problem : Problem
        Score and loss.
    rows : DenseRows or CsrRows
        Training examples.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    n_steps : int
        The number of steps of the final run. If the grid is trained with fewer active pairs, the
        chosen constant step size is divided by the square root of their ratio (the optimal
        constant step of Theorem 6a is proportional to 1/sqrt(T)).
    pairing, schedule, averaging : Pairing, Schedule, Averaging
        The other parts, as in the final run.
    step_sizes, radii : tuple of float
        The two sides of the grid.
    validation_fraction : float
        The share of each class that is held out.
    example_weight : ndarray of shape (n,) or (0,)
        Weights.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Choice
        The best model's step size and radius, and its held-out AUC.
    """
    grid = [(step, radius) for step in step_sizes for radius in radii]
    folds = hold_out(y, validation_fraction, rng)
    aucs: list[list[float]] = [[] for _ in grid]
    n_active = n_steps * 2.0 * float(np.mean(y > 0)) * float(np.mean(y < 0))
    shrink = 1.0
    for train, held in folds:
        share = 2.0 * float(np.mean(y[train] > 0)) * float(np.mean(y[train] < 0))
        n_pairs = min(n_active, _PAIR_CAP)
        if schedule.is_constant:
            shrink = float(np.sqrt(n_pairs / n_active))
        sweep = Sweep(
            tuple(step / shrink for step, _ in grid),
            tuple(radius for _, radius in grid),
            pairing,
            schedule,
            averaging,
        )
        solution = sweep.solve(
            problem,
            rows.take(train),
            y[train],
            n_steps=max(int(n_pairs / share), 1),
            rng=rng,
            example_weight=example_weight[train] if len(example_weight) else example_weight,
        )
        scores = rows.take(held).scores(solution.averages)
        for model, model_scores in enumerate(scores):
            lost = solution.diverged[model] or not np.isfinite(model_scores).all()
            aucs[model].append(0.0 if lost else roc_auc(y[held], model_scores))
    tried = tuple(
        Tried.of({"step_size": step, "radius": radius}, found)
        for (step, radius), found in zip(grid, aucs, strict=True)
    )
    chosen = max(tried, key=lambda one: one.auc)
    step, radius = chosen.values["step_size"], chosen.values["radius"]
    return Choice(step, radius, evidence=chosen, tried=tried)


def hold_out(y: Vector, fraction: float, rng: np.random.Generator) -> list[Fold]:
    """Return (train, held-out) index pairs: one, or all in turn when the rarer class is small."""
    members = [rng.permutation(own) for own in members_of(y, (-1.0, 1.0))]
    # Case-control sampling leaves the distribution of opposite pairs as it is.
    members = [m[: _TRAIN_CAP + _SCORE_CAP] for m in members]
    sizes = [min(max(round(fraction * len(m)), 1), _SCORE_CAP) for m in members]
    everything = np.concatenate(members)
    if min(sizes) >= _ENOUGH:
        return splits_of(deal(members, len(y), sizes=sizes), 1, everything)
    n_folds = n_folds_of(fraction, min(map(len, members)))
    return splits_of(deal(members, len(y), n_folds=n_folds), among=everything)


def advice_for(
    problem: Problem,
    rows: Rows,
    *,
    radius: float | None,
    n_steps: int,
    pairing: Any,
    schedule: Any,
    averaging: Any,
    weighted: bool,
    warm: bool,
) -> Advice:
    """Return what Theorem 1 or 2 recommends, refusing what the theorems do not cover.

    Parameters
    ----------
    problem : Problem
        The score and a convex loss.
    rows : DenseRows or CsrRows
        The training examples.
    radius : float or None
        Radius of the ball; it must be finite.
    n_steps : int
        The number of steps that will be taken.
    pairing, schedule, averaging : object
        They must be the previous example, a constant step and the paper's average.
    weighted : bool
        Whether pairs have weights, which the constants do not know of.
    warm : bool
        Whether the run starts elsewhere than at zero.

    Returns
    -------
    Advice
        The step size, and the bound on the expected excess risk.
    """
    from pairlearn.theory import advise_auc

    if radius is None or math.isinf(radius):
        raise ValueError(
            'step_size="theory" needs a finite radius (the bounds grow with it), got '
            f"radius={'auto' if radius is None else radius!r}; pass for example radius=1.0."
        )
    wrong = [
        text
        for is_wrong, text in (
            (pairing != PreviousExample(), 'pairing="previous"'),
            (schedule != Constant(1.0), 'schedule="constant"'),
            (not isinstance(averaging, DelayedByStepSize), 'averaging="step_size"'),
            (weighted, "no sample_weight and no class_weight"),
            (warm, "warm_start=False"),
        )
        if is_wrong
    ]
    if wrong:
        raise ValueError(f'step_size="theory" is for Algorithm 1: use {", ".join(wrong)}.')
    norm = rows.largest_norm()
    if norm == 0.0:
        raise ValueError('step_size="theory" needs an example that is not zero.')
    return advise_auc(problem, rows.shape[0], norm_bound=norm, radius=radius, n_steps=n_steps)
