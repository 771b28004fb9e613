# SPDX-License-Identifier: BSD-3-Clause
"""Settings and fixtures of all tests."""

import os
import signal
import sys
import warnings
from pathlib import Path

# Threads of BLAS and OpenMP wait by spinning: on small matrices, and with a process per core, they
# cost several times what the work does. Processes that tests start inherit this.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Kernels of a graphics processor run step by step on the CPU; Triton looks when it compiles them.
os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so one example may take seconds and the next microseconds.
settings.register_profile(
    "pairlearn",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("pairlearn")

# A shell starts background jobs with Ctrl-C ignored, and what they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does the same to the end of a terminal.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no doctests in tests, which have none: each file would be collected twice."""
    collectors = yield
    return [one for one in collectors if not isinstance(one, DoctestModule)]


@pytest.fixture(scope="session")
def root():
    """Folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the paper's data sets; a test that needs it is skipped where it is absent."""
    folder = Path(os.environ.get("PAIRLEARN_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "ijcnn1.libsvm.xz").exists():
        pytest.skip(f"no data sets in {folder}; name a folder of *.libsvm.xz in PAIRLEARN_DATA")
    return folder


@pytest.fixture
def block_steps(monkeypatch):
    """Give the function that sets the steps of a block wherever a solver has that constant."""
    from pairlearn.solvers import block_sizes

    def set_steps(count):
        users = [m for name, m in sys.modules.items() if name.startswith("pairlearn.solvers.")]
        for module in users:
            if module is not block_sizes and getattr(module, "BLOCK", None) == block_sizes.BLOCK:
                monkeypatch.setattr(module, "BLOCK", count)
        monkeypatch.setattr(block_sizes, "BLOCK", count)

    return set_steps


@pytest.fixture
def rng():
    """A generator with a fixed seed: every run sees the same numbers."""
    return np.random.default_rng(20211112)


@pytest.fixture
def in_a_child():
    """Give a function that runs something in a forked process and returns its status."""
    if not hasattr(os, "fork"):
        pytest.skip("the system does not fork")

    def run(action):
        with warnings.catch_warnings():
            # Threads of a numerical library do not matter: the child does little, and ends
            # without clearing up.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = action()
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run


@pytest.fixture(scope="session")
def release_distances():
    """Return a function that gives, for each release, how far a neighbour is and how far it may be.

    Both are in units of the noise; rows are in standard coordinates.
    """
    from pairlearn.privacy.audit.exact import made_in_pieces
    from pairlearn.privacy.audit.tape import recorded, replayed

    def found(mechanism, pair, *, setting, noise):
        with recorded() as tape:
            fit = mechanism.fit(pair.first.X, pair.first.y, setting=setting, noise=noise)
        coins = [answer for *_, answer in tape.coins]
        with replayed(tape.outputs, tape.draws, rows=pair.moved, coins=coins) as replay:
            other = mechanism.fit(pair.second.X, pair.second.y, setting=setting, noise=noise)
        assert np.array_equal(fit.direction, other.direction)
        assert fit.releases == other.releases
        pieces = made_in_pieces(fit.releases, [value.size for value in tape.values])
        apart = tape.distances(replay)
        return [
            (float(np.linalg.norm([apart[k] for k in piece])), release.mu)
            for piece, release in zip(pieces, fit.releases, strict=True)
        ]

    return found
