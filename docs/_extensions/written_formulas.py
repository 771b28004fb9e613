# SPDX-License-Identifier: BSD-3-Clause
"""Formulas that are written in the line get their indices and powers, and signs for words.

Proofs are written so that they can be read in a text editor: ``w_{t-1}``, ``‖x‖^2``, ``<=``. On a
page the letters are slanted and the indices lowered. Code is left alone.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

#: Pages whose text is mathematics.
_PAGES = ("theory/", "privacy/lemmas", "privacy/promise", "privacy/results")
_SIGNS = {
    "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "-+": "∓",
    "epsilon": "ε", "delta": "δ", "sigma": "\u03c3", "eta": "η", "mu": "μ", "sqrt": "√", "sum": "Σ",
}  # fmt: skip
_SIGN = re.compile(
    r"<=|>=|!=|->|-\+|(?<![A-Za-z])(?:(?:epsilon|delta|sigma|eta|mu|sqrt)(?![A-Za-z-])|sum(?=_))"
)
# Braces may hold one more pair of braces; letters are Latin or Greek.
_GROUP = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_LETTER = "A-Za-z\u0391-\u03c9"
_BELOW = rf"_(?:{_GROUP}|[A-Za-z0-9]+|[{_LETTER}])"
_ABOVE = rf"\^(?:{_GROUP}|\([^()]*\)|[\u2212-]?[{_LETTER}0-9/]+|\*)"
_INDEX = re.compile(
    rf"(?P<base>[{_LETTER}0-9\u0175\u2113\u2016)\]|][\u0302\u0304'\u2019\u2032]?)"
    rf"(?P<marks>(?:{_BELOW}|{_ABOVE})+)"
    r"(?P<prime>['\u2019\u2032]?)"
)
_MARK = re.compile(rf"{_BELOW}|{_ABOVE}")
#: The last letter of a word is no variable: file_name, PAIRLEARN_DATA.
_WORD = re.compile(r"[A-Za-z]{3}")


def _signs(text: str) -> str:
    return _SIGN.sub(lambda match: _SIGNS[match[0]], text)


def _typeset(text: str) -> list[nodes.Node]:
    text = _signs(text)
    found: list[nodes.Node] = []
    end = 0
    for match in _INDEX.finditer(text):
        start = match.start()
        if start > 1 and _WORD.match(text, start - 2):
            continue
        if start > end:
            found.append(nodes.Text(text[end:start]))
        base = match["base"]
        found.append(nodes.emphasis("", base) if base[0].isalpha() else nodes.Text(base))
        if match["prime"]:
            found.append(nodes.Text(match["prime"]))
        for mark in _MARK.findall(match["marks"]):
            node, body = nodes.subscript() if mark[0] == "_" else nodes.superscript(), mark[1:]
            node += _typeset(body[1:-1] if body.startswith("{") else body)
            found.append(node)
        end = match.end()
    if end < len(text):
        found.append(nodes.Text(text[end:]))
    return found


def _keep_indices(app: Any, docname: str, source: list[str]) -> None:
    """Keep Markdown from taking an index for emphasis: w'_{j-1}, f(w_{j-1})."""
    if docname.startswith(_PAGES):
        parts = re.split(
            r"(```.*?```|^    [^\n]*|`[^`\n]*`|\]\([^)]*\))", source[0], flags=re.S | re.M
        )
        parts[::2] = [re.sub(r"(?<=[^\s\\])_(?=[{\w])", r"\\_", part) for part in parts[::2]]
        source[0] = "".join(parts)


def _walk(app: Any, doctree: nodes.document) -> None:
    if not app.env.docname.startswith(_PAGES):
        return
    skipped = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
    for text in list(doctree.findall(nodes.Text)):
        inside = text.parent
        while inside is not None and not isinstance(inside, skipped):
            inside = inside.parent
        if inside is None and text.parent is not None and re.search(r"[_^]|[<>!]=|->", str(text)):
            text.parent.replace(text, _typeset(str(text)))


def setup(app: Any) -> dict[str, bool]:
    """Connect to the build."""
    app.connect("source-read", _keep_indices)
    app.connect("doctree-read", _walk)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
