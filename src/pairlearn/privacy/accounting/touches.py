# SPDX-License-Identifier: BSD-3-Clause
"""The law of how often a run of Algorithm 1 touches one example, for runs of any length.

Indices i_0, ..., i_T are uniform on n examples and step t uses the pair (i_t, i_{t-1}). A change
c eta in each step that touches example k moves the average of w_{j-2} by at most c eta H with

    H = (1/T) sum_t (T - t - 1)_+ 1[i_t = k or i_{t-1} = k].

The law of H itself takes time T^2 and more. This module groups the steps in blocks of equal length
and gives each step the largest weight of its block. The result is the exact law of a variable that
is never smaller than H and, with 128 blocks, about one percent larger. Lemma 7 in
``docs/privacy/lemmas.md`` has the generating function of a block.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pairlearn.privacy.accounting.gaussian import mixture_noise_scale
from pairlearn.typing import Vector
from pairlearn.validation import check_count

# Blocks of steps: more are slower, fewer overestimate H by more than a percent.
_N_BLOCKS = 128
# Largest dropped probability, far below every useful delta.
_LARGEST_LOSS = 1e-18


@lru_cache(maxsize=256)
def _cells(n: int, n_steps: int) -> tuple[Vector, float]:
    """Return the law of H in cells of width block/n_steps, and the dropped probability."""
    block = math.ceil(n_steps / _N_BLOCKS)
    lengths = [min(block, n_steps - start) for start in range(0, n_steps, block)]
    # Step t = start + 1 is the heaviest of its block.
    weights = [math.ceil(max(n_steps - start - 2, 0) / block) for start in range(0, n_steps, block)]
    mean = 2.0 / n * sum(w * m for w, m in zip(weights, lengths, strict=True))
    largest = sum(w * m for w, m in zip(weights, lengths, strict=True))
    powers: dict[int, list[list[Vector]]] = {}
    hits = 32 + math.ceil(8 * 2 * block / n)
    top = math.ceil(3 * mean + 24 * max(weights)) + 1
    while True:
        top = min(top, largest)
        state = [np.zeros(top + 1), np.zeros(top + 1)]
        state[0][0], state[1][0] = 1.0 - 1.0 / n, 1.0 / n
        for weight, length in zip(weights, lengths, strict=True):
            if length not in powers:
                powers[length] = _power(n, length, cap=hits)
            state = _advance(state, powers[length], weight)
        law: Vector = state[0] + state[1]
        # The sum may exceed 1 by rounding.
        lost = max(0.0, 1.0 - float(law.sum()))
        if top == largest or law[-max(top // 50, 1) :].sum() < _LARGEST_LOSS:
            return law, lost
        top *= 2


def _power(n: int, length: int, *, cap: int) -> list[list[Vector]]:
    """Return the generating function of `length` steps, up to z^cap."""
    hit = 1.0 / n
    base = [
        [np.array([1.0 - hit, 0.0]), np.array([0.0, hit])],
        [np.array([0.0, 1.0 - hit]), np.array([0.0, hit])],
    ]
    result = [[np.ones(1), np.zeros(1)], [np.zeros(1), np.ones(1)]]
    while length:
        if length & 1:
            result = _product(result, base, cap)
        length >>= 1
        if length:
            base = _product(base, base, cap)
    return result


def _product(a: list[list[Vector]], b: list[list[Vector]], cap: int) -> list[list[Vector]]:
    return [
        [
            (np.convolve(a[i][0], b[0][j]) + np.convolve(a[i][1], b[1][j]))[: cap + 1]
            for j in range(2)
        ]
        for i in range(2)
    ]


def _advance(state: list[Vector], power: list[list[Vector]], weight: int) -> list[Vector]:
    top = len(state[0])
    moved = [np.zeros(top), np.zeros(top)]
    for i in range(2):
        for j in range(2):
            for count, chance in enumerate(power[i][j]):
                shift = count * weight
                if chance > 0.0 and shift < top:
                    moved[j][shift:] += chance * state[i][: top - shift]
    return moved


def touch_law(n: int, n_steps: int) -> tuple[Vector, Vector]:
    """Return values and probabilities of (an upper bound of) H; see the module.

    The last value is infinity, with the probability that was dropped.
    """
    n = check_count("n", n, minimum=2)
    n_steps = check_count("n_steps", n_steps)
    law, lost = _cells(n, n_steps)
    width = math.ceil(n_steps / _N_BLOCKS) / n_steps
    values = np.append(np.arange(len(law)) * width, np.inf)
    # Every probability is a sum of products of at most n_steps rounded factors. A loss below that
    # is rounding, and `_cells` has shown that the true loss is below _LARGEST_LOSS.
    rounding = n_steps * 1e-15
    return values, np.append(law * (1.0 + rounding), lost if lost > rounding else _LARGEST_LOSS)


@lru_cache(maxsize=1024)
def touch_noise(n: int, n_steps: int, epsilon: float, delta: float, rounding: float = 0.0) -> float:
    """Return the noise that protects the average of w_{j-2} if each touched step moves by 1.

    `rounding` is added to every positive sensitivity; if no step touches the example, the runs are
    equal.
    """
    if delta <= _LARGEST_LOSS:
        raise ValueError(
            f"delta must be above {_LARGEST_LOSS:g}, to which the law of touched steps is known, "
            f"got {delta:g}; give a larger delta, or use another mechanism."
        )
    values, chances = touch_law(n, n_steps)
    apart = np.where(values > 0, values + rounding, 0.0)
    return mixture_noise_scale(apart, chances, epsilon=epsilon, delta=delta)
