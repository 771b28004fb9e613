# SPDX-License-Identifier: BSD-3-Clause
"""Tables and paragraphs for a terminal."""

from __future__ import annotations

import math
import textwrap

from pairlearn.shown import text_table

__all__ = ["mean_sd", "paragraph", "text_table"]


def paragraph(text: str) -> str:
    """Wrap a text to the width of a terminal."""
    return textwrap.fill(text, 100)


def mean_sd(mean: float, sd: float, digits: int = 3) -> str:
    """Return a mean with its standard deviation; a single split has none.

    >>> mean_sd(0.93, 0.005), mean_sd(0.93, math.nan)
    ('0.930 +- 0.005', '0.930')
    """
    return f"{mean:.{digits}f}" + ("" if math.isnan(sd) else f" +- {sd:.{digits}f}")
