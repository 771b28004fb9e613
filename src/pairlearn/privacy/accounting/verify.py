# SPDX-License-Identifier: BSD-3-Clause
"""Recompute the accounting of a certificate from its own numbers.

Each way of adding up releases (`Certificate.composition`) is repeated here, from sensitivities and
noise to (epsilon, delta). A certificate cannot show that its sensitivities are right: the lemmas
prove them and the audit attacks them.
"""

from __future__ import annotations

import math

from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.gaussian import compose, epsilon_of_mu
from pairlearn.privacy.accounting.touches import touch_noise
from pairlearn.solvers.descent.localized import stage_sizes

_ROUNDING = 1e-9


def accounting_problems(certificate: Certificate) -> list[str]:
    """Return the errors in the accounting of a certificate; an empty list if it adds up.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    list of str
        A sentence for each problem.
    """
    found = []
    if not certificate.private:
        found.append("the noise can be reproduced, so nothing is private.")
    if not certificate.releases:
        return [*found, "it lists no release, so nothing is behind the numbers that it claims."]
    if certificate.composition == "mixture":
        return found + _mixture(certificate)
    if certificate.mu is None:
        found.append(
            f"a certificate with composition {certificate.composition!r} must state a mu, but "
            "states none."
        )
        return found
    mus = [0.0, *(release.mu for release in certificate.releases)]
    if certificate.composition == "disjoint":
        total, together = max(mus), "(the largest of disjoint stages)"
    else:
        total, together = compose(mus), "together"
    if not total <= certificate.mu * (1 + _ROUNDING):
        found.append(
            f"the releases have mu = {total:.6g} {together}, but the certificate claims "
            f"{certificate.mu:.6g}."
        )
    epsilon = epsilon_of_mu(certificate.mu, certificate.delta)
    if not epsilon <= certificate.epsilon * (1 + 1e-6) + _ROUNDING:
        found.append(
            f"mu = {certificate.mu:.6g} means epsilon = {epsilon:.6g} at this delta, but the "
            f"certificate claims {certificate.epsilon:.6g}."
        )
    return found


def _mixture(certificate: Certificate) -> list[str]:
    """Return the stages of Algorithm 3 whose noise is below the exact noise they need.

    A stage of n examples makes T = ceil(n log(4/delta)) steps. Its listed sensitivity is that of
    the worst draw, c eta (T - 1)(T - 2)/(2 T), with c eta the change of one touched step.
    """
    found = []
    sizes = stage_sizes(certificate.n_examples)
    if len(sizes) != len(certificate.releases):
        return [
            f"{certificate.n_examples} examples make {len(sizes)} stages, but the certificate "
            f"lists {len(certificate.releases)}."
        ]
    passes = math.log(4.0 / certificate.delta)
    for size, release in zip(sizes, certificate.releases, strict=True):
        n_steps = math.ceil(size * passes)
        unit = release.sensitivity * 2.0 * n_steps / ((n_steps - 1) * (n_steps - 2))
        needed = unit * touch_noise(size, n_steps, certificate.epsilon, certificate.delta)
        if not release.noise_scale >= needed * (1 - 1e-4):
            found.append(
                f"{release.name} has noise {release.noise_scale:.6g}, but needs {needed:.6g}."
            )
    return found
