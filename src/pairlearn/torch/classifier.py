# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation by small networks, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.decisions import (
    DECISION_ARRAYS,
    Decision,
    DecisionRule,
    as_rule,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.examples import two_classes, validate_data
from pairlearn.estimators.shared.judged_maps import weighted_error
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import example_weights, opposite_pair_weights
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.provenance import data_fingerprint
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.torch.auc import AUCLoss
from pairlearn.torch.base import RULES, NeuralEstimator, folds_of
from pairlearn.torch.margins import MarginLoss
from pairlearn.torch.networks import MLP, Beside, as_network, outputs
from pairlearn.torch.sampler import BalancedSampler
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.training import Plan, Run, as_device, rows_on, train
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_fraction, check_generator, check_weights

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


class NeuralAUCClassifier(NeuralEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
    pairing : {"batch", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`.
    share : float, default=0.25
        Share of positives in each batch.
    solver : "adam" or Adam, default="adam"
        Learning rate, weight decay, batches, epochs, patience and the number of networks.
    decision : float, str or DecisionRule, default="balanced_accuracy"
        As in `AUCClassifier`, found from scores of held-out examples.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. As in `AUCClassifier` they move
        threshold and probabilities and not the order of the scores.
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
    On a CPU a fit is the same to the last bit for a given `random_state` and number of threads. A
    dense table is moved to the device once. Sparse rows are made dense a batch at a time; they are
    standardised as dense ones are, so that the model is the same up to rounding. There is no
    `partial_fit`: on a stream use `AUCLoss` in a loop of your own.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pairlearn.torch import Adam, NeuralAUCClassifier
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = NeuralAUCClassifier(solver=Adam(n_networks=1, max_epochs=40), random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.98)
    True
    """

    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        **NeuralEstimator._arrays,
        **DECISION_ARRAYS,
        "offset": ArraySpec(()),
        "line": ArraySpec((), low=0.0, high=1.0),
    }

    def __init__(
        self,
        loss: str | MarginLoss = "squared_hinge",
        *,
        network: Any = "mlp",
        pairing: str = "batch",
        share: float = 0.25,
        solver: str | Solver = "adam",
        decision: float | str | DecisionRule = "balanced_accuracy",
        class_weight: dict[Any, float] | str | None = None,
        validation_fraction: float | str = "auto",
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss, self.network, self.pairing = loss, network, pairing
        self.share, self.solver, self.decision = share, solver, decision
        self.class_weight, self.validation_fraction = class_weight, validation_fraction
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

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
        solver = self._adam()
        as_rule(self.decision)
        self._loss()
        check_fraction("share", self.share)
        X, labels = validate_data(self, X, y, ensure_min_samples=2, **RULES)
        X, positive, weight, counts, classes = self._weighed(X, np.asarray(labels), sample_weight)
        rng, n = check_generator(self.random_state), len(positive)
        rarer = int(min(positive.sum(), (~positive).sum()))
        count = solver.networks_for(n)
        seen, held = self._split(positive, rarer, count, rng)
        seeds = [int(rng.integers(2**31)) for _ in range(count)]
        chooses = _can_choose(positive, held)
        least = min(map(len, seen))
        # Where no epoch is chosen, as many steps as the rarer class can bear.
        worth = least if chooses else min(least, _BEARS * rarer)
        plan = solver.plan(least, usual=_BATCH, worth=worth)
        scaler, device = Standardiser.of(X, counts), as_device(self.device)
        take = rows_on(X, scaler.transform, device)
        runs = []
        for k, (rows, seed) in enumerate(zip(seen, seeds, strict=True)):
            network = self._new_network(seed, 1, X, scaler, counts, number=k).to(device)
            runs.append(self._run(network, take, positive, weight, rows, plan, seed))

        def judge(k: int, network: Any) -> float:
            scores = outputs((network,), X[held[k]], scaler, device)[:, 0]
            return _auc(positive, scores, weight, held[k])

        with self._training(runs[0].network, seeds[0], plan.batch_size, device):
            title = f"{count} network{'s' * (count > 1)} on {device}" if self.verbose else ""
            networks = train(
                runs, solver, plan, judge=judge if held else None, chooses=chooses, title=title
            )
        data = X, positive, weight, scaler, device
        networks, line = self._with_lines(networks, *data, seen, held)
        worth_of_networks = self._decided(networks, *data, held, classes)
        self.held_out_, self._offset, self._decision = worth_of_networks
        self.networks_, self._scaler, self.line_ = tuple(networks), scaler, line
        self.history_, self.classes_ = [run.history for run in runs], classes
        self._note_fit(n, 1, device)
        self.data_fingerprint_: str | None = data_fingerprint(
            X if hasattr(X, "tocsr") else np.ascontiguousarray(X), positive.astype(np.int8)
        )
        return self

    def _weighed(self, X: Any, labels: NDArray[Any], sample_weight: ArrayLike | None) -> Any:
        """Return rows that weigh something, which are positive, their weights, and the classes.

        There are two kinds of weights: with those of the classes, and, for the units of features,
        without. They are empty if all are equal.
        """
        classes = two_classes(labels)
        weight = example_weights(sample_weight, self.class_weight, labels)
        counts = np.ones(len(labels))
        if sample_weight is not None:
            counts = check_weights(sample_weight, len(labels), name="sample_weight")
        if len(weight) and not weight.all():
            keep = np.flatnonzero(weight)
            if not len(keep):
                raise ValueError(
                    "sample_weight is zero for all examples; give some a positive weight."
                )
            X, labels, weight, counts = X[keep], labels[keep], weight[keep], counts[keep]
        positive = labels == classes[1]
        weight = opposite_pair_weights(weight, positive, classes)
        if (weight == 1.0).all():
            return X, positive, np.empty(0), np.empty(0), classes
        return X, positive, weight, counts, classes

    def _split(
        self, positive: Mask, rarer: int, count: int, rng: np.random.Generator
    ) -> tuple[list[Places], list[Places]]:
        """Return the rows that each network sees, and those held out from it, if some are.

        Networks take turns with the folds, so that few examples of a class serve them all.
        """
        n = len(positive)
        if self.validation_fraction == "auto":
            share = _HELD if n < _MANY else _HELD_OF_MANY
        else:
            share = self._held_share(n)
        if rarer < _HELD_FROM:
            return [np.arange(n)] * count, []
        n_folds = min(max(round(1.0 / share), 2), rarer)
        fold = folds_of(positive, n_folds, rng)
        turns = [k % n_folds for k in range(count)]
        seen = [np.flatnonzero(fold != turn) for turn in turns]
        return seen, [np.flatnonzero(fold == turn) for turn in turns]

    def _run(
        self,
        network: Any,
        take: Callable[[Any], Any],
        positive: Mask,
        weight: Vector,
        seen: Places,
        plan: Plan,
        seed: int,
    ) -> Run:
        """Return the training of one network on balanced batches of the rows that it sees."""
        sampler = BalancedSampler(positive[seen], plan.batch_size, share=self.share, seed=seed)
        rows, loss, k = torch.from_numpy(seen), self._loss(), sampler.n_positive
        device = next(network.parameters()).device
        weighs = torch.from_numpy(weight.astype(np.float32)).to(device)
        labels = torch.from_numpy(positive).to(device)

        def all_pairs(scores: Any, batch: Any) -> Any:
            # The positives of a batch come first.
            scores, both = scores.reshape(-1), None
            if len(weighs):
                both = (weighs[batch[:k]], weighs[batch[k:]])
            return loss.between(scores[:k], scores[k:], both)

        def consecutive(scores: Any, batch: Any) -> Any:
            return loss(scores, labels[batch], weighs[batch] if len(weighs) else None)

        def dealt() -> Any:
            return rows[sampler.deal(plan.n_batches)].to(device)

        def shuffled() -> Iterator[Any]:
            for _ in range(plan.n_passes):
                yield from (rows[batch].to(device) for batch in sampler)

        if self.pairing == "batch":
            return Run(network, take, dealt, all_pairs)
        return Run(network, take, shuffled, consecutive)

    def _loss(self) -> AUCLoss:
        loss = AUCLoss(self.loss, pairing=self.pairing)
        loss.relative_weights = True
        return loss

    def _with_lines(
        self,
        networks: list[Any],
        X: Any,
        positive: Mask,
        weight: Vector,
        scaler: Standardiser,
        device: Any,
        seen: Sequence[Places],
        held: Sequence[Places],
    ) -> tuple[list[Any], float]:
        """Return networks with lines beside them, if held-out pairs ask for them, and the share."""
        described = as_network(self.network)
        if len(held) < 2 or not (isinstance(described, MLP) and described.line):
            return networks, 0.0
        factor = scaler.factor
        lines, scores = [], []
        for network, rows, left in zip(networks, seen, held, strict=True):
            model = AUCClassifier(decision=0.0, random_state=0)
            model.fit(X[rows], positive[rows], weight[rows] if len(weight) else None)
            deep = outputs((network,), X[left], scaler, device)[:, 0]
            line = model.decision_function(X[left])
            ratio = float(deep.std() / line.std()) if np.ptp(line) else 0.0
            # In the units of the network.
            units = np.divide(ratio, factor, out=np.zeros_like(factor), where=factor > 0.0)
            lines.append(units * model.coef_[0])
            scores.append((deep, ratio * line))

        def mixed(share: float) -> list[Vector]:
            return [deep + share / (1.0 - share) * line for deep, line in scores]

        def worth(share: float) -> float:
            both = zip(mixed(share), held, strict=True)
            return float(np.mean([_auc(positive, each, weight, left) for each, left in both]))

        aucs = [worth(share) for share in _SHARES]
        share = _SHARES[int(np.argmax(aucs))]
        pairs = zip(held, mixed(share), mixed(0.0), strict=True)
        weighs = weight if len(weight) else np.ones(len(positive))
        errors = [weighted_error(positive[left], weighs[left], a, b) for left, a, b in pairs]
        # Networks beyond the number of folds are judged by the same examples again.
        n_folds = len({int(left[0]) for left in held})
        if not max(aucs) - aucs[0] > float(np.sqrt(np.mean(np.square(errors)) / n_folds)):
            return networks, 0.0
        times = share / (1.0 - share)
        both = zip(networks, lines, strict=True)
        return [Beside(network, times * line) for network, line in both], share

    def _decided(
        self,
        networks: list[Any],
        X: Any,
        positive: Mask,
        weight: Vector,
        scaler: Standardiser,
        device: Any,
        held: Sequence[Places],
        classes: NDArray[Any],
    ) -> tuple[float | None, float, Decision]:
        """Return AUC, offset, and threshold with calibration, from scores of held-out examples."""
        weighs = weight if len(weight) else np.ones(len(positive))
        judged = held or [np.arange(len(positive))] * len(networks)
        aucs, offsets, parts = [], [], []
        for network, rows in zip(networks, judged, strict=True):
            scores = outputs((network,), X[rows], scaler, device)[:, 0]
            aucs.append(_auc(positive, scores, weight, rows))
            # Pairs fix a score up to a constant: each network's is put between its classes.
            means = [
                np.average(scores[kind], weights=weighs[rows][kind])
                for kind in (positive[rows], ~positive[rows])
            ]
            offsets.append(0.5 * float(sum(means)))
            parts.append((scores - offsets[-1], positive[rows], weighs[rows]))
        scores, drawn, share = (np.concatenate(part) for part in zip(*parts, strict=True))
        # The shares of the classes in the data, which those that were held out need not have.
        for kind in (True, False):
            here = drawn == kind
            share[here] *= weighs[positive == kind].sum() / share[here].sum()
        share *= len(scores) / share.sum()
        importance = (1.0, 1.0)
        if isinstance(self.class_weight, Mapping):
            importance = tuple(  # type: ignore[assignment]
                float(self.class_weight.get(label, 1.0)) for label in classes.tolist()
            )
        decision = as_rule(self.decision).decide(scores, drawn, share, importance)
        return float(np.mean(aucs)) if held else None, float(np.mean(offsets)), decision

    @property
    def threshold_(self) -> float:
        """The cut on scores."""
        check_is_fitted(self, "networks_")
        return self._decision[0]

    def decision_function(self, X: Any) -> Vector:
        """Return scores minus the threshold: positive where `predict` says positive."""
        scores = self._outputs(X)[:, 0]
        return np.asarray(scores - self._offset - self.threshold_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels of the rows of `X`."""
        decision = self.decision_function(X)
        return np.asarray(self.classes_[(decision > 0).astype(np.intp)])

    def predict_proba(self, X: Any) -> Vector:
        """Return calibrated probabilities of ``classes_``; they increase with the score."""
        scores = self._outputs(X)[:, 0]
        positive = self._decision[1](scores - self._offset)
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy)."""
        check_is_fitted(self, "networks_")
        positive = np.asarray(y) == self.classes_[1]
        return roc_auc(positive, self.decision_function(X), sample_weight=sample_weight)

    def _pack(self) -> dict[str, NDArray[Any]]:
        numbers = {"offset": np.array(self._offset), "line": np.array(self.line_)}
        return {**super()._pack(), **numbers, **pack_decision(self._decision)}

    def _unpack(self, record: ModelRecord) -> None:
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError("a NeuralAUCClassifier has two classes.")
        if int(record.arrays["n_outputs"]) != 1:
            raise ModelFileError("a NeuralAUCClassifier has one score.")
        super()._unpack(record)
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        self.line_, self._offset = float(record.arrays["line"]), float(record.arrays["offset"])
        self._decision = unpack_decision(record.arrays)


def _can_choose(positive: Mask, held: Sequence[Places]) -> bool:
    """Return whether enough examples of each class are held out to choose an epoch by them."""
    out = np.unique(np.concatenate(held)) if held else np.empty(0, dtype=np.int64)
    return bool(min(positive[out].sum(), (~positive[out]).sum()) >= _CHOOSES_FROM)


def _auc(positive: Mask, scores: Vector, weight: Vector, rows: Places) -> float:
    weighs = weight[rows] if len(weight) else None
    return roc_auc(positive[rows], scores, sample_weight=weighs)


register_storable(NeuralAUCClassifier)
