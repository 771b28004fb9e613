# SPDX-License-Identifier: BSD-3-Clause
"""Parquet, Arrow and ``.npy`` files: damaged bytes, and sound files of every odd type."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.campaign import Target
from fuzzing.mutations import NUMBERS, damage_bytes
from fuzzing.texts import check_chunks, content
from pairlearn.streams import NpyReader, ReadError, Schema

__all__ = ["ArrowTable", "NpyArray"]

_SCHEMAS = (
    Schema(label="y"),
    Schema(label="y", missing=0.0),
    Schema(label="y", features=("a",), missing="indicator", dtype="float32"),
    Schema(label="y", categorical={"b": 8, "a": ["1", "2"]}, unknown="ignore"),
    Schema(label="y", qid="b"),
    Schema(label="y", classes=("0", "1")),
)


class ArrowTable(Target):
    """Parquet files, and Arrow files one time in four."""

    name = "parquet"
    weight = 3
    expected = (ReadError,)

    def prepare(self, folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.table({"a": [1.0, 2.0], "b": [0.5, 1.5], "y": [0, 1]})
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file)
        for schema in _SCHEMAS[:3]:
            self.use((file.getvalue(), {"schema": schema}, 3), folder)

    def _column(self, rng: Random, n: int) -> Any:
        import pyarrow as pa

        whole = [rng.choice([0, 1, 2, 3, None][: 4 + (rng.random() < 0.2)]) for _ in range(n)]
        real = [rng.choice([rng.gauss(0, 1), *NUMBERS[:3], None, float("nan"), float("inf"), 1e300])
                if rng.random() < 0.2 else rng.gauss(0, 1) for _ in range(n)]  # fmt: skip
        real = [None if v is None else float(v) for v in real]
        kind = rng.randrange(14)
        texts = [None if v is None else str(v) for v in whole]
        if kind < 5:
            return pa.array(real, pa.float64())
        if kind == 5:
            return pa.array(real, pa.float64()).cast(pa.float32())
        if kind == 6:
            return pa.array(whole, rng.choice([pa.int8(), pa.uint64(), pa.int32(), pa.int64()]))
        if kind == 7:
            return pa.array(texts, rng.choice([pa.string(), pa.large_string(), pa.binary()]))
        if kind == 8:
            return pa.array([t or "2" for t in texts]).dictionary_encode()
        if kind == 9:
            return pa.array([None if v is None else bool(v) for v in whole])
        if kind == 10:
            return pa.array([None if v is None else [v] for v in whole], pa.list_(pa.int64()))
        if kind == 11:
            return pa.array([None if v is None else {"k": v} for v in whole])
        if kind == 12:
            return pa.array(whole, pa.int64()).cast(pa.timestamp("us"))
        return pa.array(whole, pa.int64()).cast(pa.decimal128(25, 3))

    def make(self, rng: Random) -> tuple[bytes, dict[str, Any], int]:
        import pyarrow as pa
        import pyarrow.parquet

        n = int(80 * rng.random() ** 2)
        y = pa.array([rng.randrange(2) for _ in range(n)], pa.int64())
        table = pa.table({"a": self._column(rng, n), "b": self._column(rng, n), "y": y})
        file = io.BytesIO()
        if rng.random() < 0.25:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=rng.randrange(1, 40))
        else:
            pyarrow.parquet.write_table(
                table,
                file,
                row_group_size=rng.randrange(1, 40),
                compression=rng.choice(["NONE", "SNAPPY", "ZSTD", "GZIP"]),
                use_dictionary=rng.random() < 0.5,
                data_page_version=rng.choice(["1.0", "2.0"]),
                write_page_checksum=rng.random() < 0.3,
            )
        data = file.getvalue()
        if rng.random() < 0.7:
            data = damage_bytes(rng, data)
        options = {"schema": rng.choice(_SCHEMAS), "strict": rng.random() < 0.05}
        return data, options, rng.randrange(1, 50)

    def use(self, given: tuple[bytes, dict[str, Any], int], folder: Path) -> None:
        from pairlearn.streams import ArrowReader

        data, options, step = given
        path = folder / "a.parquet"
        path.write_bytes(data)
        reader = ArrowReader(path, **options, chunk_rows=step)
        chunks = list(reader)
        check_chunks(chunks, reader.n_features)
        if step % 3 == 0:
            reader = ArrowReader(path, **options, chunk_rows=step)
            at = step % len(chunks)
            reader.restore(chunks[at].position)
            assert content(chunks[: at + 1] + list(reader)) == content(chunks), (
                "resumed it is other data"
            )


class NpyArray(Target):
    """Headers that lie, and values of every type."""

    name = "npy"
    weight = 3
    expected = (ReadError,)

    def prepare(self, folder: Path) -> None:
        # What is compiled or loaded here need not be so in every child.
        data, labels = _saved(np.ones((4, 2))), _saved(np.array([0, 1, 0, 1]))
        for dtype in ("float64", "float32"):
            self.use((data, labels, {"dtype": dtype, "chunk_rows": 3}), folder)

    def make(self, rng: Random) -> tuple[bytes, bytes, dict[str, Any]]:
        n, d = int(60 * rng.random() ** 2), rng.randrange(1, 5)
        kind = rng.choice(["f8", "f8", "f4", "f2", "i8", "i4", "u1", "?", "c16", "U3", "O"])
        draws = np.random.default_rng(rng.randrange(2**32))
        X = draws.normal(size=(n, d))
        if kind == "O":
            found: Any = np.array([["x"] * d] * n, dtype=object)
        else:
            with np.errstate(all="ignore"):
                found = X.astype(kind)
        if rng.random() < 0.1 and found.size and found.dtype.kind == "f":
            with np.errstate(all="ignore"):
                found.reshape(-1)[rng.randrange(found.size)] = rng.choice([np.nan, np.inf, 1e308])
        if rng.random() < 0.1:
            found = np.asfortranarray(found)
        if rng.random() < 0.05:
            found = found.reshape(-1)
        data, labels = _saved(found), _saved((draws.random(n) < 0.5).astype(np.int64))
        if rng.random() < 0.6:
            edge = min(len(data), 128)
            if rng.random() < 0.7:
                data = damage_bytes(rng, data[:edge], _HEADER) + data[edge:]
            else:
                data = damage_bytes(rng, data)
        if rng.random() < 0.1:
            labels = damage_bytes(rng, labels)
        options = {"dtype": rng.choice(["float64", "float32"]), "strict": rng.random() < 0.05,
                   "chunk_rows": rng.randrange(1, 50)}  # fmt: skip
        if rng.random() < 0.3:
            options["label"] = rng.choice([0, -1, 3])
        return data, labels, options

    def use(self, given: tuple[bytes, bytes, dict[str, Any]], folder: Path) -> None:
        data, labels, options = given
        (folder / "X.npy").write_bytes(data)
        (folder / "y.npy").write_bytes(labels)
        y = None if "label" in options else folder / "y.npy"
        reader = NpyReader(folder / "X.npy", y, **options)
        chunks = list(reader)
        check_chunks(chunks, reader.n_features)
        again = NpyReader(folder / "X.npy", y, **options)
        again.restore(chunks[0].position)
        assert content(chunks[:1] + list(again)) == content(chunks), "resumed it is other data"


_HEADER = (b"<f8", b">f8", b"|O", b"(9999999999,", b"(0,)", b"True", b"False", b"'", b"{", b"}",
           b"(", b"-1", b"f16", b"\x00", b"\xff\xff", b"\x03\x00", b"[" * 60, b"()", b"c16",
           b"[('a','<f8')]", b"<M8[s]", b"(1,1,1,", b"=")  # fmt: skip


def _saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()
