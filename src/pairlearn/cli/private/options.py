# SPDX-License-Identifier: BSD-3-Clause
"""The options of ``--private``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pairlearn.cli.shared.files import check_output, read_option
from pairlearn.cli.shared.output import typed_beside, with_options

if TYPE_CHECKING:
    from pairlearn.privacy.accounting.certificate import Certificate

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class PrivateOptions:
    """The options of ``--private``; `private` says whether it was given."""

    private: bool = False
    epsilon: float = 0.0
    delta: float = 0.0
    bounds: str | None = None
    ledger: str | None = None

    def open_ledger(self) -> Any:
        """Return the ledger to pay from; None if there is none."""
        from pairlearn.privacy.accounting.ledger import PrivacyLedger

        return None if self.ledger is None else PrivacyLedger.open(self.ledger)


_NAMES = tuple(PrivateOptions.__dataclass_fields__)


def private_options(*, needs_bounds: bool, takes_bounds: bool = True) -> Callable[[F], F]:
    """Add the options of `PrivateOptions`; the command receives them as `privacy`."""
    about = "label, labels and bounds" if needs_bounds else "label, and the column of persons"

    def add(function: F) -> F:
        @functools.wraps(function)
        def command(*arguments: Any, **values: Any) -> Any:
            typed = {name: values.pop(name) for name in _NAMES if name in values}
            typed = {name: value for name, value in typed.items() if value is not None}
            _check(typed, ["epsilon", "delta", *(["bounds"] if needs_bounds else [])])
            return function(*arguments, privacy=PrivateOptions(**typed), **values)

        bounds = read_option(
            "--bounds", help=f"With --private: a TOML file of public facts ({about})."
        )
        return with_options(  # type: ignore[return-value]
            command,
            click.option("--private", is_flag=True,
                         help="With differential privacy; needs --epsilon and --delta."),
            click.option("--epsilon", type=click.FloatRange(0, min_open=True),
                         help="The promise: the privacy parameter."),
            click.option("--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True),
                         help="The promise: the failure probability."),
            click.option("--ledger", type=click.Path(dir_okay=False), metavar="FILE",
                         help="The budget to pay from; see pairlearn privacy ledger."),
            *([bounds] if takes_bounds else []),
        )  # fmt: skip

    return add


def _check(typed: dict[str, Any], needed: list[str]) -> None:
    """Refuse these options without --private, and --private without the needed ones."""
    if not typed["private"]:
        for name in typed:
            if name != "private":
                raise click.UsageError(f"--{name} belongs to --private.")
        return
    for name in needed:
        if name not in typed:
            raise click.UsageError(
                f"--private needs --{name}: the promise and the public facts must be known before "
                "the data are read."
            )


def refuse_beside_private(*known: str) -> None:
    """Refuse typed options that a private command would ignore."""
    for option in typed_beside(*known, *_NAMES):
        raise click.UsageError(f"{option} has no effect with --private; leave it out.")


def check_private_data(data: tuple[str, ...], outputs: dict[str, str]) -> None:
    """Refuse what is no single CSV file, and outputs (by option) that cannot be written."""
    if len(data) != 1 or data[0] == "-":
        raise click.UsageError("--private reads one CSV file; give one name.")
    from pairlearn.atomic import try_to_write

    for said, path in outputs.items():
        check_output(path, said)
        try_to_write(path)  # the budget is spent before they are written


def write_certificate(certificate: Certificate, path: str) -> None:
    """Write a certificate and its statement as JSON."""
    from pairlearn.atomic import atomic_write

    shown = {**certificate.to_dict(), "statement": certificate.statement()}
    atomic_write(path, json.dumps(shown, indent=1).encode() + b"\n")
