# SPDX-License-Identifier: BSD-3-Clause
"""Find rows that were copied by mistake.

If a table was exported twice or joined wrongly, training and held-out rows share copies, and the
held-out score is too good. Rows of few categories may be equal by chance, which is fine. So copies
are reported only if at least two columns have many different values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.content import row_hashes

#: Copies are reported from this share of the rows on; fewer hardly change a score.
_COPY_SHARE = 0.05
#: Copies are reported from this number of rows on.
_MIN_COPIES = 10
#: A diverse column has at least this number of different values; fewer may be categories.
_DIVERSE_VALUES = 20
#: A diverse column has at least this number of different values per distinct row.
_DIVERSE_SHARE = 0.25
#: Rows cannot be equal by chance if this number of columns is diverse.
_DIVERSE_COLUMNS = 2


def copies_line(X: Any) -> list[str]:
    """Return a one-sentence warning about copied rows of dense or CSR `X`, or no sentence."""
    n, count = X.shape[0], n_copies(X)
    if not count:
        return []
    return [
        f"{count} of {n} rows are exact copies of others; unless they are separate cases, held-out "
        "rows were also trained on and the score is too good: leave the copies out"
    ]


def n_copies(X: Any) -> int:
    """Return the number of rows that equal an earlier row; 0 if they are few or may be chance."""
    n = X.shape[0]
    # np.unique hashes whole numbers, which takes 70 times as long for a million of them.
    hashes = np.sort(row_hashes(X))
    n_different = min(n, 1) + int(np.count_nonzero(hashes[1:] != hashes[:-1]))
    copies = n - n_different
    if copies < max(_COPY_SHARE * n, _MIN_COPIES):
        return 0
    enough = max(_DIVERSE_VALUES, _DIVERSE_SHARE * n_different)
    return copies if _n_diverse(X, enough) >= _DIVERSE_COLUMNS else 0


def _n_diverse(X: Any, enough: float) -> int:
    """Return the number of columns that have at least `enough` different values."""
    if not hasattr(X, "indptr"):
        return sum(len(np.unique(X[:, j])) >= enough for j in range(X.shape[1]))
    by_column = X.tocsc()
    count = 0
    for j in np.flatnonzero(np.diff(by_column.indptr) >= enough - 1).tolist():
        own = by_column.data[by_column.indptr[j] : by_column.indptr[j + 1]]
        count += len(np.unique(own)) + (len(own) < X.shape[0]) >= enough
    return count
