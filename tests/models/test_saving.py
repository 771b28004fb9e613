# SPDX-License-Identifier: BSD-3-Clause
"""save and load of estimators: bit-identical predictions, and refusals that name the cure."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    SGD,
    AUCClassifier,
    Costs,
    Exact,
    PartialArea,
    PrivateAUCClassifier,
    Threshold,
)
from pairlearn.losses import LOSSES, Hinge, Square
from pairlearn.models import (
    ModelFileError,
    ModelRecord,
    data_fingerprint,
    load_model,
    read_model,
    register_part,
    write_model,
)
from pairlearn.models.file import dump_model
from pairlearn.models.parts import decode, encode
from pairlearn.pairings import FifoBuffer
from pairlearn.schedules import InverseTime


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 4))
    return X, (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(np.int64)


def same_predictions(a, b, X):
    for method in ("decision_function", "predict", "predict_proba"):
        if hasattr(a, method):
            one, two = getattr(a, method)(X), getattr(b, method)(X)
            assert one.dtype == two.dtype
            assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decision": Threshold(0.25, calibration="isotonic")},
        {"loss": Hinge(margin=2.0), "solver__step_size": 0.1, "solver__radius": np.inf},
        {
            "loss": Square(),
            "solver__step_size": 0.01,
            "solver__schedule": InverseTime(1.0, offset=3.0),
            "solver__pairing": FifoBuffer(3),
            "class_weight": {0: 1.0, 1: 2.0},
        },
        {"objective": PartialArea(0.2), "decision": Costs(1.0, 5.0), "solver": Exact(0.1)},
    ],
)
def test_a_loaded_model_predicts_the_same_bits(options, data, tmp_path):
    X, y = data
    model = AUCClassifier(solver=SGD(n_passes=2), random_state=3).set_params(**options).fit(X, y)
    path = tmp_path / "m.safetensors"
    model.save(path)
    loaded = AUCClassifier.load(path)
    same_predictions(model, loaded, X)
    same_predictions(model, load_model(path), scipy.sparse.csr_matrix(X))
    assert loaded.radius_ == model.radius_
    assert loaded.step_size_ == model.step_size_
    assert (loaded.solver_, loaded.loss_) == (model.solver_, model.loss_)
    # A single fold has no standard error: NaN is not equal to itself.
    assert repr((loaded.choice_, loaded.advice_)) == repr((model.choice_, model.advice_))
    kept = {k: v for k, v in model.get_params().items() if k != "random_state"}
    assert {k: v for k, v in loaded.get_params().items() if k != "random_state"} == kept
    assert loaded.n_features_in_ == 4
    # a second generation is the same file
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    loaded.fit(X, y)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1.5, 2.0]),
        np.array([3, 9], dtype=np.int32),
    ],
)
def test_labels_keep_their_type(labels, data, tmp_path):
    X, y = data
    model = AUCClassifier(solver=SGD(step_size=0.1, n_passes=1), random_state=0).fit(X, labels[y])
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(X).tolist() == model.predict(X).tolist()


def test_a_stream_and_names(data, tmp_path):
    import pandas

    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = AUCClassifier(solver=SGD(step_size=0.1))
    for begin in range(0, 300, 100):
        part = slice(begin, begin + 100)
        model.partial_fit(frame[part], y[part], classes=[0, 1])
    model.save(tmp_path / "m", provenance={"note": "a stream"})
    loaded = load_model(tmp_path / "m")
    same_predictions(model, loaded, frame)
    assert loaded.feature_names_in_.tolist() == list("abcd")
    assert loaded.provenance_ == {"rows_seen": 300, "note": "a stream"}


def test_provenance(data, tmp_path):
    X, y = data
    AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y).save(tmp_path / "m")
    signs = np.where(y == 1, 1, -1).astype(np.int8)
    expected = {"rows_seen": 300, "data_fingerprint": data_fingerprint(X, signs)}
    assert read_model(tmp_path / "m").provenance == expected
    assert data_fingerprint(scipy.sparse.csr_matrix(X), signs) == expected["data_fingerprint"]
    other = X.copy()
    other[0, 0] += 1e-9
    assert data_fingerprint(other, signs) != expected["data_fingerprint"]


@pytest.mark.thorough
def test_loading_needs_no_import_before(data, tmp_path):
    X, y = data
    AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y).save(tmp_path / "m")
    code = f"from pairlearn.models import load_model; print(load_model({str(tmp_path / 'm')!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("AUCClassifier(")


def test_a_private_model_holds_what_was_released(data, tmp_path):
    X, y = data
    model = PrivateAUCClassifier(epsilon=1.0, bounds=(-4.0, 4.0)).fit(X, y)
    model.save(tmp_path / "m")
    record = read_model(tmp_path / "m")
    assert set(record.arrays) == {"coef", "intercept", "log_odds", "bounds"}
    assert record.certificate == model.certificate_.to_dict()
    assert record.provenance == {"rows_seen": 300}
    assert "random_state" not in record.parameters
    loaded = PrivateAUCClassifier.load(tmp_path / "m")
    same_predictions(model, loaded, X)
    assert loaded.certificate_ == model.certificate_
    with pytest.raises(ModelFileError, match="release without noise"):
        model.save(tmp_path / "m", provenance={"data_fingerprint": "ab"})
    write_model(tmp_path / "bare", replace(record, certificate=None))
    with pytest.raises(ModelFileError, match="needs a certificate"):
        load_model(tmp_path / "bare")
    broken = {**record.certificate, "neighbours": "none"}
    write_model(tmp_path / "bare", replace(record, certificate=broken))
    with pytest.raises(ModelFileError, match="certificate cannot be read"):
        load_model(tmp_path / "bare")


def test_the_wrong_estimator(data, tmp_path):
    X, y = data
    AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y).save(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"holds a model of 'AUCClassifier'.*load_model"):
        PrivateAUCClassifier.load(tmp_path / "m")
    write_model(tmp_path / "n", ModelRecord("os.system", {"coef": np.ones(2)}))
    with pytest.raises(ModelFileError, match="unknown to this version"):
        load_model(tmp_path / "n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {"arrays": {k: v for k, v in r.arrays.items() if k != "coef"}}, "is missing"),
        (lambda r: {"arrays": {**r.arrays, "coef": np.ones((2, 2))}}, "has shape"),
        (lambda r: {"arrays": {**r.arrays, "coef": np.ones(4, np.float32)}}, "needs float64"),
        (lambda r: {"arrays": {**r.arrays, "more": np.ones(4)}}, "has no array 'more'"),
        (lambda r: {"arrays": {k: v for k, v in r.arrays.items() if k != "sigmoid"}}, "calibra"),
        (lambda r: {"classes": None}, "two classes"),
        (lambda r: {"classes": [0, 1, 2]}, "'pair_coef' of AUCClassifier is missing"),
        (lambda r: {"parameters": {**r.parameters, "sudo": 1}}, "no parameter 'sudo'"),
        (lambda r: {"parameters": {**r.parameters, "loss": {"part": "os"}}}, "the part 'os'"),
        (lambda r: {"parameters": {**r.parameters, "loss": {"part": "Hinge", "x": 1}}}, "restored"),
        (lambda r: {"parameters": {**r.parameters, "classes_dtype": "V8"}}, "cannot be of type"),
        (lambda r: {"parameters": {**r.parameters, "classes_dtype": "|b1"}, "classes": [0, 7]},
         "do not fit"),
        (lambda r: {"parameters": {**r.parameters, "classes_dtype": "<U400000000"},
                    "classes": ["a", "b"]}, "would take 3200000000 bytes"),
        (lambda r: {"parameters": {**r.parameters, "classes_dtype": "<U4"}}, "must be texts"),
        (lambda r: {"feature_names": ["a"]}, "has 1 feature names for 4"),
    ],
)  # fmt: skip
def test_records_that_are_no_model(change, message, data, tmp_path):
    X, y = data
    record = AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y).to_record()

    def write_and_load():
        write_model(tmp_path / "m", replace(record, **change(record)))
        load_model(tmp_path / "m")

    with pytest.raises(ModelFileError, match=message):
        write_and_load()


def test_nan_is_refused_on_both_sides(data, tmp_path):
    X, y = data
    model = AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y)
    model.coef_[0, 1] = np.nan
    with pytest.raises(ModelFileError, match="NaN"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_parts_of_ones_own(data, tmp_path):
    from sklearn.exceptions import NotFittedError

    @dataclass(frozen=True)
    class Wide(Hinge):
        extra: float = 3.0

    X, y = data
    with pytest.raises(NotFittedError):
        AUCClassifier().save(tmp_path / "m")
    model = AUCClassifier(loss=Wide(), solver=SGD(step_size=0.1), random_state=0).fit(X, y)
    with pytest.raises(ModelFileError, match="register_part"):
        model.save(tmp_path / "m")
    register_part(Wide)
    try:
        model.save(tmp_path / "m")
        assert load_model(tmp_path / "m").loss == Wide()
    finally:
        LOSSES.discard(Wide)
    with pytest.raises(ModelFileError, match="int is no part; derive it from the base class"):
        register_part(int)


@pytest.mark.parametrize("value", [(1, 2), [1.5, None], {0: "a"}, -np.inf, "text", np.float64(2.5)])
def test_values_survive(value):
    assert decode(encode(value, "x"), "x") == value


WRONG_VALUES = {
    "n_steps": -1,
    "n_gradients": -5,
    "n_examples": -1,
    "held_out_auc": 1.5,
    "step_size": -0.1,
    "radius": -1.0,
    "isotonic_values": [0.1, 0.9, 0.5],
    "isotonic_scores": [0.0, 0.0, 1.0],
    "sigmoid": [-1.0, 0.0],
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_no_fit_gives_are_refused(name, data, tmp_path):
    X, y = data
    record = AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y).to_record()
    value = np.array(WRONG_VALUES[name])
    value = value.astype(np.int64 if name.startswith("n_") else np.float64)
    arrays = {**record.arrays, name: value}
    if name.startswith("isotonic"):
        arrays.pop("sigmoid")
        rising = np.array([0.1, 0.5, 0.9])
        arrays = {"isotonic_scores": rising, "isotonic_values": rising, **arrays}
    path = tmp_path / "m.safetensors"
    path.write_bytes(dump_model(replace(record, arrays=arrays)))
    with pytest.raises(ModelFileError, match=f"{name}|probabilities would fall"):
        AUCClassifier.load(path)
    with pytest.raises(ModelFileError, match=f"{name}|probabilities would fall"):
        load_model(path)


def test_a_model_without_features_is_refused(data, tmp_path):
    X, y = data
    record = AUCClassifier(solver=SGD(step_size=0.1), random_state=0).fit(X, y).to_record()
    path = tmp_path / "m.safetensors"
    path.write_bytes(dump_model(replace(record, arrays={**record.arrays, "coef": np.empty(0)})))
    with pytest.raises(ModelFileError, match="without features"):
        load_model(path)


@pytest.mark.parametrize("classes", [None, [], [0], [0, 1, 2]])
def test_a_private_classifier_has_two_classes(data, classes):
    X, y = data
    record = PrivateAUCClassifier(epsilon=1.0, delta=1e-5, bounds=(-9.0, 9.0)).fit(X, y).to_record()
    with pytest.raises(ModelFileError, match="PrivateAUCClassifier has two classes"):
        PrivateAUCClassifier.from_record(replace(record, classes=classes))
    certificate = {**record.certificate, "format": "x" * 5000}
    with pytest.raises(ModelFileError, match="certificate cannot be read") as caught:
        PrivateAUCClassifier.from_record(replace(record, certificate=certificate))
    assert len(str(caught.value)) < 1000
