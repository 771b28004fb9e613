# SPDX-License-Identifier: BSD-3-Clause
import copy
import math
import pickle

import numpy as np
import pytest
from scipy import stats

import pairlearn.privacy.noise as noise_module
from pairlearn.privacy.noise import (
    NoiseSource,
    _Bits,
    _first_failure,
    _geometric_exp,
    discrete_gaussian,
)


def test_counts_go_on_from_batch_to_batch(monkeypatch):
    # One series in which nine of ten trials succeed, so that the trials of a batch are too few:
    # the counts are those between failures of the whole series.
    rng, place = np.random.default_rng(0), 0
    series = rng.random(5000) < 0.9

    def next_trials(ones, denominator, bits):
        nonlocal place
        place += len(ones)
        return series[place - len(ones) : place]

    monkeypatch.setattr(noise_module, "_bernoulli_exp_fraction", next_trials)
    failures = np.flatnonzero(~series)
    expected = np.diff(failures, prepend=-1)[:200] - 1
    np.testing.assert_array_equal(_geometric_exp(200, seeded(0)), expected)
    # a batch without any failure goes on, too
    place, series = 0, np.arange(5000) % 97 == 96
    series = ~series
    np.testing.assert_array_equal(_geometric_exp(20, seeded(0)), np.full(20, 96))


def draw(source):
    return source.protect_integers(np.zeros(8, dtype=np.int64), 1 << 20)


def discrete(source):
    return source.protect_integers(np.zeros(8, dtype=np.int64), 1 << 16)


def seeded(seed):
    return _Bits(np.random.Generator(np.random.PCG64(seed)))


def test_noise_is_given_out_once(monkeypatch):
    # Releases share a draw, and no number of it is seen twice.
    drawn = []

    def counted(scale, size, *, bits=None):
        drawn.append(size)
        return np.arange(sum(drawn) - size, sum(drawn))

    monkeypatch.setattr(noise_module, "discrete_gaussian", counted)
    source = NoiseSource()
    given = [
        source.protect_integers(np.zeros(size, dtype=np.int64), scale)
        for size, scale in ((18, 9), (18, 9), (0, 9), (54, 9), (5, 7), (300, 9), (1, 9))
    ]
    numbers = np.concatenate(given)
    assert len(np.unique(numbers)) == len(numbers)
    assert len(drawn) == 4
    # A fork must not give out what its parent gives out.
    source._process = -1
    assert source.protect_integers(np.zeros(1, dtype=np.int64), 9)[0] == sum(drawn) - 128
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(source)


@pytest.mark.parametrize("scale", [1, 2, 7])
def test_discrete_gaussian_law(scale):
    # Chi-square on a fixed seed; the false-alarm rate of a fresh seed would be 1e-4.
    size = 40_000
    values = discrete_gaussian(scale, size, bits=seeded(scale))
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
    values = discrete_gaussian(scale, 20_000, bits=seeded(5))
    assert stats.kstest(values / scale, "norm").pvalue > 1e-4


def test_uniform_numbers_are_uniform():
    counts = np.bincount(seeded(0).below(3, 30_000), minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert _Bits().below(1, 5).tolist() == [0] * 5


def test_sources_differ_and_seeds_repeat():
    assert not np.array_equal(draw(NoiseSource()), draw(NoiseSource()))
    assert np.array_equal(draw(NoiseSource(seed=3)), draw(NoiseSource(seed=3)))
    assert not np.array_equal(discrete(NoiseSource()), discrete(NoiseSource()))
    # The global state of NumPy is neither read nor moved.
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    draw(NoiseSource())
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_bad_scale_is_refused():
    with pytest.raises(ValueError, match="coarser grid"):
        discrete_gaussian(1 << 25, 3)
    with pytest.raises(ValueError, match="scale"):
        NoiseSource().protect_integers(np.zeros(3, dtype=np.int64), 0)


def test_the_first_failure_goes_on_beyond_what_one_number_decides():
    class Scripted(_Bits):
        """Gives out the numbers of a list, whatever is asked for."""

        def __init__(self, *numbers):
            super().__init__()
            self.numbers, self.asked = list(numbers), []

        def below(self, bound, size):
            self.asked.append(bound)
            return np.full(size, self.numbers.pop(0), dtype=np.int64)

    # 20! / k! - 1 is the largest number whose first failure is beyond k.
    for k in range(1, 20):
        edge = math.factorial(20) // math.factorial(k)
        assert _first_failure(1, Scripted(edge - 1)).item() > k
        if k > 1:
            assert _first_failure(1, Scripted(edge)).item() == k
    bits = Scripted(0, 0, 0, 1)
    assert _first_failure(1, bits).item() == 23
    assert bits.asked == [math.factorial(20), 21, 22, 23]


def test_counts_before_a_failure_do_not_depend_on_how_trials_are_cut():
    # Every count is a sum of trials in a row, also over the end of a batch.
    counts = [_geometric_exp(size, _Bits(np.random.default_rng(size))) for size in range(1, 400)]
    found = np.concatenate(counts)
    expected = (1 - np.exp(-1)) * np.exp(-np.arange(5))
    share = np.array([(found == k).mean() for k in range(5)])
    assert (np.abs(share - expected) < 4 * np.sqrt(expected / len(found))).all()
