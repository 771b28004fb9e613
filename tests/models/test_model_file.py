# SPDX-License-Identifier: BSD-3-Clause
"""The model file keeps everything, and refuses everything that is not as it must be."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import pairlearn
from pairlearn.models import (
    ArraySpec,
    ModelFileError,
    ModelRecord,
    read_model,
    write_model,
)
from pairlearn.models import file as file_module
from pairlearn.models import record as record_module
from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.record import ModelSpec, build_model, check_plain, register_model

FIXTURE = Path(__file__).parent / "data" / "format-2.safetensors"


def example_record():
    return ModelRecord(
        "ExampleClassifier",
        {
            "coef": np.array([0.5, -1.25, 3e-17]),
            "small": np.array([[1.5, 2.5]], dtype=np.float32),
            "counts": np.array([1, 2], dtype=np.int64),
            "flags": np.array([True, False, True]),
            "none": np.empty((0, 3)),
            "scalar": np.array(7, dtype=np.int32),
        },
        parameters={"loss": {"name": "Hinge", "margin": 1.0}, "radius": None, "n_passes": 3},
        classes=("no", "yes"),
        feature_names=("age", "größe", "x=missing"),
        provenance={"rows_seen": 120, "data_fingerprint": "ab12", "created": "2026-01-01"},
        certificate={"epsilon": 1.0, "delta": 1e-6},
    )


SPEC = ModelSpec(
    {
        "coef": ArraySpec(("n_features",)),
        "small": ArraySpec((1, 2), ("float32",)),
        "counts": ArraySpec(("n_classes",), ("int64",)),
        "flags": ArraySpec(("n_features",), ("bool",)),
        "none": ArraySpec((0, "n_features")),
        "scalar": ArraySpec((), ("int32",)),
        "intercept": ArraySpec((1,), required=False),
    },
    ("loss", "radius", "n_passes"),
    lambda record: record,
)


@pytest.fixture
def spec(monkeypatch):
    monkeypatch.setattr(record_module, "_SPECS", {})
    register_model("ExampleClassifier", SPEC)


def assert_same(a, b):
    assert set(a.arrays) == set(b.arrays)
    for name, array in a.arrays.items():
        assert array.dtype == b.arrays[name].dtype
        assert array.shape == b.arrays[name].shape
        assert array.tobytes() == b.arrays[name].tobytes()
    for name in ("estimator", "parameters", "classes", "feature_names", "provenance",
                 "certificate"):  # fmt: skip
        assert getattr(a, name) == getattr(b, name)


def test_everything_comes_back(tmp_path, spec):
    path = tmp_path / "m.safetensors"
    record = example_record()
    write_model(path, record)
    back = read_model(path)
    assert_same(record, back)
    assert back.library_version == pairlearn.__version__
    assert build_model(back) is back
    with pytest.raises(ValueError, match="read-only"):
        back.arrays["coef"][0] = 1.0
    assert path.read_bytes() == dump_model(record)


def test_any_reader_of_safetensors_opens_it(tmp_path):
    path = tmp_path / "m.safetensors"
    write_model(path, example_record())
    arrays = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(arrays["coef"], example_record().arrays["coef"])
    np.testing.assert_array_equal(arrays["flags"], [True, False, True])


def test_version_2_keeps_loading(spec):
    """The file was written by `make_fixture` below when version 2 was made; never rewrite it."""
    assert_same(example_record(), read_model(FIXTURE))


def make_fixture():
    FIXTURE.parent.mkdir(exist_ok=True)
    write_model(FIXTURE, example_record())


def refused(data):
    """Parse; only our error may come out. Returns whether it was refused."""
    try:
        parse_model(data, allow_unregistered=True)
    except ModelFileError as error:
        message = str(error)
        if "\n" in message or len(message) > 400:
            pytest.fail(message)
        return True
    return False


def test_every_single_byte_counts():
    """A change of any byte is noticed, but for the padding of the header."""
    data = dump_model(example_record())
    accepted = []
    for place in range(len(data)):
        for change in (1, 0x80, 0xFF):
            broken = bytearray(data)
            broken[place] ^= change
            if not refused(bytes(broken)):
                accepted.append((place, chr(broken[place])))
    # whitespace is the only thing a JSON text may change without a change of meaning
    assert all(c in " \t\n\r" for _, c in accepted)


def test_every_cut_and_every_tail_is_refused():
    data = dump_model(example_record())
    assert all(refused(data[:k]) for k in range(len(data)))
    assert refused(data + b"\0")
    assert refused(data + data)


def test_random_mutations():
    rng = random.Random(7)
    for size in [0, *range(300)]:
        assert refused(b"\x02\0\0\0\0\0\0\0{}" * (size % 2) + rng.randbytes(size))
    data = dump_model(example_record())
    for _ in range(2000):
        broken = bytearray(data)
        place = rng.randrange(len(broken))
        begin = rng.randrange(len(broken))
        change = rng.choice([b"", rng.randbytes(1), b'[{"1":-2e9', data[begin : begin + 30]])
        broken[place : place + rng.choice([0, 1, 20])] = change
        refused(bytes(broken))


def rebuilt(change_header=None, change_description=None, body=None, seal=True):
    """A file whose header or description was altered, with a checksum that fits again."""
    data = dump_model(example_record())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    description = json.loads(header.pop("__metadata__")["pairlearn"])
    body = data[8 + length :] if body is None else body
    if change_header:
        header = change_header(header) or header
    if change_description:
        description = change_description(description) or description
    if seal:
        with contextlib.suppress(Exception):  # what is no safetensors has no checksum
            bare = json.dumps(header).encode()
            arrays = safetensors.numpy.load(len(bare).to_bytes(8, "little") + bare + body)
            description["sha256"] = file_module._digest(description, arrays)
    text = json.dumps({"__metadata__": {"pairlearn": json.dumps(description)}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + body


def put(key, value):
    return lambda d: d.__setitem__(key, value)


def put_in(name, key, value):
    return lambda d: d[name].__setitem__(key, value)


def test_the_rebuilt_file_is_good():
    assert not refused(rebuilt())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: rebuilt(change_description=put("format_version", 3)), "upgrade pairlearn"),
        (lambda: rebuilt(change_description=put("format_version", 1)), "save the model again"),
        (lambda: rebuilt(change_description=put("format_version", "1")), "no format version"),
        (lambda: rebuilt(change_description=put("extra", 1)), "wrong entries (extra)"),
        (lambda: rebuilt(change_description=lambda d: d.pop("classes") and None), "classes"),
        (lambda: rebuilt(change_description=put("estimator", 3)), "estimator must be"),
        (lambda: rebuilt(change_description=put("classes", [[1], 2])), "numbers or texts"),
        (lambda: rebuilt(change_description=put("feature_names", "abc")), "must be a list"),
        (lambda: rebuilt(change_description=put("parameters", [])), "must be a mapping"),
        (lambda: rebuilt(change_header=put_in("coef", "dtype", "F16")), "is cut short or damaged"),
        (lambda: rebuilt(change_header=put_in("counts", "dtype", "U64")), "is uint64"),
        (lambda: rebuilt(change_header=put_in("coef", "shape", [2])), "damaged"),
        (lambda: rebuilt(change_header=put_in("coef", "shape", [2**62, 3])), "damaged"),
        (lambda: rebuilt(change_header=put_in("coef", "shape", [-3])), "damaged"),
        (lambda: rebuilt(change_header=put_in("coef", "shape", [3.0])), "damaged"),
        (lambda: rebuilt(change_header=put_in("coef", "data_offsets", [8, 32])), "damaged"),
        (lambda: rebuilt(change_header=put_in("coef", "data_offsets", [0, 2**60])), "damaged"),
        (lambda: rebuilt(body=b"\2" * 99), "damaged"),
        (lambda: rebuilt(change_description=put("provenance", {"n": 2}), seal=False), "checksum"),
        (lambda: b"\xff\xff\xff\xff\0\0\0\0" + b" " * 99, "not a model file, or it is damaged"),
        (lambda: b"age,city,bought\n31,Oslo,1\n", "the model first, then the data"),
    ],
)
def test_each_wrong_part_has_its_message(data, message):
    with pytest.raises(ModelFileError) as caught:
        parse_model(data(), allow_unregistered=True)
    assert message in str(caught.value)


def test_nan_and_infinity_are_refused():
    for value in (np.nan, np.inf):
        body = np.array([value]).tobytes()
        data = rebuilt(
            change_header=lambda h: {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}},
            body=body,
        )
        with pytest.raises(ModelFileError, match="NaN or infinity"):
            parse_model(data, allow_unregistered=True)
        with pytest.raises(ModelFileError, match="NaN or infinity"):
            ModelRecord("A", {"coef": np.array([value])})
        with pytest.raises(ModelFileError, match="finite numbers only"):
            ModelRecord("A", {}, {"eta": value})
    for text in (b'{"a": NaN}', b'{"a": 1e999}', b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}', b"[1]",
                 b'{"\\ud800": 1}', b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"):  # fmt: skip
        assert refused(len(text).to_bytes(8, "little") + text)


def test_what_a_record_cannot_hold():
    for arguments in (
        {"arrays": {"a": np.array(["x"])}},
        {"arrays": {"a": np.array([1 + 2j])}},
        {"arrays": {"a": np.array([object()])}},
        {"arrays": {"": np.zeros(1)}},
        {"arrays": {}, "parameters": {"a": object()}},
        {"arrays": {}, "parameters": {1: 2}},
        {"arrays": {}, "classes": [1, 1]},
        {"arrays": {}, "feature_names": [1]},
        {"arrays": []},
        {"arrays": {}, "library_version": 3},
    ):
        with pytest.raises(ModelFileError):
            ModelRecord("A", **arguments)
    with pytest.raises(ModelFileError, match="__metadata__"):
        dump_model(ModelRecord("A", {"__metadata__": np.zeros(1)}))


def changed(**changes):
    record = example_record()
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return ModelRecord(**{**fields, **changes})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (changed(estimator="Other"), "unknown to this version"),
        (changed(parameters={"evil": 1}), "no parameter 'evil'"),
        (changed(arrays={**example_record().arrays, "more": np.zeros(1)}), "no array 'more'"),
        (changed(arrays={"coef": np.zeros(3)}), "is missing"),
        (changed(arrays={**example_record().arrays, "coef": np.zeros(2)}), "has shape (2,)"),
        (changed(arrays={**example_record().arrays, "coef": np.zeros((3, 1))}), "has shape"),
        (changed(arrays={**example_record().arrays, "coef": np.zeros(3, np.float32)}),
         "is float32"),
        (changed(classes=("a", "b", "c")), "array 'counts' has shape"),
        (changed(feature_names=("a",)), "has shape"),
    ],
)  # fmt: skip
def test_a_record_must_fit_its_estimator(spec, record, message):
    with pytest.raises(ModelFileError) as caught:
        parse_model(dump_model(record))
    assert message in str(caught.value)


def test_a_name_is_registered_once(spec):
    register_model("ExampleClassifier", SPEC)
    with pytest.raises(ModelFileError, match="already registered"):
        register_model("ExampleClassifier", ModelSpec({}, (), lambda r: r))


def test_bytes_that_are_neither_true_nor_false_are_refused():
    with pytest.raises(ModelFileError, match="neither true nor false"):
        ModelRecord("A", {"flags": np.array([2], dtype=np.uint8).view(np.bool_)})


def test_paths_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        read_model(tmp_path / "none")
    with pytest.raises(ModelFileError, match="is a directory"):
        read_model(tmp_path)
    with pytest.raises(ModelFileError, match="cannot be written"):
        write_model(tmp_path / "none" / "m", example_record())


def test_a_full_disk_leaves_the_old_model(tmp_path):
    path = tmp_path / "m.safetensors"
    write_model(path, example_record())
    large = ModelRecord("Large", {"coef": np.zeros(100_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
        with pytest.raises(ModelFileError, match="free space or choose another folder"):
            write_model(path, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert_same(example_record(), read_model(path, allow_unregistered=True))
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


if __name__ == "__main__":
    make_fixture()


def test_a_flaw_is_named_with_a_short_place():
    with pytest.raises(ModelFileError) as caught:
        check_plain({"k" * 10_000: [0, float("nan")]}, "parameters")
    assert str(caught.value).startswith("parameters.kkk")
    assert str(caught.value).endswith("[1] is nan; a model file holds finite numbers only.")
    assert len(str(caught.value)) < 300
    assert check_plain({"a": (1, np.float64(2.5))}, "parameters") == {"a": [1, 2.5]}
    with pytest.raises(ModelFileError, match="nested more than 12 deep"):
        check_plain(json.loads("[" * 14 + "]" * 14), "parameters")


def test_the_checksum_is_checked_before_the_content(monkeypatch):
    looked = []
    monkeypatch.setattr(file_module, "ModelRecord", lambda **values: looked.append(values))
    data = rebuilt(change_description=put("parameters", {"k" * 1000: [0] * 1000}), seal=False)
    with pytest.raises(ModelFileError, match="checksum"):
        parse_model(data, allow_unregistered=True)
    assert looked == []


def test_a_device_without_an_end_is_not_read():
    with pytest.raises(ModelFileError, match="not a file; name the model file"):
        read_model("/dev/zero")


@pytest.mark.parametrize("classes", [(0, 1, True), (0, 1, 1.0), (False, 0), ("a", "a")])
def test_classes_that_are_one_value(classes):
    with pytest.raises(ModelFileError, match="different from one another"):
        ModelRecord("Example", {"coef": np.zeros(2)}, classes=classes)
