# SPDX-License-Identifier: BSD-3-Clause
"""Turn tables with names, texts, dates and gaps into features.

`TextTable` and `ArrowTable` read rows. `decide` finds the kind of each column. `TableEncoding`
turns rows into features and stores itself as plain values. `TableReader` reads a table in chunks
through an encoding. `TableEncoder` does the same with data frames.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "encoder": "TableEncoder",
        "encoding": "TableEncoding",
        "fitting": "FittedTable Plan TableOptions load_table plan_table",
        "kinds": "Decision KINDS decide",
        "labels": "LabelRule",
        "reader": "TableReader",
        "rows": "ArrowTable open_table",
        "text": "Block TextTable",
    },
)
