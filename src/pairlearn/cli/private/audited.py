# SPDX-License-Identifier: BSD-3-Clause
"""What ``pairlearn privacy audit --what`` can attack, the program itself among it."""

from __future__ import annotations

import csv
import io
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from pairlearn.estimators import PrivateAUCClassifier, audit_entries
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.privacy import Entry
from pairlearn.privacy.audit.neighbours import Table
from pairlearn.typing import Vector


def entries(
    *, neighbours: str = "replace", n: int = 32, n_features: int = 2, **claim: Any
) -> dict[str, Entry]:
    """Return the entries by name; what is not proved for the relation is left out."""
    size: dict[str, Any] = {"n": n, "n_features": n_features}
    found: dict[str, Entry] = audit_entries(neighbours=neighbours, **size, **claim)
    if neighbours == "replace":
        model = PrivateAUCClassifier(**claim, bounds=(-1.0, 1.0))
        found["program"] = ProgramEntry(model, **size)
    return found


def entry_of_mechanism(mechanism: str, *, n: int, n_features: int, **claim: Any) -> Entry:
    """Return the entry of a fit by a named mechanism."""
    options: dict[str, Any] = {**claim, "bounds": (-1.0, 1.0), "n_examples": n}
    model = PrivateAUCClassifier(mechanism=mechanism, **options)
    return FitEntry(model, n=n, n_features=n_features, name=f"fit by {mechanism}")


class ProgramEntry(FitEntry):
    """``pairlearn train --private``: a CSV file in, a model file and a certificate out."""

    share_of_runs = 0.3

    def __init__(self, estimator: PrivateAUCClassifier, **size: Any) -> None:
        super().__init__(estimator, name="pairlearn train --private", **size)

    def run(self, table: Table) -> Any:
        """Write the table, run the program, and read what it wrote."""
        from pairlearn.cli.program import program
        from pairlearn.models import load_model

        names = [f"x{k}" for k in range(self.width)]
        lower, upper = self.bounds
        lines = [f"{name} = [{a}, {b}]" for name, a, b in zip(names, lower, upper, strict=True)]
        facts = "\n".join(['label = "y"', "labels = [0, 1]", "[features]", *lines])
        with TemporaryDirectory() as folder:
            data, bounds, model = (
                Path(folder) / name for name in ("rows.csv", "bounds.toml", "model.safetensors")
            )
            with data.open("w", newline="") as file:
                cells = [[*row, label] for row, label in zip(table.X, table.y, strict=True)]
                csv.writer(file).writerows([[*names, "y"], *cells])
            bounds.write_text(facts)
            shown = io.StringIO()
            with redirect_stdout(shown):
                program.main(
                    ["train", str(data), "--private", "--epsilon", repr(self.epsilon), "--delta",
                     repr(self.delta), "--bounds", str(bounds), "-o", str(model)],
                    standalone_mode=False,
                )  # fmt: skip
            files = {path.name: path.read_bytes() for path in Path(folder).glob("model*")}
            output, written = shown.getvalue().replace(folder, ""), load_model(str(model))
        return SimpleNamespace(
            model=written, files=files, output=output, certificate_=written.certificate_
        )

    def public(self, result: Any) -> dict[str, Any]:
        """Return the bytes of both files and the text that was printed."""
        return {**result.files, "output": result.output}

    def numbers(self, result: Any) -> Vector:
        """Return the numbers of the model in the file."""
        return super().numbers(result.model)
