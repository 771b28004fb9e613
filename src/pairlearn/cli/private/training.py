# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --private``: a CSV file in, a model and its certificate out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pairlearn.cli.private.options import (
    PrivateOptions,
    check_private_data,
    refuse_beside_private,
    write_certificate,
)
from pairlearn.cli.private.records import read_facts, read_rows
from pairlearn.cli.shared.reading import Reading, schema_to_plain, spelled
from pairlearn.cli.shared.settings import Settings, naming, register_at, set_parts

#: Parameters of the private classifier that are not settings, and what to use.
_OWNED = {
    **dict.fromkeys(("epsilon", "delta", "ledger", "bounds"), "it has an option of its own."),
    **dict.fromkeys(
        ("labels", "levels", "target_bounds"), "it is public; write it into the file of --bounds."
    ),
    "random_state": "the noise of a released model must be secret.",
}


def train_privately(
    data: tuple[str, ...], output: str | None, privacy: PrivateOptions, reading: Reading,
    settings: Settings,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Write a private model and its certificate; return the result as values and as text.

    The result depends on the data only through the noise.
    """
    from pairlearn.estimators.private.auc import PrivateAUCClassifier
    from pairlearn.estimators.private.entropy import PrivateEntropyRegressor
    from pairlearn.estimators.shared.examples import see_columns
    from pairlearn.models import write_model
    from pairlearn.privacy.accounting.ledger import BudgetExceededError
    from pairlearn.privacy.bounds import PrivateBounds
    from pairlearn.streams.readers.schema import Schema

    refuse_beside_private("data", "output", "as_json", "model", "feature_map", "settings")
    for name in reading.changed():
        raise click.UsageError(f"{spelled(name)} has no effect with --private; leave it out.")
    if "features" in settings and settings["features"].value == "auto":
        raise click.UsageError(
            "--feature-map auto compares AUCs on the data, which would be releases of their own; "
            f"with --private it is one of {', '.join(register_at('features.MAPS'))}."
        )
    path = output or f"{Path(data[0]).stem}.safetensors"
    if Path(path).exists() and not Path(path).is_file():
        raise click.UsageError(f"-o {path} is no file, and the certificate lies beside the model.")
    beside = f"{path}.certificate.json"
    check_private_data(data, {"-o": path, "the certificate": beside})
    facts = read_facts(str(privacy.bounds))
    rows = read_rows(data[0], facts)
    bounds = (facts.lower, facts.upper)
    public: dict[str, Any] = {
        "bounds": PrivateBounds(*bounds) if facts.private_bounds else bounds,
        "levels": facts.levels, "ledger": privacy.open_ledger(),
    }  # fmt: skip
    promise = privacy.epsilon, privacy.delta
    model: Any
    if facts.target_bounds is None:
        model = PrivateAUCClassifier(*promise, labels=facts.labels or (0, 1), **public)
    else:
        model = PrivateEntropyRegressor(*promise, target_bounds=facts.target_bounds, **public)
    set_parts(model, settings, _OWNED)
    try:
        with naming(settings):
            model.fit(rows.X, rows.y, groups=rows.persons)
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None
    see_columns(model, facts.features)
    known = {**model.certificate_.public, "rows": facts.rows}
    certificate = model.certificate_ = replace(model.certificate_, public=known)
    middle: dict[str | int, str | float] = {
        name: 0.5 * low + 0.5 * high
        for name, low, high in zip(facts.features, *model.bounds_.tolist(), strict=True)
    }
    schema = Schema(label=facts.label, features=facts.features,
                    classes=getattr(model, "labels", None), missing=middle)  # fmt: skip
    # The file of a private model takes no further facts.
    typed = " ".join(["pairlearn train --private", *(one.typed for one in settings.values())])
    plain = schema_to_plain(schema, facts.features)
    write_model(path, model.to_record({"schema": plain, "program": typed}))
    write_certificate(certificate, beside)
    values = {
        "model": path, "certificate": beside, "epsilon": certificate.epsilon,
        "delta": certificate.delta, "n_features": certificate.n_features,
        f"{certificate.unit}s": certificate.n_examples,
    }  # fmt: skip
    return values, f"{certificate.statement()}\n{path}, {beside}"
