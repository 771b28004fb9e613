# SPDX-License-Identifier: BSD-3-Clause
"""Tables and paragraphs for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence


def paragraph(text: str) -> str:
    """Wrap a text to the width of a terminal."""
    return textwrap.fill(text, 100)


def text_table(head: Sequence[str], body: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Return a table in plain text.

    >>> print(text_table(("method", "AUC"), [("ours", "0.93")]))
    method  AUC
    ours    0.93
    """
    lines = [tuple(head), *(tuple(line) for line in body)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    return "\n".join(
        gap.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def mean_sd(mean: float, sd: float, digits: int = 3) -> str:
    """Return a mean with its standard deviation; a single split has none.

    >>> mean_sd(0.93, 0.005), mean_sd(0.93, math.nan)
    ('0.930 +- 0.005', '0.930')
    """
    return f"{mean:.{digits}f}" + ("" if math.isnan(sd) else f" +- {sd:.{digits}f}")
