# SPDX-License-Identifier: BSD-3-Clause
"""Public names in the text of a page lead to their place in the reference.

What is set in type of a program and is the name of a documented object, alone (``AUCClassifier``),
with arguments (``Hats(n_knots=8)``) or with its class (``AUCClassifier.partial_fit``), becomes a
link. Nobody has to write one, and a name that is gone is no broken link.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

_NAME = re.compile(r"(?:pairlearn\.)?([A-Za-z_][\w.]*)(?:\(.*\))?", re.S)


def _places(app: Any) -> dict[str, Any]:
    """Return documented objects by their names without the package, if these are unique."""
    found: dict[str, Any] = {}
    twice = set()
    for name, entry in app.env.domains["py"].objects.items():
        parts = name.split(".")
        if parts[0] != "pairlearn" or entry.aliased:
            continue
        # A class or function by its own name, a method with that of its class.
        first = next((i for i, part in enumerate(parts) if part[0].isupper()), len(parts) - 1)
        short = ".".join(parts[first:])
        if short in found and found[short].docname != entry.docname:
            twice.add(short)
        found[short] = entry
        found[".".join(parts[1:])] = entry
    return {name: entry for name, entry in found.items() if name not in twice}


def _link(app: Any, doctree: nodes.document, docname: str) -> None:
    if docname.startswith(("api/", "auto_examples/", "changelog")) or app.builder.format != "html":
        return
    if not hasattr(app.env, "linked_names"):
        app.env.linked_names = _places(app)
    for literal in list(doctree.findall(nodes.literal)):
        match = _NAME.fullmatch(literal.astext())
        entry = app.env.linked_names.get(match[1]) if match else None
        inside = literal.parent
        while inside is not None and not isinstance(inside, nodes.reference | nodes.title):
            inside = inside.parent
        if entry is None or inside is not None or entry.objtype == "module":
            continue
        uri = app.builder.get_relative_uri(docname, entry.docname) + "#" + entry.node_id
        reference = nodes.reference("", "", internal=True, refuri=uri, classes=["name"])
        literal.replace_self(reference)
        reference += literal


def setup(app: Any) -> dict[str, bool]:
    """Connect to the build."""
    app.connect("env-updated", lambda app, env: vars(env).pop("linked_names", None) and None)
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
