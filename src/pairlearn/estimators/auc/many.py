# SPDX-License-Identifier: BSD-3-Clause
"""More than two classes: the fit of one score for each pair, and the parts that it allows."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.auc.composition import Composition
from pairlearn.estimators.auc.reading import Examples
from pairlearn.estimators.shared.decisions import Sigmoid, Threshold, as_rule
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import check_many_classes
from pairlearn.estimators.shared.maps import as_map, fit_map, is_linear, map_rows
from pairlearn.estimators.shared.published import DEFERRED, publish, published
from pairlearn.estimators.shared.solvers import SGD, Exact, Fitted, Moments
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import LOSSES, PairLoss, Square, SquaredHinge
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Labels, Vector
from pairlearn.validation import check_generator

_DECIDED = "more are decided between by their probabilities"
_CLOSED = "with more, the score of each pair of classes is found in closed form"
_CURES = {
    "solver": 'Use solver="auto", "exact" or "moments"',
    "features": 'Use features="linear", "hats", "fourier" or a map without monotone',
    "loss": 'Use loss="auto", "square" or "squared_hinge"',
}


def _refused(model: Any, n_classes: int, name: str, why: str) -> ValueError:
    cure = _CURES.get(name, f"Leave {name} at its default")
    return ValueError(
        f"y has {n_classes} classes, and {name}={getattr(model, name)!r} is for two: {why}. "
        f"{cure}, or train one such classifier for each pair, "
        "sklearn.multiclass.OneVsOneClassifier(AUCClassifier(...))."
    )


def check_decisions_between(model: Any, n_classes: int, parts: Composition) -> None:
    """Refuse rules for decisions between two classes, and maps that a stream cannot fit."""
    _check_between(model, n_classes, parts)
    given = model.features
    if not is_linear(given) and not (isinstance(given, FeatureMap) and given.is_fitted):
        raise ValueError(
            f"a stream of {n_classes} classes needs fitted features, got {given!r}; "
            "pass features=Hats().fit(X) of a sample X."
        )


def _check_between(model: Any, n_classes: int, parts: Composition) -> None:
    if getattr(parts.solver, "ranges", None) is not None:
        raise _refused(model, n_classes, "solver", "ranges are for the moments of two classes")
    if as_rule(model.decision) not in (Threshold(), Threshold("probability")):
        raise _refused(model, n_classes, "decision", _DECIDED)
    if parts.monotone:
        raise _refused(model, n_classes, "features", _DECIDED)


def _check_closed_form(model: Any, n_classes: int, parts: Composition) -> None:
    """Refuse parts that the closed form for more than two classes cannot use."""
    _check_between(model, n_classes, parts)
    wrong = {
        "objective": not parts.objective.over_pairs,
        "callbacks": "callbacks" in parts.asked,
        "warm_start": "warm_start" in parts.asked,
        "solver": isinstance(parts.solver, SGD),
        "features": isinstance(model.features, str) and model.features == "auto",
        "loss": parts.loss is not None and _loss_name(parts.loss) is None,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise _refused(model, n_classes, name, _CLOSED)


def _loss_name(loss: PairLoss) -> str | None:
    """Return the name of a loss that pairs of classes have in closed form."""
    known = {"square": Square(), "squared_hinge": SquaredHinge()}
    return next(
        (name for name, own in known.items() if type(loss) is type(own) and loss == own), None
    )


def pair_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of the classifier of the pairs."""
    loss = "auto" if model.loss == "auto" else _loss_name(LOSSES.make(model.loss))
    solver = model.solver
    if loss == "auto" and (isinstance(solver, Moments) or solver == "moments"):
        loss = "square"
    same = ("scaling", "class_weight", "validation_fraction", "n_jobs", "random_state")
    own = {name: getattr(model, name) for name in same}
    return {"loss": loss, "solver": Exact(getattr(solver, "ridge", "auto")), **own}


def _map_for(
    model: Any, given: Rows, labels: Labels, classes: Labels, weight: Vector, memory: float
) -> FeatureMap:
    """Return the fitted map; its size goes by the rarest class."""
    counts = [int(np.count_nonzero(labels == one)) for one in classes]
    y = np.where(labels == classes[int(np.argmin(counts))], 1.0, -1.0)
    # A copy of the generator, so that the folds do not depend on the map.
    draws = check_generator(copy.deepcopy(model.random_state))
    features = fit_map(as_map(model.features, given, y), given, draws, counts=weight)
    # The moments of the classes, of all examples and of each fold.
    copies = len(classes) * (1 + max(round(1.0 / model.validation_fraction), 2))
    size = 8.0 * copies * features.n_outputs**2
    if size > memory:
        raise ValueError(
            f"The moments of {len(classes)} classes with {features.n_outputs} mapped features "
            f"take about {size / 2**30:.1f} GiB, max_memory={memory:g} bytes; use a map with fewer "
            "features, or a solver with a larger max_memory."
        )
    return features


def fit_pairs(
    model: Any,
    parts: Composition,
    data: Examples,
    max_memory: float,
) -> tuple[Fitted, dict[str, Any]]:
    """Train one score for each pair of classes; return the fit and what predictions are made of."""
    given, labels, classes = data.rows, data.labels, data.classes
    check_many_classes(classes, len(labels))
    _check_closed_form(model, len(classes), parts)
    features: FeatureMap = Identity.of(given.shape[1])
    source = given.checked()
    mapped = not is_linear(model.features)
    if mapped:
        features = _map_for(model, given, labels, classes, data.counts, max_memory)
        cure = "use a map with fewer features, or a larger max_memory."
        source = as_rows(map_rows(features, given, max_memory, cure), finite=True)
    from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier

    pairs = MulticlassAUCClassifier(**pair_parameters(model))
    pairs.fit_rows(source, labels, data.sample_weight, mapped=mapped)
    n, choice = len(labels), pairs.choice_
    loss = LOSSES.make(pairs.loss_)
    fitted = Fitted(pairs.coef_, "exact", loss, choice, Trace(n_steps=n, n_gradients=n))
    if model.verbose:
        told = f"ridge {choice.ridge:g}, held-out M {choice.auc:.4f}"
        print(
            f"{len(pairs.coef_)} pairs of classes, {type(loss).__name__}, {told}", file=sys.stderr
        )
    return fitted, {
        "coef_": pairs.coef_, "classes_": pairs.classes_, "features_": features, "pairs_": pairs,
        "_decision": None, DEFERRED: (),
    }  # fmt: skip


def hand_over(model: Any, learner: Any, column: int, pair: NDArray[Any]) -> None:
    """Let the stream of a pair begin with the coefficients of `fit`."""
    features = published(model).get("features_")
    learner.adopt_solution(
        model.coef_[column],
        classes=pair,
        feature_names=None,
        loss=model.loss_,
        choice=Choice(ridge=model.ridge_),
        trace=Trace(),
        scores=(np.empty(0), np.empty(0, dtype=bool), np.empty(0)),
        # The examples of a pair if all classes have the same number.
        n_examples=2 * model.n_examples_ // len(model.classes_),
        fingerprint=None,
        features=None if isinstance(features, Identity) else features,
    )
    # Probabilities of a pair have their threshold at score 0.
    publish(learner, _decision=(0.0, Sigmoid(*model.pairs_.sigmoids_[column].tolist())))
