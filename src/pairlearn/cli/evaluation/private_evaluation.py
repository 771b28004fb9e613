# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate --private``: the AUC of a model on private rows, with noise."""

from __future__ import annotations

from typing import Any

import click

from pairlearn.cli.training.private_training import PrivateOptions


def evaluate_privately(
    path: str, data: tuple[str, ...], confidence: float, privacy: PrivateOptions
) -> tuple[dict[str, Any], str]:
    """Return the result as values and as text."""
    import numpy as np

    from pairlearn.cli.shared.private_records import PublicFacts, read_rows
    from pairlearn.cli.shared.scoring import names_compared
    from pairlearn.models import load_model
    from pairlearn.privacy.accounting.ledger import BudgetExceededError
    from pairlearn.privacy.evaluation import private_roc_auc
    from pairlearn.privacy.records import read_table

    if len(data) != 1 or data[0] == "-":
        raise click.UsageError("--private reads one CSV file.")
    model = load_model(path)
    schema = getattr(model, "provenance_", {}).get("schema")
    names = getattr(model, "feature_names_in_", None)
    if schema is None or names is None or schema.get("categorical") or not schema.get("label"):
        raise click.UsageError(
            f"--private needs a model of plain numeric columns, as train --private makes it; "
            f"{path} is none. Use private_roc_auc in Python."
        )
    features = tuple(str(name) for name in names.tolist())
    unknown = (0.0,) * len(features)
    classes = model.classes_.tolist()
    facts = PublicFacts(
        features, unknown, unknown, (0,) * len(features), schema["label"],
        (classes[0], classes[1]),
    )  # fmt: skip
    rows = read_rows(data[0], facts)
    table = read_table(rows.X, n_features=len(features)) if rows.X else np.zeros((0, len(features)))
    if not hasattr(model, "certificate_"):
        table = np.nan_to_num(table)
    assert privacy.epsilon is not None
    assert privacy.delta is not None
    with names_compared():
        scores = model.decision_function(table)
    try:
        found = private_roc_auc(
            rows.y, scores, epsilon=privacy.epsilon, delta=privacy.delta,
            labels=facts.labels, confidence=confidence, ledger=privacy.open_ledger(),
        )  # fmt: skip
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None
    values = {
        "model": path, "auc": found.auc, "low": found.low, "high": found.high,
        "sample_low": found.sample_low, "sample_high": found.sample_high,
        "confidence": confidence, "certificate": found.certificate.to_dict(),
    }  # fmt: skip
    text = (
        f"AUC {found.auc:.4f}, {found.low:.4f} to {found.high:.4f} with {confidence:.0%} "
        f"confidence (of these very rows {found.sample_low:.4f} to {found.sample_high:.4f})\n"
        f"({privacy.epsilon:g}, {privacy.delta:g})-differentially private with respect to one row "
        "replaced"
    )
    return values, text
