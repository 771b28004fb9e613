# SPDX-License-Identifier: BSD-3-Clause
import copy
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from pairlearn.privacy.noise import NoiseSource


def draw(source):
    return source.protect_integers(np.zeros(8, dtype=np.int64), 1 << 20)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_source_is_not_copied(copied):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(NoiseSource())


@pytest.mark.parametrize("scale", [1, 2, 7])
def test_discrete_gaussian_law(scale):
    # Chi-square on a fixed seed; the false-alarm rate of a fresh seed would be 1e-4.
    size = 40_000
    values = NoiseSource(seed=scale).protect_integers(np.zeros(size, dtype=np.int64), scale)
    support = np.arange(-6 * scale, 6 * scale + 1)
    law = np.exp(-(support**2) / (2 * scale**2))
    law /= law.sum()
    observed = np.array([(values == x).sum() for x in support])
    often = law * size > 5
    cells = np.append(observed[often], size - observed[often].sum())
    expected = np.append(law[often] * size, size * (1 - law[often].sum()))
    statistic = ((cells - expected) ** 2 / expected)[expected > 1].sum()
    assert stats.chi2.sf(statistic, often.sum()) > 1e-4


@pytest.mark.parametrize("scale", [1 << 12, 1 << 20, 1 << 24])
def test_discrete_gaussian_approaches_the_continuous_law(scale):
    # Kolmogorov-Smirnov, fixed seed, false-alarm rate 1e-4.
    values = NoiseSource(seed=5).protect_integers(np.zeros(20_000, dtype=np.int64), scale)
    assert stats.kstest(values / scale, "norm").pvalue > 1e-4


def test_uniform_numbers_are_uniform():
    counts = np.bincount(NoiseSource(seed=0).draw_indices(3, 30_000), minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert NoiseSource().draw_indices(1, 5).tolist() == [0] * 5
    orders = [tuple(NoiseSource(seed=k).permutation(3).tolist()) for k in range(3000)]
    assert stats.chisquare([orders.count(one) for one in set(orders)]).pvalue > 1e-4
    assert len(set(orders)) == 6


def test_words_that_would_favour_a_number_are_drawn_again():
    source = NoiseSource()
    words = iter([np.array([2**64 - 1, 5], dtype=np.uint64), np.array([7], dtype=np.uint64)])
    source._bytes = lambda size: next(words).tobytes()
    assert source.draw_indices(3, 2).tolist() == [5 % 3, 7 % 3]


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 3), (5, 2), (3 * 10**30, 10**31)])
def test_coins_have_their_probability(numerator, denominator):
    # Five standard errors: a false alarm once in a million.
    source, n = NoiseSource(seed=1), 4000
    share = np.mean([source.accept(numerator, denominator) for _ in range(n)])
    p = math.exp(-numerator / denominator)
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / n)


def test_sources_differ_and_seeds_repeat():
    assert not np.array_equal(draw(NoiseSource()), draw(NoiseSource()))
    assert np.array_equal(draw(NoiseSource(seed=3)), draw(NoiseSource(seed=3)))
    source = NoiseSource()
    assert not np.array_equal(draw(source), draw(source))
    # The global state of NumPy is neither read nor moved.
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    draw(NoiseSource())
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="coarser grid"):
        NoiseSource().protect_integers(np.zeros(3, dtype=np.int64), 1 << 25)
    with pytest.raises(ValueError, match="scale"):
        NoiseSource().protect_integers(np.zeros(3, dtype=np.int64), 0)
    with pytest.raises(ValueError, match="whole number of at least 0"):
        NoiseSource(seed=-1)


FORKED = """
import os
import numpy as np
from pairlearn.privacy.noise import NoiseSource
source, zeros = NoiseSource(), np.zeros(64, dtype=np.int64)
source.protect_integers(zeros, 1 << 20)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, source.protect_integers(zeros, 1 << 20).tobytes())
    os._exit(0)
own = source.protect_integers(zeros, 1 << 20)
child = np.frombuffer(os.read(read, 512), dtype=np.int64)
assert len(child) == 64 and not (own == child).any()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are made by fork")
def test_a_forked_process_draws_noise_of_its_own():
    # In a process of its own: here the tests draw from a seed.
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)
