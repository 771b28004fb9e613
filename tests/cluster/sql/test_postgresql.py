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

from pairlearn.cluster import class_moments
from pairlearn.solvers import ClassMoments, Extents, Grid

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


@pytest.mark.parametrize("kind", ["none", "whole", "fractions", "far"])
def test_the_state_is_that_of_rows_in_memory(postgresql, examples, kind):
    X, y, whole = examples
    weight = {"whole": np.where(whole == 3, 0.0, whole), "fractions": whole / 7.0}.get(kind)
    if kind == "far":
        X = X.copy()
        X[0, 0], X[1, 0], X[2, 1], X[3, 2] = 1e5, -1e5, 0.0, 5e-324
    name = f"rows_{kind}"
    filled(postgresql, name, X, y, np.ones(len(y)) if weight is None else weight)
    reach = Extents.of(X, weight)
    expected = ClassMoments(3, Grid.of(reach)).add(X, 2 * y - 1, example_weight=weight)
    found = class_moments(
        postgresql, table=("public", name), columns=["x0", "x1", "x2"], target="y",
        weight=None if weight is None else "w", dialect="postgresql",
    )  # fmt: skip
    for field, value in vars(reach).items():
        assert np.array_equal(getattr(found.extents, field), value), field
    assert found.digest() == expected.digest()
    gone = class_moments(
        postgresql, query=f"SELECT * FROM {name} WHERE x0 > 1 -- some", columns=["x0", "x1", "x2"],
        target="y", weight=None if weight is None else "w", dialect="postgresql", like=found,
    )  # fmt: skip
    kept = X[:, 0] <= 1
    own = None if weight is None else weight[kept]
    never = ClassMoments(3, found.grid).add(X[kept], 2 * y[kept] - 1, example_weight=own)
    assert found.without(gone).digest() == never.digest()


def test_what_cannot_be_summed_is_refused(postgresql, examples):
    X, y, weight = examples
    filled(postgresql, "bad", X[:50], y[:50], weight[:50])
    options = {"columns": ["x0"], "target": "y", "dialect": "postgresql", "table": "bad"}
    postgresql("UPDATE bad SET x0 = NULL WHERE x1 > 1000")
    with pytest.raises(ValueError, match="column 'x0' is NULL"):
        class_moments(postgresql, **options)
    postgresql("UPDATE bad SET x0 = 'NaN' WHERE x0 IS NULL")
    with pytest.raises(ValueError, match="NaN or infinity"):
        class_moments(postgresql, **options)
    postgresql("ALTER TABLE bad ALTER COLUMN x0 TYPE TEXT USING '7'")
    with pytest.raises(ValueError, match="column 'x0' is NULL, or no number, in 50 of 50"):
        class_moments(postgresql, **options)
