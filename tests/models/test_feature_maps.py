# SPDX-License-Identifier: BSD-3-Clause
"""Models with feature maps outside of the process: files, JSON, ONNX."""

import itertools
import json

import numpy as np
import pytest
from sklearn.base import clone

from pairlearn import AUCClassifier, load_model
from pairlearn.cli.export import as_json, as_onnx
from pairlearn.features import Hats, Identity, Nystroem, RandomFourier, Union
from pairlearn.models import ModelFileError, read_model
from pairlearn.models.parts import pack_map, unpack_map

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)) * [1.0, 100.0, 1.0] + [0.0, 1e4, 0.0]
X[:, 2] = RNG.integers(3, size=400)
Y = np.where((X[:, 0] ** 2 > 1) ^ (X[:, 2] == 1), 1, 0)
FAR = np.concatenate([X, 3 * X, -X])
MAPS = [
    "hats",
    Hats(n_knots=5, cumulative=False),
    RandomFourier(128),
    RandomFourier(96, "gaussian"),
    Nystroem(40),
    Union(Identity(), Hats(n_knots=4), RandomFourier(32)),
]


def model_of(features):
    return AUCClassifier(features=features, solver="moments", random_state=0).fit(X, Y)


@pytest.mark.parametrize("features", MAPS, ids=repr)
def test_a_file_predicts_bit_for_bit(features, tmp_path):
    model = model_of(features)
    model.save(tmp_path / "model.safetensors")
    for again in (
        AUCClassifier.load(tmp_path / "model.safetensors"),
        load_model(tmp_path / "model.safetensors"),
    ):
        np.testing.assert_array_equal(again.predict_proba(FAR), model.predict_proba(FAR))
        assert again.n_features_in_ == 3
        assert repr(again.features_) == repr(model.features_)


@pytest.mark.parametrize("features", [Hats(5), Union(Identity(), Hats(4))], ids=repr)
def test_a_file_keeps_a_map_that_was_given_fitted(features, tmp_path):
    """The next fit learned another map, and a stream could not go on."""
    given, path = features.fit(X), tmp_path / "model.safetensors"
    model = AUCClassifier(features=given, random_state=0)
    for taught in (clone(model).fit(X, Y), clone(model).partial_fit(X, Y, classes=[0, 1])):
        taught.save(path)
        again = load_model(path)
        assert again.features is again.features_
        again.partial_fit(X, Y)
        other = clone(again).fit(3.0 * X[:100], Y[:100])
        np.testing.assert_array_equal(other.features_.transform(FAR), given.transform(FAR))
    model_of(features).save(path)
    assert not load_model(path).features.is_fitted


@pytest.mark.parametrize("features", MAPS, ids=repr)
def test_onnx_agrees_with_predict(features):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = model_of(features)
    session = onnxruntime.InferenceSession(as_onnx(model), providers=["CPUExecutionProvider"])
    score, label, probability = session.run(["score", "label", "probability"], {"X": FAR})
    np.testing.assert_allclose(score, model.decision_function(FAR), atol=1e-10)
    np.testing.assert_allclose(probability, model.predict_proba(FAR)[:, 1], atol=1e-10)
    np.testing.assert_array_equal(label, model.predict(FAR))


def test_json_has_all_that_a_score_needs():
    model = model_of(Hats(n_knots=4))
    plain = json.loads(json.dumps(as_json(model)))
    hats, coef = plain["features"]["learned"], plain["coefficients"]
    total, place = np.full(len(X), plain["intercept"]), 0
    for k in range(3):
        knots = hats["knots"][hats["starts"][k] : hats["starts"][k + 1]]
        for left, right in itertools.pairwise(knots):
            total += coef[place] * np.clip((X[:, k] - left) / (right - left), 0.0, 1.0)
            place += 1
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)


def test_a_damaged_description_is_refused(tmp_path):
    description, values = pack_map(Hats(n_knots=3).fit(X))
    with pytest.raises(ModelFileError, match="too few"):
        unpack_map(description, values[:-1])
    with pytest.raises(ModelFileError, match="numbers are stored"):
        unpack_map(description, np.append(values, 0.0))
    huge = {**description, "learned": [{**description["learned"][0], "shape": [2**62]}]}
    with pytest.raises(ModelFileError, match="too few"):
        unpack_map(huge, values)
    with pytest.raises(ModelFileError, match="not known here"):
        unpack_map({**description, "map": "NoSuchMap"}, values)
    with pytest.raises(ModelFileError, match="not a mapping"):
        unpack_map([], values)
    model = model_of("hats")
    model.save(tmp_path / "model.safetensors")
    record = read_model(tmp_path / "model.safetensors")
    for change in ({"features": values}, {"coef": record.arrays["coef"][:-1]}):
        from dataclasses import replace

        wrong = replace(record, arrays={**record.arrays, **change})
        with pytest.raises(ModelFileError):
            AUCClassifier.from_record(wrong)


@pytest.mark.parametrize(
    ("features", "field", "value", "message"),
    [
        (Hats(n_knots=3), "cumulative", 2**31, "cumulative must be True or False, got 2147483648"),
        (Hats(n_knots=3), "cumulative", [[]], "cumulative must be True or False"),
        (Hats(n_knots=3), "n_knots", "9" * 5000, r"n_knots must be a whole number, got '9*\.\.\."),
        (Nystroem(5), "gamma", "9" * 5000, r"gamma must be .*number, got '9*\.\.\."),
    ],
)
def test_fields_of_other_types_are_refused_in_one_short_line(features, field, value, message):
    description, values = pack_map(features.fit(X))
    description["fields"][field] = value
    with pytest.raises(ModelFileError, match=message) as error:
        unpack_map(description, values)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("features", [Hats(n_knots=3), Nystroem(5), RandomFourier(8)], ids=repr)
def test_scores_of_mapped_rows_beyond_all_numbers_are_refused(features):
    model = model_of(features)
    largest = np.finfo(np.float64).max
    assert np.isfinite(model.decision_function(np.full((2, 3), largest))).all()
    model.coef_ = np.full_like(model.coef_, largest)
    with pytest.raises(ValueError, match="is too large for a number"):
        model.predict_proba(X)
