# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate --private``: the AUC of a model on private rows, with noise.

Each row is scored by itself: a cell that the model cannot read counts as missing, and no message
says that there was one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.private.options import PrivateOptions, check_private_data
from pairlearn.cli.private.records import PublicFacts, Rows, read_facts, read_rows
from pairlearn.cli.shared.scoring import encoder_of, kind_of, load_for_scoring, names_compared
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.tables.encoding import TableEncoding

#: Features are cut to this size, so that no score overflows: the error would tell of a row. It is
#: below the largest float32, in which forests compare. Beside large coefficients they are cut to
#: less, so that no score is larger than this.
_LARGEST, _LARGEST_SCORE = 1e38, 1e300


def evaluate_privately(
    path: str, data: tuple[str, ...], confidence: float, privacy: PrivateOptions
) -> tuple[dict[str, Any], str]:
    """Return the result as values and as text."""
    import numpy as np

    from pairlearn.privacy.accounting.ledger import BudgetExceededError
    from pairlearn.privacy.evaluation import private_roc_auc
    from pairlearn.privacy.scores_of_each import scores_of_each

    check_private_data(data, {})
    model = load_for_scoring(path)
    columns = _columns_of(model, path)
    facts = _facts(columns, privacy, path)
    rows = read_rows(data[0], facts)
    # A network computes in float32, and a warning about an overflow would tell of a row.
    with names_compared(), np.errstate(all="ignore"):
        scores: Any = ()
        if rows.X:
            scores = scores_of_each(model, columns.features_of(rows.X, _largest(model)))
    persons: dict[str, Any] = {} if rows.persons is None else {"groups": rows.persons}
    try:
        found = private_roc_auc(
            columns.labels_of(rows), scores, epsilon=privacy.epsilon, delta=privacy.delta,
            labels=columns.labels, confidence=confidence, ledger=privacy.open_ledger(), **persons,
        )  # fmt: skip
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None
    known = {**found.certificate.public, "rows": facts.rows}
    certificate = replace(found.certificate, public=known)
    values = {
        "model": path, "auc": found.auc, "low": found.low, "high": found.high,
        "sample_low": found.sample_low, "sample_high": found.sample_high,
        "confidence": confidence, "certificate": certificate.to_dict(),
    }  # fmt: skip
    unit = "one person with all rows" if persons else "one row"
    text = (
        f"AUC {found.auc:.4f}, {found.low:.4f} to {found.high:.4f} with {confidence:.0%} "
        f"confidence (of these very rows {found.sample_low:.4f} to {found.sample_high:.4f})\n"
        f"({privacy.epsilon:g}, {privacy.delta:g})-differentially private with respect to {unit} "
        "replaced"
    )
    return values, text


@dataclass(frozen=True)
class _Columns:
    """The columns that a model reads, and how."""

    names: tuple[str, ...]
    label: str | None
    #: The two classes; (0, 1) where an encoder tells them apart.
    labels: tuple[Any, Any]
    encoder: TableEncoding | None
    #: What takes the place of a missing number; NaN for a model that does it itself.
    gaps: tuple[float, ...] = ()

    def features_of(self, rows: list[list[str | None]], largest: float) -> Any:
        """Return the features of rows of texts, each row by itself, cut to a size."""
        import numpy as np

        from pairlearn.privacy.records import read_table

        if self.encoder is None:
            table = read_table(rows, n_features=len(self.names))
            table = np.where(np.isnan(table), self.gaps, table)
            return np.clip(table, -largest, largest)
        import polars

        frame = polars.DataFrame(
            {name: [row[k] for row in rows] for k, name in enumerate(self.names)},
            schema=dict.fromkeys(self.names, polars.String),
        )
        X = self.encoder.encode(self.encoder.read(frame)[0])
        if hasattr(X, "tocsr"):
            X.data = np.clip(X.data, -largest, largest)
            return X
        return np.clip(X, -largest, largest)

    def labels_of(self, rows: Rows) -> Any:
        """Return the labels as `labels` names them; any other counts as negative."""
        if self.encoder is None:
            return rows.y
        assert self.encoder.label is not None
        import polars

        found: Vector = self.encoder.label.apply(polars.Series(rows.y, dtype=polars.String))[0]
        return found


def _largest(model: Any) -> float:
    """Return the size that the features of a model are cut to."""
    import numpy as np

    with np.errstate(over="ignore"):
        slope = float(np.abs(getattr(model, "coef_", 0.0)).sum())
    return min(_LARGEST, _LARGEST_SCORE / max(slope, 1.0))


def _columns_of(model: Any, path: str) -> _Columns:
    """Return the columns of a model; refuse one that cannot score the rows of a CSV file."""
    if kind_of(model).name != "auc" or len(getattr(model, "classes_", ())) != 2:
        raise click.UsageError(
            f"--private measures the AUC of two classes; {path} is a {type(model).__name__} "
            "for something else."
        )
    encoder = encoder_of(model)
    if encoder is not None:
        if encoder.label is None or encoder.label.kind != "classes":
            raise click.UsageError(
                f"{path} does not say which labels are positive; train it again."
            )
        names = tuple(column.name for column in encoder.columns)
        return _Columns(names, encoder.label.column, (0, 1), encoder)
    schema = getattr(model, "provenance_", {}).get("schema") or {}
    named = getattr(model, "feature_names_in_", None)
    if named is None or schema.get("categorical"):
        raise click.UsageError(
            f"--private scores the columns of a CSV file by name, and {path} was trained on "
            f"{'categories of a stream' if schema.get('categorical') else 'columns without names'};"
            " train on a CSV file, or use private_roc_auc in Python."
        )
    names = tuple(str(name) for name in named.tolist())
    negative, positive = model.classes_.tolist()
    if hasattr(model, "certificate_"):
        gaps = (float("nan"),) * len(names)
    else:
        gaps = tuple(_gap(schema.get("missing"), name) for name in names)
    return _Columns(names, schema.get("label"), (negative, positive), None, gaps)


def _gap(missing: Any, name: str) -> float:
    """Return what a missing number becomes; 0 if the model refuses or marks such rows."""
    given = missing.get(name) if isinstance(missing, Mapping) else missing
    return float(given) if isinstance(given, (int, float)) else 0.0


def _facts(columns: _Columns, privacy: PrivateOptions, path: str) -> PublicFacts:
    """Return the public facts about the data: those of the model, and those of ``--bounds``."""
    from pairlearn.privacy.records import read_labels

    if privacy.bounds is not None:
        facts = read_facts(privacy.bounds, of_model=True)
    elif columns.label is None:
        raise click.UsageError(
            f"{path} does not say which column is the label; name it in a file for --bounds, as in "
            'label = "y".'
        )
    else:
        facts = PublicFacts((), (), (), (), columns.label)
    known = columns.labels
    if columns.encoder is not None and columns.encoder.label is not None:
        known = tuple(columns.encoder.label.values)  # type: ignore[assignment]
    if facts.labels is not None and read_labels(list(facts.labels), known).tolist() != [0, 1]:
        raise click.UsageError(
            f"{privacy.bounds} says labels = {list(facts.labels)}, and those of {path} are "
            f"{list(known)}; leave them out, or make them agree."
        )
    # The model has bounds of its own.
    nothing = (0.0,) * len(columns.names)
    return replace(
        facts, features=columns.names, lower=nothing, upper=nothing, levels=(0,) * len(nothing)
    )
