# SPDX-License-Identifier: BSD-3-Clause
"""``--private`` of train, rate and evaluate: a CSV file in; a certificate, and nothing else, out.

Each row is read by itself: a cell that cannot be read counts as missing, a row that is no vote
between public players is left out, and no message says that there was one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.private.options import (
    PrivateOptions,
    check_private_data,
    refuse_beside_private,
    write_certificate,
)
from pairlearn.cli.private.records import PublicFacts, Rows, read_facts, read_names, read_rows
from pairlearn.cli.shared.output import tell
from pairlearn.cli.shared.reading import Reading, schema_to_plain, spelled
from pairlearn.cli.shared.scoring import encoder_of, kind_of, load_for_scoring, names_compared
from pairlearn.cli.shared.settings import Settings, naming, register_at, set_parts
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.tables.encoding import TableEncoding

#: Parameters of the private classifier that are not settings, and what to use.
_OWNED = {
    **dict.fromkeys(("epsilon", "delta", "ledger", "bounds"), "it has an option of its own."),
    **dict.fromkeys(
        ("labels", "levels", "target_bounds"), "it is public; write it into the file of --bounds."
    ),
    "random_state": "the noise of a released model must be secret.",
}
#: What a private rating understands beside the options of every private command.
_KNOWN = (
    "data", "winner", "loser", "first", "second", "outcome", "judge", "ties", "prior", "confidence",
    "output", "report", "as_json", "players", "votes_per_judge", "votes_per_pair",
)  # fmt: skip
#: Features are cut to this size, so that no score overflows: the error would tell of a row. It is
#: below the largest float32, in which forests compare. Beside large coefficients they are cut to
#: less, so that no score is larger than this.
_LARGEST, _LARGEST_SCORE = 1e38, 1e300


@contextmanager
def _paid() -> Iterator[None]:
    """Say in the words of the program that the budget would be exceeded."""
    from pairlearn.privacy.accounting.ledger import BudgetExceededError

    try:
        yield
    except BudgetExceededError as error:
        raise click.ClickException(str(error)) from None


def _with_facts(certificate: Any, **public: str) -> Any:
    """Return a certificate with further public facts."""
    return replace(certificate, public={**certificate.public, **public})


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
    with naming(settings), _paid():
        model.fit(rows.X, rows.y, groups=rows.persons)
    see_columns(model, facts.features)
    certificate = model.certificate_ = _with_facts(model.certificate_, rows=facts.rows)
    middle: dict[str | int, str | float] = {
        name: 0.5 * low + 0.5 * high
        for name, low, high in zip(facts.features, *model.bounds_.tolist(), strict=True)
    }
    schema = Schema(label=facts.label, features=facts.features,
                    classes=getattr(model, "labels", None), missing=middle)  # fmt: skip
    # The file of a private model takes no further facts.
    typed = " ".join(["pairlearn train --private", *(one.typed for one in settings.values())])
    plain = schema_to_plain(schema)
    write_model(path, model.to_record({"schema": plain, "program": typed}))
    write_certificate(certificate, beside)
    values = {
        "model": path, "certificate": beside, "epsilon": certificate.epsilon,
        "delta": certificate.delta, "n_features": certificate.n_features,
        f"{certificate.unit}s": certificate.n_examples,
    }  # fmt: skip
    return values, f"{certificate.statement()}\n{path}, {beside}"


# ------------------------------------------------------------------------------------------ rate


def rate_privately(
    data: tuple[str, ...], columns: tuple[str, ...] | None, privacy: PrivateOptions,
    given: Mapping[str, Any], usual: Callable[[Sequence[str]], tuple[str, ...] | None],
) -> tuple[Any, Any, dict[str, Any], list[str]]:  # fmt: skip
    """Return the ratings, votes on players, what is printed as values, and as lines.

    `usual` finds the columns among the names of a file if no option names them.
    """
    from pairlearn.estimators import PrivateRatings
    from pairlearn.estimators.ratings.votes import outcome_names
    from pairlearn.privacy.records import read_numbers

    refuse_beside_private(*_KNOWN)
    judge, output = given["judge"], given["output"]
    if given["players"] is None:
        raise click.UsageError(
            "--private needs --players: who the players are is public, and cannot be read from "
            "private votes."
        )
    if judge is not None and given["votes_per_judge"] is None:
        raise click.UsageError(
            "--by needs --votes-per-judge with --private: the noise grows with the votes of a "
            "judge that count."
        )
    for name in ("votes_per_judge", "votes_per_pair"):
        if judge is None and given[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --by, the judge's column.")
    beside = f"{output or Path(data[0]).stem}.certificate.json"
    check_private_data(
        data, {"the certificate": beside} | ({} if output is None else {"-o": output})
    )
    fields, rows, facts = _votes(data[0], columns or usual(read_names(data[0])), judge)
    players, public = _players(given["players"]), {"rows": facts.rows}
    named = outcome_names(players)
    if named and len(fields) == 3:
        # Cells of a file are texts, and a word may mean the first player or the player so called.
        fields[2] = read_numbers("outcome", fields[2])
        public["outcomes"] = f"1, 0.5 and 0 alone: a player is called {named[0]!r}"
        tell(
            f"the player {named[0]!r} has the name of an outcome, so that only 1, 0.5 and 0 count "
            "as outcomes; a vote with a word is left out."
        )
    rated = PrivateRatings(
        privacy.epsilon, privacy.delta, players=players,
        votes_per_judge=given["votes_per_judge"], votes_per_pair=given["votes_per_pair"] or 1,
        ties=given["ties"], prior=given["prior"], ledger=privacy.open_ledger(),
    )  # fmt: skip
    with _paid():
        rated.fit(*fields, groups=rows.persons)
    certificate = rated.certificate_ = _with_facts(rated.certificate_, **public)
    write_certificate(certificate, beside)
    units, other, unit = "votes", "judges", "one vote"
    if judge is not None:
        units, other, unit = "judges", "votes", "one judge with all votes"
    counts = {units: certificate.n_examples, other: None, "certificate": beside}
    promise = (
        f"({certificate.epsilon:g}, {certificate.delta:g})-differentially private with respect to "
        f"{unit} replaced"
    )
    sure = "numbers of votes have noise; intervals allow for it, and take votes as independent"
    return rated, rated.meetings().round(), counts, [promise, sure, f"certificate: {beside}"]


def _votes(path: str, columns: tuple[str, ...] | None, judge: str | None) -> tuple[Any, Any, Any]:
    """Return the columns of the votes, the rows and what is public about them."""
    if columns is None:
        # The line itself must not show: without names it is a record.
        raise click.UsageError(
            f"the first line of {path} names neither winner and loser nor a, b and outcome; name "
            "the columns with --winner and --loser, or with --a, --b and --outcome."
        )
    *features, last = columns
    nothing = (0.0,) * len(features)
    persons = () if judge is None else (judge,)
    facts = PublicFacts(
        tuple(features), nothing, nothing, (0,) * len(features), last, person=persons
    )
    rows = read_rows(path, facts)
    sides = [[row[k] for row in rows.X] for k in range(len(features))]
    return [*sides, rows.y], rows, facts


def _players(path: str) -> list[str]:
    """Return the players in a file, one in each line; empty lines are left out."""
    text = Path(path).read_text("utf-8-sig")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if len(set(names)) < len(names) or len(names) < 2:
        raise click.UsageError(
            f"--players: {path} must hold at least two different names, one in each line."
        )
    return names


# -------------------------------------------------------------------------------------- evaluate


def evaluate_privately(
    path: str, data: tuple[str, ...], confidence: float, privacy: PrivateOptions
) -> tuple[dict[str, Any], str]:
    """Return the result as values and as text."""
    import numpy as np

    from pairlearn.privacy.evaluation import private_roc_auc, scores_of_each

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
    with _paid():
        found = private_roc_auc(
            columns.labels_of(rows), scores, epsilon=privacy.epsilon, delta=privacy.delta,
            labels=columns.labels, confidence=confidence, ledger=privacy.open_ledger(),
            groups=rows.persons,
        )  # fmt: skip
    certificate = _with_facts(found.certificate, rows=facts.rows)
    values = {
        "model": path, "auc": found.auc, "low": found.low, "high": found.high,
        "sample_low": found.sample_low, "sample_high": found.sample_high,
        "confidence": confidence, "certificate": certificate.to_dict(),
    }  # fmt: skip
    unit = "one row" if rows.persons is None else "one person with all rows"
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
