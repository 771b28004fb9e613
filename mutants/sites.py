# SPDX-License-Identifier: BSD-3-Clause
"""Find the places of a source text that can be changed, and change one."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: The rooms of the package whose constants are tested, in the order of the table.
ROOMS = ("privacy", "metrics", "kernels", "losses", "solvers", "theory")

_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/",), ast.Div: ("*",), ast.Pow: ("*",),
    ast.FloorDiv: ("*",), ast.Mod: ("//",), ast.LShift: (">>",), ast.RShift: ("<<",),
    ast.And: ("or",), ast.Or: ("and",),
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",),
    ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.FloorDiv: "//",
    ast.Mod: "%", ast.LShift: "<<", ast.RShift: ">>", ast.And: "and", ast.Or: "or",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_PAIRS = [("min", "max"), ("minimum", "maximum"), ("fmin", "fmax"), ("floor", "ceil"),
          ("any", "all"), ("argmin", "argmax"), ("amin", "amax"), ("log1p", "log"),
          ("expm1", "exp"), ("cumsum", "cumprod")]  # fmt: skip
_NAMES = {a: b for a, b in _PAIRS} | {b: a for a, b in _PAIRS if b not in ("log", "exp")}
#: Arguments about layout, speed or words.
_KEYWORDS = {"strict", "stacklevel", "copy", "order", "check_finite", "overwrite_a", "overwrite_b",
             "dtype", "assume_unique", "compare", "repr", "kw_only", "usedforsecurity"}  # fmt: skip
_WORDS = {"warn", "print", "tell", "debug", "info"}


@dataclass(frozen=True)
class Site:
    """One change of one place: `old` at `line` and `column` of `path` becomes `new`.

    `scope` is the qualified name of the function or class around it, empty at the top of a file.
    `function` is that of the outermost function, and `first_line` its first line; "" and 0 stand
    for a change that takes effect on import. `text` is the
    line without its indentation, and `nth` counts equal changes of equal lines in one scope.
    """

    path: str
    scope: str
    line: int
    column: int
    old: str
    new: str
    text: str
    function: str
    first_line: int
    nth: int = 0

    @property
    def room(self) -> str:
        """The room that the file is in."""
        return Path(self.path).parts[2]

    @property
    def change(self) -> str:
        """The change in words."""
        return f"{self.old} -> {self.new}"

    @property
    def key(self) -> str:
        """A name that stays when other lines of the file change."""
        fields = (self.path, self.scope, self.text, self.change, str(self.nth))
        return hashlib.sha256("\0".join(fields).encode()).hexdigest()[:16]

    def apply(self, source: str) -> str:
        """Return the source with this change."""
        lines = source.splitlines(keepends=True)
        row = lines[self.line - 1].encode()
        end = self.column + len(self.old.encode())
        if row[self.column : end].decode() != self.old:
            raise ValueError(
                f"{self.path}:{self.line} has {row[self.column : end].decode()!r} where "
                f"{self.old!r} was; the file has changed since its places were found."
            )
        lines[self.line - 1] = (row[: self.column] + self.new.encode() + row[end:]).decode()
        return "".join(lines)


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.rows = [line.encode() for line in source.splitlines()]
        self.scopes: list[str] = []
        self.function, self.first_line = "", 0
        self.sites: list[Site] = []
        self.counts: dict[tuple[str, ...], int] = {}

    def add(self, line: int, column: int, old: str, news: Sequence[str]) -> None:
        text = self.rows[line - 1].decode().strip()
        scope = ".".join(self.scopes)
        for new in news:
            equal = (scope, text, old, new)
            nth = self.counts[equal] = self.counts.get(equal, -1) + 1
            self.sites.append(
                Site(
                    self.path,
                    scope,
                    line,
                    column,
                    old,
                    new,
                    text,
                    self.function,
                    self.first_line,
                    nth,
                )
            )

    def add_between(self, before: ast.expr, after: ast.expr, operator: ast.AST) -> None:
        """Add the operator between two operands, if it stands on the line where one of them is."""
        sign, news = _SIGNS.get(type(operator)), _OPERATORS.get(type(operator))
        if sign is None or news is None or before.end_lineno is None:
            return
        for line in range(before.end_lineno, after.lineno + 1):
            row = self.rows[line - 1]
            begin = before.end_col_offset or 0 if line == before.end_lineno else 0
            end = after.col_offset if line == after.lineno else len(row)
            gap = row[begin:end].split(b"#")[0].decode()
            if sign in gap:
                column = begin + len(gap[: gap.index(sign)].encode())
                self.add(line, column, sign, news)
                return

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        old = self.rows[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
        if isinstance(value, bool):
            self.add(node.lineno, node.col_offset, old, [str(not value)])
        elif isinstance(value, int):
            self.add(node.lineno, node.col_offset, old, [str(value + 1)])
        elif isinstance(value, float):
            new = 1.0 if value == 0.0 else value * (1000.0 if abs(value) < 1e-5 else 2.0)
            self.add(node.lineno, node.col_offset, old, [repr(float(f"{new:.12g}"))])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self.add(node.lineno, node.col_offset, "-", ["+"])
        elif isinstance(node.op, ast.Not):
            self.add(node.lineno, node.col_offset, "not ", [""])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not (_is_text(node.left) or _is_text(node.right)):
            self.add_between(node.left, node.right, node.op)
            self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for before, after in zip(node.values, node.values[1:], strict=False):
            self.add_between(before, after, node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for before, after, op in zip(operands, operands[1:], node.ops, strict=False):
            self.add_between(before, after, op)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _is_text(node.value):
            self.add_between(node.target, node.value, node.op)
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name, column = "", 0
        if isinstance(node.func, ast.Name):
            name, column = node.func.id, node.func.col_offset
        elif isinstance(node.func, ast.Attribute):
            name = node.func.attr
            column = (node.func.end_col_offset or 0) - len(name.encode())
        if name in _WORDS:
            return
        if name in _NAMES:
            self.add(node.func.end_lineno or node.lineno, column, name, [_NAMES[name]])
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in _KEYWORDS:
                self.visit(keyword.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in ("__repr__", "__str__", "__dir__", "_repr_html_"):
            return
        self.scopes.append(node.name)
        # Defaults are computed where the function is made.
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        outermost = not self.first_line
        if outermost:
            self.function = ".".join(self.scopes)
            self.first_line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        for statement in node.body:
            self.visit(statement)
        if outermost:
            self.function, self.first_line = "", 0
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scopes.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave out what only makes a message."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave out what only makes a text."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave out what is for the reader."""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def sites_of(path: str, source: str) -> list[Site]:
    """Return every change that can be made to a source text, in its order."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.sites


def files_of(root: Path, rooms: Sequence[str]) -> Iterator[Path]:
    """Yield the source files of the rooms."""
    for room in rooms:
        yield from sorted((root / "src" / "pairlearn" / room).rglob("*.py"))


def in_order(root: Path, rooms: Sequence[str], seed: int) -> list[Site]:
    """Return all sites of the rooms in an order of the seed.

    The number of a mutant is its place here. The order sorts by a hash of seed and key: an edited
    line leaves all others in their order.
    """
    sites = [
        site
        for path in files_of(root, rooms)
        for site in sites_of(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    ]
    return sorted(sites, key=lambda s: hashlib.sha256(f"{seed} {s.key}".encode()).digest())
