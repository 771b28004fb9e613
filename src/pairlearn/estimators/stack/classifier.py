# SPDX-License-Identifier: BSD-3-Clause
"""Members of many kinds side by side, and weights that maximise the AUC of their sum.

In a model file each member is a model file of its own, inside an array. Members of this library are
stored as they store themselves, trees of scikit-learn as their nodes (`trees.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.decisions import (
    DECISION_ARRAYS,
    DecisionRule,
    ScoreDecisions,
    as_rule,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.examples import two_classes, validate_data
from pairlearn.estimators.shared.published import all_or_nothing
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import example_weights, opposite_pair_weights, weigh
from pairlearn.estimators.stack.blend import HeldOutScores, stack_weights
from pairlearn.estimators.stack.members import (
    STACK,
    Filling,
    Named,
    Tables,
    check_members,
    check_weighable,
    fit_member,
    held_out_scores,
    member_scores,
    nobody,
    out_of_bag,
    takes_gaps,
    unit_of,
    usual_members,
)
from pairlearn.estimators.stack.trees import TREES, TreeScores, tree_scores
from pairlearn.folds import Fold, Keys, members_of, stratified
from pairlearn.metrics.delong import AUCInterval
from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.provenance import data_fingerprint
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord, build_model
from pairlearn.typing import Vector
from pairlearn.validation import as_counts, check_count, check_generator

#: How examples are read: numbers, which may be missing.
_KINDS: dict[str, Any] = {
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": "allow-nan",
}
#: The entry with the name of a member in its provenance.
_NAME = "member"


class AUCStack(Storable, ScoreDecisions, ClassifierMixin, _BaseComposition):  # type: ignore[misc]
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

    _not_stored = ("members", "random_state")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        **DECISION_ARRAYS,
        "is_auto": ArraySpec((), ("bool",)),
        "files": ArraySpec(("n_bytes",), ("uint8",)),
        "file_ends": ArraySpec(("n_members",), ("int64",), low=1, order="strictly rising"),
        "weights": ArraySpec(("n_members",), low=0.0, high=1.0),
        "centres": ArraySpec(("n_members",)),
        "spreads": ArraySpec(("n_members",), low=float(np.finfo(np.float64).tiny)),
        "held_out": ArraySpec(("n_judged", 4), low=0.0, high=1.0),
        "medians": ArraySpec(("n_features",)),
        "flagged": ArraySpec(("n_gaps",), ("int64",), low=0, order="strictly rising"),
        "n_examples": ArraySpec((), ("int64",), low=0),
    }

    weights_: Any
    members_: Any
    centres_: Any
    spreads_: Any
    held_out_auc_: Any
    data_fingerprint_: str | None
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
        self.fit_told(X, y, sample_weight)
        return self

    @all_or_nothing
    def fit_told(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        told: Callable[[str], object] = nobody,
    ) -> HeldOutScores:
        """Fit, calling `told` after each training; return held-out scores of members and stack."""
        as_rule(self.decision)
        check_count("n_folds", self.n_folds, minimum=2)
        if not (isinstance(self.pull, (int, float)) and 0.0 <= self.pull < np.inf):
            raise ValueError(f"pull must be a finite number of at least 0, got {self.pull!r}.")
        rng = check_generator(self.random_state)
        auto = isinstance(self.members, str) and self.members == "auto"
        given = None if auto else check_members(self.members, list(self.get_params(deep=False)))
        X, labels = validate_data(self, X, y, **_KINDS, ensure_min_samples=2)
        members = usual_members(rng, len(X)) if given is None else given
        classes = two_classes(np.asarray(labels))
        keep, weight = weigh(sample_weight, len(labels))
        positive = np.asarray(labels) == classes[1]
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
        groups = members_of(positive, (True, False))
        splits = stratified(groups, min(self.n_folds, rarer), Keys.of(X, seed=rng))
        codes, filling = positive.astype(np.int64), Filling.of(X)
        tables = X, filling.apply(X)
        fitted, Z, units = self._train(members, tables, codes, weight, splits, told)
        counts = weight if len(weight) else np.ones(len(codes))
        pairs = opposite_pair_weights(counts, positive, classes)
        w = stack_weights(Z, positive, pairs, pull=self.pull)
        scores = {name: Z[:, k] for k, name in enumerate(fitted)} | {STACK: np.empty(len(Z))}
        for rest, held in splits:
            others = stack_weights(Z[rest], positive[rest], pairs[rest], pull=self.pull)
            scores[STACK][held] = Z[held] @ others
        held_out = HeldOutScores(positive, [held for _, held in splits], scores)
        self.n_examples_ = len(codes)
        self.data_fingerprint_ = data_fingerprint(X, np.where(positive, 1, -1).astype(np.int8))
        self.classes_, self.members_ = classes, fitted
        self.weights_ = dict(zip(fitted, w.tolist(), strict=True))
        self.centres_, self.spreads_ = units
        self.held_out_auc_, self._filling = held_out.intervals(), filling
        importance = example_weights(counts, self.class_weight, classes[codes])
        self._decision = self._decide(Z @ w, positive, as_counts(importance))
        return held_out

    def _train(
        self,
        members: list[Named],
        tables: Tables,
        y: NDArray[np.int64],
        weight: Vector,
        splits: list[Fold],
        told: Callable[[str], object],
    ) -> tuple[dict[str, Any], Vector, tuple[Vector, Vector]]:
        """Return fitted members, held-out scores in units, and these units."""
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        found = threads(delayed(fit_member)(named, tables, y, weight, told) for named in members)
        fitted = {name: model for (name, _), model in zip(members, found, strict=True)}
        bags = [out_of_bag(model) for model in found]
        again = [k for k, scores in enumerate(bags) if scores is None]
        with warnings.catch_warnings():
            # The fit on all rows gave the same warnings.
            warnings.simplefilter("ignore")
            parts = iter(
                threads(
                    delayed(held_out_scores)(members[k], tables, y, weight, split, told)
                    for k in again
                    for split in splits
                )
            )
        Z = np.empty((len(y), len(members)))
        centres, spreads = np.zeros(len(members)), np.ones(len(members))
        for k, (named, bag) in enumerate(zip(fitted.items(), bags, strict=True)):
            if bag is None:
                centres[k], spread = unit_of(member_scores(named, tables))
                spreads[k] = spread or 1.0
                for _, held in splits:
                    Z[held, k] = next(parts)
            else:
                Z[:, k] = bag
            # Trees spread their training scores further than new ones, each kind by its own share.
            centre, spread = unit_of(Z[:, k])
            Z[:, k] = (Z[:, k] - centre) / spread if spread > 0.0 else 0.0
            centres[k] += spreads[k] * centre
            spreads[k] *= spread or 1.0
        return fitted, Z, (centres, spreads)

    def _published(self) -> Mapping[str, Any]:
        check_is_fitted(self, "weights_")
        return vars(self)

    def _scores(self, X: Any) -> Vector:
        X = validate_data(self, X, **_KINDS, reset=False)
        tables = X, self._filling.apply(X)
        total = np.zeros(len(X))
        units = zip(self.members_.items(), self.centres_, self.spreads_, strict=True)
        for named, centre, spread in units:
            w = self.weights_[named[0]]
            if w > 0.0:
                total += w * ((member_scores(named, tables) - centre) / spread)
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; if `deep`, also given members by name, and their parameters."""
        found: dict[str, Any] = self._get_params("members", deep=deep)
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``member=classifier`` replaces a given member by name."""
        if "members" in params:
            self.members = params.pop("members")
        return self._set_params("members", **params)  # type: ignore[no-any-return]

    @property
    def filling(self) -> tuple[Vector, NDArray[np.int64]]:
        """Medians for gaps, and the features whose gaps become columns, for members without NaN."""
        return self._filling.medians, self._filling.flagged

    def _pack(self) -> dict[str, NDArray[Any]]:
        files = [dump_model(_to_record(*named)) for named in self.members_.items()]
        judged = self.held_out_auc_.values()
        return {
            **pack_decision(self._decided()),
            "is_auto": np.array(isinstance(self.members, str)),
            "files": np.frombuffer(b"".join(files), dtype=np.uint8),
            "file_ends": np.cumsum([len(one) for one in files]).astype(np.int64),
            "weights": np.array(list(self.weights_.values())),
            "centres": self.centres_,
            "spreads": self.spreads_,
            "held_out": np.array([[o.value, o.low, o.high, o.standard_error] for o in judged]),
            "medians": self._filling.medians,
            "flagged": self._filling.flagged.astype(np.int64),
            "n_examples": np.array(self.n_examples_),
        }

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        found = dict(_from_bytes(part) for part in _parts(arrays))
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError("a stack has two classes; save the fitted model again.")
        judged = [*found, STACK]
        if len(arrays["held_out"]) != len(judged) or not arrays["weights"].sum() > 0.0:
            raise ModelFileError("its weights and held-out AUCs do not fit its members.")
        filling = Filling(arrays["medians"].copy(), arrays["flagged"].astype(np.intp))
        width = len(filling.medians)
        if len(filling.flagged) and filling.flagged[-1] >= width:
            raise ModelFileError(f"it fills gaps of a feature beyond its {width} features.")
        for name, member in found.items():
            wanted = width if takes_gaps(member) else width + len(filling.flagged)
            if member.n_features_in_ != wanted:
                raise ModelFileError(
                    f"its member {name!r} has {member.n_features_in_} features, not {wanted}."
                )
        unfitted = [
            (name, one.unfitted() if isinstance(one, TreeScores) else clone(one))
            for name, one in found.items()
        ]
        given = check_members(unfitted, list(self.get_params(deep=False)))
        self.members = "auto" if arrays["is_auto"] else given
        self.n_features_in_, self.n_examples_ = width, int(arrays["n_examples"])
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        self.members_, self._filling = found, filling
        self.weights_ = dict(zip(found, arrays["weights"].tolist(), strict=True))
        self.centres_, self.spreads_ = arrays["centres"].copy(), arrays["spreads"].copy()
        self.held_out_auc_ = {
            name: AUCInterval(value, low, high, error, 0.95)
            for name, (value, low, high, error) in zip(
                judged, arrays["held_out"].tolist(), strict=True
            )
        }
        self._decision = unpack_decision(arrays)


def described_members(record: ModelRecord) -> list[dict[str, Any]]:
    """Return name, estimator, weight and held-out AUC of each member in the record of a stack."""
    arrays, found = record.arrays, []
    judged = zip(_parts(arrays), arrays["weights"], arrays["held_out"], strict=False)
    for part, weight, held_out in judged:
        member = parse_model(part)
        found.append(
            {
                "name": str(member.provenance.get(_NAME)),
                "estimator": str(member.parameters.get("kind", member.estimator)),
                "weight": float(weight),
                "auc": float(held_out[0]),
            }
        )
    return found


def _to_record(name: str, member: Any) -> ModelRecord:
    """Return a member as the plain values of a file."""
    if isinstance(member, Storable):
        return member.to_record({_NAME: name})
    trees = tree_scores(member, takes_gaps(member))
    if trees is None:
        raise ModelFileError(
            f"member {name!r} is a {type(member).__name__}, which has no safe form; a model file "
            f"holds members of pairlearn and {', '.join(TREES)}. Use pickle or skops.io.dump for "
            "others, and load such files only from people you trust."
        )
    return trees.to_record({_NAME: name})


def _parts(arrays: Mapping[str, NDArray[Any]]) -> list[bytes]:
    """Return the files of the members."""
    files, ends = arrays["files"], arrays["file_ends"]
    if not len(ends) or ends[-1] != len(files):
        raise ModelFileError("the files of its members do not fill their array.")
    return [part.tobytes() for part in np.split(files, ends[:-1])]


def _from_bytes(data: bytes) -> Named:
    """Return the member in a file, checked like any model file."""
    record = parse_model(data)
    name = record.provenance.get(_NAME)
    if not isinstance(name, str):
        raise ModelFileError("a member has no name; save the fitted model again.")
    if record.estimator == "AUCStack":
        raise ModelFileError(f"its member {name[:60]!r} is a stack; a stack in a stack is refused.")
    member = build_model(record)
    scores = hasattr(member, "decision_function")
    if not scores or not (isinstance(member, TreeScores) or len(member.classes_) == 2):
        raise ModelFileError(f"its member {name[:60]!r} does not score two classes.")
    return name, member


register_storable(AUCStack)
