# SPDX-License-Identifier: BSD-3-Clause
"""Learn a Mahalanobis metric privately, by noisy gradient descent over all pairs.

With h_W(v) = v' W v, tau = 1 for equal and -1 for different labels, the risk is

    F_S(W) = 2/(n (n - 1)) sum over i < j of  a_ij log(1 + exp(tau_ij (h_W(v_ij) - b))),
    v_ij = clip_C(x_i - x_j),   a_ij = 1 for equal and a for different labels, 0 < a <= 1.

A pair with an unknown label costs nothing. Let W be PSD with eigenvalues in [p, q]. In the
Frobenius norm, the gradient of a pair is at most E for equal and at most D for different labels:

    E = C^2 sigmoid(q C^2 - b),
    D = a C^2 sigmoid(b - p C^2)   if p C^2 <= 1 + omega,   a omega / p   if not,

where omega e^omega = e^(b - 1). Replacing one example changes the gradient of F_S by at most
2 c / n with c = max(E + D, sqrt(2) E, sqrt(2) D); adding or removing one among at most n changes it
by at most 2 max(E, D) / n. Lemma 11 in ``docs/privacy/lemmas.md`` proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from pairlearn.domains import PsdCone
from pairlearn.privacy.mechanisms.base import (
    Mechanism,
    PrivateFit,
    PublicSetting,
    check_constant,
    relative_slack,
)
from pairlearn.privacy.mechanisms.clipped_pairs import clip_rows
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import OneRowEach
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Vector
from pairlearn.validation import check_count

# Pairs are processed in chunks of about this many numbers, to bound the memory.
_CHUNK_NUMBERS = 1 << 20
# All pairs are kept between steps if they take at most this many numbers (128 MiB).
_STORED_NUMBERS = 1 << 24

# Cached: computing the indices takes longer than using them.
_triangle = lru_cache(maxsize=1)(np.triu_indices)


def to_upper(M: Vector) -> Vector:
    """Return a symmetric matrix as a vector of the same length in the Frobenius norm.

    It is the upper triangle, row by row, with sqrt(2) times the entries off the diagonal.
    """
    rows, columns = _triangle(len(M))
    upper: Vector = M[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))
    return upper


def from_upper(v: Vector) -> Vector:
    """Return the symmetric matrix of a vector; the inverse of `to_upper`."""
    d = (math.isqrt(8 * len(v) + 1) - 1) // 2
    rows, columns = _triangle(d)
    M = np.empty((d, d))
    M[rows, columns] = M[columns, rows] = v * np.where(rows == columns, 1.0, math.sqrt(0.5))
    return M


@dataclass(frozen=True)
class PairLengths:
    r"""Bounds on the gradient of one pair at a PSD matrix W; see the module.

    They bound the Frobenius norm for equal and for different labels: E and D of the module.
    """

    equal: float
    different: float

    @classmethod
    def at(cls, W: Vector, *, radius: float, bias: float, different_weight: float) -> PairLengths:
        """Return the bounds at a public positive semi-definite matrix; `different_weight` is a."""
        from scipy.special import expit, wrightomega

        values = np.linalg.eigvalsh(W)
        least, largest = max(0.0, float(values[0])), max(0.0, float(values[-1]))
        squared = radius * radius
        # The solution of omega e^omega = e^(b - 1).
        omega = float(wrightomega(bias - 1.0))
        if least * squared <= 1.0 + omega:
            farthest = squared * float(expit(bias - least * squared))
        else:
            farthest = omega / least
        return cls(squared * float(expit(largest * squared - bias)), different_weight * farthest)

    @property
    def change(self) -> float:
        """The largest change of a pair's gradient if one of its examples is replaced."""
        root = math.sqrt(2.0)
        return max(self.equal + self.different, root * self.equal, root * self.different)

    @property
    def largest(self) -> float:
        """The largest change by a pair that comes or goes: the larger of the two bounds."""
        return max(self.equal, self.different)


class MetricPairGradient:
    """The gradient of the metric risk of the module.

    Equal labels are equal numbers; NaN is an unknown one. `radius` is the clipping radius C, `bias`
    the squared distance b, `different_weight` the weight a. `n_examples` is the public n of the
    formula, by default the number of rows.
    """

    def __init__(
        self,
        Z: Vector,
        labels: Vector,
        *,
        radius: float,
        bias: float = 1.0,
        different_weight: float = 1.0,
        n_examples: int | None = None,
    ) -> None:
        n = len(Z) if n_examples is None else n_examples
        if n < len(Z):
            raise ValueError(f"there are more rows than the public number {n}.")
        self._Z, self._labels, self._radius, self._bias = Z, labels, radius, bias
        self._different_weight = different_weight
        self._scale = 2.0 / max(1, n * (n - 1))
        self._is_small = len(Z) * len(Z) * Z.shape[1] <= 2 * _STORED_NUMBERS

    @cached_property
    def _stored(self) -> list[tuple[Vector, Vector]]:
        return [self._pairs(*chunk) for chunk in self._chunks()]

    def _chunks(self) -> list[tuple[int, int]]:
        """Return ranges of examples; a chunk pairs a range with all later examples."""
        n, d = self._Z.shape
        size = max(1, _CHUNK_NUMBERS // max(1, n * d))
        return [(start, min(start + size, n)) for start in range(0, n, size)]

    def _pairs(self, start: int, stop: int) -> tuple[Vector, Vector]:
        """Return clipped differences to later examples, and tau times the weight (0 if unknown)."""
        n = len(self._Z)
        i, j = np.nonzero(np.arange(start, n)[None, :] > np.arange(start, stop)[:, None])
        i, j = i + start, j + start
        left, right = self._labels[i], self._labels[j]
        kinds = np.where(left == right, 1.0, -self._different_weight)
        kinds[np.isnan(left) | np.isnan(right)] = 0.0
        return clip_rows(self._Z[i] - self._Z[j], self._radius), kinds

    def __call__(self, W: Vector) -> Vector:
        """Return the gradient at a symmetric matrix `W`."""
        total = np.zeros_like(W)
        chunks = self._stored if self._is_small else (self._pairs(*c) for c in self._chunks())
        for V, kinds in chunks:
            t = np.sign(kinds) * (np.einsum("ij,ij->i", V @ W, V) - self._bias)
            # sigmoid(t) without overflow
            slopes = kinds * (0.5 * (1.0 + np.tanh(0.5 * t)))
            total += V.T @ (slopes[:, None] * V)
        return self._scale * 0.5 * (total + total.T)


@dataclass(frozen=True)
class MetricGradient(Mechanism):
    r"""Noisy gradient descent on the logistic metric risk over all pairs.

    Descent starts from W = (b/C^2) I, the Euclidean metric in standard units, and each of T steps
    releases the gradient of F_S at the present W with Gaussian noise, moves, and projects on the
    PSD cone.

    *Sensitivity.* W is a function of earlier releases, so its eigenvalues are public, and the
    bound of the module holds in each step. T steps with mu / sqrt(T) each compose to mu. Lemma 9
    bounds the rounding.

    *Step size.* It does not depend on the data. It is reduced so that the noise of all steps stays
    below `noise_limit` times b/C^2, the first eigenvalue of W (lemma 11). So with a small budget
    the metric stays near the Euclidean one instead of becoming noise.

    Parameters
    ----------
    n_steps : int, default=1
        Number of steps T. One step is the noisy contrast of the spreads of near and of far pairs;
        more steps pay when noise is small.
    clip : float, default=0.8
        Clipping radius C in units of sqrt(d) standard units.
    bias : float, default=1.0
        The squared distance b that separates near from far.
    different_weight : float, default=1.0
        The weight a of pairs with different labels, at most 1; 1/(K - 1) balances K classes.
    step : float, default=2.0
        Length of the path, in units of 2 K d b/C^4 times the gradient, with K = 1 + 1/a.
    noise_limit : float, default=0.5
        Bound on the noise relative to the start.

    Examples
    --------
    >>> MetricGradient(n_steps=3).name
    'metric_gradient'
    """

    n_steps: int = 1
    clip: float = 0.8
    bias: float = 1.0
    different_weight: float = 1.0
    step: float = 2.0
    noise_limit: float = 0.5

    name = "metric_gradient"
    learns = "metric"
    label_is_worst = True
    offers_persons = True

    def __post_init__(self) -> None:
        check_count("n_steps", self.n_steps)
        for name in ("clip", "bias", "different_weight", "step", "noise_limit"):
            check_constant(name, getattr(self, name))
        if self.different_weight > 1:
            raise ValueError(f"different_weight must be at most 1, got {self.different_weight!r}.")

    def fit(
        self,
        Z: Vector,
        signs: Vector,
        *,
        setting: PublicSetting,
        noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> PrivateFit:
        """Learn privately; see `Mechanism.fit`.

        Equal numbers in `signs` are equal labels; NaN is an unknown label. `direction` of the
        result holds the rows of W. `persons` holds the person of each row, numbered from 0; then
        one row of each is drawn for each step, and the guarantee protects a person with all rows.
        """
        self.check(setting, noise)
        n, d = setting.n_examples, setting.n_features
        radius = self.clip * math.sqrt(d)
        risk = partial(
            MetricPairGradient,
            radius=radius,
            bias=self.bias,
            different_weight=self.different_weight,
            n_examples=n,
        )
        gradient = risk(Z, signs) if persons is None else None
        mu = setting.mu * (1.0 - 1e-12) / math.sqrt(self.n_steps)
        W = self.bias / radius**2 * np.eye(d)
        step_size = self._step_size(self._sensitivity(W, setting) / setting.mu, radius, d)
        releases = []
        for t in range(self.n_steps):
            if persons is not None:
                drawn = OneRowEach(persons).drawn(noise.permutation(n), noise)
                drawn = drawn[drawn < len(Z)]
                gradient = risk(Z[drawn], signs[drawn])
            assert gradient is not None
            noisy, release = release_vector(
                to_upper(gradient(W)),
                name=f"metric gradient, step {t + 1}",
                sensitivity=self._sensitivity(W, setting),
                mu=mu,
                noise=noise,
            )
            releases.append(release)
            W = PsdCone().project(W - step_size * from_upper(noisy))
        return PrivateFit.of_several(W.ravel(), releases, noise, self.bias)

    def _sensitivity(self, W: Vector, setting: PublicSetting) -> float:
        n, d = setting.n_examples, setting.n_features
        radius = self.clip * math.sqrt(d)
        lengths = PairLengths.at(
            W, radius=radius, bias=self.bias, different_weight=self.different_weight
        )
        moved = lengths.change if setting.neighbours == "replace" else lengths.largest
        # A chunk has at most _CHUNK_NUMBERS pairs, or else the n - 1 pairs of one example.
        terms = float(max(_CHUNK_NUMBERS, n) + n)
        terms += (4.0 * d + 32.0) * (1.0 + self.bias + radius**2 * float(np.linalg.norm(W)))
        return 2.0 * moved / n * relative_slack + 2.0 * terms * 2.0**-53 * lengths.largest

    def _step_size(self, unit_noise: float, radius: float, d: int) -> float:
        """Return the step size, given the noise of one step with the whole budget."""
        n_classes = 1.0 + 1.0 / self.different_weight
        wanted = self.step * 2.0 * n_classes * d * self.bias / radius**4
        # T steps, each with sqrt(T) times this noise, add up to T times it.
        allowed = self.noise_limit * self.bias / radius**2 / (math.sqrt(2.0 * d) * unit_noise)
        return min(wanted, allowed) / self.n_steps
