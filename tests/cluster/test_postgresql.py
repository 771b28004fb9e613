# SPDX-License-Identifier: BSD-3-Clause
"""The generated SELECTs on a real PostgreSQL; `make test-postgres` installs one where it can.

The server belongs to this test: its data lie in a temporary folder, and it listens on loopback.
"""

import csv
import io
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pairlearn import Moments
from pairlearn.cluster import class_moments
from pairlearn.solvers import ClassMoments

pytestmark = pytest.mark.slow


def programs():
    """Return the folder of PostgreSQL's programs, or None."""
    found = shutil.which("initdb")
    if found is not None and shutil.which("postgres") is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def other_user():
    """Return a user for the server, which refuses to run as root; None for this one."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    """A function from a statement to its rows."""
    folder = programs()
    if folder is None or shutil.which("psql") is None:
        pytest.skip("PostgreSQL is not installed; apt-get install postgresql")
    # A folder that another user can reach; those of pytest are closed to others.
    user, base = other_user(), Path(f"/tmp/pairlearn-postgresql-{os.getpid()}")
    base.mkdir(mode=0o700)
    if user is not None:
        os.chown(base, user.pw_uid, user.pw_gid)
    as_user = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
    quiet = {**as_user, "cwd": "/", "capture_output": True, "text": True, "check": True}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    data = str(base / "data")
    start = [str(folder / "pg_ctl"), "-D", data, "-w", "-l", str(base / "log")]
    try:
        subprocess.run(
            [str(folder / "initdb"), "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8",
             "--no-locale", "--no-sync"], **quiet,
        )  # fmt: skip
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {base} -c fsync=off"
        # The server inherits what it is given: a pipe would stay open as long as it runs.
        subprocess.run(
            [*start, "-o", options, "start"], **as_user, cwd="/", check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def run(statement):
            done = subprocess.run(
                ["psql", "-X", "-q", "-t", "--csv", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
                 "-p", port, "-U", "tester", "-d", "postgres", "-f", "-"],
                input=statement, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError(done.stderr)
            return list(csv.reader(io.StringIO(done.stdout)))

        yield run
    finally:
        subprocess.run([*start, "-m", "immediate", "stop"], **{**quiet, "check": False})
        shutil.rmtree(base, ignore_errors=True)


def filled(run, name, X, y, weight):
    names = ", ".join(f"x{j} DOUBLE PRECISION" for j in range(X.shape[1]))
    table = zip(X.tolist(), y.tolist(), weight.tolist(), strict=True)
    lines = "\n".join(
        ",".join([*map(repr, row), str(label), repr(one)]) for row, label, one in table
    )
    run(
        f"CREATE TABLE {name} ({names}, y INTEGER, w DOUBLE PRECISION);\n"
        f"COPY {name} FROM STDIN (FORMAT csv);\n{lines}\n\\.\n"
    )


@pytest.mark.parametrize("kind", ["none", "whole"])
def test_the_state_is_that_of_rows_in_memory(postgresql, rng, kind):
    X = rng.normal(size=(1_000, 3)) + np.array([0.0, 1000.0, 0.0])
    y = (X[:, 0] + rng.normal(size=1_000) > 0).astype(int)
    X[:4, 2] = 1e-300, 5e-324, 0.0, 0.5
    weight = rng.integers(0, 4, 1_000).astype(float) if kind == "whole" else np.ones(1_000)
    name = f"rows_{kind}"
    filled(postgresql, name, X, y, weight)
    ranges = ([-8.0, 990.0, -8.0], [8.0, 1010.0, 8.0])
    asked = {
        "columns": ["x0", "x1", "x2"], "target": "y", "dialect": "postgresql",
        "weight": "w" if kind == "whole" else None,
    }  # fmt: skip
    found = class_moments(postgresql, table=("public", name), ranges=ranges, **asked)
    grid = Moments(ranges=ranges).grid(3)

    def in_memory(rows):
        own = weight[rows] if kind == "whole" else None
        return ClassMoments(3, grid).add(X[rows], 2 * y[rows] - 1, example_weight=own)

    assert found.digest() == in_memory(np.arange(1_000)).digest()
    query = f"SELECT * FROM {name} WHERE x0 > 1 -- some"
    gone = class_moments(postgresql, query=query, like=found, **asked)
    assert found.without(gone).digest() == in_memory(X[:, 0] <= 1).digest()


def test_what_cannot_be_summed_is_refused(postgresql, rng):
    X, y = rng.normal(size=(50, 2)), np.arange(50) % 2
    filled(postgresql, "bad", X, y, np.ones(50))
    options = {
        "columns": ["x0"], "target": "y", "dialect": "postgresql", "table": "bad", "ranges": (-9, 9)
    }  # fmt: skip
    for change in (
        "UPDATE bad SET x0 = NULL WHERE x1 > 1",
        "UPDATE bad SET x0 = 'NaN' WHERE x0 IS NULL",
        "UPDATE bad SET x0 = 'infinity' WHERE x0 = 'NaN'",
        "ALTER TABLE bad ALTER COLUMN x0 TYPE TEXT USING '7'",
    ):
        postgresql(change)
        with pytest.raises(ValueError, match="hold NULL or no number"):
            class_moments(postgresql, **options)
