# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning by a small network: embeddings whose distances tell classes apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.estimators.metric.learner import check_pairs
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import weigh
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.torch.base import RULES, NeuralEstimator, folds_of
from pairlearn.torch.embeddings import ContrastiveLoss, DistanceLoss, EmbeddingLoss
from pairlearn.torch.networks import outputs
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.training import Adam, Run, as_device, rows_on, train
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_generator

#: Examples of a batch, unless their number is given.
_BATCH = 256
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
    pairing : {"batch", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`.
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

    def __init__(
        self,
        n_components: int = 16,
        *,
        loss: str = "contrastive",
        network: Any = "mlp",
        pairing: str = "batch",
        solver: str | Solver = "adam",
        validation_fraction: float = 0.2,
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components, self.loss, self.network = n_components, loss, network
        self.pairing, self.solver, self.validation_fraction = pairing, solver, validation_fraction
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def _adam(self) -> Adam:
        solver = super()._adam()
        if solver.n_networks not in ("auto", 1):
            raise ValueError(
                f"EmbeddingLearner trains one network, got n_networks={solver.n_networks!r}; leave "
                "it out."
            )
        return solver

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
        solver, width = self._adam(), check_count("n_components", self.n_components)
        loss = self._loss()
        X, code, weight, classes = self._examples(X, y, sample_weight)
        rng, n = check_generator(self.random_state), len(code)
        share = self._held_share(n)
        fold = folds_of(code, min(max(round(1.0 / share), 2), n), rng)
        seen, held = np.flatnonzero(fold), rng.permutation(np.flatnonzero(fold == 0))[:_JUDGED]
        i, j = np.triu_indices(len(held), 1)
        same = code[held][i] == code[held][j]
        judges = bool(same.any() and not same.all() and len(np.unique(code[seen])) > 1)
        seen = seen if judges else np.arange(n)
        pairs = weight[held][i] * weight[held][j] if len(weight) else None
        plan, seed = solver.plan(len(seen), usual=_BATCH), int(rng.integers(2**31))
        device = as_device(self.device)
        scaler = Standardiser.of(X, weight)
        network = self._new_network(seed, width, X, scaler, weight).to(device)
        coded, weighs = torch.from_numpy(code).to(device), torch.from_numpy(weight).to(device)

        def epoch() -> Iterator[Any]:
            for _ in range(plan.n_passes):
                rows = torch.from_numpy(rng.permutation(seen))
                ends = range(0, max(len(rows) - 1, 1), plan.batch_size)
                yield from (rows[k : k + plan.batch_size].to(device) for k in ends)

        def objective(found: Any, rows: Any) -> Any:
            return loss(found, coded[rows], weighs[rows] if len(weighs) else None)

        def judge(_: int, network: Any) -> float:
            found = outputs((network,), X[held], scaler, device)
            nearness = -np.linalg.norm(found[i] - found[j], axis=1)
            return roc_auc(same, nearness, sample_weight=pairs)

        run = Run(network, rows_on(X, scaler.transform, device), epoch, objective)
        with self._training(network, seed, plan.batch_size, device):
            title = f"1 network on {device}" if self.verbose else ""
            networks = train([run], solver, plan, judge=judge if judges else None, title=title)
        self.networks_, self._scaler = tuple(networks), scaler
        self.classes_, self.history_ = classes, [run.history]
        self.held_out_ = run.history.held_out[run.history.best_epoch - 1] if judges else None
        self._note_fit(n, width, device)
        return self

    def _examples(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Any:
        """Return the rows that weigh something, codes of their labels, weights, and the classes."""
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
        return X, code, weight, classes

    def _loss(self) -> EmbeddingLoss:
        shared: dict[str, Any] = {"pairing": self.pairing, "balanced": True}
        if self.loss == "contrastive":
            loss: EmbeddingLoss = ContrastiveLoss(**shared)
        elif self.loss in ("hinge", "logistic"):
            loss = DistanceLoss(self.loss, **shared)
        else:
            raise ValueError(
                f'loss must be "contrastive", "hinge" or "logistic", got {self.loss!r}.'
            )
        loss.relative_weights = True
        return loss

    @property
    def _n_features_out(self) -> int:
        """How many names `get_feature_names_out` makes."""
        return self.n_outputs_

    def transform(self, X: Any) -> Vector:
        """Return the embedding of each row of `X`; the learned distance is Euclidean there."""
        return self._outputs(X)

    def pair_distance(self, pairs: Any) -> Vector:
        """Return the distance of each pair; `pairs` has the shape (n_pairs, 2, n_features)."""
        array = check_pairs(pairs, self.n_features_in_, owner=type(self).__name__)
        left, right = (self._outputs(array[:, side]) for side in (0, 1))
        return np.asarray(np.linalg.norm(left - right, axis=1))

    def pair_score(self, pairs: Any) -> Vector:
        """Return minus the distance of each pair: larger means more similar."""
        return -self.pair_distance(pairs)

    def _unpack(self, record: ModelRecord) -> None:
        if record.classes is None or len(record.arrays["pieces"]) != 1:
            raise ModelFileError("an EmbeddingLearner has classes and one network.")
        if int(record.arrays["n_outputs"]) != self.n_components:
            raise ModelFileError("its embeddings have another length than n_components.")
        super()._unpack(record)


register_storable(EmbeddingLearner)
