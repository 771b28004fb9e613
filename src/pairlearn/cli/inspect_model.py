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
    members: list[dict[str, Any]] = []
    if record.estimator == "AUCStack":
        from pairlearn.estimators.stack.classifier import described_members

        members = described_members(record)
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
        "members": members,
        "ratings": _ratings(record, top),
        "provenance": record.provenance,
        "certificate": record.certificate,
    }
    emit(values, "\n".join(map(safe, _lines(values, top))), as_json=as_json)


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
    import numpy as np

    coef = record.arrays.get("coef")
    if coef is None or coef.ndim != 1:
        return []
    names = record.feature_names
    if names is None or len(names) != len(coef):
        names = tuple(map(str, range(len(coef))))
    order = np.argsort(-np.abs(coef), kind="stable")[:top]
    return [{"feature": names[j], "value": float(coef[j])} for j in order]


# ------------------------------------------------------------------------------------ the lines


def _lines(values: dict[str, Any], top: int) -> list[str]:
    """Return the content of a model file as lines for a person; what only engineers need is last.

    Coefficients and members say how the score is made; parameters and arrays come after them.
    """
    provenance = values["provenance"] or {}
    lines = _first(values, top)
    named = [(one["feature"], f"{one['value']:+.6g}") for one in values["coefficients"]]
    lines += _listed("largest coefficients:", named)
    if (ratings := values["ratings"]) is not None:
        counted = [("players", ratings["n_players"]), ("votes", ratings["votes"]),
                   ("judges", ratings["judges"])]  # fmt: skip
        lines.append(", ".join(f"{n} {what}" for what, n in counted if n is not None))
        best = [(str(one["player"]), f"{one['score']:+.3f}") for one in ratings["players"]]
        lines += _listed(
            "scores:" if len(best) == ratings["n_players"] else "highest scores:", best
        )
    if values["members"]:
        lines.append("members:")
        lines += [
            f"  {one['name']}: {one['estimator']}, weight {one['weight']:.3f}, held-out AUC "
            f"{one['auc']:.4f}"
            for one in values["members"]
        ]
    lines += _columns(provenance.get("table"))
    # The names of all players would fill the screen; the best stand above.
    apart = {"table", "model", *(("players", "_vote_labels") if ratings is not None else ())}
    for name in ("certificate", "provenance", "parameters"):
        if values[name]:
            facts = dict(values[name])
            found = facts.pop("fitted", {}) if name == "parameters" else {}
            lines.append(f"{name}:")
            lines += [f"  {k}: {_shown(v)}" for k, v in facts.items() if k not in apart]
            if found:
                known = {k: v for k, v in found.items() if k not in apart and v is not None}
                lines += ["found by the fit:", *(f"  {k}: {_shown(v)}" for k, v in known.items())]
    lines.append("arrays:")
    for name, array in values["arrays"].items():
        shape = " x ".join(map(str, array["shape"])) or "one number"
        lines.append(f"  {name}: {array['dtype']}, {shape}")
    version, form = values["library_version"], values["format_version"]
    return [*lines, f"written by pairlearn {version} (format {form}, checksum good)"]


def _listed(title: str, rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [title, *(f"  {name:<{width}}  {value}" for name, value in rows)] if rows else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first(values: dict[str, Any], top: int) -> list[str]:
    """Return what a person asks first: what it predicts, how well, and what matters."""
    provenance = _mapping(values["provenance"])
    about = _mapping(provenance.get("model"))
    label = _mapping(_mapping(provenance.get("table")).get("label")).get("column")
    classes = [str(one) for one in values["classes"] or ()]
    what = " against ".join(classes[::-1]) if len(classes) == 2 else ", ".join(classes)
    predicts = ": ".join(part for part in (label, what) if part)
    line = values["estimator"] + (f", predicts {predicts}" if predicts else "")
    if values["n_features"] is not None:
        line += f", from {values['n_features']} features"
    rows = provenance.get("rows_seen")
    lines = [line + (f" and {rows} rows" if rows is not None else "")]
    auc = _mapping(about.get("auc"))
    if "auc" in auc:
        said = f"{about.get('auc_of', 'held-out')} AUC {auc['auc']:.4f}"
        if "low" in auc and "high" in auc:
            said += f", 95 % interval [{auc['low']:.4f}, {auc['high']:.4f}]"
        lines.append(said)
    if "kind" in about:
        tried = _mapping(about.get("held_out_auc")).items()
        why = ", ".join(f"{kind} {value:.3f}" for kind, value in tried)
        lines.append(f"kind of model: {about['kind']}" + (f" (held-out AUC {why})" if why else ""))
    shares = list(_mapping(about.get("importance")).items())[:top]
    return [
        *lines,
        *_listed("importance of columns:", [(c, f"{100 * share:5.1f} %") for c, share in shares]),
    ]


def _columns(table: Any) -> list[str]:
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
    return lines if encoder.label is None else [*lines, f"label: {encoder.label.column}"]


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
