# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import copy
import json
import pickle
import stat
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from pairlearn import PrivateAUCClassifier, PrivateAUCStream
from pairlearn.estimators.private.stream import _checksum
from pairlearn.privacy.accounting.certificate import PrivacyWarning
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger
from pairlearn.privacy.mechanisms.single_pass import SinglePass


def gaussian(n=4000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.clip(rng.normal(size=(n, d)) + y[:, None], -4, 6), y


def feed(stream, X, y, *cuts):
    for part in np.split(np.arange(len(y)), cuts):
        if len(part):
            stream.partial_fit(X[part], y[part])
    return stream


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
def test_chunks_do_not_matter_and_agree_with_the_classifier():
    X, y = gaussian(300)
    options = {"bounds": (-4, 6), "random_state": 3}
    whole = PrivateAUCClassifier(mechanism="single_pass", **options).fit(X, y)
    for cuts in ((), (1,), (100, 101, 250)):
        stream = feed(PrivateAUCStream(300, **options), X, y, *cuts).release()
        assert np.array_equal(stream.coef_, whole.coef_)
        # A table shows its number of rows, of a stream the largest number is known.
        assert stream.certificate_.public["number of examples"].startswith("at most 300")
        facts = whole.certificate_.public
        assert replace(stream.certificate_, public=facts) == whole.certificate_
    assert np.array_equal(PrivateAUCStream(300, **options).fit(X, y).coef_, whole.coef_)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("secure", [False, True])
def test_learns(neighbours, secure):
    X, y = gaussian()
    stream = PrivateAUCStream(4000, bounds=(-4, 6), neighbours=neighbours, secure=secure)
    model = feed(stream, X, y, 1000, 2500).release()
    assert roc_auc_score(y, model.decision_function(X)) > 0.85
    assert model.certificate_.private
    assert model.certificate_.secure == secure
    assert model.certificate_.neighbours == neighbours


def test_only_the_release_stays():
    X, y = gaussian(300)
    stream = feed(PrivateAUCStream(300, bounds=(-4, 6)), X, y, 100)
    assert not hasattr(stream, "coef_")
    stream.release()
    assert stream._state is None
    again = pickle.loads(pickle.dumps(stream))
    assert np.array_equal(again.coef_, stream.coef_)
    with pytest.raises(ValueError, match="released"):
        stream.partial_fit(X, y)
    with pytest.raises(ValueError, match="nothing to release"):
        stream.release()
    assert clone(stream).n_examples == 300


def test_no_copy_of_an_unfinished_stream():
    X, y = gaussian(50)
    stream = feed(PrivateAUCStream(50, bounds=(-4, 6)), X, y)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="raw example"):
            attempt(stream)
    assert "_state" not in repr(stream)


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
def test_checkpoint_only_if_asked_by_name(tmp_path):
    X, y = gaussian(200)
    options = {"bounds": (-4, 6), "random_state": 5}
    path = tmp_path / "stream.json"
    stream = PrivateAUCStream(200, **options)
    with pytest.raises(ValueError, match="no unfinished stream"):
        stream.save_checkpoint(path, holds_raw_example=True)
    feed(stream, X[:120], y[:120])
    with pytest.raises(ValueError, match="as secret as the data"):
        stream.save_checkpoint(path)
    assert not path.exists()
    stream.save_checkpoint(path, holds_raw_example=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "raw example" in json.loads(path.read_text())["secret"]
    assert [p.name for p in tmp_path.iterdir()] == ["stream.json"]
    link = tmp_path / "link.json"
    link.symlink_to(path)
    (tmp_path / ".stream.json.0a1b2c3d.tmp").touch()
    stream.save_checkpoint(link, holds_raw_example=True)
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "stream.json"]
    resumed = PrivateAUCStream(200, **options).load_checkpoint(path)
    feed(resumed, X[120:], y[120:])
    straight = feed(PrivateAUCStream(200, **options), X, y)
    assert np.array_equal(resumed.release().coef_, straight.release().coef_)
    with pytest.raises(ValueError, match="other public arguments"):
        PrivateAUCStream(200, epsilon=2.0, **options).load_checkpoint(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="not a checkpoint"):
        PrivateAUCStream(200, **options).load_checkpoint(path)


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": None}, "the saved w is an array of float64 of shape"),
        ({"w": [[1.0], [2.0, 3.0]]}, "the saved w is not a list of numbers"),
        ({"w": "x"}, "the saved w is not a list of numbers"),
        ({"previous": [1.0]}, "the saved previous is an array of float64 of shape"),
        ({"previous": [float("nan")] * 2}, "the saved previous contains NaN"),
        ({"previous_sign": "x"}, "the saved previous_sign is 'x'"),
        ({"n_seen": 201}, "the saved n_seen is 201, it must be a whole number from 0 to 200"),
        ({"n_seen": -1}, "the saved n_seen is -1"),
        ({"public": 3}, "other public arguments"),
        ("[" * 100_000, "not a checkpoint"),
        ("{", "not a checkpoint"),
    ],
    ids=range(11),
)
def test_a_checkpoint_is_not_trusted(change, message, tmp_path):
    X, y = gaussian(50)
    path = tmp_path / "stream.json"
    options = {"bounds": (-4, 6), "random_state": 5}
    feed(PrivateAUCStream(200, **options), X, y).save_checkpoint(path, holds_raw_example=True)
    plain = json.loads(path.read_text())
    if isinstance(change, dict) and len(change.get("previous") or []) == 2:
        change = {"previous": [float("nan")] * len(plain["w"])}
    if isinstance(change, dict):
        plain = {**plain, **change}
        del plain["sha256"]
        change = json.dumps({**plain, "sha256": _checksum(plain)})
    path.write_text(change)
    stream = PrivateAUCStream(200, **options)
    with pytest.raises(ValueError, match=message):
        stream.load_checkpoint(path)
    assert stream._state is None


def test_a_damaged_checkpoint_is_refused(tmp_path):
    """Any one bit; a number that was changed would be another model, in silence."""
    X, y = gaussian(50)
    path = tmp_path / "stream.json"
    feed(PrivateAUCStream(200, bounds=(-4, 6)), X, y).save_checkpoint(path, holds_raw_example=True)
    sound = path.read_bytes()
    for bit in range(0, 8 * len(sound), 7):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        stream = PrivateAUCStream(200, bounds=(-4, 6))
        with contextlib.suppress(ValueError):
            if json.loads(damaged) == json.loads(sound):
                continue  # another last digit of the same number, say
        with pytest.raises(ValueError, match=r"is damaged|not a checkpoint"):
            stream.load_checkpoint(path)
        assert stream.n_seen == 0
    for length in range(0, len(sound), 13):
        path.write_bytes(sound[:length])
        with pytest.raises(ValueError, match="not a checkpoint"):
            stream.load_checkpoint(path)
    path.write_bytes(sound)
    assert stream.load_checkpoint(path).n_seen == 50


def test_every_release_is_entered(tmp_path):
    X, y = gaussian(100)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-4)
    options = {"bounds": (-4, 6), "delta": 1e-4, "ledger": ledger}
    path = tmp_path / "stream.json"
    stream = feed(PrivateAUCStream(100, **options), X, y)
    stream.save_checkpoint(path, holds_raw_example=True)
    assert not ledger.entries
    stream.release()
    assert len(ledger.entries) == 1
    second = PrivateAUCStream(100, **options).load_checkpoint(path)
    with pytest.raises(BudgetExceededError):
        second.release()
    assert not hasattr(second, "coef_")


def test_refusals():
    X, y = gaussian(20)
    with pytest.raises(ValueError, match="more rows than the public number"):
        feed(PrivateAUCStream(19, bounds=(-4, 6)), X, y)
    with pytest.raises(ValueError, match="SinglePass"):
        feed(PrivateAUCStream(20, bounds=(-4, 6), mechanism="statistics"), X, y)
    with pytest.raises(ValueError, match="bounds"):
        feed(PrivateAUCStream(20), X, y)
    stream = feed(PrivateAUCStream(40, bounds=(-4, 6)), X, y)
    with pytest.raises(ValueError, match="began with 4"):
        stream.partial_fit(X[:, :2], y)
    with pytest.warns(PrivacyWarning, match="not private"):
        PrivateAUCStream(20, bounds=(-4, 6), random_state=0, mechanism=SinglePass(step=2.0)).fit(
            X, y
        )
