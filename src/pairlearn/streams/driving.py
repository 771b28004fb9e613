# SPDX-License-Identifier: BSD-3-Clause
"""How an online learner drives each estimator: score, learn, start anew, save and restore.

A `Driver` knows the inside of one estimator's stream. The table at the end says which estimator
has which; a further one is made known with `register_driver`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pairlearn.solvers.pairwise_sgd import Stream

__all__ = ["AUCDriver", "Driver", "driver_of", "register_driver", "restore_stream", "stream_state"]


def stream_state(stream: Stream) -> dict[str, Any]:
    """Return everything that the next step of a solver's stream depends on, as plain values.

    Examples
    --------
    >>> from pairlearn import Hinge, LinearScore, PairwiseSGD, Problem
    >>> stream = PairwiseSGD().start(Problem(LinearScore(), Hinge()), 1, rng=0)
    >>> state = stream_state(stream.learn_one([1.0], 1.0))
    >>> other = PairwiseSGD().start(Problem(LinearScore(), Hinge()), 1, rng=0)
    >>> restore_stream(other, state)
    >>> other.learn_one([0.0], -1.0).w
    array([0.1])
    """
    saved = stream.save()
    source = saved["source"]
    return saved | {"source": None if source is None else _attributes(source)}


def parts_of(stream: Stream) -> dict[str, Any]:
    """Return the parts that a stream was started with, as plain values, but for the pairing."""
    from pairlearn.models.parts import encode

    parts = stream._descent.parts
    return {
        "score": encode(parts.problem.score, "score"),
        "loss": encode(parts.problem.loss, "loss"),
        "schedule": encode(parts.schedule, "schedule"),
        "domain": encode(parts.domain, "domain"),
        "averaging": encode(parts.averaging, "averaging"),
    }


def start_like(parts: dict[str, Any], n_features: int, pairing: Any, rng: Any) -> Stream:
    """Start a stream with the parts that `parts_of` wrote down."""
    from pairlearn.models.parts import decode
    from pairlearn.problem import Problem
    from pairlearn.solvers.pairwise_sgd import PairwiseSGD

    found = {name: decode(value, name) for name, value in parts.items()}
    solver = PairwiseSGD(pairing, found["schedule"], found["domain"], found["averaging"])
    return solver.start(Problem(found["score"], found["loss"]), n_features, rng=rng)


def restore_stream(stream: Stream, state: dict[str, Any]) -> None:
    """Put a stream that was started with the same parts into a saved state."""
    source = copy.deepcopy(stream._source)
    if source is not None:
        _set_attributes(source, state["source"])
    stream.restore(state | {"source": source})


def _is_part(value: Any) -> bool:
    return type(value).__module__.startswith("pairlearn.pairings")


def _attributes(part: Any) -> dict[str, Any]:
    """Return what a source of pairs and the parts of it hold."""
    return {
        name: _attributes(value) if _is_part(value) else value for name, value in vars(part).items()
    }


def _set_attributes(part: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        present = getattr(part, name)
        if _is_part(present):
            _set_attributes(present, value)
        else:
            setattr(part, name, value)


class Driver(ABC):
    """Drives one kind of estimator.

    Parameters
    ----------
    model : estimator
        The estimator; the driver changes it.
    classes : ndarray or None
        Both labels, for classifiers.
    """

    #: Whether the AUC of the scores means something.
    ranks_classes: ClassVar[bool] = False
    #: Whether the estimator can start a stream from given coefficients.
    can_restart: ClassVar[bool] = False

    def __init__(self, model: Any, classes: NDArray[Any] | None = None) -> None:
        self.model = model
        self.classes = classes

    @property
    def started(self) -> bool:
        """Whether anything has been learned."""
        return hasattr(self.model, "coef_")

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return scores up to a constant; zeros before the first example."""
        if not self.started:
            return np.zeros(X.shape[0])
        return np.asarray(X @ np.ravel(self.model.coef_), dtype=np.float64)

    @abstractmethod
    def learn(self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None) -> None:
        """Learn a chunk; a chunk that fails leaves the model as it was."""

    def score_and_learn(
        self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None, *, finite: bool = False
    ) -> NDArray[np.float64] | None:
        """Learn a chunk; return the scores that it had before, where their AUC means something.

        With `finite` X is known to hold neither NaN nor infinity.
        """
        scores = self.scores(X) if self.ranks_classes else None
        self.learn(X, y, qid)
        return scores

    def restart(self) -> None:
        """Forget the step counter and the average; go on from the present coefficients."""
        raise TypeError(f"{type(self.model).__name__} cannot start from given coefficients.")

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the state of the stream, for `pairlearn.streams.state.pack`."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Put the model into a state returned by `state`."""


class AUCDriver(Driver):
    """Drives an `AUCClassifier`."""

    ranks_classes = True
    can_restart = True
    _FIELDS = ("_steps", "_averages", "_progress", "_pairs", "_scores", "_positive", "_weight",
               "_best")  # fmt: skip

    def learn(self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None) -> None:
        """Learn a chunk by `partial_fit`."""
        self.score_and_learn(X, y, qid)

    def score_and_learn(
        self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None, *, finite: bool = False
    ) -> NDArray[np.float64] | None:
        """Learn a chunk by `partial_fit`, which scores it as well to choose threshold and step."""
        first = not hasattr(self.model, "classes_")
        return self.model._learn_next(  # type: ignore[no-any-return]
            X, y, self.classes if first else None, finite=finite
        )

    def restart(self) -> None:
        """Start a new stream (and a new choice of step size) from the present average."""
        self.model._stream = None

    def state(self) -> dict[str, Any]:
        """Return the streams of all step sizes under comparison."""
        learner = getattr(self.model, "_stream", None)
        if learner is None:
            return {}
        return {
            "n_features": self.model.n_features_in_,
            "radius": learner.radius,
            "dtype": np.dtype(learner._dtype).name,
            "streams": [stream_state(stream) for stream in learner._streams],
            **{name: getattr(learner, name) for name in self._FIELDS},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Build the streams anew from the parameters and put them into their state."""
        from pairlearn.solvers.rows import DenseRows

        if not state:
            return
        model = self.model
        model.n_features_in_ = int(state["n_features"])
        like = DenseRows(np.zeros((1, model.n_features_in_), dtype=state["dtype"]))
        learner = model._start_stream(model._problem(), like, None)
        for name in self._FIELDS:
            setattr(learner, name, state[name])
        learner.radius = state["radius"]
        learner.start_streams()
        for stream, saved in zip(learner._streams, state["streams"], strict=True):
            restore_stream(stream, saved)
        model._adopt(learner, np.unique(np.asarray(self.classes)))


_DRIVERS: dict[str, type[Driver]] = {"AUCClassifier": AUCDriver}
#: The library's other estimators, whose drivers are imported when they are asked for.
_OTHERS = ("EntropyRegressor", "MetricLearner", "PairwiseRanker")


def register_driver(estimator: type, driver: type[Driver]) -> None:
    """Let online learners drive estimators of another class.

    Parameters
    ----------
    estimator : type
        The estimator's class.
    driver : type
        A subclass of `Driver`.
    """
    _DRIVERS[estimator.__name__] = driver


def driver_of(model: Any, classes: NDArray[Any] | None = None) -> Driver:
    """Return the driver of an estimator.

    Examples
    --------
    >>> driver_of(3)
    Traceback (most recent call last):
        ...
    TypeError: an online learner cannot drive int; known are AUCClassifier, EntropyRegressor,...
    """
    name = type(model).__name__
    if name in _OTHERS:
        import pairlearn.streams.drivers  # noqa: F401
    if name not in _DRIVERS:
        known = ", ".join(sorted({*_DRIVERS, *_OTHERS}))
        raise TypeError(
            f"an online learner cannot drive {name}; known are {known} "
            "(register_driver adds others)."
        )
    return _DRIVERS[name](model, classes)
