# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn inspect``: what a model file holds, after all its checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.files import read_argument
from pairlearn.cli.shared.output import emit, json_option, safe

if TYPE_CHECKING:
    from pairlearn.models import ModelRecord


@click.command("inspect")
@read_argument("model")
@click.option("--top", default=10, show_default=True, type=click.IntRange(0),
              help="How many coefficients or players to list.")  # fmt: skip
@json_option
def command(model: str, top: int, as_json: bool) -> None:
    r"""Show what a model file holds.

    The file is checked as on loading: version, checksum, shapes and types, finite numbers.
    Nothing in it is executed, so it is safe to look at a file from a stranger.

    \b
    Examples:
      pairlearn inspect model.safetensors
      pairlearn inspect --json model.safetensors
    """
    from pairlearn.models import FORMAT_VERSION, read_model

    record = read_model(model, allow_unregistered=True)
    values: dict[str, Any] = {
        "file": model,
        "estimator": record.estimator,
        "library_version": record.library_version,
        "format_version": FORMAT_VERSION,
        "parameters": record.parameters,
        "classes": None if record.classes is None else list(record.classes),
        "n_features": _n_features(record),
        "arrays": {
            name: {"dtype": array.dtype.name, "shape": list(array.shape)}
            for name, array in record.arrays.items()
        },
        "coefficients": _largest(record, top),
        "members": _members(record),
        "ratings": _ratings(record, top),
        "provenance": record.provenance,
        "certificate": record.certificate,
    }
    emit(values, _text(values, top), as_json=as_json)


def _n_features(record: ModelRecord) -> int | None:
    if record.feature_names is not None:
        return len(record.feature_names)
    described = record.parameters.get("features_map")
    if isinstance(described, Mapping):
        width = described.get("n_inputs")
        return int(width) if isinstance(width, int) else None
    # Of a stack, the medians that fill gaps have an entry for each feature.
    found = record.arrays.get("coef", record.arrays.get("medians"))
    return None if found is None or not found.ndim else int(found.shape[-1])


def _members(record: ModelRecord) -> list[dict[str, Any]]:
    """Return the members of a stack."""
    if record.estimator != "AUCStack":
        return []
    from pairlearn.estimators.stack.classifier import described_members

    return described_members(record)


def _ratings(record: ModelRecord, top: int) -> dict[str, Any] | None:
    """Return the best players of ratings, and how many players, votes and judges there are."""
    if record.estimator not in ("PairwiseRatings", "PrivateRatings"):
        return None
    import numpy as np

    from pairlearn.estimators import PairwiseRatings, PrivateRatings

    kind = PairwiseRatings if record.estimator == "PairwiseRatings" else PrivateRatings
    model: Any = kind.from_record(record)
    order, votes = np.argsort(-model.scores_, kind="stable"), getattr(model, "votes_", None)
    names, groups = model.players_.tolist(), getattr(votes, "groups", None)
    players = [{"player": names[k], "score": float(model.scores_[k])} for k in order.tolist()]
    return {
        "players": players[:top],
        "votes": None if votes is None else votes.n_votes,
        "judges": None if groups is None else len(groups),
        "n_players": len(players),
    }


def _largest(record: ModelRecord, top: int) -> list[dict[str, Any]]:
    """Return the largest coefficients of a linear model, by absolute value."""
    import numpy as np

    coef = record.arrays.get("coef")
    if coef is None or coef.ndim != 1:
        return []
    names = record.feature_names
    if names is None or len(names) != len(coef):
        names = tuple(str(j) for j in range(len(coef)))
    order = np.argsort(-np.abs(coef), kind="stable")[:top]
    return [{"feature": names[j], "value": float(coef[j])} for j in order]


def _columns(table: Any) -> list[str]:
    """Return the columns of a table that the model was trained on."""
    if table is None:
        return []
    from pairlearn.models import ModelFileError
    from pairlearn.models.record import reason
    from pairlearn.tables.encoding import TableEncoding

    try:
        encoder = TableEncoding.from_state(table)
    except ValueError as error:
        raise ModelFileError(f"its columns cannot be restored: {reason(error)}") from None
    lines = ["columns:"]
    for column in encoder.columns:
        said = "; ".join(part for part in (column.describe, column.describe_gaps) if part)
        lines.append(f"  {column.name}: {column.kind}{f' ({said})' if said else ''}")
    if encoder.label is not None:
        lines.append(f"label: {encoder.label.column}")
    return lines


def _first(values: dict[str, Any], top: int) -> list[str]:
    """Return what a person asks first: what it predicts, how well, and what matters."""
    provenance = values["provenance"] or {}
    about = provenance.get("model")
    about = about if isinstance(about, Mapping) else {}
    label = (provenance.get("table") or {}).get("label") or {}
    name = label.get("column") if isinstance(label, Mapping) else None
    classes = [str(one) for one in values["classes"] or ()]
    what = f"{values['estimator']}"
    if len(classes) == 2:
        what += f", predicts {f'{name}: ' if name else ''}{classes[1]} against {classes[0]}"
    elif classes:
        what += f", predicts {f'{name}: ' if name else ''}{', '.join(classes)}"
    elif name:
        what += f", predicts {name}"
    if values["n_features"] is not None:
        what += f", from {values['n_features']} features"
    rows = provenance.get("rows_seen")
    lines = [what + (f" and {rows} rows" if rows is not None else "")]
    auc = about.get("auc")
    if isinstance(auc, Mapping) and "auc" in auc:
        said = f"{about.get('auc_of', 'held-out')} AUC {auc['auc']:.4f}"
        if "low" in auc and "high" in auc:
            said += f", 95 % interval [{auc['low']:.4f}, {auc['high']:.4f}]"
        lines.append(said)
    if "kind" in about:
        tried = about.get("held_out_auc")
        tried = tried if isinstance(tried, Mapping) else {}
        why = ", ".join(f"{kind} {value:.3f}" for kind, value in tried.items())
        lines.append(f"kind of model: {about['kind']}" + (f" (held-out AUC {why})" if why else ""))
    importance = about.get("importance")
    if isinstance(importance, Mapping) and importance:
        lines.append("importance of columns:")
        some = list(importance.items())[:top]
        width = max((len(column) for column, _ in some), default=0)
        lines += [f"  {column:<{width}}  {100 * share:5.1f} %" for column, share in some]
    return lines


def _shown(value: Any) -> Any:
    """Return a stored value as a person reads it: parts as in Python, a choice in short."""
    from pairlearn.models import ModelFileError
    from pairlearn.models.parts import decode

    if not isinstance(value, Mapping):
        return value
    try:
        found = decode(value, "value")
    except ModelFileError:
        return value  # a part of one's own that this process does not know
    evidence = getattr(found, "evidence", None)
    if evidence is None:
        return found
    chosen = ", ".join(f"{name} {number:g}" for name, number in evidence.values.items())
    error = "" if evidence.n_folds == 1 else f" +- {evidence.standard_error:.4f}"
    # A stream keeps the chosen candidate alone.
    best = f", the best of {len(found.tried)}" if len(found.tried) > 1 else ""
    return f"{chosen}: held-out {evidence.auc:.4f}{error}{best}"


def _best_players(ratings: Mapping[str, Any] | None) -> list[str]:
    """Return the lines about ratings."""
    if ratings is None:
        return []
    counted = [("players", ratings["n_players"]), ("votes", ratings["votes"]),
               ("judges", ratings["judges"])]  # fmt: skip
    lines = [", ".join(f"{number} {what}" for what, number in counted if number is not None)]
    some = ratings["players"]
    if some:
        width = max(len(str(one["player"])) for one in some)
        lines.append("scores:" if len(some) == ratings["n_players"] else "highest scores:")
        lines += [f"  {one['player']!s:<{width}}  {one['score']:+.3f}" for one in some]
    return lines


def _text(values: dict[str, Any], top: int) -> str:
    """Return the content of a model file as lines for a person; what only engineers need is last.

    Coefficients and members say how the score is made; parameters and arrays come after them.
    """
    provenance = values["provenance"] or {}
    lines = _first(values, top)
    if values["coefficients"]:
        lines.append("largest coefficients:")
        width = max(len(entry["feature"]) for entry in values["coefficients"])
        for entry in values["coefficients"]:
            lines.append(f"  {entry['feature']:<{width}}  {entry['value']:+.6g}")
    lines += _best_players(values["ratings"])
    if values["members"]:
        lines.append("members:")
        lines += [
            f"  {one['name']}: {one['estimator']}, weight {one['weight']:.3f}, held-out AUC "
            f"{one['auc']:.4f}"
            for one in values["members"]
        ]
    lines += _columns(provenance.get("table"))
    for name in ("certificate", "provenance", "parameters"):
        if values[name]:
            apart = ("table", "model") if name == "provenance" else ()
            shown = {k: v for k, v in values[name].items() if k not in apart}
            lines.append(f"{name}:")
            facts = dict(shown.pop("fitted", {})) if name == "parameters" else {}
            if name == "parameters" and values["ratings"]:
                # The names of all players would fill the screen; the best stand above.
                for one in (shown, facts):
                    one.pop("players", None)
                    one.pop("_vote_labels", None)
            lines += [f"  {key}: {_shown(value)}" for key, value in shown.items()]
            if facts:
                lines.append("found by the fit:")
                lines += [f"  {k}: {_shown(v)}" for k, v in facts.items() if v is not None]
    lines.append("arrays:")
    for name, array in values["arrays"].items():
        shape = " x ".join(map(str, array["shape"])) or "one number"
        lines.append(f"  {name}: {array['dtype']}, {shape}")
    lines.append(
        f"written by pairlearn {values['library_version']} (format {values['format_version']}, "
        "checksum good)"
    )
    return "\n".join(map(safe, lines))
