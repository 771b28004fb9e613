# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn privacy``: what privacy costs, what a model promises, and whether that holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pairlearn.cli.shared.files import OutputPath, read_argument
from pairlearn.cli.shared.output import emit, json_option
from pairlearn.cli.shared.settings import Named

_MECHANISMS = "privacy.mechanisms.by_name"
#: What can be audited; `pairlearn.cli.private.audited` says how each is called.
_WHAT = (
    "fit", "groups", "bounds", "narrowing", "metric", "metric-groups", "entropy",
    "entropy-groups", "ratings", "ratings-groups", "continual", "continual-groups", "evaluation",
    "curve", "selection", "evaluation-groups", "curve-groups", "selection-groups", "program",
)  # fmt: skip
_RELATION = click.Choice(["replace", "add_remove"])
_UNIT = click.Choice(["example", "person"])
_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("privacy", context_settings=_SETTINGS)
def command() -> None:
    r"""Plan, certify and audit private models.

    \b
    Examples:
      pairlearn privacy plan --examples 20000 --features 30 --epsilon 1
      pairlearn privacy certify model.safetensors
      pairlearn privacy audit --mechanism statistics --epsilon 1
      pairlearn privacy ledger create patients.ledger --epsilon 1 --delta 1e-6
    """


_POSITIVE = click.FloatRange(0, min_open=True)
_FRACTION = click.FloatRange(0, 1, min_open=True, max_open=True)


@command.command("plan")
@click.option("--examples", "--n", type=click.IntRange(2), help="Number of examples.")
@click.option("--features", "--d", type=click.IntRange(1), required=True,
              help="Number of features.")  # fmt: skip
@click.option("--persons", type=click.IntRange(2),
              help="Number of persons, to protect a person with all rows.")  # fmt: skip
@click.option("--epsilon", type=_POSITIVE,
              help="The privacy parameter; by default the smallest one within "
                   "--largest-loss.")  # fmt: skip
@click.option("--delta", type=_FRACTION, help="Failure probability; by default from the rows.")
@click.option("--range", "ends", type=click.FloatRange(), nargs=2, metavar="LOWER UPPER",
              help="Public bounds of a typical feature.")  # fmt: skip
@click.option("--spread", type=_POSITIVE, help="Its standard deviation, a guess.")
@click.option("--best-auc", type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
              default=0.8, show_default=True, help="AUC without privacy, a guess.")  # fmt: skip
@click.option("--positives", type=_FRACTION, default=0.5, show_default=True,
              help="Share of positive examples, a guess.")  # fmt: skip
@click.option("--largest-loss", type=_POSITIVE, default=0.02, show_default=True,
              help="Loss of AUC that is still useful.")  # fmt: skip
@json_option
def plan_command(
    examples: int | None, features: int, persons: int | None, ends: tuple[float, float] | None,
    spread: float | None, as_json: bool, **guesses: Any,
) -> None:  # fmt: skip
    r"""Say what privacy will cost, before any data are touched.

    Tell what you know: how many examples (and persons), how many features, the range and the
    spread of a typical feature, the AUC that you expect without privacy. The answer is the AUC to
    expect, what more data, a larger epsilon or narrower bounds would give, and how much is needed
    for a loss that you name.

    \b
    Examples:
      pairlearn privacy plan --examples 2000 --features 10 --epsilon 1
      pairlearn privacy plan --examples 2000 --features 10 --largest-loss 0.01
      pairlearn privacy plan --examples 5000 --features 10 --epsilon 1 --range 0 100 --spread 15
      pairlearn privacy plan --examples 2000 --persons 500 --features 10 --epsilon 1 --json
    """
    from pairlearn.privacy.planner import plan

    if examples is None:
        raise click.UsageError("how many examples are there? Give --examples.")
    if persons is not None and persons > examples:
        raise click.UsageError(
            f"--persons {persons} is more than --examples {examples}; each person has at least one."
        )
    note = ""
    if ends is None or spread is None:
        if ends is not None or spread is not None:
            raise click.UsageError("--range and --spread belong together; give both.")
        note = (
            "\nNothing was said about the range of a feature, so a usual one is assumed; --range "
            "and --spread say yours."
        )
    else:
        half = 0.5 * ends[1] - 0.5 * ends[0]
        if not 0.0 < spread <= half:
            raise click.UsageError(
                f"--range {ends[0]:g} {ends[1]:g} and --spread {spread:g}: the lower end comes "
                "first, and the spread is at most half of the width."
            )
        guesses["range_over_spread"] = 2.0 * (half / spread)
    found = plan(examples, features, n_persons=persons, **guesses)
    emit({**asdict(found), "loss": found.loss}, found.statement() + note, as_json=as_json)


@command.command("certify")
@read_argument("model")
@click.option("--delta", type=_FRACTION, help="Also say which epsilon holds at this delta.")
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
    from pairlearn.privacy import Certificate, accounting_problems

    record = read_model(model, allow_unregistered=True)
    if record.certificate is None:
        raise ModelFileError(
            f"{model} has no certificate: it promises no privacy; train a private estimator."
        )
    try:
        certificate = Certificate.from_dict(record.certificate)
        problems = accounting_problems(certificate)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ModelFileError(f"the certificate in {model} cannot be read ({error!r}).") from None
    values: dict[str, Any] = {**certificate.to_dict(), "problems": problems}
    text = certificate.statement()
    if delta is not None:
        epsilon = certificate.epsilon_at(delta)
        values["epsilon_at"] = {"delta": delta, "epsilon": None if math.isinf(epsilon) else epsilon}
        shown = "nothing is promised" if math.isinf(epsilon) else f"epsilon = {epsilon:.6g}"
        text += f"\nAt delta = {delta:g}: {shown}."
    _emit(values, [text, *(f"PROBLEM: {p}" for p in problems)], as_json, not problems)


def _emit(values: Mapping[str, Any], lines: list[str], as_json: bool, good: bool = True) -> None:
    """Print a result; exit status 1 if it is not good."""
    emit(values, "\n".join(lines), as_json=as_json)
    if not good:
        raise click.exceptions.Exit(1)


@command.command("audit")
@click.option("--what", type=click.Choice([*_WHAT, "all"]), default="fit", show_default=True,
              help="What to attack: fit on rows or with groups, fit with private bounds or with "
                   "bounds that are narrowed, a metric, a regression, all releases of a "
                   "continual stream, the AUC and the ROC curve on private rows, selection, or "
                   "train --private with its files. With -groups behind the name, persons with all "
                   "their rows.")  # fmt: skip
@click.option("--mechanism", default="statistics", show_default=True,
              type=Named(f"{_MECHANISMS}.MECHANISMS"),
              help="The mechanism of --what fit.")  # fmt: skip
@click.option("--epsilon", type=_POSITIVE, default=1.0, show_default=True,
              help="The claim to attack.")  # fmt: skip
@click.option("--delta", type=_FRACTION, default=1e-3, show_default=True,
              help="Failure probability of the claim.")  # fmt: skip
@click.option("--n", "rows", type=click.IntRange(4), default=32, show_default=True,
              help="Number of examples, or of persons; --what narrowing has as many as it "
                   "needs.")  # fmt: skip
@click.option("--d", "features", type=click.IntRange(1), default=2, show_default=True,
              help="Number of features.")  # fmt: skip
@click.option("--neighbours", type=_RELATION, default="replace", show_default=True,
              help="Which data sets are neighbours.")  # fmt: skip
@click.option("--runs", type=click.IntRange(8), default=2_000, show_default=True,
              help="Runs on each of two neighbouring data sets.")  # fmt: skip
@click.option("--confidence", type=_FRACTION, default=0.99, show_default=True,
              help="Probability with which a sound function passes.")  # fmt: skip
@json_option
def audit_command(
    what: str,
    mechanism: str,
    rows: int,
    features: int,
    runs: int,
    confidence: float,
    as_json: bool,
    **claim: Any,
) -> None:
    r"""Attack what users call on private data: what they get, and what is released.

    Exit status 1 if a claim is refuted. An audit can find a broken function; it cannot prove one
    right. It prints the smallest violation that it would have found.

    \b
    Examples:
      pairlearn privacy audit --mechanism statistics --epsilon 1
      pairlearn privacy audit --what groups
      pairlearn privacy audit --what all --runs 200 --json
    """
    from pairlearn.cli.private.audited import entries, entry_of_mechanism
    from pairlearn.privacy import audit_entry

    size: dict[str, Any] = {"n": rows, "n_features": features}
    known = entries(**size, **claim)
    if mechanism != "statistics":
        if what != "fit":
            raise click.UsageError(f"--mechanism belongs to --what fit, got --what {what}.")
        known["fit"] = entry_of_mechanism(mechanism, **size, **claim)
    if what != "all" and what not in known:
        raise click.UsageError(
            f"--what {what} has no proof for --neighbours {claim['neighbours']}; with it there "
            f"are {', '.join(known)}."
        )
    names = list(known) if what == "all" else [what]
    results = [audit_entry(known[name], n_runs=runs, confidence=confidence) for name in names]
    passed = all(result.passed for result in results)
    values = [_audit_values(result) for result in results]
    _emit(
        {"audits": values, "passed": passed} if what == "all" else values[0],
        ["\n\n".join(result.statement() for result in results)], as_json, passed,
    )  # fmt: skip


def _audit_values(result: Any) -> dict[str, Any]:
    """Return a result as plain values."""
    noise = None if math.isinf(result.noise_upper) else result.noise_upper
    return {**asdict(result), "passed": result.passed, "noise_upper": noise}


@command.group("ledger", context_settings=_SETTINGS)
def ledger_command() -> None:
    r"""Make a privacy budget that is kept in a file, and look at it.

    \b
    Examples:
      pairlearn privacy ledger create patients.ledger --epsilon 1 --delta 1e-6
      pairlearn privacy ledger show patients.ledger
      pairlearn privacy ledger check patients.ledger --epsilon 0.5 --delta 1e-6
    """


@ledger_command.command("create")
@click.argument("path", type=OutputPath())
@click.option("--epsilon", type=_POSITIVE, required=True, help="The budget's epsilon.")
@click.option("--delta", type=_FRACTION, required=True, help="The budget's delta.")
@click.option("--neighbours", type=_RELATION, default="replace", show_default=True,
              help="Which data sets are neighbours.")  # fmt: skip
@click.option("--unit", type=_UNIT, default="example", show_default=True,
              help="What is protected: one example, or one person with all examples.")  # fmt: skip
@click.option("--rows-per-person", type=click.IntRange(1),
              help="Public: nobody has more rows than this; for --unit person.")  # fmt: skip
@click.option("--data", default="", help="Which data these are, in your words.")
@json_option
def create_command(path: str, as_json: bool, **budget: Any) -> None:
    r"""Make a new ledger: a budget that all releases from the same data share.

    \b
    Examples:
      pairlearn privacy ledger create patients.ledger --epsilon 1 --delta 1e-6
      pairlearn privacy ledger create visits.ledger --epsilon 1 --delta 1e-6 --unit person
    """
    from pairlearn.privacy import PrivacyLedger

    if Path(path).exists():
        raise click.UsageError(
            f"{path} exists; look at it with pairlearn privacy ledger show {path}, or use another "
            "name."
        )
    ledger = PrivacyLedger.open(path, **budget)
    emit({"ledger": path, **_facts(ledger)}, f"{path}\n{_budget_line(ledger)}", as_json=as_json)


def _facts(ledger: Any) -> dict[str, Any]:
    return {**ledger.to_dict(), "id": ledger.identity, "protects": ledger.protects}


def _budget_line(ledger: Any) -> str:
    budget = ledger.budget
    about = f" Data: {budget.data}." if budget.data else ""
    claim = f"epsilon = {budget.epsilon:g}, delta = {budget.delta:g}"
    return f"Budget: {claim}, for {ledger.protects}.{about}"


@ledger_command.command("show")
@read_argument("path")
@json_option
def show_command(path: str, as_json: bool) -> None:
    r"""Print the budget, each release with its cost and date, and the rest.

    \b
    Examples:
      pairlearn privacy ledger show patients.ledger
      pairlearn privacy ledger show patients.ledger --json
    """
    from pairlearn.privacy import PrivacyLedger

    ledger = PrivacyLedger.open(path)
    spent, left = ledger.spent_epsilon, ledger.remaining_mu
    lines = [
        _budget_line(ledger),
        f"Ledger: {ledger.identity[:8]}, unit: {ledger.budget.unit}, "
        f"neighbours: {ledger.budget.neighbours}.",
        f"Spent: epsilon = {spent:.6g}; left: mu = {left:.6g} in one go.",
    ]
    for entry in ledger.entries:
        price = f"mu = {entry.mu:.6g}" if entry.mu else f"({entry.epsilon:.6g}, {entry.delta:.6g})"
        lines.append(
            f"{entry.time}  {price} for one {entry.unit}, {entry.neighbours}: {entry.purpose}"
        )
    values = {**_facts(ledger), "spent_epsilon": spent, "remaining_mu": left}
    emit(values, "\n".join(lines), as_json=as_json)


@ledger_command.command("check")
@read_argument("path")
@click.option("--mu", type=_POSITIVE, help="Would a release with this mu fit?")
@click.option("--epsilon", type=_POSITIVE, help="Would a release with this epsilon fit?")
@click.option("--delta", type=_FRACTION, help="The delta that belongs to --epsilon.")
@click.option("--neighbours", type=_RELATION,
              help="The relation of that release; by default the ledger's.")  # fmt: skip
@click.option("--unit", type=_UNIT,
              help="What that release protects; by default what the ledger does.")  # fmt: skip
@json_option
def check_command(
    path: str,
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    neighbours: str | None,
    unit: str | None,
    as_json: bool,
) -> None:
    r"""Check that nobody changed a ledger, that it is within its budget, and whether more fits.

    Nothing is spent. Exit status 1 if the file was changed, is overspent, or has no room for the
    release that is asked about; --epsilon with --delta is a Gaussian release, and without it one
    of delta 0.

    \b
    Examples:
      pairlearn privacy ledger check patients.ledger
      pairlearn privacy ledger check patients.ledger --epsilon 0.5 --delta 1e-6
      pairlearn privacy ledger check visits.ledger --mu 0.1 --unit example
    """
    from pairlearn.privacy import BudgetExceededError, PrivacyLedger, mu_of

    if mu is not None and epsilon is not None:
        raise click.UsageError("--mu and --epsilon are two ways of asking; give one of them.")
    if delta is not None and epsilon is None:
        raise click.UsageError("--delta belongs to --epsilon.")
    asked = mu is not None or epsilon is not None
    for name, given in (("--neighbours", neighbours), ("--unit", unit)):
        if given is not None and not asked:
            raise click.UsageError(f"{name} is about a release; give its --mu or --epsilon.")
    # Entering every release again, in memory, is the check.
    copy = PrivacyLedger.from_dict(PrivacyLedger.open(path).to_dict())
    said = f"{len(copy.entries)} entries, epsilon = {copy.spent_epsilon:.6g} spent for "
    said, fits = f"{said}{copy.protects}.", True
    if asked:
        if mu is None and delta is not None and epsilon is not None:
            mu, epsilon = mu_of(epsilon, delta), None
        try:
            copy.spend(
                "the release", mu=mu or 0.0, epsilon=epsilon or 0.0, unit=unit or copy.budget.unit,
                neighbours=neighbours or copy.budget.neighbours,
            )  # fmt: skip
            said += " The release fits."
        except BudgetExceededError as error:
            said, fits = f"{said} The release would exceed the budget: {error}", False
    values = {"fits": fits, "spent_epsilon": copy.spent_epsilon, "unit": copy.budget.unit}
    _emit(values, [said], as_json, fits)
