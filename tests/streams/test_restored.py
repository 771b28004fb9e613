# SPDX-License-Identifier: BSD-3-Clause
"""A checkpoint is untrusted: what no learner can have is refused before a kernel sees it."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from pairlearn import SGD
from pairlearn.estimators import MetricLearner, MetricSGD
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.entropy.regressor import EntropyRegressor
from pairlearn.models.file import dump_model
from pairlearn.models.record import ModelRecord
from pairlearn.pairings import (
    AllPrevious,
    ClassReservoirs,
    FifoBuffer,
    FrozenExample,
    PreviousExample,
    PreviousOpposite,
    ReservoirBuffer,
)
from pairlearn.pairings.queries import PreviousOfQuery
from pairlearn.restored import restored_labels
from pairlearn.streams import open_reader
from pairlearn.streams.checkpoint import (
    CHECKPOINT_VERSION,
    Checkpoint,
    CheckpointError,
    read_checkpoint,
    write_checkpoint,
)
from pairlearn.streams.long_runs import restore_from, settings_of
from pairlearn.streams.named import NamedLearner
from pairlearn.streams.online import OnlineLearner
from pairlearn.streams.readers.base import Position
from pairlearn.streams.readers.iterator import IteratorReader
from pairlearn.streams.state import StateError, pack, unpack

D = 40


def make() -> OnlineLearner:
    return OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1)), classes=[0, 1], window=20)


@pytest.fixture(scope="module")
def saved() -> tuple[dict, dict]:
    """The state of a sparse stream as it is written to a file."""
    X = scipy.sparse.random(60, D, 0.2, format="csr", random_state=0)
    learner = make().learn_many(X, np.arange(60) % 2)
    return pack(learner.state())


def at(plain: dict, path: str) -> tuple[dict, object]:
    """Return what holds the entry at a path, and its key."""
    *above, last = [int(k) if k.isdigit() else k for k in path.split("/")]
    for key in above:
        plain = plain[key]
    return plain, last


STREAM = "model/streams/0/"
WRONG_VALUES = {
    STREAM + "descent/n_steps": [-1, 1.5, "3", 10**30],
    STREAM + "descent/n_gradients": [-1],
    STREAM + "n_examples": [-1, 0, None],
    "model/n_features": [0, 10**12, "40"],
    "model/dtype": ["complex128", "<U400000000"],
    "model/step_sizes": [[], [0.1] * 100, [-1.0], ["a"], [0.1, 0.2]],
    "model/radius": [-1.0, "a"],
    "model/pairs": [-1.0],
    "model/best": [1, -1],
    "model/classes": [None, [0, 1]],
    "model/feature_names": [["a"], "abc"],
    "progressive/window": [10**12, 19],
    "progressive/n_seen": [0, 10**6],
    "classes": [[0, 1]],
    "n_seen": [-1, 59, True],
    "n_restarts": [-1, 10**9],
    "since_start": [-1, 10**9],
    "best": [2.0, "a"],
    "restart_due": ["yes"],
}


@pytest.mark.parametrize("path", WRONG_VALUES)
def test_values_that_no_learner_has(saved: tuple[dict, dict], path: str) -> None:
    for value in WRONG_VALUES[path]:
        plain, arrays = copy.deepcopy(saved)
        holder, key = at(plain, path)
        holder[key] = value
        with pytest.raises((ValueError, TypeError)):
            make().restore(unpack(plain, arrays))


def longer(a: np.ndarray) -> np.ndarray:
    return np.concatenate([a, a[-1:]], axis=-1) if a.ndim == 1 else np.hstack([a, a[:, :1]])


def test_arrays_of_another_size_or_type(saved: tuple[dict, dict]) -> None:
    plain, arrays = saved
    assert {name.rpartition(".")[2] for name in arrays} >= {
        "indptr", "indices", "data", "buffer_y", "buffer_weight", "w", "scores", "is_positive",
        "positive", "weight", "progress", "classes",
    }  # fmt: skip
    for name, array in arrays.items():
        for change in (longer, lambda a: a[..., :-1], lambda a: a[np.newaxis],
                       lambda a: a.astype(np.uint8) if a.dtype != np.uint8 else a[:0]):  # fmt: skip
            changed = change(array)
            if changed.shape == array.shape and changed.dtype == array.dtype:
                continue
            if changed.shape == array.shape and name.rpartition(".")[2] in (
                "left_iterate", "total", "past", "classes",
            ):  # fmt: skip
                continue  # copied into an array of the right type; labels are of any
            with pytest.raises((ValueError, TypeError)):
                make().restore(unpack(plain, {**arrays, name: changed}))


def test_sparse_rows_outside_their_arrays(saved: tuple[dict, dict]) -> None:
    plain, arrays = saved
    [indptr] = [name for name in arrays if name.endswith("indptr")]
    [indices] = [name for name in arrays if name.endswith("indices")]
    n = len(arrays[indices])
    assert n > 1
    for name, value in (
        (indptr, [0, 10**9]),
        (indptr, [-5, n]),
        (indptr, [1, n]),
        (indptr, [0, n + 5, n]),
        (indices, np.full(n, D)),
        (indices, np.full(n, -1)),
        (indices, np.full(n, 2**31 - 1)),
    ):
        changed = {**arrays, name: np.array(value, dtype=arrays[name].dtype)}
        with pytest.raises(StateError):
            unpack(plain, changed)
    for width in (0, -1, 2**40, "9"):
        changed_plain = copy.deepcopy(plain)
        changed_plain["model"]["streams"][0]["buffer"]["$csr"][1] = width
        with pytest.raises(StateError):
            unpack(changed_plain, arrays)


def test_labels_cannot_ask_for_gigabytes() -> None:
    with pytest.raises(StateError, match="would take 3200000000 bytes"):
        unpack({"$listed": [["a", "b"], "<U400000000"]}, {})
    with pytest.raises(StateError):
        unpack({"$listed": ["ab", "<U2"]}, {})
    with pytest.raises(StateError):
        unpack({"$listed": [[1, 2], "V9"]}, {})


def test_a_checkpoint_with_a_right_checksum_is_refused(tmp_path) -> None:
    examples = [({"a": float(k % 7), "b": 1.0}, k % 2) for k in range(50)]

    def train(checkpoint) -> OnlineLearner:
        learner = OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1)), classes=[0, 1], window=20)
        return learner.fit_stream(IteratorReader(examples), checkpoint=checkpoint)

    learner = train(tmp_path / "good")
    for change in ({"n_seen": -3}, {"restart_due": 3}, {"model": {"n_features": 3}}, {"best": [1]}):
        state = {**learner.state(), **change}
        settings = settings_of(learner)
        write_checkpoint(tmp_path / "bad", Checkpoint(settings, state, learner.position))
        with pytest.raises(CheckpointError) as caught:
            train(tmp_path / "bad")
        assert "\n" not in str(caught.value)
    assert train(tmp_path / "good").n_seen == 50


SOURCES = {
    "arrivals": (PreviousExample(), {"_n_buffered": [2, -1, "1"]}),
    "frozen": (FrozenExample(), {"_n_buffered": [5]}),
    "opposite": (
        PreviousOpposite(),
        {"_known_y": [np.ones(3), np.ones(2), [1.0], np.ones((1, 1))]},
    ),
    "fifo": (
        FifoBuffer(4),
        {
            "_size": [5, None, 10**12],
            "_seen": [0, -1, 3, 1.0],
            "slots": [np.zeros(4, np.int32), np.arange(9), np.full(4, -9), np.array([0, 1, -1, 2])],
            "_started": [None],
        },
    ),
    "all": (AllPrevious(), {"_seen": [0, 7], "slots": [np.arange(3)]}),
    "reservoir": (
        ReservoirBuffer(4),
        {"_seen": [-1], "_random": [np.zeros(1), np.zeros(2, np.uint64)], "slots": [np.arange(3)]},
    ),
    "classes": (
        ClassReservoirs(2, 3),
        {
            "_sizes": [np.array([3, 2]), np.array([10**9, 3])],
            "_seen": [np.array([9, 9]), np.array([-1, 0]), np.zeros(2), np.zeros(3, np.int64)],
            "_sums": [True],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
def test_sources_that_no_examples_have_made(kind: str) -> None:
    pairing, wrong = SOURCES[kind]
    source = pairing.online(np.random.default_rng(0))
    if kind not in ("reservoir", "classes"):
        source.arrive(np.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    state = source.state()
    source.restore(state)
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match="saved"):
                source.restore({**state, name: value})
            assert source.state().keys() == state.keys()
            assert source.n_remembered is not None


def test_open_queries_are_those_of_the_buffer() -> None:
    source = PreviousOfQuery(max_open=2).online(np.random.default_rng(0))
    source.arrive_grouped(np.ones(3), [7, 8, 7])
    state = source.state()
    source.restore(state)
    assert source.n_remembered == 2
    for wrong in ({7: 0, 8: 5}, {7: -1}, {7: 0, 8: 1, 9: 2}, {7: 1, 8: 0}):
        with pytest.raises(ValueError, match="open queries"):
            source.restore({**state, "open": wrong})


def test_numbers_of_labels_count_them() -> None:
    model = MetricLearner(solver=MetricSGD(step_size=0.1))
    model.partial_fit(np.eye(4), ["a", "b", "b", "c"])
    state = model.stream_state()
    assert state["codes"] == {"a": 0.0, "b": 1.0, "c": 2.0}
    MetricLearner(solver=MetricSGD(step_size=0.1)).restore_stream(state)
    for wrong in ({"a": 0.0, "b": [1.0]}, {"a": 0.0, "b": 0.0}, {"a": 1.0}, [0.0, 1.0], None):
        with pytest.raises(ValueError, match="numbers of labels"):
            MetricLearner(solver=MetricSGD(step_size=0.1)).restore_stream({**state, "codes": wrong})


def test_a_stream_begins_anew_only_where_it_forgets(saved: tuple[dict, dict]) -> None:
    state = unpack(*copy.deepcopy(saved))
    for wrong in ({"restart_due": True}, {"n_restarts": 1}):
        with pytest.raises(ValueError, match="pass the same forget="):
            make().restore({**state, **wrong})


def test_a_buffer_is_as_long_as_its_pairing_remembers(saved: tuple[dict, dict]) -> None:
    plain, arrays = copy.deepcopy(saved)
    state = unpack(plain, arrays)
    stream = state["model"]["streams"][0]
    row, y = stream["buffer"], stream["buffer_y"]
    stream["buffer"], stream["buffer_y"] = row.followed_by(row), np.concatenate([y, y])
    with pytest.raises(ValueError, match="holds 2 examples"):
        make().restore(state)


def test_a_learner_of_names() -> None:
    learner = NamedLearner(step_size=0.1)
    for k in range(20):
        learner.learn_one({"a": float(k % 3), "b": 1.0}, k % 2 == 0)
    state = learner.state()
    NamedLearner(step_size=0.1).restore(state)
    for change in (
        {"index": ["a", "a"]},
        {"capacity": 10**12},
        {"capacity": 1},
        {"labels": [1.0] * 9},
        {"labels": [0.5], "waiting": [{}]},
        {"waiting": [3], "labels": [1.0]},
        {"coef": np.zeros(5)},
        {"moments": np.zeros((2, 4))},
        {"by_name": 9},
        {"n_taken": -1},
        {"n_refused": 10**6},
        {"scale": 0.0},
        {"coef": np.full(2, 1e61)},
    ):
        with pytest.raises(ValueError, match="saved"):
            NamedLearner(step_size=0.1).restore({**state, **change})


def test_a_learner_of_names_whose_average_would_be_beyond_all_numbers() -> None:
    learner = NamedLearner(step_size=0.1)
    for k in range(20):
        learner.learn_one({"a": float(k % 3), "b": 1.0}, k % 2 == 0)
    state = learner.state()
    state["stream"]["descent"]["w"] = np.full(2, 1e61)
    with pytest.raises(ValueError, match="saved coefficient is beyond"):
        NamedLearner(step_size=0.1).restore(state)
    # In units of the scales it may be, where the user's is not: such a state was learned.
    wide = NamedLearner(step_size=0.1)
    for k in range(20):
        wide.learn_one({"a": 1e4 * (k % 3), "b": 1.0}, k % 2 == 0)
    state = wide.state()
    state["stream"]["descent"]["w"] = np.array([1e62, 0.0])
    restored = NamedLearner(step_size=0.1)
    restored.restore(state)
    assert np.abs(restored.state()["stream"]["descent"]["w"]).max() == 1e62
    # The same in a column that is constant, so that the user's coefficient is 0 whatever it says.
    state = learner.state()
    state["stream"]["descent"]["w"] = np.array([0.0, 1e155])
    with pytest.raises(ValueError, match="saved coefficient is beyond"):
        NamedLearner(step_size=0.1).restore(state)
    for change in (
        {"moments": np.array([[-2.0, 0.0, 1.0], [1.0, 0.0, 1.0]])},
        {"coef": np.ones(2), "origin": np.full(2, 1e200)},
    ):
        with pytest.raises(ValueError, match=r"the saved (moments have|origin is)"):
            NamedLearner(step_size=0.1).restore({**learner.state(), **change})
    # Moments of scores that nobody has had give a probability nevertheless.
    state = learner.state()
    state["moments"] = np.full((2, 3), 1e300)
    restored = NamedLearner(step_size=0.1)
    restored.restore(state)
    assert 0.0 <= restored.predict_proba_one({"a": 1.0})[True] <= 1.0


def test_a_sum_that_is_too_large(saved: tuple[dict, dict]) -> None:
    plain, arrays = copy.deepcopy(saved)
    state = unpack(plain, arrays)
    descent = state["model"]["streams"][0]["descent"]
    descent["total"] = np.full(D, 1e308)
    with pytest.raises(ValueError, match="beyond"):
        make().restore(state)


def test_classes_of_another_learner(saved: tuple[dict, dict]) -> None:
    plain, arrays = copy.deepcopy(saved)
    state = unpack(plain, arrays)
    state["classes"] = np.array([0, 2])
    with pytest.raises(ValueError, match=r"saved classes are \[0, 2\], here they are \[0, 1\]"):
        make().restore(state)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": [1]},
        {"settings": "abc"},
        {"state": ["a"]},
        {"finished_passes": "nan"},
        {"finished_passes": -1},
        {"position": {"refusals": {"count": "nan", "first": []}}},
        {
            "position": {
                "refusals": {"count": 0, "first": [{"source": 1, "line": 2, "reason": "a"}]}
            }
        },
        {"position": {"earlier": [3]}},
        {"position": {"fingerprint": 3}},
        {"position": {"row": 10**30}},
        {"version": "x" * 5000},
    ],
)
def test_a_checkpoint_of_another_kind_is_refused_in_a_short_line(
    change: dict, tmp_path: Path
) -> None:
    path = tmp_path / "a.ckpt"
    place = {**Position("csv").to_dict(), **change.get("position", {})}
    record = ModelRecord(
        "OnlineLearner checkpoint",
        {},
        parameters={
            "checkpoint_version": change.get("version", CHECKPOINT_VERSION),
            "settings": change.get("settings", {}),
        },
        provenance={
            "state": change.get("state", {}),
            "position": place,
            "finished_passes": change.get("finished_passes", 0),
        },
    )
    path.write_bytes(dump_model(record))
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(path)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"odd": None}, "was made with odd=None, now it is None"),
        ({"radius": "x" * 5000}, "was made with radius='xxx"),
        ({"x" * 5000: 1}, "was made with xxxx"),
    ],
)
def test_other_parameters_are_named_in_a_short_line(
    change: dict, message: str, tmp_path: Path
) -> None:
    learner = make()
    settings = settings_of(learner)
    settings["parameters"] = {**settings["parameters"], **change}
    with pytest.raises(CheckpointError, match=message) as caught:
        restore_from(Checkpoint(settings, {}, None), learner, tmp_path / "a.ckpt")
    assert len(str(caught.value)) < 1000


def test_a_state_that_cannot_be_restored_is_told_in_one_line(
    saved: tuple[dict, dict], tmp_path: Path
) -> None:
    state = unpack(*copy.deepcopy(saved))
    state["classes"] = np.array([[0, 1], [0, 1]])
    learner = make()
    with pytest.raises(CheckpointError, match="the saved classes are") as caught:
        restore_from(Checkpoint(settings_of(learner), state, None), learner, tmp_path / "a.ckpt")
    assert len(str(caught.value).splitlines()) == 1


def test_a_conversation_of_other_settings_is_refused_in_a_short_line(tmp_path: Path) -> None:
    from pairlearn.cli.streaming.stream import Conversation, _resume
    from pairlearn.streams.progressive import ProgressiveAUC

    learner = NamedLearner(step_size=0.1)
    path = tmp_path / "a.ckpt"
    settings = {**learner.settings(), "radius": "x" * 5000}
    write_checkpoint(path, Checkpoint(settings, {}, None))
    with pytest.raises(CheckpointError, match="was made with") as caught:
        _resume(Conversation(learner, ProgressiveAUC(10), 3), str(path), False)
    assert len(str(caught.value)) < 1000


def test_learned_numbers_whose_squares_are_none(saved: tuple[dict, dict]) -> None:
    entries = {
        **{f"model.streams.0.descent.{name}": "beyond|not finite" for name in
           ("w", "left_iterate", "total")},
        "model.scores": "the saved score is beyond",
        "model.weight": "the saved weight holds a number that is not from 0",
    }  # fmt: skip
    for entry, message in entries.items():
        plain, arrays = copy.deepcopy(saved)
        arrays[entry].reshape(-1)[0] = 1e200
        with pytest.raises(ValueError, match=message):
            make().restore(unpack(plain, arrays))


def test_a_checkpoint_whose_model_is_gone_or_does_not_fit_its_data(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    X = np.random.default_rng(0).normal(size=(60, 3))
    (tmp_path / "a.svm").write_text(
        "".join(f"{k % 2} 1:{x[0]} 2:{x[1]} 3:{x[2]}\n" for k, x in enumerate(X)), encoding="ascii"
    )

    def train() -> None:
        make().fit_stream(open_reader(tmp_path / "a.svm", chunk_rows=20), checkpoint=path)

    train()
    found = read_checkpoint(path)
    write_checkpoint(path, dataclasses.replace(found, state={**found.state, "model": None}))
    with pytest.raises(CheckpointError, match="examples were learned, and no model is saved"):
        train()
    wide = dataclasses.replace(found.position, width=22)
    write_checkpoint(path, dataclasses.replace(found, position=wide, finished_passes=0))
    with pytest.raises(CheckpointError, match="a model of 3 features, the data have 22"):
        train()


def test_a_window_without_errors_or_with_negative_weights() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    settings = {"bandwidth": 1.0, "solver": SGD(step_size=0.1)}
    model = EntropyRegressor(**settings, random_state=0).partial_fit(X, X[:, 0])
    state = model.stream_state()
    for change, message in (
        ({"errors": np.empty(0), "error_weight": np.empty(0)}, "the saved window has"),
        ({"error_weight": np.full(30, -1.0)}, "from 0 to 1e\\+100"),
        ({"error_weight": np.full(30, 1e200)}, "from 0 to 1e\\+100"),
        ({"error_weight": np.ones(29)}, "for each of 30 examples"),
    ):
        with pytest.raises(ValueError, match=message):
            EntropyRegressor(**settings).restore_stream({**state, **change})


def test_a_sample_of_the_past_is_as_long_as_what_was_seen() -> None:
    settings = {"objective": "push", "solver": "sgd", "random_state": 0}
    X = np.random.default_rng(0).normal(size=(600, 2))
    model = AUCClassifier(**settings).partial_fit(X, np.arange(600) % 2, classes=[0, 1])
    state = model.stream_state()
    AUCClassifier(**settings).restore_stream(state)
    [path] = [path for path, _ in _arrays_in(state) if path[-1] == "seen"]
    for seen, message in (
        ([-3, 300], "has seen -3"),
        ([2**62, 300], f"has seen {2**62}"),
        ([2, 300], "has seen 2"),
    ):
        changed = copy.deepcopy(state)
        _found(changed, path)[:] = seen
        with pytest.raises(ValueError, match=message):
            AUCClassifier(**settings).restore_stream(changed)
    changed = copy.deepcopy(state)
    _found(changed, (*path[:-1], "negatives", "positive"))[0] = True
    with pytest.raises(ValueError, match="of one class with the other"):
        AUCClassifier(**settings).restore_stream(changed)


def test_numbers_of_other_streams_whose_products_are_none() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    push = {"objective": "push", "solver": "sgd", "random_state": 0}
    state = AUCClassifier(**push).partial_fit(X, np.arange(60) % 2, classes=[0, 1]).stream_state()
    for path, array in _arrays_in(state):
        if path[-1] in ("average", "v", "units", "X") and array.size:  # type: ignore[attr-defined]
            changed = copy.deepcopy(state)
            _found(changed, path).reshape(-1)[0] = 1e200
            with pytest.raises(ValueError, match=r"is beyond 1e\+150"):
                AUCClassifier(**push).restore_stream(changed)
    waiting = EntropyRegressor(random_state=0).partial_fit(X, X[:, 0]).stream_state()
    waiting["targets"][0][0] = 1e200
    with pytest.raises(ValueError, match=r"the saved target is beyond 1e\+150"):
        EntropyRegressor(random_state=0).restore_stream(waiting)


def _arrays_in(state: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    if isinstance(state, np.ndarray):
        return [(path, state)]
    inner = state.items() if isinstance(state, dict) else []
    return [one for name, value in inner for one in _arrays_in(value, (*path, name))]


def _found(state: dict, path: tuple[str, ...]) -> np.ndarray:
    for name in path:
        state = state[name]
    return state  # type: ignore[return-value]


def test_labels_of_an_old_type_of_bytes() -> None:
    with pytest.raises(ValueError, match="labels cannot be of type 'a3'"):
        restored_labels(["no", "yes"], "a3")
