# SPDX-License-Identifier: BSD-3-Clause
"""What Windows does not have is used only where it is there."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

#: Hide what only Unix has from the library; what it stands on may still use it.
HIDDEN = """
    import importlib, os, pkgutil, signal, sys

    real = importlib.import_module
    import numpy, scipy.optimize, scipy.sparse, numba, sklearn.linear_model, click
    import contextlib, multiprocessing.connection, subprocess, tempfile, shutil
    with contextlib.suppress(ImportError):
        import torch

    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name in ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "msvcrt"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty"):
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())
    for name in ("fork", "pread", "register_at_fork", "link", "geteuid", "sched_getaffinity"):
        delattr(os, name)
    for name in ("SIGHUP", "SIGALRM", "SIGPIPE", "setitimer", "pthread_sigmask"):
        delattr(signal, name)
"""


def run_hidden(body, folder):
    code = textwrap.dedent(HIDDEN) + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600
    )


@pytest.mark.thorough
def test_every_module_is_imported_without_unix(tmp_path):
    done = run_hidden(
        """
        import pairlearn
        extras = (
            "torch", "triton", "river", "dask", "distributed", "pyspark", "py4j", "duckdb", "onnx"
        )
        for found in pkgutil.walk_packages(pairlearn.__path__, "pairlearn.", onerror=str):
            if found.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(found.name)
            except ImportError as error:
                if error.name not in extras and "is not installed" not in str(error):
                    raise
        print("all")
        """,
        tmp_path,
    )
    assert done.stdout == "all\n", done.stderr


@pytest.mark.thorough
def test_the_program_trains_streams_and_predicts_without_unix(tmp_path):
    rows = "".join(f"{k % 7},{k % 3},{int(k % 7 > 3)}\n" for k in range(60))
    (tmp_path / "a.csv").write_text("a,b,y\n" + rows)
    done = run_hidden(
        """
        from pairlearn.cli.program import program
        from pairlearn.cli.running import run
        for command in (
            "train a.csv --label y -o m",
            "train a.csv --label y -o m",
            "train a.csv --label y --fit stream -o s",
            "predict m a.csv -o scores.csv",
            "predict s a.csv -o more.csv",
            "evaluate m a.csv --label y",
            "inspect m",
        ):
            status = run(program, command.split())
            assert status == 0, (command, status)
        print("all")
        """,
        tmp_path,
    )
    assert done.stdout.endswith("all\n"), done.stderr
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 61
