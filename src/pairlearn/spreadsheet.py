# SPDX-License-Identifier: BSD-3-Clause
"""Defuse texts that a spreadsheet would run as formulas in a cell of a CSV file."""

from __future__ import annotations

#: Characters that begin a formula (OWASP, "CSV injection"), also after white space.
_SIGNS = ("=", "+", "-", "@")


def defused(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet would read it as a formula.

    Numbers stay unchanged.
    """
    if text[:1] not in ("\t", "\r") and text.lstrip()[:1] not in _SIGNS:
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text
