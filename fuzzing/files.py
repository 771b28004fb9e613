# SPDX-License-Identifier: BSD-3-Clause
"""Model files and checkpoints: damaged ones, and such as somebody has written on purpose.

The latter have a right checksum over values, types and shapes that the library would not write.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzing.campaign import Target
from fuzzing.learners import (
    LEARNERS,
    NAMED,
    learner_and_reader,
    named_learner,
    spoken,
    write_rows,
)
from fuzzing.mutations import damage_array, damage_bytes, damage_tree
from pairlearn.models import FORMAT_VERSION, ModelFileError, ModelRecord, spec_of
from pairlearn.models.file import METADATA_KEY, _digest, _json, parse_model
from pairlearn.validation import DivergenceError

__all__ = ["Checkpoints", "ModelFiles"]

_CODES = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}
N, D = 60, 3
#: Rows of a file, rows of a chunk, and the chunk after which a learner is stopped. Late, everything
#: that a learner collects or tries at first is over.
STAGES = {"": (N, 7, 3), "late ": (4600, 2200, 2)}


def sample(seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a few examples of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    return X, (X[:, 0] + rng.normal(size=N) > 0).astype(np.int64)


def write(
    description: Any, arrays: dict[str, NDArray[Any]], tensors: dict[str, Any] | None = None
) -> bytes:
    """Return a file with a right checksum, whatever is in it."""
    table: dict[str, Any] = {}
    body = b""
    for name, array in arrays.items():
        data = array.tobytes()
        place = [len(body), len(body) + len(data)]
        table[name] = {"dtype": _CODES[array.dtype.str], "shape": list(array.shape),
                       "data_offsets": place}  # fmt: skip
        body += data
    table = table if tensors is None else tensors
    if isinstance(description, dict):
        description["sha256"] = _digest(description, table, body)
    header = _json({"__metadata__": {METADATA_KEY: _json(description)}, **table}).encode()
    return len(header).to_bytes(8, "little") + header + body


def description_of(record: ModelRecord) -> dict[str, Any]:
    """Return what a file says of a record beside its arrays."""
    return {
        "format_version": FORMAT_VERSION,
        "library_version": "1",
        "estimator": record.estimator,
        "parameters": dict(record.parameters),
        "classes": None if record.classes is None else list(record.classes),
        "feature_names": None if record.feature_names is None else list(record.feature_names),
        "provenance": dict(record.provenance),
        "certificate": None if record.certificate is None else dict(record.certificate),
        "sha256": "",
    }


def damaged_file(rng: Random, record: ModelRecord) -> bytes:
    """Return the file of a record with flaws in its bytes, its description or its arrays."""
    description = description_of(record)
    arrays = {name: array.copy() for name, array in record.arrays.items()}
    kind = rng.random()
    try:
        if kind < 0.2:
            return damage_bytes(rng, write(description, arrays))
        if kind < 0.6:
            parts = ("parameters", "provenance", "certificate", "classes", "feature_names")
            for part in rng.sample(parts, 1 + (rng.random() < 0.2)):
                description[part] = damage_tree(rng, description[part])
            if rng.random() < 0.1:
                description = damage_tree(rng, description)
        if kind > 0.5:
            for name in rng.sample(sorted(arrays), min(len(arrays), 1 + (rng.random() < 0.3))):
                arrays[name] = damage_array(rng, arrays[name])
            if rng.random() < 0.1:
                arrays.pop(rng.choice(sorted(arrays)))
        return write(description, arrays)
    except (ValueError, TypeError, OverflowError):
        return write(description_of(record), arrays)  # what JSON cannot say at all


class ModelFiles(Target):
    """Files of every estimator; what loads must predict, and can be saved again."""

    name = "model"
    weight = 6
    expected = (ModelFileError,)

    def prepare(self, folder: Path) -> None:
        from pairlearn import (
            SGD,
            AUCClassifier,
            EntropyRegressor,
            MetricLearner,
            PairwiseRanker,
            PrivateAUCClassifier,
            Threshold,
        )
        from pairlearn.estimators import PrivateMetricLearner

        X, y = sample()
        private: Any = {"epsilon": 1.0, "delta": 1e-5, "bounds": (-5.0, 5.0), "random_state": 0}
        texts = np.array(["no", "yes"])[y]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [
                AUCClassifier(random_state=0).fit(X, texts),
                AUCClassifier(
                    solver="sgd", decision=Threshold(calibration="isotonic"), random_state=0
                ).fit(X, y),
                AUCClassifier(solver=SGD(step_size=0.1, radius=3.0), random_state=0).partial_fit(
                    X, y, classes=[0, 1]
                ),
                PairwiseRanker(random_state=0).fit(X, y),
                EntropyRegressor(random_state=0).fit(X, X[:, 0] + 0.1 * y),
                MetricLearner(random_state=0).fit(X, y),
                PrivateAUCClassifier(**private).fit(X, y),
                PrivateMetricLearner(**private).fit(X, y),
            ]
        # The file of a private model takes nothing that was counted.
        self._records = [
            model.to_record({} if hasattr(model, "certificate_") else {"rows_seen": N})
            for model in models
        ]
        self._X = X[:5]

    def make(self, rng: Random) -> bytes:
        return damaged_file(rng, rng.choice(self._records))

    def use(self, given: bytes, folder: Path) -> None:
        record = parse_model(given)
        model = spec_of(record.estimator).build(record)
        width = model.n_features_in_
        X = np.resize(self._X, (5, width))
        large = any(a.size and np.abs(a).max() >= 1e150 for a in record.arrays.values())
        try:
            self._ask(model, X)
        except ValueError as error:
            if not large or "too large for a number" not in str(error):
                raise
        model.to_record()

    def _ask(self, model: Any, X: Any) -> None:
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # rows without names are meant to fit
        if hasattr(model, "transform"):
            assert model.transform(X).shape[0] == 5
            pairs = np.stack([X, X[::-1]], axis=1)
            distances = model.pair_distance(pairs)
            assert (distances >= 0).all(), "a distance is negative or NaN"
        else:
            found = model.predict(X)
            assert found.shape == (5,)
        if hasattr(model, "decision_function"):
            assert np.isfinite(model.decision_function(X)).all(), "a score is not finite"
        if hasattr(model, "predict_proba"):
            probability = model.predict_proba(X)
            assert ((probability >= 0) & (probability <= 1)).all(), "no probability"


class Checkpoints(Target):
    """Checkpoints of every kind of stream; a learner goes on from them or says why not."""

    name = "checkpoint"

    def __init__(self) -> None:
        from pairlearn.streams import CheckpointError, ReadError

        self.expected = (CheckpointError, ReadError, DivergenceError)
        self.told = (UserWarning,)  # what the library says to a person

    def prepare(self, folder: Path) -> None:
        self._records = [
            (f"{stage}{kind}", self._stopped(stage, kind, folder))
            for stage in STAGES
            for kind in LEARNERS
        ]
        self._records += [(f"names, {kind}", self._conversation(kind, folder)) for kind in NAMED]

    def _stopped(self, stage: str, kind: str, folder: Path) -> ModelRecord:
        """Return the checkpoint of a learner that was stopped before the end of its file."""
        path = folder / "sound.ckpt"
        path.unlink(missing_ok=True)
        learner, reader = _at_work(stage, kind, folder)
        _, chunk_rows, last = STAGES[stage]
        seen = 0

        def stop(learner: Any, chunk: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == last:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            learner.fit_stream(reader, checkpoint=path, every=chunk_rows, progress=stop)
        return parse_model(path.read_bytes(), allow_unregistered=True)

    def _conversation(self, kind: str, folder: Path) -> ModelRecord:
        from pairlearn.cli.stream import _save

        talk = _talk(kind)
        for line in spoken(kind, 60):
            talk.answer(line)
            talk.n_lines += 1
        talk.answer('{"id": "w", "x": {"a": 1, "c": 2}}')
        _save(talk, str(folder / "talk.ckpt"))
        return parse_model((folder / "talk.ckpt").read_bytes(), allow_unregistered=True)

    def make(self, rng: Random) -> tuple[str, bytes]:
        kind, record = rng.choice(self._records)
        return kind, damaged_file(rng, record)

    def use(self, given: tuple[str, bytes], folder: Path) -> None:
        from pairlearn.cli.stream import _resume

        kind, data = given
        path = folder / "a.ckpt"
        path.with_name("a.ckpt.previous").unlink(missing_ok=True)
        path.write_bytes(data)
        if kind.startswith("names, "):
            talk = _talk(kind.removeprefix("names, "))
            with contextlib.redirect_stderr(io.StringIO()):
                _resume(talk, str(path), False)
            for k in range(40):
                talk.answer(f'{{"id": {k}, "x": {{"a": {k % 5}, "d": 1}}, "y": {k % 2}}}')
            talk.facts()
            talk.learner.to_model((0, 1)).to_record()
            return
        stage = "late " if kind.startswith("late ") else ""
        learner, reader = _at_work(stage, kind.removeprefix(stage), folder)
        try:
            learner.fit_stream(reader, checkpoint=path)
        except ValueError as error:
            if "the model has diverged" not in str(error):
                raise
            raise DivergenceError(str(error)) from None  # numbers near the largest, say
        learner.model.to_record(learner.provenance())


def _at_work(stage: str, kind: str, folder: Path) -> tuple[Any, Any]:
    """Return a new learner of a kind and its reader, of a file as long as the stage asks for."""
    n, chunk_rows, _ = STAGES[stage]
    folder = folder / f"{n} rows"
    if not folder.exists():
        folder.mkdir()
        write_rows(folder, n)
    return learner_and_reader(kind, folder, chunk_rows)


def _talk(kind: str) -> Any:
    from pairlearn.cli.stream import Conversation
    from pairlearn.streams import ProgressiveAUC

    return Conversation(named_learner(kind), ProgressiveAUC(20), 5)
