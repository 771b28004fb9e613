# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation as a scikit-learn classifier: a composition of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.auc.composition import Composition, Task
from pairlearn.estimators.auc.forgetting import (
    AUCForgetting,
    Kept,
    told_weight,
    weight_of_each,
)
from pairlearn.estimators.auc.many import fit_pairs, pair_parameters
from pairlearn.estimators.auc.reading import Examples
from pairlearn.estimators.shared.decisions import (
    DECISION_ARRAYS,
    DecisionRule,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import mapped_product, see_features, validate_data
from pairlearn.estimators.shared.maps import features_for, map_rows
from pairlearn.estimators.shared.published import DEFERRED, all_or_nothing, found_later, publish
from pairlearn.estimators.shared.scaling import Scaling, scaled_rows
from pairlearn.estimators.shared.solvers import SGD, Fitted, Moments, Solver
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.features import FeatureMap, Hats, Identity
from pairlearn.folds import Keys
from pairlearn.losses import PairLoss
from pairlearn.models.provenance import data_fingerprint
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.register import Record
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.objectives import Objective
from pairlearn.typing import Labels, Mask, Vector
from pairlearn.validation import check_generator

if TYPE_CHECKING:
    from pairlearn.estimators.auc.shapes import Explanation
    from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier
    from pairlearn.solvers.closed_form.mapped_moments import MappedMoments


class AUCClassifier(AUCForgetting, Storable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classifier that orders the positives before the negatives: it maximises AUC.

    Minimises the pair risk of a score that is linear in the features,

    .. math:: F_S(w) = \frac{1}{n(n-1)} \sum_{i \neq j} \ell(y_i \langle w, x_i - x_j \rangle)
              \, 1[y_i \neq y_j],

    exactly if that is cheap, else by stochastic gradient descent that pairs each example with the
    previous one (Algorithm 1 of the paper; `partial_fit` is Algorithm 2). Features are scaled
    first, so that their units do not matter.

    Each part is a name or an object with its own settings. A name stands for the object with its
    defaults. ``solver__step_size`` and the like work in a grid search.

    Parameters
    ----------
    objective : str or Objective, default="auc"
        The goal. "auc": all pairs count the same. The others look at the top of the list:
        "partial_auc" (`PartialArea`) takes the pairs with the worst share of negatives, "push"
        (`Push`) a p-norm of the losses of the negatives, "average_precision" (`SmoothPrecision`) a
        smooth form of average precision. Or an objective of your own.
    features : str or FeatureMap, default="linear"
        The features that the score is linear in: "linear", "hats" (`Hats`: a curve for each
        feature), "fourier" (`RandomFourier`: a kernel machine), or a map; a fitted map stays as it
        is. "auto" takes the simplest of the three within a standard error of the best on held-out
        training data.
    loss : str or PairLoss, default="auto"
        "hinge", "squared_hinge", "square", "logistic", "exponential", "loglink",
        "smoothed_hinge", or a loss of your own. "auto" is the loss that suits the solver: the hinge
        for descent, the square for moments, else the squared hinge.
    solver : str or Solver, default="auto"
        "sgd" (`SGD`: the paper's algorithms), "exact" (`Exact`: the minimiser, for data in
        memory), "moments" (`Moments`: the square loss from class moments, in one pass), or a
        solver of your own. "auto" is exact where that is cheap, moments for Fourier features and
        streams, and else descent; the guide "What auto does" has the rules.
    scaling : "auto" or None, default="auto"
        "auto" divides each feature by its standard deviation, but at least by a tenth of its
        range (a word of text by a power of its share), and leaves out constant ones. Coefficients
        are in the units of X; step sizes, radii and ridges refer to scaled features. None is the
        bare algorithm of the paper.
        ``SGD(step_size="theory")`` never scales, since its bound refers to the given features.
    decision : float, str or DecisionRule, default="balanced_accuracy"
        How scores become labels and probabilities: "balanced_accuracy", "accuracy" or "f1" is
        maximised on training scores; "probability" cuts where `predict_proba` crosses 1/2; a
        number is the cut. `Threshold` also sets the calibration; `Costs` minimises costs.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. They change the threshold and the
        probabilities, not the coefficients: every pair has one example of each class. "balanced"
        makes the sums of the weights of all classes equal.
    validation_fraction : float, default=0.2
        Share of the training data in a held-out fold. The final model is trained on all data.
    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the previous fit; for descent.
    callbacks : sequence of callable or None, default=None
        Functions that are called with a `Running` between blocks of steps of descent.
    n_jobs : int or None, default=None
        Threads that try the folds of the exact solver, -1 for all processors. The result does not
        depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Source of sampled indices and folds.
    verbose : int, default=0
        1 prints the choices on stderr, and shows a progress bar of descent.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; the second of two is the positive one.
    coef_ : ndarray of shape (1, n_features) or (n_pairs, n_features)
        Coefficients; with `features`, of mapped features. More than two classes have a row for
        each pair: first with second class, first with third, ...
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    intercept_ : ndarray of shape (1,)
        Minus the threshold, so that `decision_function` is positive where `predict` is.
    threshold_ : float
        The cut on ``X @ coef_[0]``. More than two classes have neither threshold nor intercept.
    pairs_ : MulticlassAUCClassifier
        With more than two classes, the scores of the pairs and how they are coupled.
    solver_ : str
        The name of the solver that was used.
    loss_ : PairLoss
        The loss that it minimised.
    step_size_, radius_, ridge_ : float or None
        The values used; None if the solver has no such value.
    half_life_ : float
        After how many further examples of a stream an example counts half; infinity if all count
        alike, as they do in `fit`. Of more than two classes, the shortest of the pairs.
    choice_ : Choice or None
        The choices and all candidates, each with its worth on held-out training data and the
        standard error over the folds; of a stream by moments the chosen one alone, of other streams
        None.
    advice_ : Advice or None
        After `fit` with ``SGD(step_size="theory")``: the recommendation and the bound.
    held_out_auc_ : float or None
        The AUC by which settings were chosen; with another objective, its metric, and with more
        than two classes Hand and Till's M.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    n_examples_ : int
        Examples seen; those of weight zero do not count.
    data_fingerprint_ : str or None
        Digest of the data of `fit`, see `pairlearn.models.data_fingerprint`; None for a stream.
    forgetting_certificate_ : ForgettingCertificate
        After `partial_unfit`: the states before and after, and what was not forgotten.
    trace_ : Trace
        Counts, times and history of the fit.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With two classes `decision_function` is positive where `predict` says positive. The more
    probable class may be another, but for ``decision="probability"``.

    More than two classes have one score for each pair of classes, found in closed form by
    `MulticlassAUCClassifier`; parts that have no meaning there are refused. `pair_scores` are
    larger for the later class of the pair (first with second, first with third, ...), and
    probabilities are coupled from those of the pairs. In descent,
    `sample_weight` multiplies gradients. An example of weight zero is as good as absent.
    Settings are chosen by the weighted AUC of held-out examples. With a given ridge, a weight of k
    gives the coefficients of k copies of an example; not quite so with "average_precision", where
    an example counts wholly at its own place, and a copy of it counts half, as any tie. Copies also
    change how folds are dealt: one of them may be held out while another is trained on. So "auto"
    may choose another ridge for copies.

    References
    ----------
    Yang, Lei, Wang, Yang, Ying. Simple stochastic and online gradient descent algorithms for
    pairwise learning. NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from pairlearn import SGD, AUCClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AUCClassifier(random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > 0.99), clf.solver_
    (True, 'exact')
    >>> AUCClassifier(solver=SGD(pairing="opposite"))
    AUCClassifier(solver=SGD(pairing='opposite'))
    """

    _not_stored = ("callbacks", "random_state")
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {
        "solver_": str,
        "loss_": PairLoss,
        "choice_": Choice,
        "advice_": Record,
    }
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "step_size": ArraySpec((), required=False, low=0.0),
        "radius": ArraySpec((), required=False, low=0.0),
        "ridge": ArraySpec((), required=False, low=0.0),
        "half_life": ArraySpec((), required=False, low=0.0),
        "held_out_auc": ArraySpec((), required=False, low=0.0, high=1.0),
        "n_steps": ArraySpec((), ("int64",), low=0),
        "n_gradients": ArraySpec((), ("int64",), low=0),
        "n_examples": ArraySpec((), ("int64",), low=0),
        # A file holds the arrays of two classes, or those of the pairs.
        **DECISION_ARRAYS,
        "coef": ArraySpec(("n_features",), required=False),
        "threshold": replace(DECISION_ARRAYS["threshold"], required=False),
        "pair_coef": ArraySpec(("n_pairs", "n_features"), required=False),
        "sigmoids": ArraySpec(("n_pairs", 2), required=False),
        "power": ArraySpec((), required=False, low=0.0),
    }

    __getattr__ = found_later

    def __init__(
        self,
        objective: str | Objective = "auc",
        *,
        features: str | FeatureMap = "linear",
        loss: str | PairLoss = "auto",
        solver: str | Solver = "auto",
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
        class_weight: dict[Any, float] | str | None = None,
        validation_fraction: float = 0.2,
        warm_start: bool = False,
        callbacks: Sequence[Callback] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.objective, self.features, self.loss = objective, features, loss
        self.solver, self.scaling, self.decision = solver, scaling, decision
        self.class_weight, self.validation_fraction = class_weight, validation_fraction
        self.warm_start, self.callbacks, self.n_jobs = warm_start, callbacks, n_jobs
        self.random_state, self.verbose = random_state, verbose

    @all_or_nothing
    @with_one_thread
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples (Algorithm 1).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Two kinds of labels, or more.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, scaled so that the
            mean weight of an opposite pair is 1.

        Returns
        -------
        self
            The fitted classifier.
        """
        parts = self._composition()
        data = Examples.read(self, X, y, sample_weight)
        if len(data.classes) > 2:
            return self._fit_pairs(parts, data)
        rng = check_generator(self.random_state)
        keys, importance = Keys.of(data.rows, seed=rng), data.importance(self.class_weight)
        features, chosen = features_for(
            self.features, data.rows, data.y, data.weight, rng, keys, self.validation_fraction,
            self._max_memory, data.counts,
        )  # fmt: skip
        linear = isinstance(features, Identity)
        solver = parts.before_mapping(features, len(data.y), linear=linear)
        rows, scaling = self._rows_for(parts, solver, features, data)
        solver = solver or parts.by_data(rows, data.y)
        task = Task(
            parts.objective, parts.loss_for(solver), features, parts.is_scaled, rng,
            self.validation_fraction, free=linear and parts.is_free, n_jobs=self.n_jobs,
            verbose=self.verbose, callbacks=self.callbacks or (), keys=keys, counts=data.counts,
            start=self._warm_start(rows.shape[1], scaling), judged=chosen and chosen[1],
            signs=_signs(features, getattr(self, "feature_names_in_", None)),
        )  # fmt: skip
        if scaling is not None and scaling.n_constant == rows.shape[1]:
            # A warning was given: no coefficient makes a difference.
            fitted = Fitted(np.zeros(rows.shape[1]), solver.name, task.loss, Choice(), Trace())
        else:
            fitted = solver.fit(task, rows, data.y, data.weight)
        if chosen is not None:
            fitted = replace(fitted, choice=replace(fitted.choice, features=chosen[0]))
            task.tell(chosen[0].reason)
        self._publish(fitted, task, data, scaling)
        self._decide_from(data.rows, data.signs, importance, keys)
        return self

    def _publish(self, fitted: Fitted, task: Task, data: Examples, scaling: Scaling | None) -> None:
        """Set the fitted attributes."""
        self._note(fitted, len(data.labels), data_fingerprint(data.rows, data.signs))
        self._known_scales = scaling
        if fitted.kept is not None:
            facts = weight_of_each(data.counts), data.weighed, data.zeros
            how = task.margin, task.is_scaled, task.signs, data.unit
            self._kept = Kept(fitted.kept, fitted.choice, *how, *facts)
        coef = (fitted.w if scaling is None else scaling.to_user(fitted.w))[np.newaxis]
        publish(self, coef_=coef, classes_=data.classes, features_=task.features, **{DEFERRED: ()})

    def _fit_pairs(self, parts: Composition, data: Examples) -> Self:
        """Train one score for each pair of many classes."""
        fitted, model = fit_pairs(self, parts, data, self._max_memory)
        codes = np.searchsorted(data.classes, data.labels)
        self._note(fitted, len(data.labels), data_fingerprint(data.rows, codes))
        publish(self, **model)
        return self

    def adopt_solution(
        self,
        w: Vector,
        *,
        classes: Labels,
        feature_names: list[str] | None,
        loss: PairLoss,
        choice: Choice,
        trace: Trace,
        scores: tuple[Vector, Mask, Vector],
        n_examples: int,
        fingerprint: str | None,
        features: FeatureMap | None = None,
        kept: MappedMoments | None = None,
        weighed: bool = False,
    ) -> Self:
        """Take over coefficients that were found elsewhere, for example on many machines."""
        # `w` is in the units of the user, or of the fitted map `features`. Threshold and
        # calibration come from `scores`: training scores, which are positive, and weights. Rows can
        # be taken back from the moments `kept`; `weighed` tells whether any had a weight but 1.
        parts = self._composition()
        width = len(w) if features is None else features.n_inputs
        see_features(self, {"n_features": width, "feature_names": feature_names})
        by_moments = features is not None or isinstance(parts.solver, Moments)
        solver = "moments" if by_moments else "exact"
        coef = np.asarray(w, dtype=np.float64)
        self._note(Fitted(coef, solver, loss, choice, trace), n_examples, fingerprint)
        if kept is not None:
            ways = float(loss.parameter), parts.is_scaled, None, 1.0
            each = told_weight(kept, n_examples)
            self._kept = Kept(kept, choice, *ways, each, weighed, zeros=weighed)
        features = Identity.of(width) if features is None else features
        publish(
            self, coef_=coef[np.newaxis], classes_=classes, features_=features, **{DEFERRED: ()}
        )
        self._decision = self._decide(*scores)
        return self

    def explain(self, x: ArrayLike) -> Explanation:
        """Return the contribution of each feature to one score, see `pairlearn.explain`."""
        from pairlearn.estimators.auc.shapes import explain

        return explain(self, x)

    def _rows_for(
        self,
        parts: Composition,
        solver: Solver | None,
        features: FeatureMap,
        data: Examples,
    ) -> tuple[Rows, Scaling | None]:
        """Return the rows that the solver trains on, mapped and scaled, and their scales."""
        given = data.rows
        if solver is not None and solver.maps_rows:  # the solver also scales
            return given.checked(), None
        linear = isinstance(features, Identity)
        if not linear:
            if self.warm_start and hasattr(self, "coef_") and features is not self.features:
                raise ValueError(
                    "warm_start=True needs features that stay the same: pass a map that is fitted."
                )
            other = 'solver="moments" or ' if parts.objective.over_pairs else ""
            cure = f"use {other}a map of fewer features, or a larger max_memory."
            given = as_rows(map_rows(features, given, self._max_memory, cure), finite=True)
        bare = self.scaling is None or (isinstance(solver, SGD) and solver.step_size == "theory")
        # Weights of classes do not enter the scales.
        scaling, rows = scaled_rows(None if bare else "auto", given, data.counts, mapped=not linear)
        return rows, scaling

    def _warm_start(self, n_features: int, scaling: Scaling | None) -> Vector | None:
        """Return the coefficients of the previous fit in the units of this one."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        start: Vector = self.coef_[0]
        if len(start) != n_features:
            raise ValueError(
                f"warm_start: X has {n_features} features, the model has {len(start)}."
            )
        return start if scaling is None else scaling.from_user(start)

    @property
    def pairs_(self) -> MulticlassAUCClassifier:
        """The scores of the pairs of more than two classes, on mapped features if there are any."""
        pairs = pairs_of(self._published())
        if pairs is None:
            raise AttributeError("pairs_ is for more than two classes; coef_ has the only score.")
        return pairs

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``; more than two classes have none."""
        if pairs_of(self._published()) is not None:
            raise AttributeError("more than two classes have no threshold_.")
        return super().threshold_

    def pair_scores(self, X: Any) -> Vector:
        """Return the scores of the pairs of classes, of shape (n_samples, n_pairs)."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return mapped_product(self.features_, X, self.coef_.T)

    def decision_function(self, X: Any) -> Vector:
        """Return scores minus the threshold; of many classes the logarithms of probabilities."""
        pairs = pairs_of(self._published())
        if pairs is None:
            return super().decision_function(X)
        return np.asarray(np.log(pairs.couple_scores(self.pair_scores(X))))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels that `decision` asks for; of many classes the most probable ones."""
        pairs = pairs_of(self._published())
        if pairs is None:
            return super().predict(X)
        likeliest = pairs.couple_scores(self.pair_scores(X)).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_proba(self, X: Any) -> Vector:
        """Return calibrated probabilities of ``classes_``, of shape (n_samples, n_classes)."""
        pairs = pairs_of(self._published())
        if pairs is None:
            return super().predict_proba(X)
        return pairs.couple_scores(self.pair_scores(X))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, not the accuracy; of many classes Hand and Till's M."""
        if pairs_of(self._published()) is None:
            return super().score(X, y, sample_weight)
        from pairlearn.metrics.hand_till import HandTill

        metric = HandTill(pairs=True, classes=tuple(self.classes_.tolist()))
        return metric(y, self.pair_scores(X), sample_weight=sample_weight)

    def _restore_map(self, features: FeatureMap) -> None:
        publish(self, features_=features)

    def _pack(self) -> dict[str, NDArray[Any]]:
        model = self._published()
        pairs = pairs_of(model)
        arrays = super()._pack()
        if pairs is None:
            return {**arrays, "coef": model["coef_"][0], **pack_decision(self._decided())}
        del arrays["coef"]
        own = {"sigmoids": pairs.sigmoids_, "power": np.array(pairs.power_)}
        return {**arrays, "pair_coef": pairs.coef_, **own}

    def _unpack(self, record: ModelRecord) -> None:
        """Set the fitted attributes from a record of two classes, or of the pairs of more."""
        arrays, classes = record.arrays, record.classes
        if classes is None or len(classes) < 2:
            raise ModelFileError(f"{type(self).__name__} has two classes or more.")
        many = len(classes) > 2
        for name in ("pair_coef", "sigmoids", "power") if many else ("coef", "threshold"):
            if name not in arrays:
                raise ModelFileError(f"array {name!r} of {type(self).__name__} is missing.")
        for name in ("n_steps", "n_gradients", "n_examples"):
            setattr(self, f"{name}_", arrays[name].item())
        for name in ("step_size", "ridge", "held_out_auc"):
            setattr(self, f"{name}_", arrays[name].item() if name in arrays else None)
        for name in ("radius", "half_life"):
            setattr(self, f"{name}_", arrays[name].item() if name in arrays else np.inf)
        self.trace_ = Trace(n_steps=self.n_steps_, n_gradients=self.n_gradients_)
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        if not many:
            coef = arrays["coef"].copy()[np.newaxis]
            linear = Identity.of(coef.shape[1])
            publish(self, coef_=coef, features_=linear, _decision=unpack_decision(arrays))
            return
        # A stream has no ridge.
        found = {name: arrays[name] for name in ("sigmoids", "power", "ridge") if name in arrays}
        from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier

        pairs = MulticlassAUCClassifier.from_record(
            replace(
                record,
                estimator="MulticlassAUCClassifier",
                arrays={**found, "coef": arrays["pair_coef"]},
                parameters={k: v for k, v in record.parameters.items() if k == "classes_dtype"},
                feature_names=None,
            )
        ).set_params(**pair_parameters(self))
        linear = Identity.of(pairs.coef_.shape[1])
        publish(self, coef_=pairs.coef_, features_=linear, pairs_=pairs, _decision=None)


def pairs_of(model: Mapping[str, Any]) -> MulticlassAUCClassifier | None:
    """Return the scores of pairs of a published model; None if it has two classes."""
    return model["pairs_"] if len(model["classes_"]) > 2 else None


def _signs(features: FeatureMap, names: Any) -> Any:
    """Return the signs of coefficients that monotone functions ask for."""
    return features.signs(names) if isinstance(features, Hats) else None


register_storable(AUCClassifier)
