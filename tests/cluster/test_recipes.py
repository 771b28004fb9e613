# SPDX-License-Identifier: BSD-3-Clause
"""The three verbs on other engines: the programs of the guide, run as they stand."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from pairlearn import AUCClassifier, load_model
from pairlearn.cluster import fit_on

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(0)
    for part in range(3):
        X = rng.normal(size=(200 + 50 * part, 3))
        table = pd.DataFrame(X, columns=["a", "b", "c"])
        table["label"] = (X[:, 0] + rng.normal(size=len(X)) > part - 1).astype(int)
        table.to_parquet(where / f"{part}.parquet")
    return where


@pytest.fixture(scope="module")
def expected(folder):
    tables = [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))]

    def run(statistic):
        return statistic.merge_all(
            statistic.partial_state(
                table.drop(columns="label").to_numpy(), table["label"].to_numpy()
            )
            for table in tables
        )

    return fit_on(run, AUCClassifier(random_state=0))


@pytest.mark.parametrize(
    ("engine", "needs"),
    [
        pytest.param("futures", "concurrent.futures", marks=pytest.mark.thorough),
        pytest.param("duckdb", "duckdb", marks=pytest.mark.thorough),
        pytest.param("ray", "ray", marks=pytest.mark.slow),
        pytest.param("spark", "pyspark", marks=pytest.mark.slow),
    ],
)
def test_a_recipe_gives_the_model_of_one_process(root, folder, expected, tmp_path, engine, needs):
    if find_spec(needs) is None:
        pytest.skip(f"needs {needs}: make test-{engine}")
    model = tmp_path / "model.safetensors"
    program = root / "examples" / "cluster" / f"with_{engine}.py"
    done = subprocess.run(
        [sys.executable, str(program), str(folder), str(model)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "passes" in done.stdout
    found, known = load_model(model).coef_, expected.coef_
    # Spark and DuckDB decide themselves which rows are which batch; only sums round otherwise.
    own = engine in ("spark", "duckdb")
    np.testing.assert_allclose(found, known, rtol=1e-9 if own else 1e-12)


@pytest.mark.parametrize("engine", ["futures", "ray", "spark", "duckdb"])
def test_the_guide_shows_the_programs_that_are_tested(root, engine):
    page = "sql.md" if engine == "duckdb" else "cluster.md"
    guide = (root / "docs" / "guide" / page).read_text(encoding="utf-8")
    assert f"../../examples/cluster/with_{engine}.py" in guide
