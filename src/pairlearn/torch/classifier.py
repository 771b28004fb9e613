# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation by small networks, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.decisions import (
    DECISION_ARRAYS,
    ScoreDecisions,
    Undecided,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.examples import (
    check_known,
    known_classes,
    two_classes,
    validate_data,
)
from pairlearn.estimators.shared.judged_maps import weighted_error
from pairlearn.estimators.shared.published import all_or_nothing, publish
from pairlearn.estimators.shared.rules import Decision, DecisionRule, as_rule
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import (
    chunk_weights,
    example_weights,
    opposite_pair_weights,
)
from pairlearn.folds import deal, members_of, n_folds_of
from pairlearn.metrics import roc_auc
from pairlearn.models.provenance import data_fingerprint
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.solvers.rows import is_sparse
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.torch.auc import MEMORY_SIZE, AUCLoss, SortedAUCLoss
from pairlearn.torch.base import RULES, NeuralEstimator
from pairlearn.torch.devices import as_device
from pairlearn.torch.margins import MarginLoss
from pairlearn.torch.networks import MLP, Beside, as_network, outputs
from pairlearn.torch.sampler import BalancedSampler
from pairlearn.torch.table import Table
from pairlearn.torch.training import Course, Plan
from pairlearn.typing import Mask, Vector
from pairlearn.validation import as_counts, check_fraction, check_generator

#: Scores with their labels and weights.
Window = tuple[Vector, Mask, Vector]

#: Examples of a batch, unless their number is given.
_BATCH = 512
#: validation_fraction="auto" holds out the first share, and the second from this many examples on.
_HELD, _HELD_OF_MANY, _MANY = 0.2, 0.05, 20_000
#: From this many examples of the rarer class on some are held out.
_HELD_FROM = 4
#: The epoch is chosen by held-out examples from this many of each class on, over all networks.
_CHOOSES_FROM = 10
#: Else an example of the rarer class is worth so many, in the number of steps.
_BEARS = 20
#: Shares of a line beside a network that are tried.
_SHARES = tuple(tenths / 10.0 for tenths in range(10))
#: Threshold and calibration of a stream come from this many of the latest scores.
_WINDOW = 4096


class NeuralAUCClassifier(NeuralEstimator, ScoreDecisions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classifier that maximises the area under the ROC curve by small networks.

    Minimises the mean over opposite pairs of a loss of s(x) - s(x'), the score s being a network,
    over all pairs of batches with a share of positives. Steps fall along half a cosine, and the
    average of the last iterates predicts. Several networks, each with another part of the data
    held out, are trained side by side and averaged where data are few. Kept is the epoch at which
    the mean of their AUC on held-out examples is the best. Small networks can be behind a linear
    score where data are few, so each of several may have the score of an `AUCClassifier` beside it,
    fitted on the same examples. Its share is the best of 0, .1, ..., .9 for the mean of the AUC on
    held-out examples, if it is ahead of no line by a standard error.

    Parameters
    ----------
    loss : str or callable, default="squared_hinge"
        "squared_hinge", "hinge", "logistic", "square", or a function of margins: see `AUCLoss`.
    network : "mlp", MLP, Module or callable, default="mlp"
        An `MLP` with its widths and dropout; your own module from standardised features to one
        score, which is copied with its weights; or a function that makes a module for a number of
        features.
    pairing : {"auto", "batch", "memory", "previous"}, default="auto"
        Who meets whom, see `PairwiseLoss`. "auto" is "batch" in `fit`, where each batch has both
        classes, and "memory" in `partial_fit`, where it need not. A GPU records the step of "batch"
        and replays it, which is ten times as fast; those of others are started kernel by kernel.
    memory : int, default=256
        Scores of each class that are remembered, with ``pairing="memory"``.
    share : float, default=0.25
        Share of positives in each batch.
    solver : "adam" or Adam, default="adam"
        Learning rate, weight decay, batches, epochs, patience and the number of networks.
    decision : float, str or DecisionRule, default="balanced_accuracy"
        As in `AUCClassifier`, found from scores of held-out examples.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. As in `AUCClassifier` they move
        threshold and probabilities and not the order of the scores. "balanced" needs all labels,
        so `partial_fit` takes a dict.
    validation_fraction : float or "auto", default="auto"
        Share of the examples that each network does not see, for early stopping, threshold and
        calibration. "auto" is a fifth, and a twentieth from 20,000 examples on, where one network
        is trained and what it does not see is lost. With fewer than 4 examples of a class none are
        held out. With fewer than 10 of a class held out, over all networks, the last epoch is kept,
        and there are as many steps as for 20 examples of each one of the rarer class.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1"; "auto" takes the GPU if there is one and else the CPU, `device_`
        says which.
    random_state : int, RandomState, Generator or None, default=None
        Source of initial weights, folds and batches.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive one.
    networks_ : tuple of Module
        The networks, averages of their iterates.
    line_ : float
        The share of the linear score beside each network, in standard deviations of both; 0 if
        there is none.
    threshold_ : float
        The cut on scores.
    held_out_ : float or None
        Mean AUC of the networks on the examples that they have not seen. The epoch and the line
        were chosen by it, so that it is a little too good; `predict_proba` and threshold rest on
        the same scores.
    history_ : list of History
        Losses and held-out AUC by epoch, for each network.
    device_ : str
        Where it was trained.
    n_examples_ : int
        Examples seen.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `partial_fit` takes the examples of a chunk in their order, in batches, once; scales of features
    are those of all examples so far. On a CPU a fit is the same to the last bit for a given
    `random_state` and number of threads. A dense table is moved to the device once. Sparse rows
    are made dense a batch at a time; they are standardised as dense ones are, so that the model is
    the same up to rounding. A `fit` or `partial_fit` that fails, or is interrupted, leaves the
    model as it was.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pairlearn.torch import Adam, NeuralAUCClassifier
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = NeuralAUCClassifier(solver=Adam(n_networks=1, max_epochs=40), random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.98)
    True
    """

    _several = True
    _kept = (*NeuralEstimator._kept, "pairing", "memory")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        **NeuralEstimator._arrays,
        **DECISION_ARRAYS,
        "offset": ArraySpec(()),
        "line": ArraySpec((), required=False, low=0.0, high=1.0),
    }

    def __init__(
        self,
        loss: str | MarginLoss = "squared_hinge",
        *,
        network: Any = "mlp",
        pairing: str = "auto",
        memory: int = MEMORY_SIZE,
        share: float = 0.25,
        solver: str | Solver = "adam",
        decision: float | str | DecisionRule = "balanced_accuracy",
        class_weight: dict[Any, float] | str | None = None,
        validation_fraction: float | str = "auto",
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss, self.network, self.pairing, self.memory = loss, network, pairing, memory
        self.share, self.solver, self.decision = share, solver, decision
        self.class_weight, self.validation_fraction = class_weight, validation_fraction
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @one_at_a_time
    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Two kinds of labels.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, scaled so that the
            mean weight of an opposite pair is 1. They count in the held-out AUC, in threshold,
            calibration and scales of features too. An example of weight zero is as good as absent.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        X, labels = validate_data(self, X, y, ensure_min_samples=2, **RULES)
        labels = np.asarray(labels)
        classes = two_classes(labels)
        weight = example_weights(sample_weight, self.class_weight, labels)
        # Weights of classes say nothing about units.
        counts = chunk_weights(sample_weight, len(labels))
        X, labels, weight, counts = _present(X, labels, weight, counts)
        positive = labels == classes[1]
        weight = opposite_pair_weights(weight, positive, classes)
        if (weight == 1.0).all():
            # Equal weights change nothing, not even by rounding.
            weight = counts = np.empty(0)
        rng = check_generator(self.random_state)
        table = self._table(X, (positive,), weight, counts=counts)
        rarer = int(min(positive.sum(), (~positive).sum()))
        # Networks take turns with the folds, so that few examples of a class serve them all.
        share = self._held_share(len(labels))
        n_folds = n_folds_of(share, rarer) if rarer >= _HELD_FROM else 1
        groups = members_of(positive) if n_folds > 1 else []
        fold = deal(groups, len(labels), rng, n_folds=n_folds, onward=True)
        count = self._adam.networks_for(len(labels))
        seeds = [int(rng.integers(2**31)) for _ in range(count)]
        everything = np.arange(len(labels))
        held = [everything[fold == k % n_folds] for k in range(count)] if n_folds > 1 else []
        seen = [everything[fold != k % n_folds] for k in range(count)] if n_folds > 1 else []
        seen, judged = seen or [everything] * count, held or [everything] * count
        chooses = _can_choose(positive, held)
        n = min(map(len, seen))
        # Where no epoch is chosen, as many steps as the rarer class can bear.
        plan = self._adam.plan(n, usual=_BATCH, worth=n if chooses else min(n, _BEARS * rarer))
        networks, self.history_ = self._train(
            [
                self._course(table, positive, rows, plan, seed, number)
                for number, (rows, seed) in enumerate(zip(seen, seeds, strict=True))
            ],
            plan,
            lambda k, found: _auc(positive[held[k]], found[:, 0], weight, held[k]),
            table,
            held,
            metric="AUC",
            seed=seeds[0],
            chooses=chooses,
        )
        networks, self.line_ = self._with_lines(networks, X, positive, weight, table, seen, held)
        own = weight if len(weight) else np.ones(len(labels))
        aucs, offsets = [], []
        window: list[Window] = []
        for network, rows in zip(networks, judged, strict=True):
            scores = outputs((network,), X[rows], table.scaler, table.device)[:, 0]
            where, weighs = positive[rows], own[rows]
            # Pairs fix a score up to a constant: each network's is put between its classes.
            means = [np.average(scores[kind], weights=weighs[kind]) for kind in (where, ~where)]
            offsets.append(0.5 * float(sum(means)))
            window.append((scores - offsets[-1], where, weighs))
            if held:
                aucs.append(_auc(where, scores, weight, rows))
        self.held_out_ = float(np.mean(aucs)) if aucs else None
        self.device_, self.n_outputs_, self.n_examples_ = str(table.device), 1, len(labels)
        self.data_fingerprint_: str | None = data_fingerprint(
            X if is_sparse(X) else np.ascontiguousarray(X), positive.astype(np.int8)
        )
        self._learners = None
        self.__dict__.pop("_window", None)
        self.__dict__.pop("_before", None)
        drawn, signs, weighs = (np.concatenate(part) for part in zip(*window, strict=True))
        publish(
            self,
            networks_=tuple(networks),
            scaler_=table.scaler,
            offset_=float(np.mean(offsets)),
            classes_=classes,
            _decision=Undecided(drawn, signs, _as_in_data(signs, weighs, positive, own)),
        )
        # Found now: parameters that are set after a fit do not change it.
        self._decision = self._decided(self._fitted())
        return self

    def _with_lines(
        self,
        networks: list[Any],
        X: Any,
        positive: Mask,
        weight: Vector,
        table: Table,
        seen: Sequence[NDArray[np.int64]],
        held: Sequence[NDArray[np.int64]],
    ) -> tuple[list[Any], float]:
        """Return networks with lines beside them, if held-out pairs ask for them, and the share."""
        described = as_network(self.network)
        if len(held) < 2 or not (isinstance(described, MLP) and described.line):
            return networks, 0.0
        factor = table.scaler.factor
        lines, scores = [], []
        for network, rows, left in zip(networks, seen, held, strict=True):
            model = AUCClassifier(decision=0.0, random_state=0)
            model.fit(X[rows], positive[rows], weight[rows] if len(weight) else None)
            told = outputs((network,), X[left], table.scaler, table.device)[:, 0]
            beside = model.decision_function(X[left])
            ratio = float(told.std() / beside.std()) if np.ptp(beside) else 0.0
            # In the units of the network.
            units = np.divide(ratio, factor, out=np.zeros_like(factor), where=factor > 0.0)
            lines.append(units * model.coef_[0])
            scores.append((told, ratio * beside))

        def with_line(share: float) -> list[Vector]:
            return [told + share / (1.0 - share) * beside for told, beside in scores]

        def worth(share: float) -> float:
            mixed = zip(with_line(share), held, strict=True)
            return float(np.mean([_auc(positive[left], own, weight, left) for own, left in mixed]))

        aucs = [worth(share) for share in _SHARES]
        share = _SHARES[int(np.argmax(aucs))]
        pairs = zip(held, with_line(share), with_line(0.0), strict=True)
        weighs = weight if len(weight) else np.ones(len(positive))
        errors = [weighted_error(positive[left], weighs[left], a, b) for left, a, b in pairs]
        # Networks beyond the number of folds are judged by the same examples again.
        n_folds = len({int(left[0]) for left in held})
        if not max(aucs) - aucs[0] > float(np.sqrt(np.mean(np.square(errors)) / n_folds)):
            return networks, 0.0
        times = share / (1.0 - share)
        both = zip(networks, lines, strict=True)
        return [Beside(network, times * line) for network, line in both], share

    def _course(
        self,
        table: Table,
        positive: Mask,
        seen: NDArray[np.int64],
        plan: Plan,
        seed: int,
        number: int,
    ) -> Course:
        """Return the network of a number and its balanced batches of the rows that it sees."""
        sampler = BalancedSampler(positive[seen], plan.batch_size, share=self.share, seed=seed)
        rows, loss = torch.from_numpy(seen), self._loss(stream=False)
        if loss.pairing == "batch":
            # All batches look the same: positives first.
            alike = SortedAUCLoss(loss, sampler.n_positive)
            learner = self._learner(seed, 1, alike, table, plan, number)
            return Course(learner, table, lambda: rows[sampler.deal(plan.n_batches)])

        def order() -> Iterator[NDArray[np.int64]]:
            for _ in range(plan.n_passes):
                yield from (seen[batch] for batch in sampler)

        return Course(self._learner(seed, 1, loss, table, plan, number), table, order)

    @one_at_a_time
    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in order.

        After `fit` all its networks go on; a new stream has one network.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (2,), optional
            Both labels; needed in the first call, unless the model is fitted.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, unscaled; without weights
            examples weigh 1. An example of weight zero is as good as absent.

        Returns
        -------
        self
            The classifier.
        """
        self._check_parameters()
        first = not hasattr(self, "networks_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict to partial_fit."
            )
        X, labels = validate_data(self, X, y, reset=first, **RULES)
        labels = np.asarray(labels)
        known = known_classes(classes, None if first else self.classes_)
        if len(known) != 2:
            raise ValueError(f"classes must hold two labels, got {known.tolist()}.")
        check_known(labels, known)
        weight = example_weights(sample_weight, self.class_weight, labels)
        counts = chunk_weights(sample_weight, len(labels))
        X, labels, weight, counts = _present(X, labels, weight, counts)
        positive = labels == known[1]
        model = {} if first else self._fitted()
        learners = self._stream_learners(model, 1, self._loss(stream=True), as_device(self.device))
        nothing = (np.empty(0), np.empty(0, dtype=bool), np.empty(0))
        window: Window = self.__dict__.get("_window", nothing)
        # What `fit` or a file decided holds until the stream has scores enough.
        before: Decision | None = self.__dict__.get("_before")
        if not first and "_window" not in self.__dict__:
            before = self._decided(model)
        own = weight if len(weight) else np.ones(len(labels))
        if not first:
            window = _longer(window, (self._scores_of(X, model), positive, own))
        table = self._table(X, (positive,), weight, counts=counts, model=model)
        batches = self._adam.cut(len(labels))
        self._learn_in_order(learners, table, batches, first=first, n_outputs=1)
        model = {
            "networks_": self._averages(learners),
            "scaler_": table.scaler,
            "offset_": model.get("offset_", 0.0),
            "classes_": known,
        }
        if first:
            # There was nothing to score the first chunk by before it was learned.
            window = _longer(window, (self._scores_of(X, model), positive, own))
            self.line_ = 0.0
        self._learners, self._window, self._before = learners, window, before
        self.data_fingerprint_ = None
        publish(self, **model, _decision=Undecided(*window[:2], as_counts(window[2]), before))
        return self

    def _check_parameters(self) -> None:
        self._check_training()
        as_rule(self.decision)
        self._loss(stream=True)
        check_fraction("share", self.share)

    def _held_share(self, n: int) -> float:
        if self.validation_fraction == "auto":
            return _HELD if n < _MANY else _HELD_OF_MANY
        return super()._held_share(n)

    def _loss(self, *, stream: bool) -> AUCLoss:
        """Return the loss of stored examples, or of a stream."""
        memory = self._remembered(MEMORY_SIZE)
        pairing = self.pairing
        if pairing == "auto":
            pairing, memory = ("memory", MEMORY_SIZE) if stream else ("batch", None)
        return AUCLoss(self.loss, pairing=pairing, memory=memory)

    def _published(self) -> Mapping[str, Any]:
        return self._fitted()

    def _scores(self, X: Any, model: Mapping[str, Any]) -> Vector:
        return self._scores_of(self._rows(X), model)

    def _scores_of(self, rows: Any, model: Mapping[str, Any]) -> Vector:
        """Return the scores of checked rows."""
        return np.asarray(self._outputs(rows, model)[:, 0] - model["offset_"])

    def _pack(self) -> dict[str, NDArray[Any]]:
        model = self._fitted()
        own = {"offset": np.array(model["offset_"]), "line": np.array(self.line_)}
        arrays = {**super()._pack(), **own}
        return {**arrays, **pack_decision(self._decided(model))}

    def _unpack(self, record: ModelRecord) -> None:
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError("a NeuralAUCClassifier has two classes.")
        if int(record.arrays["n_outputs"]) != 1:
            raise ModelFileError("a NeuralAUCClassifier has one score.")
        super()._unpack(record)
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        self.line_ = float(record.arrays.get("line", 0.0))
        publish(
            self, offset_=float(record.arrays["offset"]), _decision=unpack_decision(record.arrays)
        )


def _present(X: Any, labels: NDArray[Any], weight: Vector, counts: Vector) -> Any:
    """Return the examples of a positive weight, and their weights."""
    if not len(weight):
        return X, labels, weight, counts
    keep = np.flatnonzero(weight)
    if not len(keep):
        raise ValueError("sample_weight is zero for all examples; give some a positive weight.")
    if len(keep) < len(weight):
        X, labels, weight = X[keep], labels[keep], weight[keep]
        counts = counts[keep] if len(counts) else counts
    return X, labels, weight, counts


def _can_choose(positive: Mask, held: Sequence[NDArray[np.int64]]) -> bool:
    """Return whether enough examples of each class are held out to choose an epoch by them."""
    out = np.zeros(len(positive), dtype=np.bool_)
    for rows in held:
        out[rows] = True
    where = positive[out]
    return bool(min(where.sum(), (~where).sum()) >= _CHOOSES_FROM)


def _auc(positive: Mask, scores: Vector, weight: Vector, rows: NDArray[np.int64]) -> float:
    return roc_auc(positive, scores, sample_weight=weight[rows] if len(weight) else None)


def _as_in_data(drawn: Mask, weighs: Vector, positive: Mask, weight: Vector) -> Vector:
    """Return weights that give held-out scores the shares of the classes in the data."""
    shares = [weight[positive == kind].sum() / weight.sum() for kind in (True, False)]
    found = [weighs[drawn == kind].sum() / weighs.sum() for kind in (True, False)]
    factor = np.divide(shares, found)
    return np.asarray(weighs * np.where(drawn, *factor))


def _longer(window: Window, more: Window) -> Window:
    """Return the latest scores with their labels and weights."""
    found = (np.concatenate(both)[-_WINDOW:] for both in zip(window, more, strict=True))
    return tuple(found)  # type: ignore[return-value]


register_storable(NeuralAUCClassifier)
