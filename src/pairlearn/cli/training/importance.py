# SPDX-License-Identifier: BSD-3-Clause
"""How much each column moves the score of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pairlearn.tables.encoding import TableEncoding

#: The importance of columns is measured on about this many rows.
_ROWS = 20_000
#: Rows that are scored after an exchange of values, over all columns, and at each column.
_EXCHANGED, _FEWEST_EXCHANGED, _MOST_EXCHANGED = 200_000, 200, 2_000


def _spread_of_columns(sample: Any, coef: Any, widths: Sequence[int]) -> Any:
    """Return the standard deviation of what each column, `widths` features, adds to the score."""
    import numpy as np
    from scipy import sparse

    # Entry (j, k) is the coefficient of feature j if it belongs to column k.
    column = np.repeat(np.arange(len(widths)), widths)
    places = (np.arange(len(coef)), column)
    added = sample @ sparse.csr_matrix((coef, places), shape=(len(coef), len(widths)))
    if not sparse.issparse(added):
        return np.asarray(added).std(axis=0)
    added = added.tocsc()
    n, stored = added.shape[0], np.diff(added.indptr)
    mean = np.asarray(added.sum(axis=0)).ravel() / n
    apart = sparse.csc_matrix(
        ((added.data - np.repeat(mean, stored)) ** 2, added.indices, added.indptr), added.shape
    )
    squares = np.asarray(apart.sum(axis=0)).ravel() + (n - stored) * mean**2
    return np.sqrt(squares / n)


def _spans(
    X: Any, names: Sequence[str] | None, encoder: TableEncoding | None
) -> Mapping[str, slice]:
    """Return the features of each column."""
    if encoder is not None:
        return encoder.spans
    names = names or [f"feature {j + 1}" for j in range(X.shape[1])]
    return {name: slice(j, j + 1) for j, name in enumerate(names)}


def importance_by_exchange(model: Any, X: Any, spans: Mapping[str, slice]) -> list[dict[str, Any]]:
    """Return how much each column moves the score, the largest first, for any score.

    The values of a column are exchanged between rows. Half the mean square of what that changes in
    the score is, for a sum of functions of columns, the variance of the column's function: so
    the shares are those of `column_importance`.
    """
    import numpy as np

    n_rows = min(max(_EXCHANGED // len(spans), _FEWEST_EXCHANGED), _MOST_EXCHANGED)
    sample = np.asarray(X[:: max(1, len(X) // n_rows)][:n_rows], dtype=np.float64)
    before = model.decision_function(sample)
    rng = np.random.default_rng(0)
    at_once = max(1, _EXCHANGED // 4 // len(sample))
    columns, spread = list(spans.items()), []
    for begin in range(0, len(columns), at_once):
        some = columns[begin : begin + at_once]
        rows = np.tile(sample, (len(some), 1, 1))
        for copy, (_, span) in zip(rows, some, strict=True):
            copy[:, span] = copy[rng.permutation(len(sample)), span]
        scores = model.decision_function(rows.reshape(-1, sample.shape[1]))
        change = scores.reshape(len(some), len(sample)) - before
        spread += np.sqrt(0.5 * np.mean(change**2, axis=1)).tolist()
    total = sum(spread)
    found = [
        {"column": name, "share": size / total, "direction": ""}
        for (name, _), size in zip(columns, spread, strict=True)
        if size > 0.0
    ]
    return sorted(found, key=lambda entry: -entry["share"])


def column_importance(
    model: Any, X: Any, *, names: Sequence[str] | None = None, encoder: TableEncoding | None = None
) -> list[dict[str, Any]]:
    """Return how much each column moves the score, the largest first.

    The importance of a column is the standard deviation of what its features add to the score, as
    a share of the sum over all columns. The direction of a column with one feature is "+" if the
    score rises with it. A score that is no sum over features, as of trees, is measured by an
    exchange of values between rows; of sparse rows it has no importance.
    """
    import numpy as np

    from pairlearn.features import Hats, Identity

    features = getattr(model, "features_", None)
    if not isinstance(features, Hats | Identity):
        if hasattr(X, "nnz"):
            return []
        return importance_by_exchange(model, X, _spans(X, names, encoder))
    coef = np.asarray(model.coef_).ravel()
    step = max(1, X.shape[0] // _ROWS)
    sample = X[::step]
    if isinstance(features, Hats):
        # Each feature is replaced by what it adds to the score, with the coefficient 1.
        table = np.asarray(sample.toarray() if hasattr(sample, "toarray") else sample)
        sample = np.column_stack(
            [
                np.interp(table[:, k], features.knots_of(k), features.shape_of(k, coef))
                for k in range(features.n_inputs)
            ]
        )
        coef = np.ones(features.n_inputs)
    spans = _spans(sample, names, encoder)
    spread = _spread_of_columns(sample, coef, [s.stop - s.start for s in spans.values()])
    total = float(spread.sum())
    if not total > 0.0:
        return []
    found = []
    for (name, span), size in zip(spans.items(), spread.tolist(), strict=True):
        single = span.stop - span.start == 1
        known = single and isinstance(features, Identity)
        sign = "+" if known and coef[span.start] > 0 else "-"
        found.append({"column": name, "share": size / total, "direction": sign if known else ""})
    return sorted((entry for entry in found if entry["share"] > 0), key=lambda e: -e["share"])
