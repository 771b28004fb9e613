# SPDX-License-Identifier: BSD-3-Clause
"""Recompute the accounting of a certificate from its own numbers.

Releases are added up again, from sensitivities and noise to (epsilon, delta). A certificate cannot
show that its sensitivities are right: the lemmas prove them and the audit attacks them.
"""

from __future__ import annotations

from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.gaussian import compose, epsilon_of_mu

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
    if certificate.mu is None:
        return [*found, "it states no mu, so its sums cannot be done again."]
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
