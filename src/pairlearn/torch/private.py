# SPDX-License-Identifier: BSD-3-Clause
"""Networks that maximise AUC under differential privacy.

Noise on the gradients of clipped pairs, as for linear scores: the plan of meetings, the sensitivity
and the accounting are those of `pairlearn.privacy.mechanisms.noisy_sgd` (lemma 22). Only the
gradient of a pair comes from a network here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.private.auc import public_classes
from pairlearn.estimators.private.base import PrivateMixin
from pairlearn.estimators.shared.examples import check_columns, column_names
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.bounds import PrivateBounds
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting, check_constant
from pairlearn.privacy.mechanisms.noisy_sgd import ByMeetings, PairSum, check_margin_loss
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import rows_that_meet
from pairlearn.privacy.records import read_labels
from pairlearn.register import Register
from pairlearn.torch.networks import (
    MLP,
    as_network,
    blank_network,
    check_network,
    make_network,
    restore_vector,
    rows_of_a_block,
    state_vector,
)
from pairlearn.torch.training import own_randomness
from pairlearn.typing import Vector

#: Gradients of so many numbers are held at once (256 MiB).
_NUMBERS = 1 << 25
#: The least length of a difference of gradients.
_LEAST_LENGTH = 1e-150


def _layers(*parts: str) -> tuple[Any, ...]:
    """Return the layers of torch whose name has one of these parts."""
    found = (name for name in dir(torch.nn) if any(part in name for part in parts))
    return tuple(getattr(torch.nn, name) for name in found)


#: Layers whose output for a row depends on chance, and on other rows.
_BY_CHANCE, _BY_OTHERS = _layers("Dropout"), _layers("BatchNorm", "InstanceNorm")


def _checked(given: Any, n_features: int) -> Any:
    """Return a new network in double precision; refuse what the proof does not cover."""
    network = make_network(given, n_features, 1)
    for name, layer in network.named_modules():
        by_chance = isinstance(layer, _BY_CHANCE) and layer.p > 0.0
        if by_chance or isinstance(layer, _BY_OTHERS):
            raise ValueError(
                f"the network has the layer {name or 'itself'}, {layer}: private gradients need a "
                "score that depends on one row, without chance. Leave it out; LayerNorm and "
                "GroupNorm are allowed."
            )
    check_network(network, n_features, 1)
    if next(network.buffers(), None) is not None:
        raise ValueError(
            "the network has buffers, which are not learned and may keep something of the data; "
            "make them constants, or parameters."
        )
    _try_gradients(network.double().eval(), n_features)
    return network


def _try_gradients(network: Any, n_features: int) -> None:
    """Refuse a network whose gradients cannot be taken row by row, before anything is paid."""
    rows = torch.linspace(-1.0, 1.0, 2 * n_features, dtype=torch.float64).reshape(2, -1)
    cure = "Private gradients need a score that depends on one row, without chance, item() and if."
    try:
        alone = _PairGradients(network).scores(rows)
    except RuntimeError as error:
        said = str(error).strip().splitlines()[0]
        raise ValueError(f"the network has no gradient row by row ({said}). {cure}") from error
    with torch.no_grad():
        together = network(rows).reshape(-1)
    if not torch.allclose(alone, together, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise ValueError(
            f"the network gives two rows the scores {together.tolist()} together, and "
            f"{alone.tolist()} one by one. {cure}"
        )


def _active(labels: Vector, cuts: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the two places of each pair of a cell with different labels, the larger first."""
    left, right = [], []
    for begin, end in pairwise(cuts):
        y = labels[begin:end]
        high, low = np.nonzero(y[:, None] > y[None, :])
        left.append(begin + high)
        right.append(begin + low)
    return torch.from_numpy(np.concatenate(left)), torch.from_numpy(np.concatenate(right))


class _PairGradients:
    """The gradients of the scores of a network, and sums over clipped pairs."""

    def __init__(self, network: Any) -> None:
        self.network = network.eval()
        learned = {k: v.detach() for k, v in network.named_parameters() if v.requires_grad}
        self._fixed = {k: v.detach() for k, v in network.named_parameters() if k not in learned}
        self._shapes = {name: value.shape for name, value in learned.items()}
        self.start = np.concatenate([v.numpy().ravel() for v in learned.values()])
        self.size = len(self.start)

        def score(values: Any, row: Any) -> Any:
            given = self._fixed | values
            told = torch.func.functional_call(self.network, given, (row[None, :],))
            return told.reshape(()), told.reshape(())

        self._gradients = torch.func.vmap(torch.func.grad(score, has_aux=True), in_dims=(None, 0))

    def named(self, w: Vector) -> dict[str, Any]:
        """Return the parameters of a vector."""
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        parts = torch.split(torch.from_numpy(np.array(w)), sizes)
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def scores(self, rows: Any) -> Any:
        """Return the scores of the first weights, one by one."""
        return self._gradients(self.named(self.start), rows)[1]

    def pair_sum(self, Z: Vector, labels: Vector, loss: PairLoss, clip: float) -> PairSum:
        """Return the sums of clipped pair gradients, for `Meetings.descend`.

        A pair's gradient is l'(f(x) - f(x')) (grad f(x) - grad f(x')), x of the larger label. Some
        cells at a time: the gradients of their rows, and then those of their pairs.
        """

        def pair_sum(rows: NDArray[np.int64], cuts: NDArray[np.int64], w: Vector) -> Vector:
            values, total = self.named(w), torch.zeros(self.size, dtype=torch.float64)
            largest = int(np.diff(cuts).max())
            n_cells = max(1, _NUMBERS // (self.size * largest * largest))
            for first in range(0, len(cuts) - 1, n_cells):
                some = cuts[first : first + n_cells + 1]
                places = rows[some[0] : some[-1]]
                left, right = _active(labels[places], some - some[0])
                block = torch.from_numpy(np.ascontiguousarray(Z[places]))
                found, scores = self._gradients(values, block)
                each = [found[name].reshape(len(places), -1) for name in self._shapes]
                apart = torch.cat(each, dim=1)[left] - torch.cat(each, dim=1)[right]
                slopes = loss.slopes((scores[left] - scores[right]).numpy())
                total += self._clipped(apart, torch.from_numpy(slopes), clip)
            return np.asarray(total.numpy())

        return pair_sum

    def _clipped(self, differences: Any, slopes: Any, clip: float) -> Any:
        """Return the sum of slopes times differences, each clipped; what is not finite is 0."""
        # Squares of short differences underflow, and a large slope would make them long.
        units = torch.clamp(torch.linalg.vector_norm(differences, dim=1), min=_LEAST_LENGTH)
        lengths = slopes.abs() * units
        finite = torch.isfinite(lengths)
        factors = torch.where(finite, slopes * (clip / torch.clamp(lengths, min=clip)), 0.0)
        differences = torch.where(finite[:, None], differences, 0.0)
        return factors @ differences


NETWORK_MECHANISMS: Register[Mechanism] = Register("network mechanism", Mechanism, learns="network")


@NETWORK_MECHANISMS.add("noisy_network_sgd")
@dataclass(frozen=True)
class NoisyNetworkSGD(ByMeetings):
    r"""Passes of SGD over clipped pairs with noise on each gradient, for the scores of a network.

    As `pairlearn.privacy.NoisySGD`, with the gradient of a pair in all weights of a network clipped
    to length C. The first weights are drawn from the noise source and do not depend on the data.
    Weights that a module brings with it must be public.

    *Sensitivity.* 2 k C for each pass, or k C if one example is added or removed (lemma 22). The
    network sees one row at a time, so an example enters its own gradient only; layers that mix
    rows, such as BatchNorm, are refused. Gradients are computed on the CPU, where the same rows
    give the same gradients to the last bit.

    *Step size.* It does not depend on the data, and is reduced so that the noise of all steps
    together has about the length `noise_limit` in the space of weights.

    Parameters
    ----------
    network : str, MLP, module or callable, default=MLP((16,), activation="relu")
        The network; a function makes one from the number of features.
    loss : str or PairLoss, default="logistic"
        A name of `pairlearn.losses.LOSSES`, or a loss that acts on opposite labels.
    n_passes, n_batches, n_partners : int, defaults 30, 1 and 8
        As for `pairlearn.privacy.NoisySGD`.
    clip : float, default=1.0
        Largest length C of the gradient of a pair.
    step : float, default=8.0
        Largest step size, in units of 1/C.
    noise_limit : float, default=6.0
        Bound on the length of the noise of all steps together.

    Examples
    --------
    >>> NoisyNetworkSGD(n_passes=5).name
    'noisy_network_sgd'
    """

    network: Any = field(default_factory=lambda: MLP((16,), activation="relu"))
    loss: str | PairLoss = "logistic"
    n_passes: int = 30
    n_batches: int = 1
    n_partners: int = 8
    clip: float = 1.0
    step: float = 8.0
    noise_limit: float = 6.0

    name = "noisy_network_sgd"
    learns = "network"
    offers_persons = True

    def __post_init__(self) -> None:
        self._meetings()
        network = as_network(self.network)
        if isinstance(network, MLP) and network.needs_examples:
            raise ValueError(
                f"MLP(pieces={network.pieces!r}) puts knots where the examples lie, which no noise "
                "protects; leave pieces out."
            )
        for name in ("clip", "step", "noise_limit"):
            check_constant(name, getattr(self, name))
        check_margin_loss(self.loss)

    def check(self, setting: PublicSetting) -> None:
        """Refuse a setting that the proof does not cover; see `Mechanism.check`."""
        super().check(setting)
        with own_randomness(0):
            _checked(self.network, setting.n_features)

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> PrivateFit:  # fmt: skip
        """Learn privately; `direction` of the result holds all weights of the network.

        `persons` holds the person of each row, numbered from 0; one row of each meets in a pass.
        """
        self.check(setting)
        plan = self._meetings()
        with own_randomness(int(noise.draw_indices(2**31, 1)[0])):
            network = _checked(self.network, setting.n_features)
        pairs = _PairGradients(network)
        loud = plan.loudness(self.clip, setting) * math.sqrt(pairs.size)
        step_size = min(self.step / self.clip, self.noise_limit / loud)
        rows, labels, drawing = rows_that_meet(Z, signs, setting.n_examples, persons)
        iterates, releases = plan.descend(
            pairs.pair_sum(rows, labels, LOSSES.make(self.loss), self.clip),
            lambda w, mean: w - step_size * mean,
            pairs.start, clip=self.clip, setting=setting, noise=noise, persons=drawing,
        )  # fmt: skip
        network.load_state_dict(network.state_dict() | pairs.named(iterates[-1]))
        return PrivateFit(state_vector(network), tuple(releases))


class PrivateNeuralAUCClassifier(
    PrivateMixin,
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""AUC maximisation by a small network with (epsilon, delta)-differential privacy.

    Private SGD over pairs by noise on gradients (`NoisyNetworkSGD`). All public facts are
    arguments, as for `PrivateAUCClassifier`: values outside `bounds` are clipped, NaN becomes the
    middle of the bounds, and a label other than the positive one counts as negative. Noise grows
    with the root of the number of weights, so small networks and many examples pay; with few
    examples `PrivateAUCClassifier` is better.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy parameter.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default.
    bounds : tuple (lower, upper), PrivateBounds or "private"
        Public bounds of the features; see `PrivateAUCClassifier`. Required.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public.
    mechanism : NoisyNetworkSGD, optional
        The network, its loss and the constants of training; ``NoisyNetworkSGD()`` by default.
    neighbours : {"replace", "add_remove"}, default="replace"
        Whether data sets are neighbours if one example is replaced, or added or removed.
    n_examples : int, optional
        The public number of examples; see `PrivateAUCClassifier`.
    random_state : int, optional
        Makes noise and first weights reproducible: for simulations only. The certificate then says
        that the model is not private, and a warning is given.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; it records the fit before the data are read.

    Attributes
    ----------
    network_ : torch.nn.Module
        The network, in double precision, of features in standard units.
    classes_ : ndarray of shape (2,)
        The public labels.
    bounds_ : ndarray of shape (2, d)
        Lower and upper bounds to which examples are clipped, public or released.
    units_ : ndarray of shape (2, d)
        Centre and unit of each feature; the network sees (x - centre) / unit.
    certificate_ : Certificate
        The guarantee and the facts behind it.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had any.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Scores rank; there is no `predict`, since a threshold found on private examples would cost more
    privacy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = PrivateNeuralAUCClassifier(epsilon=4.0, bounds=(-1, 1)).fit(X, y)
    >>> from pairlearn import roc_auc
    >>> roc_auc(y, model.decision_function(X)) > 0.8
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | PrivateBounds | str | None = None,
        levels: ArrayLike | None = None,
        labels: tuple[Any, Any] = (0, 1),
        mechanism: NoisyNetworkSGD | None = None,
        neighbours: str = "replace",
        n_examples: int | None = None,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.levels = epsilon, delta, bounds, levels
        self.labels, self.mechanism, self.neighbours = labels, mechanism, neighbours
        self.n_examples, self.random_state, self.ledger = n_examples, random_state, ledger

    # The mechanism has the shape of the network.
    _not_stored = tuple(name for name in PrivateMixin._not_stored if name != "mechanism")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "weights": ArraySpec(("n_weights",)),
        "bounds": ArraySpec((2, "n_features")),
        "units": ArraySpec((2, "n_features")),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> PrivateNeuralAUCClassifier:
        """Learn from examples.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (n,)
            Labels; any label but the positive one counts as negative.
        groups : array-like of shape (n,) or (n, k), optional
            The person of each row, as for `PrivateAUCClassifier.fit`. The guarantee then protects a
            person with all rows: each person has one place, for which a row is drawn anew for each
            pass, and n is the number of persons.

        Returns
        -------
        PrivateNeuralAUCClassifier
            The fitted estimator.
        """
        if len(tuple(self.labels)) != 2:
            raise ValueError(f"labels must be (negative, positive), got {self.labels!r}.")
        rows, mechanism = self._table(X), self._mechanism()
        signs = np.where(read_labels(y, self.labels, len(rows)) == 1, 1.0, -1.0)
        facts = {
            "labels": f"negative {self.labels[0]!r}, positive {self.labels[1]!r}",
            "network": "its shape, and the law of its first weights",
        }
        fit, setting, fitted = self._learn(mechanism, rows, signs, groups, facts)
        self._publish(
            column_names(X), classes_=public_classes(self.labels),
            units_=np.stack([setting.middle, setting.unit]),
            network_=self._network(mechanism, fit.direction, setting.n_features), **fitted,
        )  # fmt: skip
        return self

    def _mechanism(self) -> NoisyNetworkSGD:
        chosen = NoisyNetworkSGD() if self.mechanism is None else self.mechanism
        if not isinstance(chosen, NoisyNetworkSGD):
            raise ValueError(
                f"mechanism must be a NoisyNetworkSGD, got {chosen!r}; linear scores have "
                "PrivateAUCClassifier."
            )
        return chosen

    def _network(self, mechanism: NoisyNetworkSGD, weights: Vector, d: int) -> Any:
        network = blank_network(mechanism.network, d, 1).double()
        restore_vector(network, weights)
        return network.eval()

    def decision_function(self, X: ArrayLike) -> Vector:
        """Return the score of each row of `X`, clipped as in `fit`; positives score higher."""
        check_is_fitted(self, "network_")
        check_columns(self, X)
        centre, unit = self.units_
        rows = (self._within_bounds(X) - centre) / unit
        size = rows_of_a_block(rows.shape[1])
        with torch.no_grad():
            found = [
                self.network_(torch.from_numpy(rows[begin : begin + size])).reshape(-1).numpy()
                for begin in range(0, len(rows), size)
            ]
        return np.concatenate(found) if found else np.empty(0)

    def _pack(self) -> dict[str, NDArray[Any]]:
        weights = state_vector(self.network_)
        return {"weights": weights, "bounds": self.bounds_, "units": self.units_}

    def _unpack(self, record: ModelRecord) -> None:
        weights, d = record.arrays["weights"], record.arrays["bounds"].shape[1]
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError(f"{type(self).__name__} has two classes; fit and save it again.")
        mechanism = self._mechanism()
        network = as_network(mechanism.network)
        # Before anything is allocated: a file may name layers of any width.
        if isinstance(network, MLP) and network.size(d, 1) != len(weights):
            raise ModelFileError(
                f"it has {len(weights)} weights, a network of this shape {network.size(d, 1)}."
            )
        super()._unpack(record)
        self.network_ = self._network(mechanism, self.__dict__.pop("weights_"), d)
        self.n_features_in_ = d


register_storable(PrivateNeuralAUCClassifier)
