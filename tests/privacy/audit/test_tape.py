# SPDX-License-Identifier: BSD-3-Clause
"""The audit hears all noise of its thread, and plays it back."""

import json
import threading

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn import PrivateAUCClassifier
from pairlearn.cli.privacy import _WHAT, command
from pairlearn.cli.private.audited import ProgramEntry, entries
from pairlearn.privacy import NoiseSource
from pairlearn.privacy.audit.noise_check import NoiseCheck
from pairlearn.privacy.audit.tape import TapeEndedError, recorded, replayed

OPTIONS = {"epsilon": 1.0, "delta": 1e-3, "bounds": (-1.0, 1.0)}


def test_a_replay_repeats_the_model_and_ends():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 2)), rng.integers(0, 2, 20)
    with recorded() as tape:
        first = PrivateAUCClassifier(**OPTIONS).fit(X, y)
    assert len(tape.values) == 5
    with replayed(tape.outputs) as other:
        again = PrivateAUCClassifier(**OPTIONS).fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    np.testing.assert_array_equal(np.concatenate(tape.values), np.concatenate(other.values))
    assert (PrivateAUCClassifier(**OPTIONS).fit(X, y).coef_ != first.coef_).any()
    with pytest.raises(TapeEndedError), replayed(tape.outputs[:2]):
        PrivateAUCClassifier(**OPTIONS).fit(X, y)


def test_another_thread_draws_its_own_noise():
    with recorded() as tape:
        NoiseSource().protect_integers(np.zeros(3, dtype=np.int64), 1 << 20)
    found = []

    def draw():
        found.append(NoiseSource().protect_integers(np.zeros(3, dtype=np.int64), 1 << 20))

    with replayed(tape.outputs) as other:
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
    assert other.values == []
    assert (found[0] != tape.outputs[0]).all()


class Loud(NoiseSource):
    def protect_integers(self, values, scale):
        return super().protect_integers(values, 2 * scale)


def test_a_subclass_is_heard_once_with_what_it_was_asked():
    noise = Loud(seed=0)
    with recorded() as tape:
        noisy = noise.protect_integers(np.zeros(3, dtype=np.int64), 100)
    assert tape.scales == [100.0]
    np.testing.assert_array_equal(tape.outputs[0], noisy)
    with replayed(tape.outputs) as other:
        again = noise.protect_integers(np.ones(3, dtype=np.int64), 100)
        np.testing.assert_array_equal(again, noisy)
    np.testing.assert_array_equal(other.values[0], np.ones(3))
    with pytest.raises(TapeEndedError), replayed(tape.outputs):
        noise.protect_integers(np.ones(4, dtype=np.int64), 100)
    assert vars(Loud)["protect_integers"].__qualname__ == "Loud.protect_integers"


def test_a_file_gives_the_model_of_the_table():
    entry = ProgramEntry(PrivateAUCClassifier(**OPTIONS), n=12, n_features=2)
    table = entry.pairs()[8].first
    with recorded() as tape:
        written = entry.run(table)
    with replayed(tape.outputs):
        model = PrivateAUCClassifier(**OPTIONS).fit(table.X, table.y)
    np.testing.assert_array_equal(written.model.coef_, model.coef_)
    assert written.model.intercept_ == model.intercept_
    assert written.model.certificate_.releases == model.certificate_.releases


def test_sound_noise_has_no_findings_and_little_of_it_is_enough():
    noise = NoiseCheck()
    for _ in range(200):
        with recorded() as tape:
            source = NoiseSource()
            for size in (5, 5, 8):
                source.protect_integers(np.zeros(size, dtype=np.int64), 1 << 20)
        noise.add(tape)
    assert noise.findings(1e-4) == []
    assert NoiseCheck().findings(1e-4) == []
    assert NoiseCheck().level_upper(0.99) == np.inf


def test_the_program_knows_what_can_be_audited():
    assert set(entries(epsilon=1.0, delta=1e-3)) == set(_WHAT)
    options = ["audit", "--runs", "8", "--n", "12"]
    run = CliRunner().invoke(command, [*options, "--what", "selection", "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["passed"]
    for wrong, said in (
        (["--what", "curve", "--neighbours", "add_remove"], "has no proof"),
        (["--what", "groups", "--mechanism", "all_pairs"], "belongs to --what fit"),
    ):
        run = CliRunner().invoke(command, [*options, *wrong])
        assert run.exit_code == 2
        assert said in run.output


@pytest.mark.thorough
def test_the_program_audits_everything():
    run = CliRunner().invoke(command, ["audit", "--what", "all", "--runs", "30", "--n", "12"])
    assert run.exit_code == 0, run.output
    assert run.output.count("not refuted") == len(_WHAT)
    assert "REFUTED" not in run.output
