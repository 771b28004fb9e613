# SPDX-License-Identifier: BSD-3-Clause
"""The meaning of one field of text, decided without hurry for what the fast parser leaves."""

from __future__ import annotations

import math
import re

__all__ = ["RefusedFieldError", "parse_number", "shown"]

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)
_SHOWN = 40


class RefusedFieldError(ValueError):
    """A field that cannot be used; the message says why and names no place."""


def shown(text: str) -> str:
    """Return a text for a message, cut after forty characters.

    Examples
    --------
    >>> shown("x" * 50)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'..."
    """
    return repr(text) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "..."


def parse_number(text: str, missing_tokens: tuple[str, ...]) -> float:
    """Return the number a field holds, NaN where it is missing.

    The grammar is that of decimal literals, ``inf`` and ``nan``; unlike ``float()`` it accepts
    neither underscores nor digits of other scripts.

    Examples
    --------
    >>> parse_number("1e3", ()), parse_number("NA", ("NA",))
    (1000.0, nan)
    """
    text = text.strip(" \t")
    if not text or text in missing_tokens:
        return math.nan
    if not _NUMBER.fullmatch(text):
        raise RefusedFieldError(f"{shown(text)} is not a number")
    value = float(text)
    if math.isinf(value):
        raise RefusedFieldError(f"{shown(text)} is infinite")
    return value
