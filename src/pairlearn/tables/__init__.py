# SPDX-License-Identifier: BSD-3-Clause
"""Turn tables with names, texts, dates and gaps into features.

`TextTable` and `ArrowTable` read rows of texts. `decide` finds the kind of each column.
`TableEncoder` turns rows into features and stores itself as plain values. `TableReader` reads a
table in chunks through an encoder.
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
