# SPDX-License-Identifier: BSD-3-Clause
"""Texts that a spreadsheet would run if they stood in a cell of a CSV file."""

from __future__ import annotations

__all__ = ["defused"]

#: What begins a formula (OWASP, "CSV injection"); white space before it does not help.
_SIGNS = ("=", "+", "-", "@")


def defused(text: str) -> str:
    """Return the text, with an apostrophe in front where a spreadsheet would take it for a formula.

    A number stays what it is.

    >>> defused("=1+1"), defused("-1"), defused("a=1")
    ("'=1+1", '-1', 'a=1')
    """
    if text[:1] not in ("\t", "\r") and text.lstrip()[:1] not in _SIGNS:
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text
