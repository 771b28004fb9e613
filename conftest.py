# SPDX-License-Identifier: BSD-3-Clause
"""What is collected: code that needs an extra only where that is. Chance is repeatable.

Secure noise and generators without a seed draw from the operating system. In the process of the
tests they draw from a seed made of the test's name: a run that failed fails again, and a test of
chances that passed once does not fail one time in a hundred. No figure stays open.
"""

import importlib.util
import random
import sys

import numpy as np
import numpy.random.bit_generator as seeds
import pytest

from pairlearn.privacy import noise

#: Files that import torch.
_TORCH = ["src/pairlearn/torch/*"]

#: Files that import Spark; its tests say themselves that they need it.
_SPARK = ["src/pairlearn/cluster/spark/[!_]*"]

collect_ignore_glob = [
    *([] if importlib.util.find_spec("pyspark") else _SPARK),
    *([] if importlib.util.find_spec("torch") else _TORCH),
]

_chance = random.Random()


def _draw_for(name):
    """Begin anew all that tests of this process draw by chance."""
    _chance.seed(name)
    random.seed(name)
    np.random.seed(_chance.getrandbits(32))  # noqa: NPY002 -- scikit-learn's default


def pytest_configure():
    """Let secure noise and unseeded generators draw from `_chance`."""
    noise.urandom = _chance.randbytes
    seeds.randbits = _chance.getrandbits


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Each test has its own numbers, whichever ran before it."""
    _draw_for(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Make what several tests share from its own numbers, whichever of them asks first."""
    if fixturedef.scope == "function":
        return (yield)
    _draw_for(f"{fixturedef.baseid}:{fixturedef.argname}:{request.param_index}")
    try:
        return (yield)
    finally:
        _draw_for(request._pyfuncitem.nodeid)


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test or a page has drawn: matplotlib keeps it, and warns when there is much."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
