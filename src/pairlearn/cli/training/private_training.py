# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --private``: a private model and the certificate beside it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pairlearn.cli.output import typed_beside, with_options
from pairlearn.cli.shared.names import names_in
from pairlearn.cli.shared.paths import FilePath
from pairlearn.cli.shared.reading import Reading, schema_to_plain, spelled
from pairlearn.cli.shared.settings import Settings, naming, set_parts

if TYPE_CHECKING:
    from pairlearn.privacy.accounting.certificate import Certificate

F = TypeVar("F", bound=Callable[..., Any])

#: Parameters of the private classifier that are not settings, and what to use.
_OWNED = {
    **dict.fromkeys(("epsilon", "delta", "ledger", "bounds"), "it has an option of its own."),
    **dict.fromkeys(
        ("labels", "levels", "target_bounds"), "it is public; write it into the file of --bounds."
    ),
    **dict.fromkeys(("secure", "random_state"), "the noise of a released model must be secret."),
}


@dataclass(frozen=True)
class PrivateOptions:
    """The options of ``--private``; `private` says whether it was given."""

    private: bool = False
    epsilon: float | None = None
    delta: float | None = None
    bounds: str | None = None
    ledger: str | None = None

    def check(self, *, needs_bounds: bool) -> None:
        """Refuse these options without --private, and --private without the needed ones."""
        given = [name for name in ("epsilon", "delta", "bounds", "ledger") if getattr(self, name)]
        if not self.private:
            if given:
                raise click.UsageError(f"--{given[0]} belongs to --private.")
            return
        wanted = ["epsilon", "delta", *(["bounds"] if needs_bounds else [])]
        absent = [name for name in wanted if getattr(self, name) is None]
        if absent:
            raise click.UsageError(
                f"--private needs --{absent[0]}: the promise and the public facts must be known "
                "before the data are read."
            )

    def open_ledger(self) -> Any:
        """Return the ledger to pay from; None if there is none."""
        from pairlearn.privacy.accounting.ledger import PrivacyLedger

        return None if self.ledger is None else PrivacyLedger.open(self.ledger)


def private_options(*, needs_bounds: bool, takes_bounds: bool = True) -> Callable[[F], F]:
    """Add the options of `PrivateOptions`; the command receives them as `privacy`.

    With `takes_bounds` a file of public facts is among them.
    """
    about = "label, labels and bounds" if needs_bounds else "label, and the column of persons"

    def add(function: F) -> F:
        @functools.wraps(function)
        def command(*arguments: Any, **given: Any) -> Any:
            names = [name for name in PrivateOptions.__dataclass_fields__ if name in given]
            privacy = PrivateOptions(**{name: given.pop(name) for name in names})
            privacy.check(needs_bounds=needs_bounds)
            return function(*arguments, privacy=privacy, **given)

        return with_options(  # type: ignore[return-value]
            command,
            click.option("--private", is_flag=True,
                         help="With differential privacy; needs --epsilon and --delta."),
            click.option("--epsilon", type=click.FloatRange(0, min_open=True),
                         help="The promise: the privacy parameter."),
            click.option("--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True),
                         help="The promise: the failure probability."),
            click.option("--ledger", type=FilePath("keep", beside=[".lock"]), metavar="FILE",
                         help="The budget to pay from; see pairlearn privacy ledger."),
            *([click.option("--bounds", type=FilePath("read"), metavar="FILE",
                            help=f"With --private: a TOML file of public facts ({about}).")]
              if takes_bounds else []),
        )  # fmt: skip

    return add


def refuse_beside_private(*known: str) -> None:
    """Refuse options that a private command would ignore."""
    for option in typed_beside(*known, *PrivateOptions.__dataclass_fields__):
        raise _without_effect(option)


def _without_effect(option: str) -> click.UsageError:
    return click.UsageError(
        f"{option} has no effect with --private, which reads everything public from --bounds; "
        "leave it out."
    )


def write_certificate(certificate: Certificate, path: str) -> None:
    """Write a certificate and its statement as JSON."""
    from pairlearn.atomic import atomic_write

    shown = {**certificate.to_dict(), "statement": certificate.statement()}
    atomic_write(path, json.dumps(shown, indent=1).encode() + b"\n")


def train_privately(
    data: tuple[str, ...],
    output: str | None,
    privacy: PrivateOptions,
    reading: Reading,
    settings: Settings,
) -> tuple[dict[str, Any], str]:
    """Write a private model and its certificate; return the result as values and as text.

    The result depends on the data only through the noise.
    """
    from pairlearn.atomic import try_to_write
    from pairlearn.cli.shared.private_records import read_facts, read_rows
    from pairlearn.estimators.private.auc import PrivateAUCClassifier
    from pairlearn.estimators.private.entropy import PrivateEntropyRegressor
    from pairlearn.estimators.shared.features_seen import see_columns
    from pairlearn.models import write_model
    from pairlearn.privacy.accounting.ledger import BudgetExceededError
    from pairlearn.privacy.quartiles import PrivateBounds
    from pairlearn.streams.readers.schema import Schema

    if len(data) != 1 or data[0] == "-":
        raise click.UsageError("--private reads one CSV file; give one name.")
    for name in reading.changed():
        raise _without_effect(spelled(name))
    if "features" in settings and settings["features"].value == "auto":
        raise click.UsageError(
            "--feature-map auto compares AUCs on the data, which would be releases of their own; "
            f"with --private it is one of {', '.join(names_in('features.MAPS'))}."
        )
    assert privacy.bounds is not None
    facts = read_facts(privacy.bounds)
    rows = read_rows(data[0], facts)
    assert privacy.epsilon is not None
    bounds = (facts.lower, facts.upper)
    public: dict[str, Any] = {
        "bounds": PrivateBounds(*bounds) if facts.private_bounds else bounds,
        "levels": facts.levels, "ledger": privacy.open_ledger(),
    }  # fmt: skip
    model: Any
    if facts.target_bounds is None:
        labels = facts.labels or (0, 1)
        model = PrivateAUCClassifier(privacy.epsilon, privacy.delta, labels=labels, **public)
    else:
        target = facts.target_bounds
        model = PrivateEntropyRegressor(
            privacy.epsilon, privacy.delta, target_bounds=target, **public
        )
    set_parts(model, settings, _OWNED)
    path = output or f"{Path(data[0]).stem}.safetensors"
    beside = f"{path}.certificate.json"
    for written in (path, beside):
        try_to_write(written)  # The budget is spent before they are written.
    try:
        with naming(settings):
            model.fit(rows.X, rows.y, groups=rows.persons)
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None
    see_columns(model, facts.features)
    known = {**model.certificate_.public, "rows": facts.rows}
    model.certificate_ = replace(model.certificate_, public=known)
    middle: dict[str | int, str | float] = {
        name: 0.5 * low + 0.5 * high
        for name, low, high in zip(facts.features, *model.bounds_.tolist(), strict=True)
    }
    schema = Schema(
        label=facts.label,
        features=facts.features,
        classes=getattr(model, "labels", None),
        missing=middle,
    )
    plain = schema_to_plain(schema, facts.features)
    # The file of a private model takes no further facts.
    typed = " ".join(["pairlearn train --private", *(one.typed for one in settings.values())])
    write_model(path, model.to_record({"schema": plain, "program": typed}))
    certificate = model.certificate_
    write_certificate(certificate, beside)
    values = {
        "model": path, "certificate": beside, "epsilon": certificate.epsilon,
        "delta": certificate.delta, "n_features": certificate.n_features,
        f"{certificate.unit}s": certificate.n_examples,
    }  # fmt: skip
    return values, f"{certificate.statement()}\n{path}, {beside}"
