# SPDX-License-Identifier: BSD-3-Clause
"""Facts about a model that was fitted in memory: held-out quality, settings, columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pairlearn.cli.training.importance import column_importance

if TYPE_CHECKING:
    from pairlearn.tables.encoding import TableEncoding

#: At most this many columns are named.
_TOP = 6
#: Above this held-out AUC, a column probably gives the label away.
_TOO_GOOD = 0.99
#: So does, above this AUC, one column of several that has at least this share of the importance.
_GOOD, _MOST, _SEVERAL = 0.9, 0.8, 3
#: With many classes, a fifth is held out if the rarest class has at least this many rows.
_ENOUGH_OF_A_CLASS = 5
#: A fifth is held out if there are at least this many rows, or queries of a ranking.
_ENOUGH = 25


def facts_of_fit(
    model: Any,
    X: Any,
    y: Any,
    *,
    names: Sequence[str] | None,
    encoder: TableEncoding | None,
    seed: int,
    qid: Any = None,
) -> dict[str, Any]:
    """Return facts about a fitted model as plain values, and as text under "lines"."""
    from pairlearn.tables.copies import copies_line

    facts: dict[str, Any] = {"rows": len(y)}
    copies = copies_line(X)
    if hasattr(model, "members_"):
        facts |= _stack_facts(model, y)
        facts["lines"] += copies
        return _with_importance(facts, column_importance(model, X, names=names, encoder=encoder))
    if not hasattr(model, "held_out_auc_"):
        return facts | _held_out_facts(_held_out(model, X, y, qid, seed), copies)
    facts["settings"] = _settings(model)
    settings = "settings: " + ", ".join(f"{k} {v}" for k, v in facts["settings"].items())
    if len(model.classes_) > 2:
        measured = _held_out_classes(model, X, y, seed)
        return facts | _held_out_facts(measured, [*copies, settings])
    from pairlearn.estimators.shared.held_out import held_out_auc

    lines: list[str] = []
    found = held_out_auc(model, X, y, seed=seed)
    if found is None:
        lines.append("held-out AUC: too few examples of a class; evaluate the model on new data")
    else:
        interval = found.interval
        facts |= {"auc": interval.auc, "auc_of": "held-out", "low": interval.low,
                  "high": interval.high, "confidence": interval.confidence,
                  "held_out_parts": found.n_folds}  # fmt: skip
        how = f"{found.n_folds} parts held out in turn" if found.n_folds > 1 else "a fifth held out"
        lines.append(
            f"held-out AUC {interval.auc:.4f}, {100 * interval.confidence:g} % interval "
            f"[{interval.low:.4f}, {interval.high:.4f}] ({how}; the model is fitted to all rows)"
        )
    lines += copies
    if model.choice_.features is not None:
        facts["features"] = model.choice_.features.reason
        lines.append(f"features: {model.choice_.features.reason}")
    lines.append(settings)
    shares = column_importance(model, X, names=names, encoder=encoder)
    return _with_importance({**facts, "lines": lines}, shares)


def _with_importance(facts: dict[str, Any], shares: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts with the importance of the columns, and lines about it."""
    lines = facts["lines"]
    if shares:
        words = {"+": " (more is positive)", "-": " (less is positive)", "": ""}
        shown = [f"{entry['column']} {100 * entry['share']:.0f} %{words[entry['direction']]}"
                 for entry in shares[:_TOP]]  # fmt: skip
        lines.append(f"most important columns: {', '.join(shown)}")
        auc, first = facts.get("auc", 0.0), shares[0]
        is_alone = auc > _GOOD and first["share"] >= _MOST and len(shares) >= _SEVERAL
        if auc > _TOO_GOOD or is_alone:
            why = (
                "such a high AUC" if auc > _TOO_GOOD else "an AUC that is nearly all of one column"
            )
            lines.append(
                f"{why} often comes from a column that is known only after the event; "
                f"look at {first['column']!r} first (--exclude leaves a column out)"
            )
    return {**facts, "importance": shares, "lines": lines}


def _stack_facts(model: Any, y: Any) -> dict[str, Any]:
    """Return the held-out AUC of a stack and the weights of its members."""
    from pairlearn.estimators.stack.members import STACK

    interval, n_positive = model.held_out_auc_[STACK], int((y == y.max()).sum())
    n_folds = min(model.n_folds, n_positive, len(y) - n_positive)
    facts = {"auc": interval.auc, "auc_of": "held-out", "low": interval.low,
             "high": interval.high, "confidence": interval.confidence,
             "held_out_parts": n_folds, "members": dict(model.weights_)}  # fmt: skip
    lines = [
        f"held-out AUC {interval.auc:.4f}, {100 * interval.confidence:g} % interval "
        f"[{interval.low:.4f}, {interval.high:.4f}] ({n_folds} parts held out in turn; the model "
        "is fitted to all rows)"
    ]
    if len(model.weights_) > 1:
        shown = ", ".join(f"{name} {weight:.2f}" for name, weight in model.weights_.items())
        lines.append(f"weights of the members: {shown}")
    return {**facts, "lines": lines}


def _held_out_facts(measured: dict[str, Any] | str, lines: list[str]) -> dict[str, Any]:
    """Return the measures of held-out rows, or why there are none, before other lines."""
    if isinstance(measured, str):
        line = f"held out: not measured ({measured}); evaluate the model on new data"
        return {"lines": [line, *lines]}
    if "hand_till" in measured:
        said = (
            f"Hand and Till's M {measured['hand_till']:.4f}, 95 % interval "
            f"[{measured['low']:.4f}, {measured['high']:.4f}], accuracy {measured['accuracy']:.4f}"
        )
    else:
        said = ", ".join(f"{name.replace('_', ' ')} {v:.6g}" for name, v in measured.items())
    line = f"held out: {said} (a fifth of the data; the model is fitted to all rows)"
    return {"held_out": measured, "lines": [line, *lines]}


def _held_out(model: Any, X: Any, y: Any, qid: Any, seed: int) -> dict[str, Any] | str:
    """Return the measures of a fifth of the data, by a model of the other rows.

    If they cannot be measured, return the reason.
    """
    import warnings

    import numpy as np
    from sklearn.base import clone

    from pairlearn.cli.shared.measures import measure
    from pairlearn.cli.shared.problem_kinds import kind_of
    from pairlearn.cli.shared.scoring import Scored

    groups = np.arange(len(y)) if qid is None else np.unique(qid, return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    if n_groups < _ENOUGH:
        return f"{n_groups} {'rows' if qid is None else 'queries'} are too few"
    chosen = np.random.default_rng(seed).permutation(n_groups)[: n_groups // 5]
    out = np.isin(groups, chosen)
    queries = {} if qid is None else {"qid": qid[~out]}
    with warnings.catch_warnings():
        # The fit to all rows has shown these warnings.
        warnings.simplefilter("ignore")
        try:
            fitted = clone(model).fit(X[~out], y[~out], **queries)
            results = getattr(fitted, kind_of(model).scorer)(X[out])
            lines = np.flatnonzero(out)
            scored = Scored(lines, results, y[out], None if qid is None else qid[out], None, 0)
            return measure(fitted, [scored])
        except ValueError as error:
            # The fifth or the rest may lack a class or a kind of pair.
            return str(error).rstrip(".")


def _held_out_classes(model: Any, X: Any, y: Any, seed: int) -> dict[str, Any] | str:
    """Return the measures of a fifth of each class, by a model of the other rows."""
    import warnings

    import numpy as np
    from sklearn.base import clone

    from pairlearn.metrics.hand_till import HandTill

    labels, counts = np.unique(y, return_counts=True)
    if counts.min() < _ENOUGH_OF_A_CLASS:
        return f"the rarest class has {counts.min()} rows"
    rng = np.random.default_rng(seed)
    members = [rng.permutation(np.flatnonzero(y == label)) for label in labels]
    out = np.zeros(len(y), dtype=bool)
    out[np.concatenate([own[: max(len(own) // 5, 1)] for own in members])] = True
    with warnings.catch_warnings():
        # The fit to all rows has shown these warnings.
        warnings.simplefilter("ignore")
        fitted = clone(model).fit(X[~out], y[~out])
    found = HandTill(pairs=True, classes=tuple(labels.tolist())).interval(
        y[out], fitted.pair_scores(X[out])
    )
    accuracy = float(np.mean(fitted.predict(X[out]) == y[out]))
    return {"hand_till": found.value, "low": found.low, "high": found.high, "accuracy": accuracy}


def _settings(model: Any) -> dict[str, str]:
    """Return the chosen settings by name."""
    found = {"solver": {"sgd": "stochastic"}.get(model.solver_, model.solver_)}
    if type(model.features_).__name__ != "Identity":
        found["features"] = f"{model.features_.n_outputs} ({type(model.features_).__name__})"
    found["loss"] = _words(type(model.loss_).__name__)
    for name in ("ridge", "step_size", "radius"):
        value = getattr(model, f"{name}_")
        if value is not None and math.isfinite(value):
            found[name.replace("_", " ")] = f"{value:.3g}"
    if model.choice_.fisher:
        found["share of Fisher's discriminant"] = f"{model.choice_.fisher:g}"
    return found


def _words(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
