# SPDX-License-Identifier: BSD-3-Clause
"""What readers and encoders make of small files stays as it was recorded.

``golden/expected.json`` holds recorded results.
``python tests/tables/test_golden.py`` records them again; do that only if results may change.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from pairlearn.streams.readers.base import Position, ReadError
from pairlearn.tables.encoding import TableEncoding
from pairlearn.tables.fitting import TableOptions, load_table, plan_table
from pairlearn.tables.reader import TableReader

EXPECTED = Path(__file__).parent / "golden" / "expected.json"
N = 60


def _y(k):
    return int(math.sin(k + 0.4) + 0.2 * math.sin(7 * k) > 0)


def _plain(n=N, first=0):
    rows = (f"{math.sin(k):.12f},{k % 7},{math.cos(3 * k):.3f},{_y(k)}\n" for k in range(n))
    return "a,b,c,y\n" + "".join(list(rows)[first:])


def _mixed(n=N):
    colours, words = ["red", "Blue", "blue ", "NA", "green"], ["fast", "slow", "old car", "new"]
    rows = []
    for k in range(n):
        age = "" if k % 9 == 4 else "odd" if k == 17 else str(20 + k % 31)
        day = "" if k % 13 == 5 else f"2023-{1 + k % 12:02d}-{1 + k % 28:02d}"
        text = f"{words[k % 4]}, {words[(k // 3) % 4]} and {words[(k * k) % 4]} thing number {k}"
        label = "" if k == 8 else "unknown" if k == 31 else ("Yes" if _y(k) else "no")
        rows.append(
            f'{age},{colours[k % 5]},{day},{"YN"[k % 2]},"{text}","x ""{k % 3}""",{label}\n'
        )
    return "age,colour,day,member,note,code,bought\n" + "".join(rows) + "1,2\n"


def _european():
    rows = (f"{k},{k % 10}5;1.{k:03d},5;{'ab'[k % 2]};{_y(k)}" for k in range(N))
    return "weight;price;kind;y\n" + "\n".join(rows) + "\n"


SMALL = (
    "age,city,colour,qid,target\n"
    "20,Paris,red,1,0\n"
    "NA,Oslo,blue,1,1\n"
    '30,"New ""York""",red,2,1\n'
    ",,blue,2,0\n"
    "x,Rome,red,3,0\n"
    "40,Rome,green,3,1\n"
    "50,Rome\n"
    "60,Paris,,3,1\n"
    "70,Paris,red,3.5,1\n"
    "1e400,Paris,red,3,1\n"
    "80,Lima,red,4,\n"
    "90,Lima,red,4,7\n"
    " 95 ,Lima,blue,5,1\n"
    '"96","Li,ma","blue",5,0\n'
)

TABLES = {
    "mixed": (_mixed(), TableOptions("bought"), {}),
    "given": (
        _mixed(),
        TableOptions("bought", classes=("Yes", "no"), exclude=("note",),
                     levels={"colour": ("red", "blue")}, widths={"code": 8}, missing="indicator",
                     dtype="float32"),
        {},
    ),
    "refuse": (_mixed(), TableOptions("bought", features=("age", "member"), missing="refuse"), {}),
    "european": (_european(), TableOptions("y"), {}),
    "plain": (_plain(), TableOptions("y"), {}),
    "bare": (_plain().partition("\n")[2], TableOptions("3", header=False), {"header": False}),
    "queries": (SMALL, TableOptions("target", qid="qid", problem="numbers", missing=3.0), {}),
    "groups": (_mixed(), TableOptions("colour", problem="groups", exclude=("note",)), {}),
}  # fmt: skip


def _digest(array):
    array = np.ascontiguousarray(array)
    return f"{array.dtype.str}{array.shape}" + hashlib.sha256(array.tobytes()).hexdigest()[:16]


def _bits(X, names=()):
    if any("sin)" in name for name in names or ()):
        # the last bits of a sine depend on the processor
        X = X.copy() if sparse.issparse(X) else sparse.csr_matrix(X)
        X.data = np.round(X.data * 2.0**20)
    if sparse.issparse(X):
        return [str(X.shape), *(_digest(part) for part in (X.data, X.indices, X.indptr))]
    return _digest(X)


def _names(names):
    if names is None or len(names) < 30:
        return None if names is None else list(names)
    return [len(names), hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()[:16]]


def _listed(values):
    return None if values is None else " ".join(repr(value) for value in values.tolist())


def _refused(refusals, folder):
    first = [str(one).replace(str(folder), "@") for one in refusals.first]
    return [refusals.count, *first]


def _read(make, folder):
    """Return all that a reader delivers; check that it goes on from each position."""
    try:
        reader = make()
        chunks = list(reader)
    except ReadError as error:
        return {"error": str(error).replace(str(folder), "@")}
    for k, chunk in enumerate(chunks):
        again = make()
        again.restore(Position.from_dict(json.loads(json.dumps(chunk.position.to_dict()))))
        rest = list(again)
        assert [_bits(one.X) for one in rest] == [_bits(one.X) for one in chunks[k + 1 :]]
        assert [one.position for one in rest] == [one.position for one in chunks[k + 1 :]]
        assert again.refusals == reader.refusals
    return {
        "names": _names(reader.feature_names),
        "X": [_bits(chunk.X, reader.feature_names) for chunk in chunks],
        "y": [_listed(chunk.y) for chunk in chunks],
        "qid": [_listed(chunk.qid) for chunk in chunks],
        "lines": [chunk.lines.tolist() for chunk in chunks],
        "refused": _refused(reader.refusals, folder),
        "odd": [line.replace(str(folder), "@") for line in getattr(reader, "odd", _NONE).lines()],
    }


_NONE = SimpleNamespace(lines=list)


def _table(make, folder):
    try:
        table = make()
    except ReadError as error:
        return {"error": str(error).replace(str(folder), "@")}
    return {
        "kinds": [f"{one.name}: {one.kind}, {one.note}" for one in table.plan.decisions],
        "notes": list(table.plan.notes),
        "names": _names(table.plan.encoder.feature_names),
        "state": table.plan.encoder.state(),
        "X": _bits(table.X, table.plan.encoder.feature_names),
        "y": _listed(table.y),
        "qid": _listed(table.qid),
        "refused": _refused(table.refusals, folder),
        "odd": [line.replace(str(folder), "@") for line in table.odd.lines()],
    }


def table_case(name, folder):
    text, options, given = TABLES[name]
    path = folder / "a.csv"
    path.write_text(text)
    found = {"memory": _table(lambda: load_table([path], options), folder)}
    try:
        plan = plan_table([path], options)
    except ReadError as error:
        return found | {"plan": str(error).replace(str(folder), "@")}
    state = plan.encoder.state()
    encoder = TableEncoding.from_state(json.loads(json.dumps(state)))

    def make(labelled=True, strict=False):
        return lambda: TableReader([path], encoder, format="csv", labelled=labelled,
                                   chunk_rows=11, strict=strict, **given)  # fmt: skip

    return found | {
        "plan": state,
        "reader": _read(make(), folder),
        "unlabelled": _read(make(labelled=False), folder),
        "strict": _read(make(strict=True), folder),
        "strict in memory": _table(lambda: load_table([path], _with(options, strict=True)), folder),
    }


def _with(options, **changes):
    from dataclasses import replace

    return replace(options, **changes)


def _expected():
    return json.loads(EXPECTED.read_text())


def _plainly(found):
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_encoded_as_recorded(name, tmp_path):
    assert _plainly(table_case(name, tmp_path)) == _expected()["table"][name]


def _by_line(found):
    """Return JSON with one line for each case."""
    groups = (
        json.dumps(group) + ": {\n" + ",\n".join(
            f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()
        ) + "\n}"
        for group, cases in found.items()
    )  # fmt: skip
    return "{\n" + ",\n".join(groups) + "\n}\n"


if __name__ == "__main__":
    found = {}
    for name in TABLES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = table_case(name, Path(folder))
    EXPECTED.write_text(_by_line({"table": found}))
