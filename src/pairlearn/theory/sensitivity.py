# SPDX-License-Identifier: BSD-3-Clause
"""Sensitivity of the model to one example, and the Gaussian noise that hides it (Lemmas 5 to 7).

The sensitivity of a given index path is `pairlearn.theory.stability.realized_stability`.
"""

from __future__ import annotations

import math
from typing import Literal

from numpy.typing import ArrayLike

from pairlearn.privacy.accounting.gaussian import gaussian_delta, mu_of
from pairlearn.theory.conventions import (
    ConstantsChoice,
    check_constants,
    check_step_size,
    require,
    require_contraction,
)
from pairlearn.theory.glossary import documented
from pairlearn.validation import check_count, check_fraction, check_positive


@documented
def chernoff_upper(mean: float, *, failure_probability: float) -> float:
    """Return the value that a sum of independent 0/1 variables rarely exceeds (Lemma 6).

    Solves exp(-mean g^2/(2 + g)) = p for g: mean + (l + sqrt(l^2 + 8 mean l))/2 with l = log(1/p).

    Parameters
    ----------
    mean : float
        The expectation of the sum.

    Examples
    --------
    >>> round(chernoff_upper(10.0, failure_probability=0.01), 3)
    22.172
    """
    check_positive("mean", mean)
    doubt = math.log(1.0 / check_fraction("failure_probability", failure_probability))
    return mean + (doubt + math.sqrt(doubt**2 + 8.0 * mean * doubt)) / 2.0


@documented
def binomial_upper(n_trials: int, probability: float, *, failure_probability: float) -> int:
    """Return the smallest q with Pr(Binomial > q) <= failure_probability.

    Parameters
    ----------
    n_trials : int
        Number of trials.
    probability : float
        Probability of success.

    Examples
    --------
    >>> binomial_upper(1000, 0.01, failure_probability=0.01)
    18
    """
    from scipy.stats import binom

    check_count("n_trials", n_trials)
    check_fraction("failure_probability", failure_probability)
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability must lie between 0 and 1, got {probability!r}.")
    quantile = int(binom.isf(failure_probability, n_trials, probability))
    # isf is exact up to rounding; the loop makes the result surely valid.
    while binom.sf(quantile, n_trials, probability) > failure_probability:
        quantile += 1
    return quantile


@documented
def sensitivity_with_confidence(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    smoothness: float,
    step_size: float,
    failure_probability: float,
    method: Literal["exact", "chernoff"] = "exact",
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Return a bound on \|A(S) - A(S')\| that fails with small probability (Lemma 7).

    Parameters
    ----------
    smoothness : float
        L, the Lipschitz constant of its gradient; the step size must be at most 2 / L.
    method : {"exact", "chernoff"}, default="exact"
        How the number of draws of an example, Binomial(t + 1, 1/n), is bounded.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states 4 G eta (t/n + l + sqrt(t l/n)) with l = log(2/p), which is valid only
        for t/n <= l. Corrected: 2 c eta q, where q is the quantile of the number of draws.

    Returns
    -------
    float
        The bound, for the last iterate and every average of iterates.

    Examples
    --------
    >>> options = dict(lipschitz=1.0, smoothness=1.0, step_size=1.0, failure_probability=1/512)
    >>> sensitivity_with_confidence(128, 887, **options)
    64.0
    >>> round(sensitivity_with_confidence(128, 887, **options, constants="paper"), 1)
    83.2
    """
    corrected = check_constants(constants)
    check_count("n", n, minimum=2)
    check_count("n_steps", n_steps)
    check_positive("lipschitz", lipschitz)
    check_positive("step_size", step_size)
    check_fraction("failure_probability", failure_probability)
    if method not in ("exact", "chernoff"):
        raise ValueError(f"method must be 'exact' or 'chernoff', got {method!r}.")
    require_contraction(float(step_size), smoothness, corrected=corrected)
    if not corrected:
        doubt = math.log(2.0 / failure_probability)
        passes = n_steps / n
        require(
            passes <= doubt * (1.0 + 1e-12),
            f"Lemma 7 needs n_steps / n <= log(2 / failure_probability) = {doubt:g}, "
            f"got {passes:g}; beyond it the stated bound is too small.",
            corrected=False,
        )
        return 4.0 * lipschitz * step_size * (passes + doubt + math.sqrt(passes * doubt))
    if method == "exact":
        draws = float(binomial_upper(n_steps + 1, 1.0 / n, failure_probability=failure_probability))
    else:
        draws = chernoff_upper((n_steps + 1.0) / n, failure_probability=failure_probability)
    change = 2.0 * lipschitz if gradient_change is None else gradient_change
    return 2.0 * check_positive("gradient_change", change) * step_size * draws


@documented
def sensitivity_single_pass(
    step_sizes: float | ArrayLike,
    *,
    lipschitz: float,
    smoothness: float,
    gradient_change: float | None = None,
) -> float:
    """Return the sensitivity of one pass in a fixed or shuffled order, c max (eta_t + eta_{t+1}).

    Each example is in at most two pairs, so this holds surely: 4 G eta for a constant step.

    Parameters
    ----------
    step_sizes : float or array of shape (T,)
        The step sizes.
    smoothness : float
        L, the Lipschitz constant of its gradient; steps must be at most 2 / L.

    Returns
    -------
    float
        The bound, for the last iterate and every average of iterates.

    Examples
    --------
    >>> sensitivity_single_pass(0.5, lipschitz=1.0, smoothness=1.0)
    2.0
    """
    import numpy as np

    check_positive("lipschitz", lipschitz)
    n_steps = 1 if np.ndim(step_sizes) == 0 else len(np.asarray(step_sizes))
    steps = check_step_size(step_sizes, n_steps)
    require_contraction(steps, smoothness, corrected=True)
    change = 2.0 * lipschitz if gradient_change is None else gradient_change
    check_positive("gradient_change", change)
    if isinstance(steps, float):
        return 2.0 * change * steps
    return change * float(np.max(steps + np.append(steps[1:], 0.0)))


@documented
def erm_sensitivity(
    n: int, *, lipschitz: float, strong_convexity: float, gradient_change: float | None = None
) -> float:
    """Bound how far the minimiser of a strongly convex pairwise risk moves: 4 G / (alpha n).

    An example is in 2 (n - 1) of the n (n - 1) ordered pairs; with c the change of a pair
    gradient the bound is 2 c / (alpha n) (proof of Theorem 12, and derivations, section 9).

    Examples
    --------
    >>> erm_sensitivity(100, lipschitz=1.0, strong_convexity=0.5)
    0.08
    """
    check_count("n", n, minimum=2)
    check_positive("lipschitz", lipschitz)
    change = 2.0 * lipschitz if gradient_change is None else gradient_change
    check_positive("gradient_change", change)
    return 2.0 * change / (check_positive("strong_convexity", strong_convexity) * n)


@documented
def gaussian_privacy_loss(noise_multiplier: float, *, epsilon: float) -> float:
    """Return the exact delta of the Gaussian mechanism with sensitivity 1 (Balle and Wang, 2018).

    delta = Phi(1/(2s) - eps s) - e^eps Phi(-1/(2s) - eps s), where s is the noise multiplier.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the sensitivity.
    epsilon : float
        The privacy parameter.

    Returns
    -------
    float
        The smallest delta for which the release is (epsilon, delta)-private.

    Examples
    --------
    >>> round(gaussian_privacy_loss(2.0, epsilon=1.0), 6)
    0.00683
    """
    check_positive("epsilon", epsilon)
    return gaussian_delta(1.0 / check_positive("noise_multiplier", noise_multiplier), epsilon)


@documented
def gaussian_noise_scale(
    sensitivity: float,
    *,
    epsilon: float,
    delta: float,
    sensitivity_is_certain: bool = False,
    constants: ConstantsChoice = "corrected",
) -> float:
    """Return the noise that makes a release (epsilon, delta)-differentially private (Lemma 5).

    Parameters
    ----------
    sensitivity : float
        A bound on the change of the release under replacement of one example.
    epsilon, delta : float
        The privacy parameters.
    sensitivity_is_certain : bool, default=False
        Whether the bound holds surely. Otherwise it holds with probability 1 - delta/2 over the
        data-independent randomness, and half of delta pays for that.
    constants : {"corrected", "paper"}, default="corrected"
        The paper: sensitivity sqrt(2 log(2.5/delta)) / epsilon, whose proof needs epsilon <= 1.
        Corrected: the smallest sufficient scale (the analytic Gaussian mechanism), any epsilon.

    Returns
    -------
    float
        The standard deviation of the noise in each coordinate.

    Examples
    --------
    >>> round(gaussian_noise_scale(1.0, epsilon=1.0, delta=1e-5), 3)
    3.884
    >>> round(gaussian_noise_scale(1.0, epsilon=1.0, delta=1e-5, constants="paper"), 3)
    4.986
    """
    corrected = check_constants(constants)
    check_positive("sensitivity", sensitivity)
    check_positive("epsilon", epsilon)
    check_fraction("delta", delta)
    if not corrected:
        require(
            epsilon <= 1.0,
            f"the classical Gaussian mechanism is proved for epsilon <= 1, got {epsilon:g}.",
            corrected=False,
        )
        return sensitivity * math.sqrt(2.0 * math.log(2.5 / delta)) / epsilon
    return sensitivity / mu_of(epsilon, delta if sensitivity_is_certain else delta / 2.0)
