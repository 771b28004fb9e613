# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning by a small network: embeddings whose distances tell classes apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.estimators.metric.mixin import check_pairs
from pairlearn.estimators.shared.examples import check_known, known_classes, validate_data
from pairlearn.estimators.shared.published import all_or_nothing, publish
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights, weigh
from pairlearn.folds import deal, members_of, n_folds_of
from pairlearn.metrics import roc_auc
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.torch.base import RULES, NeuralEstimator
from pairlearn.torch.devices import as_device
from pairlearn.torch.embeddings import ContrastiveLoss, DistanceLoss, EmbeddingLoss
from pairlearn.torch.memory import EmbeddingMemory
from pairlearn.torch.training import Course
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_count, check_generator, check_one_type

#: The number of held-out examples whose pairs judge an epoch.
_JUDGED = 500


class EmbeddingLearner(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    NeuralEstimator,
    BaseEstimator,  # type: ignore[misc]
):
    """Contrastive metric learning: a small network maps examples of one class near each other.

    Pairs of equal and of different classes count one half each. Training ends when the AUC of the
    distances of held-out pairs, equal against different, stops rising.

    Parameters
    ----------
    n_components : int, default=16
        Length of an embedding.
    loss : {"contrastive", "hinge", "logistic"}, default="contrastive"
        `ContrastiveLoss`, or the paper's losses of a squared distance: `DistanceLoss`.
    network : "mlp", MLP, Module or callable, default="mlp"
        As in `NeuralAUCClassifier`; your own module has `n_components` outputs.
    pairing : {"batch", "memory", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`.
    memory : int, default=32
        Embeddings of each class that are remembered, with ``pairing="memory"``.
    solver : "adam" or Adam, default="adam"
        As in `NeuralAUCClassifier`.
    validation_fraction : float, default=0.2
        Share of the examples that are held out for early stopping, of each class; none if that
        leaves no pair of either kind.
    device, random_state, verbose
        As in `NeuralAUCClassifier`.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    networks_ : tuple of one Module
        The network, an average of its iterates.
    held_out_ : float or None
        AUC of the distances of held-out pairs, by which the epoch was chosen.
    history_ : list of one History
        Losses and held-out AUC by epoch.
    device_ : str
        Where it was trained.
    n_examples_ : int
        Examples seen.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    Hadsell, Chopra, LeCun. Dimensionality reduction by learning an invariant mapping. CVPR 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pairlearn.torch import Adam, EmbeddingLearner
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = EmbeddingLearner(2, solver=Adam(max_epochs=20), random_state=0).fit(X, y)
    >>> learner.transform(X).shape, bool(learner.held_out_ > 0.9)
    ((150, 2), True)
    """

    _kept = (*NeuralEstimator._kept, "pairing", "memory", "n_components")

    def __init__(
        self,
        n_components: int = 16,
        *,
        loss: str = "contrastive",
        network: Any = "mlp",
        pairing: str = "batch",
        memory: int = 32,
        solver: str | Solver = "adam",
        validation_fraction: float = 0.2,
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components, self.loss, self.network = n_components, loss, network
        self.pairing, self.memory, self.solver = pairing, memory, solver
        self.validation_fraction, self.device = validation_fraction, device
        self.random_state, self.verbose = random_state, verbose

    @one_at_a_time
    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples; sparse rows are made dense a batch at a time.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, which are divided by
            their mean, in training and in the held-out AUC. An example of weight zero is as good as
            absent.

        Returns
        -------
        self
            The fitted learner.
        """
        self._check_training()
        X, labels = validate_data(self, X, y, ensure_min_samples=2, **RULES)
        check_classification_targets(labels)
        keep, weight = weigh(sample_weight, len(labels))
        if keep is not None:
            X, labels = X[keep], np.asarray(labels)[keep]
        classes, code = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"Pairs of different classes are needed, but y has one class: {classes.tolist()}."
            )
        if len(classes) == len(labels):
            raise ValueError(
                f"Pairs of one class are needed, but y has {len(labels)} labels for as many "
                "examples, as numbers of rows have. Check y."
            )
        rng = check_generator(self.random_state)
        table = self._table(X, (code.astype(np.int64),), weight)
        n_folds = n_folds_of(self._held_share(len(code)), len(code))
        fold = deal(members_of(code), len(code), rng, n_folds=n_folds, onward=True)
        seen, held = np.flatnonzero(fold), np.flatnonzero(fold == 0)
        held = rng.permutation(held)[:_JUDGED]
        i, j = np.triu_indices(len(held), 1)
        same = code[held][i] == code[held][j]
        if not same.any() or same.all() or len(np.unique(code[seen])) < 2:
            seen, held = np.arange(len(code)), np.empty(0, dtype=np.int64)
        plan = self._adam.plan(len(seen))
        size = plan.batch_size
        seed, width = int(rng.integers(2**31)), check_count("n_components", self.n_components)
        learner = self._learner(seed, width, self._loss(len(classes)), table, plan)

        def order() -> Iterator[Places]:
            for _ in range(plan.n_passes):
                rows = rng.permutation(seen)
                yield from (rows[k : k + size] for k in range(0, max(len(rows) - 1, 1), size))

        pairs = weight[held][i] * weight[held][j] if len(weight) else None

        def judge(_: int, found: Vector) -> float:
            nearness = -np.linalg.norm(found[i] - found[j], axis=1)
            return roc_auc(same, nearness, sample_weight=pairs)

        networks, told = self._train(
            [Course(learner, table, order)],
            plan,
            judge,
            table,
            [held],
            metric="AUC of pairs",
            seed=seed,
        )
        self.classes_, self.n_outputs_ = classes, width
        self._adopt(networks[0], told[0], table)
        return self

    @one_at_a_time
    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in order, once.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like, optional
            All labels; needed in the first call with ``pairing="memory"``, unless the model is
            fitted. Without a memory new labels may come at any time.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, unscaled; without weights
            examples weigh 1. An example of weight zero is as good as absent.

        Returns
        -------
        self
            The learner. A chunk that fails leaves it as it was.
        """
        self._check_training()
        first = not hasattr(self, "networks_")
        if first and classes is None and self.pairing == "memory":
            raise ValueError(
                'classes must be passed on the first call to partial_fit: with pairing="memory" '
                "each class has its place."
            )
        X, labels = validate_data(self, X, y, reset=first, **RULES)
        check_classification_targets(labels)
        labels = np.asarray(labels)
        if not first:
            check_one_type("y", labels.tolist()[0], self.classes_.tolist()[0], "labels")
        if classes is not None:
            known = np.unique(np.asarray(classes))
        elif self.pairing == "memory":
            known = self.classes_
        else:
            known = np.unique(labels) if first else np.union1d(self.classes_, labels)
        if not first and classes is not None:
            known_classes(known, self.classes_)
        check_known(labels, known)
        weight = chunk_weights(sample_weight, len(labels))
        keep, _ = weigh(sample_weight, len(labels))
        if keep is not None:
            X, labels, weight = X[keep], labels[keep], weight[keep]
        model: Mapping[str, Any] = {} if first else self._fitted()
        width = check_count("n_components", self.n_components)
        loss = self._loss(len(known))
        learners = self._stream_learners(model, width, loss, as_device(self.device))
        code = np.searchsorted(known, labels).astype(np.int64)
        table = self._table(X, (code,), weight, model=model)
        batches = self._adam.cut(len(labels))
        self._learn_in_order(learners[:1], table, batches, first=first, n_outputs=width)
        self.classes_, self._learners = known, learners
        publish(self, networks_=self._averages(learners), scaler_=table.scaler)
        return self

    def _loss(self, n_classes: int) -> EmbeddingLoss:
        size, memory = self._remembered(32), None
        if size is not None:
            width = check_count("n_components", self.n_components)
            memory = EmbeddingMemory(size, n_classes=n_classes, n_components=width)
        shared: dict[str, Any] = {"pairing": self.pairing, "balanced": True, "memory": memory}
        if self.loss == "contrastive":
            return ContrastiveLoss(**shared)
        if self.loss in ("hinge", "logistic"):
            return DistanceLoss(self.loss, **shared)
        raise ValueError(f'loss must be "contrastive", "hinge" or "logistic", got {self.loss!r}.')

    @property
    def _n_features_out(self) -> int:
        """How many names `get_feature_names_out` makes."""
        return self.n_outputs_

    def transform(self, X: Any) -> Vector:
        """Return the embedding of each row of `X`; the learned distance is Euclidean there."""
        model = self._fitted()
        return self._outputs(self._rows(X), model)

    def pair_distance(self, pairs: Any) -> Vector:
        """Return the distance of each pair; `pairs` has the shape (n_pairs, 2, n_features)."""
        model = self._fitted()
        array = check_pairs(pairs, self.n_features_in_, owner=type(self).__name__)
        left, right = (self._outputs(array[:, side], model) for side in (0, 1))
        return np.asarray(np.linalg.norm(left - right, axis=1))

    def pair_score(self, pairs: Any) -> Vector:
        """Return minus the distance of each pair: larger means more similar."""
        return -self.pair_distance(pairs)

    def _unpack(self, record: ModelRecord) -> None:
        if record.classes is None or int(record.arrays["n_networks"]) != 1:
            raise ModelFileError("an EmbeddingLearner has classes and one network.")
        if int(record.arrays["n_outputs"]) != self.n_components:
            raise ModelFileError("its embeddings have another length than n_components.")
        super()._unpack(record)


register_storable(EmbeddingLearner)
