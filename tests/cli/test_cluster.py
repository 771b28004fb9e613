# SPDX-License-Identifier: BSD-3-Clause
"""``train --dask``: Parquet files, and a cluster of threads of this process."""

import json
import multiprocessing
import os
import signal

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn import AUCClassifier
from pairlearn.cli.program import program
from pairlearn.cli.train_cluster import _files
from pairlearn.progress import Progress

pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")


def run(*arguments):
    return CliRunner().invoke(program, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3)) * [1.0, 50.0, 1.0]
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["note"] = "text"
    table["bought"] = np.where(X[:, 0] + 0.02 * X[:, 1] + rng.normal(size=900) > 1, "yes", "no")
    for part in range(3):
        table[part::3].to_parquet(folder / f"part{part}.parquet")
    return folder


def test_a_model_of_files_that_the_program_uses_as_any_other(files, address, tmp_path):
    model = tmp_path / "model.safetensors"
    trained = run("train", f"{files}/part*.parquet", "--label", "bought", "--exclude", "note",
                  "--loss", "square", "--dask", address, "-o", model, "--json")  # fmt: skip
    assert trained.exit_code == 0, trained.output
    facts = json.loads(trained.stdout)
    assert (facts["rows"], facts["files"], facts["n_features"]) == (900, 3, 3)
    assert facts["classes"] == ["no", "yes"]
    assert facts["passes"] == 3  # ranges, moments, scores
    table = pd.concat([pd.read_parquet(files / f"part{k}.parquet") for k in range(3)])
    stored = AUCClassifier.load(model)
    assert stored.feature_names_in_.tolist() == ["a", "b", "c"]
    auc = stored.score(table[["a", "b", "c"]], table["bought"])
    assert abs(auc - facts["auc"]) <= facts["auc_half_width"]
    evaluated = run("evaluate", model, files / "part0.parquet", "--json")
    assert evaluated.exit_code == 0, evaluated.output
    part = table[:300]
    expected = stored.score(part[["a", "b", "c"]], part["bought"])
    assert json.loads(evaluated.stdout)["auc"] == pytest.approx(expected, abs=1e-12)
    # A folder stands for the Parquet files in it.
    text = run(
        "train",
        files,
        "--label",
        "bought",
        "--set",
        "reading.features=a,b,c",
        "--loss",
        "square",
        "--dask",
        address,
        "-o",
        model,
    )
    assert "3 passes over 3 files" in text.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "bought"], "'note'"),
        ([], "name its column with --label"),
        (["--label", "sold"], "no column 'sold'; the files have a, b, c, note, bought"),
        (["--label", "bought", "--objective", "push"], "--objective has no effect with --dask"),
        (["--label", "bought", "--fit", "stream"], "--fit has no effect with --dask"),
        (["--label", "bought", "--problem", "ranking"], "pairlearn.cluster.fit_on"),
        (["--label", "bought", "--set", "reading.features=bought"], "beside the label"),
    ],
)
def test_what_a_cluster_does_not_do_is_refused(files, address, options, message):
    refused = run("train", f"{files}/*.parquet", "--dask", address, *options, "-o", "model")
    assert refused.exit_code != 0
    assert message in (refused.output or "") + str(refused.exception)


def test_a_file_of_two_names_counts_once(files, tmp_path):
    part = files / "part0.parquet"
    (tmp_path / "link.parquet").symlink_to(part)
    (tmp_path / "twin.parquet").hardlink_to(part)
    other = str(files / "part1.parquet")
    found = _files((str(part), f"{tmp_path}/*.parquet", other, str(part)))
    assert found == [str(part), other]


def test_files_and_clusters_that_are_not_there(files, tmp_path):
    label = ["--label", "bought", "--exclude", "note", "-o", tmp_path / "model"]
    nothing = run("train", f"{files}/*.csv", "--dask", "local", *label)
    assert "no file matches" in nothing.output
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert (
        "reads Parquet files" in run("train", tmp_path / "a.csv", "--dask", "local", *label).output
    )
    assert "got 'here'" in run("train", files, "--dask", "here", *label).output


@pytest.mark.slow
def test_a_local_cluster_of_which_a_worker_dies(files, tmp_path, monkeypatch):
    killed = []

    class Killing(Progress):
        def update(self, count, *arguments, **options):
            if count == 2:
                workers = [p for p in multiprocessing.active_children() if "Worker" in p.name]
                killed.append(workers[0].pid)
                os.kill(workers[0].pid, signal.SIGKILL)

    monkeypatch.setattr("pairlearn.cli.train_cluster.Progress", Killing)
    trained = run("train", f"{files}/*.parquet", "--label", "bought", "--exclude", "note",
                  "--dask", "local", "-o", tmp_path / "model.safetensors", "--json")  # fmt: skip
    assert trained.exit_code == 0, trained.output
    assert len(killed) == 1
    assert json.loads(trained.stdout)["rows"] == 900
