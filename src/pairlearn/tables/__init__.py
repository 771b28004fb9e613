# SPDX-License-Identifier: BSD-3-Clause
"""Tables as people keep them: names, texts, dates, gaps; and how they become features.

`TextTable` and `ArrowTable` deliver rows of texts, `decide` finds what each column is,
`TableEncoder` turns rows into features and stores itself as plain values, and `TableReader` is a
reader in chunks of a table through an encoder.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "encoding": "TableEncoder",
        "fitting": "FittedTable Plan TableOptions load_table plan_table",
        "kinds": "Decision KINDS decide",
        "labels": "LabelRule",
        "reader": "TableReader",
        "rows": "ArrowTable Block TextTable open_table",
    },
)
