# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn privacy``: what privacy costs, what a model promises, and whether that holds."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import click

from pairlearn.cli.output import emit, json_option

__all__ = ["command"]

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("privacy", context_settings=_SETTINGS)
def command() -> None:
    r"""Plan, certify and audit private models.

    \b
    Examples:
      pairlearn privacy plan --n 20000 --d 30 --epsilon 1
      pairlearn privacy certify model.safetensors
      pairlearn privacy audit --mechanism statistics --epsilon 1
    """


def _above_zero(most: float | None = None) -> click.FloatRange:
    return click.FloatRange(0, most, min_open=True, max_open=most is not None)


@command.command("plan")
@click.option("--n", "rows", type=click.IntRange(2), required=True, help="Number of examples.")
@click.option("--d", "features", type=click.IntRange(1), required=True, help="Features.")
@click.option("--epsilon", type=_above_zero(), required=True, help="The privacy parameter.")
@click.option("--delta", type=_above_zero(1), help="Failure probability; by default from the rows.")
@click.option("--best-auc", type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
              default=0.8, show_default=True, help="AUC without privacy, a guess.")  # fmt: skip
@click.option("--positives", type=_above_zero(1), default=0.5, show_default=True,
              help="Share of positive examples, a guess.")  # fmt: skip
@click.option("--tolerance", type=_above_zero(), default=0.02, show_default=True,
              help="Loss of AUC that is still useful.")  # fmt: skip
@json_option
def plan_command(
    rows: int,
    features: int,
    epsilon: float,
    delta: float | None,
    best_auc: float,
    positives: float,
    tolerance: float,
    as_json: bool,
) -> None:
    r"""Say what privacy will cost, before any data are touched.

    \b
    Examples:
      pairlearn privacy plan --n 20000 --d 30 --epsilon 1
      pairlearn privacy plan --n 5000 --d 10 --epsilon 0.5 --best-auc 0.9 --json
    """
    from pairlearn.privacy.planner import plan

    found = plan(
        rows, features, epsilon=epsilon, delta=delta, best_auc=best_auc, positives=positives,
        tolerance=tolerance,
    )  # fmt: skip
    emit({**asdict(found), "loss": found.loss}, found.statement(), as_json=as_json)


@command.command("certify")
@click.argument("model", type=click.Path())
@click.option("--delta", type=_above_zero(1), help="Also say which epsilon holds at this delta.")
@json_option
def certify_command(model: str, delta: float | None, as_json: bool) -> None:
    r"""Print the certificate in a model file, and check its accounting.

    Exit status 1 if the model has no certificate, if its releases do not add up to what it claims,
    or if its noise can be reproduced.

    \b
    Examples:
      pairlearn privacy certify model.safetensors
      pairlearn privacy certify model.safetensors --delta 1e-9 --json
    """
    from pairlearn.models import ModelFileError, read_model
    from pairlearn.privacy.accounting.certificate import Certificate

    record = read_model(model, allow_unregistered=True)
    if record.certificate is None:
        raise ModelFileError(
            f"{model} has no certificate: it promises no privacy; train a private estimator."
        )
    try:
        certificate = Certificate.from_dict(record.certificate)
        problems = _problems(certificate)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ModelFileError(f"the certificate in {model} cannot be read ({error!r}).") from None
    values: dict[str, Any] = {**certificate.to_dict(), "problems": problems}
    text = certificate.statement()
    if delta is not None:
        epsilon = certificate.epsilon_at(delta)
        values["epsilon_at"] = {"delta": delta, "epsilon": None if math.isinf(epsilon) else epsilon}
        shown = "nothing is promised" if math.isinf(epsilon) else f"epsilon = {epsilon:.6g}"
        text += f"\nAt delta = {delta:g}: {shown}."
    emit(values, "\n".join([text, *(f"PROBLEM: {p}" for p in problems)]), as_json=as_json)
    if problems:
        raise click.exceptions.Exit(1)


def _problems(certificate: Any) -> list[str]:
    """Return what is wrong with a certificate by itself."""
    from pairlearn.privacy.accounting.gaussian import epsilon_of_mu

    found = []
    if not certificate.private:
        found.append("the noise can be reproduced, so nothing is private.")
    if certificate.mu is not None:
        total = math.sqrt(sum(release.mu**2 for release in certificate.releases))
        if total > certificate.mu * (1 + 1e-9):
            found.append(
                f"the releases have mu = {total:.6g} together, {certificate.mu:.6g} is claimed."
            )
        epsilon = epsilon_of_mu(certificate.mu, certificate.delta)
        if epsilon > certificate.epsilon * (1 + 1e-6) + 1e-9:
            found.append(
                f"mu = {certificate.mu:.6g} means epsilon = {epsilon:.6g} at this delta, "
                f"{certificate.epsilon:.6g} is claimed."
            )
    return found


@command.command("audit")
@click.option("--mechanism", default="statistics", show_default=True, help="Name of a mechanism.")
@click.option("--epsilon", type=_above_zero(), default=1.0, show_default=True,
              help="The claim to attack.")  # fmt: skip
@click.option("--delta", type=_above_zero(1), default=1e-3, show_default=True,
              help="Failure probability of the claim.")  # fmt: skip
@click.option("--n", "rows", type=click.IntRange(2), default=64, show_default=True,
              help="Number of examples.")  # fmt: skip
@click.option("--d", "features", type=click.IntRange(1), default=4, show_default=True,
              help="Number of features.")  # fmt: skip
@click.option("--neighbours", type=click.Choice(["replace", "add_remove"]), default="replace",
              show_default=True, help="Which data sets are neighbours.")  # fmt: skip
@click.option("--runs", type=click.IntRange(4), default=2_000, show_default=True,
              help="Runs on each of two neighbouring data sets.")  # fmt: skip
@click.option("--confidence", type=_above_zero(1), default=0.95, show_default=True,
              help="Probability with which the bounds hold.")  # fmt: skip
@json_option
def audit_command(
    mechanism: str,
    epsilon: float,
    delta: float,
    rows: int,
    features: int,
    neighbours: str,
    runs: int,
    confidence: float,
    as_json: bool,
) -> None:
    r"""Attack a mechanism and bound its epsilon from below.

    Exit status 1 if the claim is refuted. An audit can find a broken mechanism; it cannot prove
    one right.

    \b
    Examples:
      pairlearn privacy audit --mechanism statistics --epsilon 1
      pairlearn privacy audit --mechanism all_pairs --runs 10000 --json
    """
    import numpy as np

    from pairlearn.privacy.audit.attack import audit
    from pairlearn.privacy.mechanisms.base import PublicSetting
    from pairlearn.privacy.mechanisms.by_name import get_mechanism

    setting = PublicSetting.make(
        rows, lower=np.full(features, -1.0), upper=np.full(features, 1.0), epsilon=epsilon,
        delta=delta, neighbours=neighbours,
    )  # fmt: skip
    result = audit(
        get_mechanism(mechanism, learns=None), setting, n_runs=runs, confidence=confidence
    )
    emit({**asdict(result), "passed": result.passed}, result.statement(), as_json=as_json)
    if not result.passed:
        raise click.exceptions.Exit(1)
