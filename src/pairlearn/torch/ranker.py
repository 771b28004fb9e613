# SPDX-License-Identifier: BSD-3-Clause
"""Ranking by a small network, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from pairlearn.estimators.ranking.ranker import QueryScores
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.published import all_or_nothing, publish
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights, weigh
from pairlearn.folds import deal, n_folds_of
from pairlearn.metrics import pair_accuracy
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.pairings.queries import has_pairs, number_queries
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.torch.base import RULES, NeuralEstimator
from pairlearn.torch.devices import as_device
from pairlearn.torch.margins import MarginLoss
from pairlearn.torch.ranking import RankingLoss
from pairlearn.torch.training import Course
from pairlearn.typing import Vector
from pairlearn.validation import check_generator

Rows = NDArray[np.int64]


class NeuralRanker(QueryScores, NeuralEstimator, BaseEstimator):  # type: ignore[misc]
    """Ranker within queries by a small network.

    Minimises the mean over pairs of one query with different grades of a loss of s(x) - s(x'), the
    score s being a network. Batches are made of whole queries. Training ends when the share of
    held-out pairs in the right order stops rising.

    Parameters
    ----------
    loss : str or callable, default="logistic"
        "logistic", "hinge", "squared_hinge", "square", or a function of margins: see `RankingLoss`.
    network : "mlp", MLP, Module or callable, default="mlp"
        As in `NeuralAUCClassifier`.
    solver : "adam" or Adam, default="adam"
        As in `NeuralAUCClassifier`. `batch_size` is the approximate number of documents in a batch:
        a query is not cut, unless it alone has more.
    k : int or None, default=10
        `score` looks at the first k ranks; None for all.
    gain : {"exponential", "linear"}, default="exponential"
        The gain of a grade in `score`.
    validation_fraction : float, default=0.2
        Share of the queries (without queries, of the examples) that are held out for early
        stopping; none if that leaves no pair.
    device, random_state, verbose
        As in `NeuralAUCClassifier`.

    Attributes
    ----------
    networks_ : tuple of one Module
        The network, an average of its iterates.
    held_out_ : float or None
        Share of held-out pairs in the right order, by which the epoch was chosen.
    history_ : list of one History
        Losses and held-out accuracy by epoch.
    device_ : str
        Where it was trained.
    n_examples_ : int
        Examples seen.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from pairlearn.torch import Adam, NeuralRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(40), 10)
    >>> y = np.digitize(np.abs(X[:, 0]), [0.5, 1.0])
    >>> ranker = NeuralRanker(solver=Adam(max_epochs=20), random_state=0).fit(X, y, qid)
    >>> bool(ranker.score(X, y, qid) > 0.9)
    True
    """

    def __init__(
        self,
        loss: str | MarginLoss = "logistic",
        *,
        network: Any = "mlp",
        solver: str | Solver = "adam",
        k: int | None = 10,
        gain: str = "exponential",
        validation_fraction: float = 0.2,
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss, self.network, self.solver, self.k = loss, network, solver, k
        self.gain, self.validation_fraction, self.device = gain, validation_fraction, device
        self.random_state, self.verbose = random_state, verbose

    @one_at_a_time
    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on stored examples.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples; sparse rows are made dense a batch at a time.
        y : array-like of shape (n_samples,)
            Grades, or any real target; larger is better.
        qid : array-like of shape (n_samples,), optional
            The query of each example; one query by default.
        sample_weight : array-like of shape (n_samples,), optional
            As in `PairwiseRanker`: a pair weighs the product of the weights of its two examples,
            which are divided by their mean, so that a query weighs w if each of its examples weighs
            sqrt(w). An example of weight zero is as good as absent. Held-out pairs all count the
            same.

        Returns
        -------
        self
            The fitted ranker.
        """
        self._check_training()
        loss = RankingLoss(self.loss)
        X, grades = self._examples(X, y, reset=True, minimum=2)
        n = len(grades)
        query = np.zeros(n, dtype=np.int64) if qid is None else number_queries(qid, n)
        keep, weight = weigh(sample_weight, n)
        if keep is not None:
            # Numbered anew: a query of which nothing is left takes part in no draw.
            X, grades, query = X[keep], grades[keep], number_queries(query[keep], len(keep))
        rng, table = check_generator(self.random_state), self._table(X, (grades, query), weight)
        if not has_pairs(query, grades):
            raise ValueError(
                "No query has two different grades; there is no pair to learn from. Check y and "
                "qid."
            )
        seen, held = self._split(grades, query, rng)
        plan = self._adam.plan(len(seen))
        size = plan.batch_size
        seed = int(rng.integers(2**31))

        def order() -> Iterator[Rows]:
            for _ in range(plan.n_passes):
                yield from _packed(query, seen, size, rng)

        networks, told = self._train(
            [Course(self._learner(seed, 1, loss, table, plan), table, order)],
            plan,
            lambda _, found: pair_accuracy(grades[held], found[:, 0], qid=query[held]),
            table,
            [held],
            metric="pair accuracy",
            seed=seed,
        )
        self.n_outputs_ = 1
        self._adopt(networks[0], told[0], table)
        return self

    def _split(self, grades: Vector, query: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """Return the rows to learn from and those to judge by; whole queries, if there are some."""
        place = query if query.max() > 0 else np.arange(len(query))
        n = int(place.max()) + 1
        n_folds = n_folds_of(self._held_share(n), n)
        fold = deal([np.arange(n)], n, rng, n_folds=n_folds)[place]
        seen, held = np.flatnonzero(fold), np.flatnonzero(fold == 0)
        if all(has_pairs(query[part], grades[part]) for part in (seen, held)):
            return seen, held
        return np.arange(len(query)), np.empty(0, dtype=np.int64)

    @one_at_a_time
    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in the order of its queries, once.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples; a query is whole within a chunk.
        y : array-like of shape (n_samples,)
            Grades, or any real target.
        qid : array-like of shape (n_samples,), optional
            The query of each example; one query by default.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, unscaled; without weights
            examples weigh 1. An example of weight zero is as good as absent.

        Returns
        -------
        self
            The ranker. A chunk that fails leaves it as it was.
        """
        self._check_training()
        first = not hasattr(self, "networks_")
        X, grades = self._examples(X, y, reset=first, minimum=1)
        n = len(grades)
        query = np.zeros(n, dtype=np.int64) if qid is None else number_queries(qid, n)
        weight = chunk_weights(sample_weight, n)
        keep, _ = weigh(sample_weight, n)
        if keep is not None:
            X, grades, query, weight = X[keep], grades[keep], query[keep], weight[keep]
        model: Mapping[str, Any] = {} if first else self._fitted()
        learners = self._stream_learners(model, 1, RankingLoss(self.loss), as_device(self.device))
        table = self._table(X, (grades, query), weight, model=model)
        batches = list(_packed(query, np.arange(len(query)), self._adam.stream_batch, None))
        self._learn_in_order(learners[:1], table, batches, first=first, n_outputs=1)
        self._learners = learners
        publish(self, networks_=self._averages(learners), scaler_=table.scaler)
        return self

    def _examples(self, X: Any, y: ArrayLike, *, reset: bool, minimum: int) -> tuple[Any, Vector]:
        rules: dict[str, Any] = {"reset": reset, "ensure_min_samples": minimum, "y_numeric": True}
        X, y = validate_data(self, X, y, **RULES, **rules)
        return X, np.asarray(y, dtype=np.float64)

    def predict(self, X: Any) -> Vector:
        """Return a score for each row of `X`; within a query, rank by them, largest first."""
        model = self._fitted()
        return np.asarray(self._outputs(self._rows(X), model)[:, 0])

    def _unpack(self, record: ModelRecord) -> None:
        if int(record.arrays["n_outputs"]) != 1 or int(record.arrays["n_networks"]) != 1:
            raise ModelFileError("a NeuralRanker has one network with one score.")
        super()._unpack(record)


def _packed(query: Rows, rows: Rows, size: int, rng: np.random.Generator | None) -> Iterator[Rows]:
    """Yield batches of whole queries, of about `size` rows; in a random order, or as they come.

    A query of more rows than that is cut into pieces of this size.
    """
    if rng is None:
        order, names = rows, query[rows]
        _, first = np.unique(names, return_index=True)
        place = np.zeros(int(names.max()) + 1, dtype=np.int64)
        place[names[np.sort(first)]] = np.arange(len(first))
    else:
        order, names = rng.permutation(rows), query
        place = rng.permutation(int(query.max()) + 1)
    order = order[np.argsort(place[query[order]], kind="stable")]
    cuts = np.flatnonzero(np.diff(query[order])) + 1
    batch: list[Rows] = []
    count = 0
    for group in np.split(order, cuts):
        for piece in np.split(group, range(size, len(group), size)):
            if count and count + len(piece) > size:
                yield np.concatenate(batch)
                batch, count = [], 0
            batch.append(piece)
            count += len(piece)
    if batch:
        yield np.concatenate(batch)


register_storable(NeuralRanker)
