# SPDX-License-Identifier: BSD-3-Clause
"""Tables as people keep them: names, texts, dates, gaps; and how they become features.

`TextTable` and `ArrowTable` deliver rows of texts, `decide` finds what each column is,
`TableEncoder` turns rows into features and stores itself as plain values, and `TableReader` is a
reader in chunks of a table through an encoder.
"""

from pairlearn.tables.encoding import TableEncoder
from pairlearn.tables.fitting import FittedTable, Plan, TableOptions, load_table, plan_table
from pairlearn.tables.kinds import KINDS, Decision, decide
from pairlearn.tables.labels import LabelRule
from pairlearn.tables.reader import TableReader
from pairlearn.tables.rows import ArrowTable, Block, TextTable, open_table

__all__ = [
    "KINDS", "ArrowTable", "Block", "Decision", "FittedTable", "LabelRule", "Plan", "TableEncoder",
    "TableOptions", "TableReader", "TextTable", "decide", "load_table", "open_table", "plan_table",
]  # fmt: skip
