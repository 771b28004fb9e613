# SPDX-License-Identifier: BSD-3-Clause
"""``train --private --dask``: Parquet files, and a cluster of threads of this process."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn import PrivacyLedger, load_model
from pairlearn.cli.program import program
from pairlearn.cli.running import run as run_program
from pairlearn.privacy.audit.tape import recorded, replayed

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")

BOUNDS = """
label = "churned"
labels = ["no", "yes"]

[features]
age = [18, 100]
children = { bounds = [0, 4], levels = 5 }
"""
N = 2400


def run(*arguments):
    return CliRunner().invoke(program, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    return pd.DataFrame(
        {
            "site": np.arange(N) // (N // 3),
            "patient": 2**60 + np.arange(N) // 4,
            "children": rng.integers(0, 5, N),
            "age": np.round(45 + 20 * y + 10 * rng.normal(size=N), 1),
            "churned": np.where(y == 1, "yes", "no"),
            "note": "text",
        }
    )


@pytest.fixture
def files(people, tmp_path):
    for part in range(3):
        people[people["site"] == part].to_parquet(tmp_path / f"site{part}.parquet")
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    (tmp_path / "key").write_bytes(bytes(range(40)))
    return tmp_path


def train(files, address, *more, bounds="", epsilon=1):
    (files / "bounds.toml").write_text(bounds + BOUNDS)
    return run("train", f"{files}/*.parquet", "--private", "--epsilon", epsilon, "--delta", "1e-5",
               "--bounds", files / "bounds.toml", "--dask", address, *more)  # fmt: skip


def test_a_model_with_certificate_paid_from_a_ledger(files, address, people):
    ledger = PrivacyLedger.open(files / "ledger", epsilon=2.0, delta=1e-4)
    model = files / "model.safetensors"
    trained = train(files, address, "-o", model, "--ledger", files / "ledger")
    assert trained.exit_code == 0, trained.output
    assert "(1, 1e-05)-differentially private" in trained.output
    assert len(ledger.entries) == 1
    beside = json.loads((files / "model.safetensors.certificate.json").read_text())
    assert beside["n_examples"] == N
    assert beside["public"]["trust"].startswith("the aggregator: it saw sums over partitions (3)")
    assert beside["public"]["rows"].startswith("one for each row of Parquet files")
    stored = load_model(model)
    assert stored.feature_names_in_.tolist() == ["age", "children"]
    assert stored.score(people[["age", "children"]], people["churned"]) > 0.75
    assert run("privacy", "certify", model).exit_code == 0
    predicted = run("predict", model, files / "site0.parquet")
    assert predicted.exit_code == 0, predicted.output
    again = train(files, address, "-o", model, "--ledger", files / "ledger", epsilon=3)
    assert again.exit_code != 0
    assert "over the budget" in again.output
    assert len(ledger.entries) == 1


def test_nobody_is_trusted(files, address):
    alone = ["--set", "trust=none", "--set", f"key_file={files / 'key'}", "--set", "reach=1"]
    model = files / "model.safetensors"
    trained = train(files, address, *alone, "-o", model, "--json")
    assert trained.exit_code == 0, trained.output
    certificate = load_model(model).certificate_
    assert certificate.public["trust"].startswith("nobody: each of the partitions (3)")
    assert "at most 1 of them" in certificate.public["partitions"]
    written = model.read_bytes()
    assert b"--set trust=none" in written
    # Where the key lies is not told.
    assert str(files).encode() not in written


@pytest.mark.parametrize(
    ("person", "n_persons"),
    [('"patient"', N // 4), ('["site", "patient"]', N // 4), ('"site"', 3)],
)
def test_persons(files, address, person, n_persons):
    model = files / "model.safetensors"
    facts = f"person = {person}\n"
    trained = train(files, address, "-o", model, "--set", "reach=1", bounds=facts)
    assert trained.exit_code == 0, trained.output
    certificate = load_model(model).certificate_
    assert (certificate.unit, certificate.n_examples) == ("person", n_persons)


def changed(people, path, **columns):
    """Write the rows of a site, of which the first four, one person, have other values."""
    table = pa.Table.from_pandas(people, preserve_index=False)
    for name, value in columns.items():
        place = table.schema.get_field_index(name)
        values = pa.array([value] * 4 + table[name].to_pylist()[4:], type=table.field(name).type)
        table = table.set_column(place, name, values)
    pq.write_table(table, path)


STRANGE = [
    {"age": None, "children": None, "churned": None},
    {"age": 1e300, "children": -9},
    {"age": float("nan"), "churned": "a secret"},
    {"patient": None, "churned": ""},
    {"age": 100.0, "children": 4, "churned": "no"},
]


def test_one_person_changes_nothing_but_what_the_noise_covers(files, address, people):
    model = files / "model.safetensors"
    here = people[people["site"] == 1].reset_index(drop=True)
    given = ["-o", model, "--set", "reach=1"]
    facts = 'person = ["site", "patient"]\n'
    changed(here, files / "site1.parquet", age=18.0, children=0, churned="yes")
    with recorded() as tape:
        first = train(files, address, *given, bounds=facts)
    assert first.exit_code == 0, first.output
    beside = model.with_name(f"{model.name}.certificate.json")
    written = model.read_bytes(), beside.read_bytes()
    certificate = load_model(model).certificate_
    reached = 0.0
    for columns in STRANGE:
        changed(here, files / "site1.parquet", **columns)
        model.unlink()
        beside.unlink()
        with replayed(tape.outputs) as other:
            again = train(files, address, *given, bounds=facts)
        assert (again.stdout, again.stderr) == (first.stdout, first.stderr)
        assert (model.read_bytes(), beside.read_bytes()) == written
        assert other.scales == tape.scales
        moved = math.hypot(*(
            float(np.linalg.norm(a - b)) / scale
            for a, b, scale in zip(tape.values, other.values, tape.scales, strict=True)
        ))  # fmt: skip
        assert moved <= certificate.mu * (1 + 1e-9)
        reached = max(reached, moved / certificate.mu)
    # From one corner to the other, with another label, is near the limit.
    assert reached > 0.5


def test_a_missing_cell_changes_no_other(files, address, people):
    # NumPy has no missing integers; as floats, all these ids would be one.
    here = people[people["site"] == 1]
    changed(here, files / "site1.parquet", patient=None)
    model = files / "model.safetensors"
    trained = train(files, address, "-o", model, "--set", "reach=1", bounds='person = "patient"\n')
    assert trained.exit_code == 0, trained.output
    assert load_model(model).certificate_.n_examples == N // 4


@pytest.mark.parametrize(
    ("more", "facts", "message"),
    [
        ([], 'person = "patient"\n', "need --set reach=1, your word"),
        (["--set", "trust=none", "--set", "key_file=key"], "", "--set trust=none needs reach"),
        (["--set", "trust=nobody"], "", "--set trust=nobody: trust must be one of"),
        (["--set", "trust=none", "--set", "reach=1"], "", "key_file"),
        (["--set", "reach=1"], "", '--set reach=1: reach is for trust="none"'),
        (["--set", "mechanism=tree"], "", "mechanism"),
        (["--set", "random_state=1"], "", "the noise of a released model must be secret"),
        (["--seed", "1"], "", "--seed has no effect with --private"),
        (["--label", "churned"], "", "--label has no effect with --private"),
        ([], "private_bounds = true\n", "public bounds"),
        ([], 'delimiter = ";"\n', "is about CSV"),
        ([], "one_line_per_row = true\n", "is about CSV"),
        ([], 'person = "nobody"\n', "has 0 columns 'nobody'"),
        (["--set", "reach=1"], 'person = "age"\n', "float"),
    ],
)  # fmt: skip
def test_refusals(files, address, more, facts, message, capsys):
    (files / "bounds.toml").write_text(facts + BOUNDS)
    arguments = ["train", f"{files}/*.parquet", "--private", "--epsilon", 1, "--delta", "1e-5",
                 "--bounds", files / "bounds.toml", "--dask", address, "-o", files / "model",
                 *more]  # fmt: skip
    assert run_program(program, [*map(str, arguments)]) != 0
    assert message in capsys.readouterr().err
    assert not (files / "model").exists()


def test_a_csv_file_has_no_partitions(files, people):
    people.to_csv(files / "rows.csv", index=False)
    refused = run("train", files / "rows.csv", "--private", "--epsilon", 1, "--delta", "1e-5",
                  "--bounds", files / "bounds.toml", "--set", "reach=1")  # fmt: skip
    assert "a CSV file has no partitions" in refused.output
    refused = run("train", files / "rows.csv", "--private", "--epsilon", 1, "--delta", "1e-5",
                  "--bounds", files / "bounds.toml", "--dask", "local")  # fmt: skip
    assert "--dask reads Parquet files" in refused.output
