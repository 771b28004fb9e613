# SPDX-License-Identifier: BSD-3-Clause
"""Numbers on the command line: digits from 0 to 9, finite, and small enough for the machine."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import click

NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?|nan", re.IGNORECASE
)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_LARGEST = 2**63 - 1


class _Strict(click.ParamType):  # type: ignore[type-arg]  # click 8.2 has no argument
    """Checks a number before its own type does."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or refuse it in one line."""
        text = str(value).strip()
        whole = isinstance(self, click.types.IntParamType)
        if whole and (isinstance(value, bool) or not _WHOLE.fullmatch(text)):
            self.fail(f"{value!r} is not a whole number; write digits, as in 1000.", param, ctx)
        if not NUMBER.fullmatch(text) or text.lower() == "nan":
            self.fail(f"{value!r} is not a number; write digits, as in 0.5 or 1e-6.", param, ctx)
        if whole and abs(int(text[:40])) > _LARGEST:
            self.fail(f"{text[:40]} is too large; choose at most {_LARGEST}.", param, ctx)
        if not whole and math.isinf(float(text)):
            if "inf" in text.lower():
                self.fail(f"{value!r} is not a finite number.", param, ctx)
            self.fail(f"{text[:40]} is larger than any number (about 1.8e308).", param, ctx)
        return super().convert(value, param, ctx)


def be_strict(command: click.Command) -> None:
    """Let all numbers of a command be read strictly."""
    for parameter in command.params:
        kind = parameter.type
        numbers = (click.types.IntParamType, click.types.FloatParamType)
        if isinstance(kind, numbers) and not isinstance(kind, _Strict):
            strict = copy.copy(kind)
            strict.__class__ = type(type(kind).__name__, (_Strict, type(kind)), {})
            parameter.type = strict
    for inner in getattr(command, "commands", {}).values():
        be_strict(inner)
