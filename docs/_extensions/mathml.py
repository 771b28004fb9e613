# SPDX-License-Identifier: BSD-3-Clause
"""Formulas as MathML, which browsers draw themselves: no script, nothing fetched."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

_BRACKET = re.compile(r"<mo>([\u27e8\u27e9])</mo>")


def _markup(code: str, *, as_block: bool) -> str:
    # Angle brackets do not grow by themselves, as they do not in print.
    return _BRACKET.sub(
        r'<mo stretchy="false">\1</mo>', latex2mathml.tex2mathml(code, as_block=as_block)
    )


def _visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(_markup(node.astext(), as_block=False))
    raise nodes.SkipNode


def _visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{_markup(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer under the name mathml."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(_visit_inline, None),
        block_renderers=(_visit_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
