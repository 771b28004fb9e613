# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from pairlearn.estimators.metric.descent import Examples, MetricSGD, learn_metric
from pairlearn.estimators.shared.decisions import choose_threshold
from pairlearn.estimators.shared.examples import product, refuse_overflow, validate_data
from pairlearn.estimators.shared.maps import MapsFeatures, is_linear
from pairlearn.estimators.shared.scaling import is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import SGD, SOLVERS, Solver, check_solver
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import weigh
from pairlearn.features import FeatureMap
from pairlearn.losses import METRIC_LOSSES, PairLoss
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.pairings.pairs import as_rows_of_pairs
from pairlearn.problem import Problem
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_generator, check_number


@dataclass(frozen=True, eq=False)
class Metric:
    """The distance ||L (u - v)|| of two vectors, for neighbours and clustering of scikit-learn.

    >>> Metric(np.array([[2.0, 0.0]]))([1.0, 5.0], [0.0, 0.0])
    2.0
    """

    components: Vector
    #: A fitted map, if the distance is of mapped vectors.
    features: FeatureMap | None = None

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return ||L (u - v)||, or its square."""
        both = np.stack([_as_vector(u), _as_vector(v)])
        if self.features is not None:
            both = self.features.transform(both)
        image = self.components @ (both[0] - both[1])
        value = float(image @ image)
        return value if squared else float(np.sqrt(value))


def _as_vector(u: ArrayLike) -> Vector:
    """Return one vector; SciPy's distances take a row of a table, (1, d), for one, too."""
    vector = np.asarray(u, dtype=np.float64)
    if vector.ndim == 2 and 1 in vector.shape:
        vector = vector.ravel()
    if vector.ndim != 1:
        raise ValueError(f"a distance is of two vectors, got an array of shape {vector.shape}.")
    return vector


def check_pairs(
    pairs: Any,
    n_features: int | None = None,
    *,
    owner: str = "MetricLearner",
    allow_missing: bool = False,
) -> Vector:
    """Return pairs as an array of shape (n, 2, d), finite unless values may be missing."""
    if isinstance(pairs, list | tuple):
        lengths = {np.shape(member) for pair in pairs for member in pair}
        if len(lengths) > 1:
            raise ValueError(
                f"The members of all pairs must have the same number of features, got members of "
                f"shapes {sorted(map(str, lengths))}."
            )
    array = np.asarray(
        check_array(
            pairs,
            allow_nd=True,
            ensure_2d=False,
            dtype=np.float64,
            ensure_all_finite=not allow_missing,
        )
    )
    if array.ndim != 3 or array.shape[1] != 2:
        raise ValueError(
            f"Pairs must have shape (n_pairs, 2, n_features), got {array.shape}; stack the first "
            "and the second members with np.stack([left, right], axis=1)."
        )
    if n_features is not None and array.shape[2] != n_features:
        raise ValueError(
            f"Pairs have {array.shape[2]} features, but {owner} was fitted on {n_features}."
        )
    return array


class MetricMixin(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
):
    """Distances and a linear map, given `components_` with W = components_' components_.

    A transformer itself: scikit-learn's `set_output` reaches a `transform` only where it is
    defined in a class that is one.
    """

    components_: Vector
    n_features_in_: int

    def _rows(self, X: Any) -> Any:
        """Return examples as they are measured."""
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _pairs(self, pairs: Any) -> Vector:
        """Return pairs as they are measured."""
        return check_pairs(pairs, self.n_features_in_, owner=type(self).__name__)

    def transform(self, X: Any) -> Vector:
        """Return L x for each example, of shape (n_samples, n_components).

        Euclidean distances of the images are the learned ones.
        """
        check_is_fitted(self, "components_")
        return product(self._rows(X), self.components_.T)

    def get_mahalanobis_matrix(self) -> Vector:
        """Return W, positive semi-definite, of shape (n_features, n_features)."""
        check_is_fitted(self, "components_")
        components = self.components_
        return np.asarray(components.T @ components)

    def get_metric(self) -> Metric:
        """Return the distance as a function of two vectors, to pass as ``metric=`` to scikit-learn.

        Neighbours are found much faster on the result of `transform`.
        """
        check_is_fitted(self, "components_")
        return Metric(self.components_.copy())

    def pair_distance(self, pairs: Any) -> Vector:
        """Return the distance of each pair, sqrt((x - x')' W (x - x')).

        Pairs are an array of shape (n_pairs, 2, n_features), here and in the other methods.
        """
        check_is_fitted(self, "components_")
        array = self._pairs(pairs)
        with np.errstate(over="ignore"):
            image = product(array[:, 0] - array[:, 1], self.components_.T)
            distances = np.sqrt(np.einsum("nk,nk->n", image, image))
        return refuse_overflow(distances, self.components_)

    def pair_score(self, pairs: Any) -> Vector:
        """Return minus the distance of each pair: larger means more similar."""
        return -self.pair_distance(pairs)


def _has_threshold(estimator: Any) -> bool:
    if not hasattr(estimator, "threshold_"):
        raise AttributeError(
            "No threshold tells similar from dissimilar pairs: fit on pairs, or call "
            "calibrate_threshold(pairs, y) or set_threshold(value)."
        )
    return True


def _takes_pairs(estimator: Any) -> bool:
    """Whether pairs are judged: cross-validation asks before `fit` has seen pairs."""
    return not hasattr(estimator, "components_") or _has_threshold(estimator)


def check_pair_labels(y: ArrayLike, n_pairs: int) -> Vector:
    """Return labels of pairs, +1 for similar and -1 for dissimilar ones."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf":
        raise ValueError(
            f"Labels of pairs must be numbers, +1 (similar) or -1 (dissimilar), got {labels.dtype}."
        )
    y = labels.astype(np.float64)
    if y.shape != (n_pairs,):
        raise ValueError(f"y must hold one label for each of {n_pairs} pairs, got {y.shape}.")
    if not np.isin(y, (-1.0, 1.0)).all():
        shown = np.unique(y[~np.isin(y, (-1.0, 1.0))])[:3].tolist()
        raise ValueError(
            f"Labels of pairs must be +1 (similar) or -1 (dissimilar), got {shown} too."
        )
    return y


class MetricLearner(MapsFeatures, Storable, MetricMixin, BaseEstimator):  # type: ignore[misc]
    r"""Mahalanobis metric in which equal labels are near and different labels far.

    Learns a positive semi-definite W for the squared distance
    :math:`h_W(x, x') = (x - x')^\top W (x - x')` by minimising the mean over pairs of

    .. math:: \ell(\tau (h_W(x, x') - b)), \qquad \tau = 1 \text{ if } y = y' \text{ else } -1,

    with stochastic gradient descent (Algorithm 1 of the paper).
    It learns from pairs of near examples, which is what nearest neighbours need;
    ``MetricSGD(pairing="previous")`` lets each example meet the previous one, as in the paper.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        "hinge", :math:`(1 + \tau (h - 1))_+` (section 2.1 of the paper), "hinge_no_bias",
        :math:`(1 + \tau h)_+` (section 1), "logistic", :math:`\log(1 + e^{\tau (h - 1)})`, or a
        loss such as ``DistanceHinge(bias=4.0)``.
    parameterization : {"full", "diagonal", "low_rank"}, default="full"
        W itself; a diagonal W, a weight for each feature; or W = L L' with L of `rank` columns,
        which is not convex but costs O(d rank) a step.
    rank : int, optional
        Number of columns of L, at most the number of features.
    init : str or array-like, default="auto"
        "identity", scaled so that the mean squared distance of a pair is the bias of the loss or
        1 if that is larger (for a low rank the leading principal components, scaled so); or W
        of shape (d, d), its diagonal, or L, taken as they are. "auto" is the closed form of
        Koestinger et al. from the moments of the classes, scaled so, where near examples are
        paired, and else "identity".
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the metric is about, as of `AUCClassifier`: a distance of mapped examples; the
        cost grows with the square of the number of mapped features.
    solver : "sgd" or Solver, default="sgd"
        How W is found. "sgd" is `MetricSGD`, which holds step size, radius, number of passes,
        averaging, pairing and projection. A plain `SGD` is taken with its own defaults: the
        paper's average, and pairs with the previous example.
    scaling : "auto" or None, default="auto"
        "auto" divides each feature by its standard deviation, but at least by a tenth of its
        range, so that units do not matter. `components_` and a given `init` are in the units of X;
        step sizes and radii refer to scaled features. None is the bare algorithm.
    n_neighbors : int, default=3
        Neighbours that an example is paired with, and neighbours that judge held-out examples.
    validation_fraction : float, default=0.2
        Share of the training data that is held out where the step size or the number of passes is
        chosen. With fewer than 1000 held-out examples three parts are held out in turn.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L with W = L' L: the map of `transform`.
    features_ : FeatureMap
        The fitted map, `Identity` for a metric of the features as they are.
    threshold_ : float
        The distance up to which `predict` calls a pair similar. Set by fitting on pairs (the
        best accuracy on them), `calibrate_threshold` or `set_threshold`.
    step_size_ : float or None
        The step size used (0 if the starting point was judged best; None for a metric that was
        found on many machines).
    held_out_score_ : float or None
        What the step size or the number of passes was chosen by, if it was.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    X is dense: a learned distance between sparse examples would be dense too, so pass
    ``X.toarray()`` or reduce the dimension first (TruncatedSVD). No metric is best everywhere:
    ``MetricSGD(step_size="held_out")`` counts the Euclidean one among the candidates.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from pairlearn import MetricLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> KNeighborsClassifier(3).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) < 0.75
    True
    >>> model = make_pipeline(MetricLearner(random_state=0), KNeighborsClassifier(3))
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        *,
        parameterization: str = "full",
        rank: int | None = None,
        init: str | ArrayLike = "auto",
        features: str | FeatureMap = "linear",
        solver: str | Solver = "sgd",
        scaling: str | None = "auto",
        n_neighbors: int = 3,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.loss, self.parameterization, self.rank = loss, parameterization, rank
        self.init, self.features, self.solver, self.scaling = init, features, solver, scaling
        self.n_neighbors, self.validation_fraction = n_neighbors, validation_fraction
        self.random_state = random_state

    _named_parts: ClassVar = {"solver": {"sgd": MetricSGD}, "loss": METRIC_LOSSES}
    held_out_score_: float | None
    step_size_: float | None
    threshold_: float
    _not_stored = ("random_state",)
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "components": ArraySpec(("n_components", "n_features")),
        "threshold": ArraySpec((), required=False),
        "step_size": ArraySpec((), required=False, low=0.0),
        "held_out_score": ArraySpec((), required=False),
        "n_steps": ArraySpec((), ("int64",), low=0),
        "n_gradients": ArraySpec((), ("int64",), low=0),
    }

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        if self.threshold_ is None:
            del self.threshold_
        self._n_features_out = len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples or pairs (Algorithm 1).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_pairs, 2, n_features)
            Examples, or pairs.
        y : array-like of shape (n_samples,) or (n_pairs,)
            Labels of the examples, at least two kinds; or +1 for similar and -1 for dissimilar
            pairs.
        sample_weight : array-like of shape (n_samples,) or (n_pairs,), optional
            A pair weighs the product of the weights of its two examples, which are divided by
            their mean; a given pair has a weight of its own. An example (pair) of weight zero is
            as good as absent.

        Returns
        -------
        self
            The fitted learner.
        """
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        solver, score = self._solver(), MahalanobisScore(self.parameterization, self.rank)
        problem = Problem(score, METRIC_LOSSES.make(self.loss))
        n_neighbors = check_count("n_neighbors", self.n_neighbors)
        fraction = check_fraction("validation_fraction", self.validation_fraction)
        is_scaled(self.scaling)
        data = model._examples(X, y, sample_weight)
        _check_both_kinds(data)
        draws = copy.deepcopy(self.random_state)
        mapped = model._fit_map(DenseRows(data.rows), draws, data.weight)
        scaling, rows = scaled_rows(
            self.scaling, mapped, data.weight, mapped=not is_linear(self.features)
        )
        assert isinstance(rows, DenseRows)
        components, model.step_size_, model.held_out_score_, trace = learn_metric(
            problem,
            solver,
            replace(data, rows=rows.X),
            init=self.init,
            scaling=scaling,
            n_neighbors=n_neighbors,
            validation_fraction=fraction,
            rng=check_generator(self.random_state),
        )
        model.components_ = components if scaling is None else scaling.to_user(components)
        model._n_features_out = len(components)
        model.n_steps_, model.n_gradients_ = trace.n_steps, trace.n_gradients
        model.__dict__.pop("threshold_", None)
        if data.paired:
            signs = np.where(data.y[::2] == data.y[1::2], 1.0, -1.0)
            pairs = data.rows.reshape(len(signs), 2, -1)
            weight = data.weight[::2] * data.weight[1::2] if len(data.weight) else None
            model.calibrate_threshold(pairs, signs, sample_weight=weight)
        self.__dict__ = model.__dict__
        return self

    def _solver(self) -> MetricSGD:
        solver: Any = self.solver
        if isinstance(solver, str) and solver == "sgd":
            return MetricSGD()
        solver = SOLVERS.make(solver)
        check_solver(solver, (SGD,), "MetricLearner")
        if isinstance(solver, MetricSGD):
            return solver
        return MetricSGD(**{name: getattr(solver, name) for name in SGD().get_params(deep=False)})

    def _examples(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Examples:
        """Return examples or pairs of positive weight; rows share the weight of their pair."""
        paired = getattr(X, "ndim", None) == 3 or np.ndim(X[0] if isinstance(X, list) else 0) == 2
        if paired:
            pairs = check_pairs(X)
            rows, y = as_rows_of_pairs(pairs, check_pair_labels(y, len(pairs)))
            validate_data(self, rows, y, reset=True)
        else:
            rows, y = validate_data(
                self, X, y, dtype=np.float64, order="C", reset=True, ensure_min_samples=2
            )
            check_classification_targets(y)
            y = np.unique(y, return_inverse=True)[1].astype(np.float64)
        keep, weight = weigh(sample_weight, len(y) // (2 if paired else 1))
        if paired:
            weight = np.repeat(np.sqrt(weight), 2)
            keep = None if keep is None else np.column_stack([2 * keep, 2 * keep + 1]).ravel()
        if keep is not None:
            rows, y = rows[keep], y[keep]
        return Examples(rows, y, weight, paired)

    def _rows(self, X: Any) -> Any:
        rows = super()._rows(X)
        return rows if self._stored_map() is None else self.features_.transform(rows)

    def _pairs(self, pairs: Any) -> Vector:
        found = super()._pairs(pairs)
        if self._stored_map() is None:
            return found
        n, _, d = found.shape
        mapped: Vector = self.features_.transform(found.reshape(2 * n, d)).reshape(n, 2, -1)
        return mapped

    def get_metric(self) -> Metric:
        """Return the distance as a function of two vectors, see `MetricMixin.get_metric`."""
        found = super().get_metric()
        return found if self._stored_map() is None else replace(found, features=self.features_)

    def calibrate_threshold(
        self,
        pairs: Any,
        y: ArrayLike,
        *,
        strategy: str = "accuracy",
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose the distance up to which a pair is predicted to be similar, `threshold_`.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs, best not those that the metric was fitted on.
        y : array-like of shape (n_pairs,)
            +1 for similar and -1 for dissimilar pairs; both must occur.
        strategy : {"accuracy", "balanced_accuracy", "f1"}, default="accuracy"
            What is maximised.
        sample_weight : array-like of shape (n_pairs,), optional
            How much each pair counts.

        Returns
        -------
        self
            The learner.
        """
        scores = self.pair_score(pairs)
        similar = check_pair_labels(y, len(scores)) > 0
        keep, weight = weigh(sample_weight, len(scores))
        if keep is not None:
            scores, similar = scores[keep], similar[keep]
        if similar.all() or not similar.any():
            raise ValueError("A threshold needs similar (+1) and dissimilar (-1) pairs.")
        if not len(weight):
            weight = np.ones(len(scores))
        cut = choose_threshold(scores, similar, weight, strategy)
        self.threshold_ = -cut
        return self

    def set_threshold(self, threshold: float) -> Self:
        """Set the distance up to which a pair is predicted to be similar, `threshold_`."""
        check_is_fitted(self, "components_")
        value = check_number("threshold", threshold)
        if not np.isfinite(value):
            raise ValueError(f"threshold must be a finite number, got {threshold!r}.")
        self.threshold_ = value
        return self

    @available_if(_takes_pairs)  # type: ignore[untyped-decorator]
    def decision_function(self, pairs: Any) -> Vector:
        """Return the threshold minus the distance of each pair: positive for similar ones."""
        distances = self.pair_distance(pairs)
        _has_threshold(self)
        return np.asarray(self.threshold_ - distances)

    @available_if(_takes_pairs)  # type: ignore[untyped-decorator]
    def predict(self, pairs: Any) -> NDArray[np.int64]:
        """Return +1 for pairs nearer than the threshold and -1 for the others."""
        return np.where(self.decision_function(pairs) > 0, 1, -1)

    @available_if(_takes_pairs)  # type: ignore[untyped-decorator]
    def score(self, pairs: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC of the pair scores, +1 for similar and -1 for dissimilar pairs in `y`."""
        scores = self.pair_score(pairs)
        return roc_auc(check_pair_labels(y, len(scores)), scores, sample_weight=sample_weight)


def _check_both_kinds(data: Examples) -> None:
    """Refuse labels or pairs that say only what is near, or only what is far."""
    y = data.y
    if data.paired:
        similar = y[::2] == y[1::2]
        if similar.all():
            raise ValueError(
                "All pairs are similar: without dissimilar pairs the best metric is zero. Add some."
            )
        if not similar.any():
            raise ValueError(
                "All pairs are dissimilar: without similar pairs every metric is better the "
                "longer its distances. Add some."
            )
        return
    n_labels = len(np.unique(y))
    if n_labels < 2:
        raise ValueError(
            "y has one kind of labels (1 class): without different labels the best metric is "
            "zero. Add examples of another label."
        )
    if n_labels == len(y):
        raise ValueError(
            f"y has {n_labels} labels for {n_labels} examples, as numbers of rows have: no two "
            "examples are similar, and every metric is better the longer its distances. Check y."
        )


register_storable(MetricLearner)
