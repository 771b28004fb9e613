# SPDX-License-Identifier: BSD-3-Clause
"""Small faults, one at a time: ``python tools/mutants.py ROOM [NUMBER] [SEED]``.

Changes one constant, comparison or sign in a file of ``src/pairlearn/ROOM`` at a time, in a copy of
the working tree, and runs ``tests/ROOM`` (or what ``--tests`` names). Prints the survivors: each
asks for a test of what the line is for, or makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: What takes the place of an operator.
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, description and text of each mutant of a module."""
    places = [k for k, node in enumerate(ast.walk(ast.parse(source))) if change(node)]
    for place in places:
        tree = ast.parse(source)
        node = list(ast.walk(tree))[place]
        before, line = ast.unparse(node), getattr(node, "lineno", 0)
        apply(node)
        yield line, f"{before}  ->  {ast.unparse(node)}", ast.unparse(tree)


def change(node: ast.AST) -> bool:
    """Return whether a node can be changed."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    operator = getattr(node, "op", None) or (getattr(node, "ops", None) or [None])[0]
    return type(operator) in SWAPS


def apply(node: ast.AST) -> None:
    """Change a node in place."""
    if isinstance(node, ast.Constant):
        node.value = node.value + 1
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[assignment]
    else:
        node.op = SWAPS[type(node.op)]()  # type: ignore[attr-defined]


def main() -> int:
    """Try some mutants of a room."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room")
    parser.add_argument("number", type=int, nargs="?", default=50)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--tests", nargs="*")
    args = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    room = root / "src" / "pairlearn" / args.room
    files = [room] if room.suffix == ".py" else sorted(room.rglob("*.py"))
    tests = args.tests or [f"tests/{args.room.removesuffix('.py')}"]
    every = [(path, *mutant) for path in files for mutant in mutants(path.read_text())]
    chosen = random.Random(args.seed).sample(every, min(args.number, len(every)))
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(root / "src", copy)
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        for path, line, description, text in chosen:
            target = copy / path.relative_to(root / "src")
            target.write_text(text)
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
            try:
                done = subprocess.run(command, cwd=root, env=environment, capture_output=True,
                                      timeout=600)  # fmt: skip
                survived = done.returncode == 0
            except subprocess.TimeoutExpired:
                survived = False
            target.write_text(path.read_text())
            if survived:
                survivors += 1
                print(f"{path.relative_to(root)}:{line}: {description}", flush=True)
    print(f"{survivors} of {len(chosen)} mutants survive {' '.join(tests)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
