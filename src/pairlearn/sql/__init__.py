# SPDX-License-Identifier: BSD-3-Clause
"""Models from queries: rows stay in the database, statistics come out of it.

`train_query` runs the passes of `pairlearn.distributed` over the Arrow batches of DuckDB or Polars.
`class_moments` needs no batches: a generated SELECT with GROUP BY gives the exact moments of the
classes, in any database that has wide whole numbers. Queries to DuckDB and Polars need the extra
``sql``.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "dialects": "DIALECTS Dialect",
        "engine": "QueryChangedError QueryEngine",
        "moments": "TableMoments batch_moments",
        "statements": "MomentsSelect",
        "training": "train_query",
        "warehouse": "class_moments class_moments_sql read_moments",
    },
)
