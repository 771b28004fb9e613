# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import numpy as np

from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.maps import pack_map, unpack_map
from pairlearn.models.parts import encode
from pairlearn.models.provenance import TrainingData, data_fingerprint
from pairlearn.models.record import ModelRecord, check_plain, reason


def test_dump_model():
    record = ModelRecord("ExampleClassifier", {"coef": np.array([1.0, -2.0])})
    assert (
        repr(parse_model(dump_model(record), allow_unregistered=True).arrays["coef"])
        == "array([ 1., -2.])"
    )


def test_pack_map():
    from pairlearn.features import Hats

    description, values = pack_map(Hats(n_knots=2).fit([[0.0], [4.0]]))
    assert repr(values) == "array([0., 4., 0., 2.])"
    assert repr(unpack_map(description, values).transform([[1.0]])) == "array([[0.25]])"


def test_encode():
    from pairlearn.losses import Hinge

    assert (encode(Hinge(margin=2.0), "loss")) == {
        "part": "Hinge",
        "one_sided": False,
        "margin": 2.0,
    }


def test_trainingdata():
    X, y = np.eye(3), np.array([0, 1, 1])
    data = TrainingData(data_fingerprint(X, y), 3)
    data.note(X[:2])
    data.note(X[2:])
    assert (data.is_this(y), data.is_this(y[::-1])) == (True, False)


def test_reason():
    assert (len(reason(ValueError("gamma must be a number, got " + "9" * 5000 + ".")))) == 203


def test_check_plain():
    assert (check_plain({"a": (1, 2.5)}, "parameters")) == {"a": [1, 2.5]}
