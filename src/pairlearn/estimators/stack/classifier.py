# SPDX-License-Identifier: BSD-3-Clause
"""Members of many kinds side by side, and weights that maximise the AUC of their sum."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.decisions import DecisionRule, as_rule
from pairlearn.estimators.shared.examples import two_classes, validate_data
from pairlearn.estimators.shared.published import all_or_nothing, publish, published
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import (
    example_weights,
    opposite_pair_weights,
    weigh,
)
from pairlearn.estimators.stack.blend import stack_weights
from pairlearn.estimators.stack.held_out import HeldOutScores
from pairlearn.estimators.stack.members import (
    STACK,
    Filling,
    Named,
    Rows,
    check_members,
    check_weighable,
    fit_member,
    held_out_scores,
    member_scores,
    nobody,
    out_of_bag,
    unit_of,
    usual_members,
)
from pairlearn.estimators.stack.storage import StackStorage
from pairlearn.folds import Fold, Keys, members_of, stratified
from pairlearn.models.provenance import data_fingerprint
from pairlearn.typing import Mask, Vector
from pairlearn.validation import as_counts, check_count, check_generator

#: How examples are read: numbers, which may be missing.
_KINDS: dict[str, Any] = {
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": "allow-nan",
}


class AUCStack(StackStorage, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classifiers of several kinds, and one score of them all that maximises AUC.

    For tables that a linear score does not describe. Each member is trained on all examples. Its
    weight comes from scores of examples that it had not seen:

    .. math:: \min_{w \ge 0} \frac{1}{n_+ n_-} \sum_{i \in +,\, j \in -}
              \left(1 - \langle w, z_i - z_j \rangle\right)_+^2 + \frac{\mathrm{pull}}{n_{\min}}
              \lVert w - s \mathbf 1 \rVert^2,

    where column k of z holds held-out scores of member k, s is the best common weight and
    :math:`n_{\min}` the size of the rarer class. A member that adds nothing gets weight zero, and
    few examples give nearly equal weights. Threshold and probabilities come from held-out scores
    as well.

    Parameters
    ----------
    members : "auto" or list of (str, classifier), default="auto"
        The classifiers by name. "auto" takes three: "linear" (`AUCClassifier`), "boosting"
        (scikit-learn's `HistGradientBoostingClassifier`) and "forest" (`RandomForestClassifier`).
        Any classifier with scikit-learn's interface may be a member: LightGBM, a network, a
        pipeline. ``forest__max_depth`` and the like work in a grid search for given members.
    n_folds : int, default=3
        Each member is trained once for each fold, on the other folds, to get held-out scores. A
        fold needs an example of each class, so there are at most as many folds as examples of the
        rarer class. A member that has an out-of-bag score of each example after `fit` (a forest
        with ``oob_score=True`` and enough trees) is not trained again.
    pull : float, default=3.0
        The strength of the pull towards equal weights, as a number of examples of the rarer class.
    decision : float, str or DecisionRule, default="balanced_accuracy"
        How scores become labels and probabilities, as of `AUCClassifier`; but the rule sees
        held-out scores.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. They change the threshold and the probabilities, not the members
        and their weights: every pair has one example of each class.
    n_jobs : int or None, default=None
        Threads that train members, -1 for all processors. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Deals the folds, and seeds the members of "auto". Given members keep their own seeds.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive one.
    members_ : dict of str to classifier
        The trained members. They see labels 0 and 1, and members that take no missing values see
        filled rows.
    weights_ : dict of str to float
        The weight of each member; they add up to 1. A score is the weighted sum of the members'
        scores, each less its `centres_` and divided by its `spreads_`.
    centres_, spreads_ : ndarray of shape (n_members,)
        The units of the members' scores: from training scores, and from held-out ones.
    held_out_auc_ : dict of str to AUCInterval
        The AUC of each member, and of the "stack", on examples that they had not seen, with
        standard errors and 95 % intervals. For the stack the weights are found anew for each fold,
        from the other folds. Each example counts once, whatever its weight.
    threshold_ : float
        The cut on the score.
    n_examples_ : int
        Examples seen.
    data_fingerprint_ : str
        Digest of the data of `fit`, see `pairlearn.models.data_fingerprint`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `save` holds members of this library, `HistGradientBoostingClassifier`, `RandomForestClassifier`
    and `ExtraTreesClassifier`; it refuses others. In a loaded stack, trees are arrays of nodes that
    score as scikit-learn does, and `members` are the members before training.

    Missing values (NaN) are allowed. Members that do not take them see the median of the feature
    instead, and a column for each feature with gaps in training that says where they were.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pairlearn import AUCClassifier, AUCStack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    >>> members = [("linear", AUCClassifier(random_state=0)), ("tree", tree)]
    >>> clf = AUCStack(members, random_state=0).fit(X, y)
    >>> clf.weights_["linear"] > clf.weights_["tree"], sorted(clf.held_out_auc_)
    (True, ['linear', 'stack', 'tree'])
    """

    weights_: Any
    members_: Any
    centres_: Any
    spreads_: Any
    held_out_auc_: Any
    _filling: Any

    def __init__(
        self,
        members: str | Sequence[Named] = "auto",
        *,
        n_folds: int = 3,
        pull: float = 3.0,
        decision: float | str | DecisionRule = "balanced_accuracy",
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.members, self.n_folds, self.pull = members, n_folds, pull
        self.decision, self.class_weight = decision, class_weight
        self.n_jobs, self.random_state = n_jobs, random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the members, and find their weights.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Examples; numbers, some of which may be missing (NaN).
        y : array-like of shape (n_samples,)
            Two kinds of labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the examples, for the members and for the pairs; a pair weighs the product
            of the weights of its two examples.

        Returns
        -------
        self
            The fitted classifier.
        """
        self.fit_watched(X, y, sample_weight)
        return self

    @all_or_nothing
    def fit_watched(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        told: Callable[[str], object] = nobody,
    ) -> HeldOutScores:
        """Train as `fit` does; return the held-out scores of the members and of the stack.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Examples, as of `fit`.
        y : array-like of shape (n_samples,)
            Two kinds of labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the examples.
        told : callable, optional
            Called with the name of a member each time that one has been trained.

        Returns
        -------
        HeldOutScores
            The scores of the examples that weigh anything.
        """
        as_rule(self.decision)
        check_count("n_folds", self.n_folds, minimum=2)
        if not (isinstance(self.pull, (int, float)) and 0.0 <= self.pull < np.inf):
            raise ValueError(f"pull must be a finite number of at least 0, got {self.pull!r}.")
        rng = check_generator(self.random_state)
        auto = isinstance(self.members, str) and self.members == "auto"
        given = None if auto else check_members(self.members, self._own_names())
        X, labels = validate_data(self, X, y, **_KINDS, ensure_min_samples=2)
        members = usual_members(rng, len(X)) if given is None else given
        labels = np.asarray(labels)
        classes = two_classes(labels)
        positive, weight, X = self._weighed(X, labels, classes, sample_weight, members)
        y = positive.astype(np.int64)
        filling = Filling.of(X)
        rows = Rows.of(X, filling)
        splits = self._splits(positive, Keys.of(X, seed=rng))
        fitted, Z, centres, spreads = self._train(members, rows, y, weight, splits, told)
        counts = weight if len(weight) else np.ones(len(y))
        pairs = opposite_pair_weights(counts, positive, classes)
        w = stack_weights(Z, positive, pairs, pull=self.pull)
        names = [name for name, _ in members]
        held_out = self._held_out(names, Z, positive, pairs, splits)
        self.n_examples_ = len(y)
        self.data_fingerprint_ = data_fingerprint(X, np.where(positive, 1, -1).astype(np.int8))
        publish(
            self,
            classes_=classes,
            members_=dict(fitted),
            weights_=dict(zip(names, w.tolist(), strict=True)),
            centres_=centres,
            spreads_=spreads,
            held_out_auc_=held_out.intervals(),
            _filling=filling,
        )
        importance = example_weights(counts, self.class_weight, classes[y])
        self._decision = self._decide(Z @ w, positive, as_counts(importance))
        return held_out

    def _weighed(
        self,
        X: NDArray[Any],
        labels: NDArray[Any],
        classes: NDArray[Any],
        sample_weight: ArrayLike | None,
        members: list[Named],
    ) -> tuple[Mask, Vector, NDArray[Any]]:
        """Return which examples are positive, their weights, and the rows that weigh anything."""
        keep, weight = weigh(sample_weight, len(labels))
        positive = labels == classes[1]
        if keep is not None:
            X, positive = X[keep], positive[keep]
        if len(weight):
            check_weighable(members)
        rarer = int(min(positive.sum(), (~positive).sum()))
        if rarer < 2:
            raise ValueError(
                f"a stack needs at least two examples of each of the classes {classes.tolist()}, "
                f"with positive weight, to hold one out; got {rarer}. Use AUCClassifier for so few."
            )
        return positive, weight, X

    def _splits(self, positive: Mask, keys: Keys) -> list[Fold]:
        """Return training and held-out rows of each fold."""
        groups = members_of(positive, (True, False))
        return stratified(groups, min(self.n_folds, *map(len, groups)), keys)

    def _train(
        self,
        members: list[Named],
        rows: Rows,
        y: NDArray[np.int64],
        weight: Vector,
        splits: list[Fold],
        told: Callable[[str], object],
    ) -> tuple[list[Named], Vector, Vector, Vector]:
        """Return fitted members, held-out scores in units, and these units."""
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        found = threads(delayed(fit_member)(named, rows, y, weight, told) for named in members)
        fitted = [(name, model) for (name, _), model in zip(members, found, strict=True)]
        bags = [out_of_bag(model) for model in found]
        again = [k for k, scores in enumerate(bags) if scores is None]
        with warnings.catch_warnings():
            # The fit on all rows gave the same warnings.
            warnings.simplefilter("ignore")
            parts = threads(
                delayed(held_out_scores)(members[k], rows, y, weight, split, told)
                for k in again
                for split in splits
            )
        Z = np.empty((len(y), len(members)))
        centres, spreads = np.zeros(len(members)), np.ones(len(members))
        for place, k in enumerate(again):
            centres[k], spread = unit_of(member_scores(fitted[k], rows))
            spreads[k] = spread or 1.0
            for (_, held), scores in zip(splits, parts[place * len(splits) :], strict=False):
                Z[held, k] = scores
        for k, scores in enumerate(bags):
            if scores is not None:
                Z[:, k] = scores
            # Trees spread their training scores further than new ones, each kind by its own share.
            centre, spread = unit_of(Z[:, k])
            Z[:, k] = (Z[:, k] - centre) / spread if spread > 0.0 else 0.0
            spread = spread or 1.0
            centres[k] += spreads[k] * centre
            spreads[k] *= spread
        return fitted, Z, centres, spreads

    def _held_out(
        self, names: list[str], Z: Vector, positive: Mask, pairs: Vector, splits: list[Fold]
    ) -> HeldOutScores:
        """Return the held-out scores of each member, and of the stack."""
        stack = np.empty(len(Z))
        for rest, held in splits:
            w = stack_weights(Z[rest], positive[rest], pairs[rest], pull=self.pull)
            stack[held] = Z[held] @ w
        columns = {**{name: Z[:, k] for k, name in enumerate(names)}, STACK: stack}
        return HeldOutScores(positive, [held for _, held in splits], columns)

    def _published(self) -> Mapping[str, Any]:
        check_is_fitted(self, "weights_")
        return published(self)

    def _scores(self, X: Any, model: Mapping[str, Any]) -> Vector:
        X = validate_data(self, X, **_KINDS, reset=False)
        rows = Rows.of(X, model["_filling"])
        total = np.zeros(len(X))
        for k, (name, member) in enumerate(model["members_"].items()):
            w = model["weights_"][name]
            if w > 0.0:
                scores = member_scores((name, member), rows)
                total += w * ((scores - model["centres_"][k]) / model["spreads_"][k])
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags

    def _own_names(self) -> list[str]:
        return list(super().get_params(deep=False))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; if `deep`, also given members by name, and their parameters."""
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for name, member in _pairs(self.members):
                found[name] = member
                if hasattr(member, "get_params"):
                    found |= {f"{name}__{k}": v for k, v in member.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``member=classifier`` replaces a given member by name."""
        if "members" in params:
            self.members = params.pop("members")
        new = {name: params.pop(name) for name, _ in _pairs(self.members) if name in params}
        if new:
            self.members = [(name, new.get(name, member)) for name, member in _pairs(self.members)]
        return super().set_params(**params)


def _pairs(members: Any) -> list[Named]:
    """Return the names and classifiers among what was given as members; `fit` checks the rest."""
    if isinstance(members, str) or not isinstance(members, Sequence):
        return []
    pairs = (entry for entry in members if isinstance(entry, tuple | list) and len(entry) == 2)
    return [(name, member) for name, member in pairs]


register_storable(AUCStack)
