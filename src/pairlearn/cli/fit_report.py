# SPDX-License-Identifier: BSD-3-Clause
"""What ``pairlearn train`` says: what columns were taken for, held-out quality, importance."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pairlearn.tables.encoding import TableEncoding
    from pairlearn.tables.fitting import Plan
    from pairlearn.tables.kinds import Decision

#: Most characters of a column name: about a quarter of a terminal; most classes that are listed.
_NAME, _CLASSES = 28, 6
#: At most this many columns are listed for a person.
_LISTED = 40
#: At most this many columns are named as important.
_TOP = 6
#: Above this held-out AUC, a column probably gives the label away.
_TOO_GOOD = 0.99
#: So does, above this AUC, one column of several that has at least this share of the importance.
_GOOD, _MOST, _SEVERAL = 0.9, 0.8, 3
#: A fifth is held out if there are so many rows or queries, and so many rows of the rarest class.
_ENOUGH, _ENOUGH_OF_A_CLASS = 25, 5
#: The importance of columns is measured on about this many rows.
_ROWS = 20_000
#: Rows that are scored after an exchange of values, over all columns, and at each column.
_EXCHANGED, _FEWEST_EXCHANGED, _MOST_EXCHANGED = 200_000, 200, 2_000


# ------------------------------------------------------------------- what columns were taken for


def decided_values(plan: Plan) -> list[dict[str, Any]]:
    """Return the decisions as plain values."""
    return [
        {"column": decision.name, "kind": decision.kind,
         "missing": round(absent, 6) if absent else 0.0, "features": n_features, "note": note,
         "given": decision.given}
        for decision, absent, n_features, note in _decided(plan)
    ]  # fmt: skip


def _decided(plan: Plan) -> Iterator[tuple[Decision, float, int, str]]:
    """Yield the decisions with the share of missing fields, the number of features and a note."""
    by_name = {column.name: column for column in plan.encoder.columns}
    for decision in plan.decisions:
        column, absent = by_name.get(decision.name), plan.absent[decision.name]
        if column is None:
            note = f"left out: {decision.note}" if decision.note else "left out"
            yield decision, absent, 0, note
        else:
            gaps = column.describe_gaps if absent else ""
            note = "; ".join(filter(None, (decision.note, column.describe, gaps)))
            yield decision, absent, len(column.feature_names), note


def decided_lines(plan: Plan, rows: int | None) -> list[str]:
    """Return the table of columns and their kinds as lines of text."""
    from pairlearn.tables.values import cut

    cells: list[tuple[str, ...]] = [("column", "kind", "missing", "features", "")]
    for decision, absent, n_features, note in _decided(plan):
        percent = "<0.1 %" if absent < 0.001 else f"{100.0 * absent:.1f} %"
        cells.append((decision.name, decision.kind, percent if absent else "",
                      str(n_features or ""), note and cut(note, 72)))  # fmt: skip
    more = len(cells) - 1 - _LISTED
    cells = [(cut(name, _NAME), *rest) for name, *rest in cells[: _LISTED + 1]]
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    lines = [
        f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}  {e}".rstrip()
        for a, b, c, d, e in cells
    ]
    if more > 0:
        lines.append(f"... and {more} columns more, which --json lists")
    counted = "" if rows is None else f"{rows} rows; "
    n, d = len(plan.encoder.columns), plan.encoder.n_features
    gives = f"{n} column{'s' * (n > 1)} give{'s' * (n == 1)} {d} feature{'s' * (d > 1)}"
    notes = [f"note: {note}" for note in plan.notes]
    return [*lines, _label_line(plan), *notes, f"{counted}{gives}"]


def _label_line(plan: Plan) -> str:
    from pairlearn.tables.values import cut

    label = plan.encoder.label
    assert label is not None
    line = f"label {label.column!r}"
    if label.kind == "classes":
        negative, positive = (cut(str(value)) for value in label.values)
        line += f": {positive} (positive) against {negative}"
    elif label.kind == "groups":
        shown = ", ".join(cut(str(value)) for value in label.values[:_CLASSES])
        line += f": {len(label.values)} classes ({shown}{', ...' * (len(label.values) > _CLASSES)})"
    if label.note:
        line += f"; {label.note}"
    return line if plan.encoder.qid is None else f"{line}; queries: {plan.encoder.qid!r}"


# -------------------------------------------------------------------------------- held-out quality


def facts_of_fit(
    model: Any, X: Any, y: Any, qid: Any, seed: int, spans: Mapping[str, slice]
) -> tuple[dict[str, Any], list[str]]:
    """Return facts about a fitted model as plain values, and as lines of text.

    `spans` are the features of each column.
    """
    from pairlearn.tables.copies import copies_line

    copies = copies_line(X)
    facts: dict[str, Any] = {}
    is_auc, many = hasattr(model, "held_out_auc_"), len(getattr(model, "classes_", ())) > 2
    if many or not is_auc:
        found = _held_out_classes(model, X, y, seed) if many else _held_out(model, X, y, qid, seed)
        if not isinstance(found, str):
            facts["held_out"] = found
        lines = [_measured_line(found), *copies]
        return facts, [*lines, *(_settings_lines(model, facts) if is_auc else [])]
    is_stack = hasattr(model, "members_")
    interval, n_parts = _stack_auc(model, y) if is_stack else _held_out_auc(model, X, y, seed)
    lines = ["held-out AUC: too few examples of a class; evaluate the model on new data"]
    if interval is not None:
        facts |= {"auc": interval.auc, "auc_of": "held-out", "low": interval.low,
                  "high": interval.high, "confidence": interval.confidence,
                  "held_out_parts": n_parts}  # fmt: skip
        how = f"{n_parts} parts held out in turn" if n_parts > 1 else "a fifth held out"
        lines = [
            f"held-out AUC {interval.auc:.4f}, {100 * interval.confidence:g} % interval "
            f"[{interval.low:.4f}, {interval.high:.4f}] ({how}; the model is fitted to all rows)"
        ]
    lines += copies
    if is_stack:
        facts["members"] = dict(model.weights_)
        if len(model.weights_) > 1:
            shown = ", ".join(f"{name} {weight:.2f}" for name, weight in model.weights_.items())
            lines.append(f"weights of the members: {shown}")
    else:
        if model.choice_.features is not None:
            facts["features"] = model.choice_.features.reason
            lines.append(f"features: {model.choice_.features.reason}")
        lines += _settings_lines(model, facts)
    facts["importance"] = column_importance(model, X, spans)
    return facts, lines + _importance_lines(facts["importance"], facts.get("auc", 0.0))


def _held_out_auc(model: Any, X: Any, y: Any, seed: int) -> tuple[Any, int]:
    from pairlearn.estimators.shared.held_out import held_out_auc

    held_out = held_out_auc(model, X, y, seed=seed)
    return (None, 0) if held_out is None else (held_out.interval, held_out.n_folds)


def _stack_auc(model: Any, y: Any) -> tuple[Any, int]:
    from pairlearn.estimators.stack.members import STACK

    n_positive = int((y == y.max()).sum())
    return model.held_out_auc_[STACK], min(model.n_folds, n_positive, len(y) - n_positive)


def _importance_lines(shares: Sequence[Mapping[str, Any]], auc: float) -> list[str]:
    if not shares:
        return []
    words = {"+": " (more is positive)", "-": " (less is positive)", "": ""}
    shown = [f"{entry['column']} {100 * entry['share']:.0f} %{words[entry['direction']]}"
             for entry in shares[:_TOP]]  # fmt: skip
    lines = [f"most important columns: {', '.join(shown)}"]
    is_alone = auc > _GOOD and shares[0]["share"] >= _MOST and len(shares) >= _SEVERAL
    if auc > _TOO_GOOD or is_alone:
        why = "such a high AUC" if auc > _TOO_GOOD else "an AUC that is nearly all of one column"
        lines.append(
            f"{why} often comes from a column that is known only after the event; "
            f"look at {shares[0]['column']!r} first (--exclude leaves a column out)"
        )
    return lines


def _measured_line(measured: dict[str, Any] | str) -> str:
    if isinstance(measured, str):
        return f"held out: not measured ({measured}); evaluate the model on new data"
    if "hand_till" in measured:
        shown = (
            f"Hand and Till's M {measured['hand_till']:.4f}, 95 % interval "
            f"[{measured['low']:.4f}, {measured['high']:.4f}], accuracy {measured['accuracy']:.4f}"
        )
    else:
        shown = ", ".join(f"{name.replace('_', ' ')} {v:.6g}" for name, v in measured.items())
    return f"held out: {shown} (a fifth of the data; the model is fitted to all rows)"


def _held_out(model: Any, X: Any, y: Any, qid: Any, seed: int) -> dict[str, Any] | str:
    """Return the measures of a fifth of the data, by a model of the other rows; or why not."""
    import numpy as np
    from sklearn.base import clone

    from pairlearn.cli.shared.scoring import Scored, kind_of, measure

    groups = np.arange(len(y)) if qid is None else np.unique(qid, return_inverse=True)[1]
    n_groups = int(groups.max()) + 1
    if n_groups < _ENOUGH:
        return f"{n_groups} {'rows' if qid is None else 'queries'} are too few"
    chosen = np.random.default_rng(seed).permutation(n_groups)[: n_groups // 5]
    out = np.isin(groups, chosen)
    queries = {} if qid is None else {"qid": qid[~out]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows has shown them
        try:
            fitted = clone(model).fit(X[~out], y[~out], **queries)
            results = getattr(fitted, kind_of(model).scorer)(X[out])
            qid = None if qid is None else qid[out]
            return measure(fitted, [Scored(np.flatnonzero(out), results, y[out], qid, None)])
        except ValueError as error:
            # The fifth or the rest may lack a class or a kind of pair.
            return str(error).rstrip(".")


def _held_out_classes(model: Any, X: Any, y: Any, seed: int) -> dict[str, Any] | str:
    """Return the measures of a fifth of each class, by a model of the other rows; or why not."""
    import numpy as np
    from sklearn.base import clone
    from sklearn.model_selection import train_test_split

    from pairlearn.metrics.hand_till import HandTill

    labels, counts = np.unique(y, return_counts=True)
    if counts.min() < _ENOUGH_OF_A_CLASS:
        return f"the rarest class has {counts.min()} rows"
    A, B, a, b = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(model).fit(A, a)
    interval = HandTill(pairs=True, classes=tuple(labels.tolist())).interval(
        b, fitted.pair_scores(B)
    )
    accuracy = float(np.mean(fitted.predict(B) == b))
    return {"hand_till": interval.value, "low": interval.low, "high": interval.high,
            "accuracy": accuracy}  # fmt: skip


def _settings_lines(model: Any, facts: dict[str, Any]) -> list[str]:
    """Return the chosen settings as a line; they join the facts."""
    settings = {"solver": {"sgd": "stochastic"}.get(model.solver_, model.solver_)}
    if type(model.features_).__name__ != "Identity":
        settings["features"] = f"{model.features_.n_outputs} ({type(model.features_).__name__})"
    name = type(model.loss_).__name__
    settings["loss"] = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    for name in ("ridge", "step_size", "radius"):
        value = getattr(model, f"{name}_")
        if value is not None and math.isfinite(value):
            settings[name.replace("_", " ")] = f"{value:.3g}"
    if model.choice_.fisher:
        settings["share of Fisher's discriminant"] = f"{model.choice_.fisher:g}"
    facts["settings"] = settings
    return ["settings: " + ", ".join(f"{name} {value}" for name, value in settings.items())]


# ------------------------------------------------------------------------------------- importance


def spans_of(
    n_features: int, names: Sequence[str] | None, encoder: TableEncoding | None
) -> Mapping[str, slice]:
    """Return the features of each column."""
    if encoder is not None:
        return encoder.spans
    names = names or [f"feature {j + 1}" for j in range(n_features)]
    return {name: slice(j, j + 1) for j, name in enumerate(names)}


def column_importance(model: Any, X: Any, spans: Mapping[str, slice]) -> list[dict[str, Any]]:
    """Return how much each column moves the score, the largest first.

    The importance of a column is the standard deviation of what its features add to the score, as
    a share of the sum over all columns. The direction of a column with one feature is "+" if the
    score rises with it. A score that is no such sum, as of curves and trees, is measured by an
    exchange of values between rows; of sparse rows it has no importance.
    """
    import numpy as np

    from pairlearn.features import Identity

    directions = dict.fromkeys(spans, "")
    if isinstance(getattr(model, "features_", None), Identity):
        coef = np.asarray(model.coef_).ravel()
        sample = X[:: max(1, X.shape[0] // _ROWS)]
        directions = {name: "+-"[int(coef[s.start] <= 0)] if s.stop - s.start == 1 else ""
                      for name, s in spans.items()}  # fmt: skip
        spread = [float(np.asarray(sample[:, s] @ coef[s]).std()) for s in spans.values()]
    elif hasattr(X, "nnz"):
        return []
    else:
        spread = _spread_by_exchange(model, X, list(spans.values()))
    total = sum(spread)
    shares = [
        {"column": name, "share": size / total, "direction": directions[name]}
        for name, size in zip(spans, spread, strict=True)
        if size > 0.0
    ]
    return sorted(shares, key=lambda entry: -entry["share"])


def _spread_by_exchange(model: Any, X: Any, spans: Sequence[slice]) -> list[float]:
    """Return how much each column moves any score: its values are exchanged between rows.

    Half the mean square of what that changes in the score is, for a sum of functions of columns,
    the variance of the column's function.
    """
    import numpy as np

    n_rows = min(max(_EXCHANGED // len(spans), _FEWEST_EXCHANGED), _MOST_EXCHANGED)
    sample = np.asarray(X[:: max(1, len(X) // n_rows)][:n_rows], dtype=np.float64)
    before = model.decision_function(sample)
    rng = np.random.default_rng(0)
    spread = []
    for span in spans:
        rows = sample.copy()
        rows[:, span] = rows[rng.permutation(len(rows)), span]
        change = model.decision_function(rows) - before
        spread.append(math.sqrt(0.5 * float(np.mean(change**2))))
    return spread
