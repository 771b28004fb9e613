# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --dask``: Parquet files to a model, by the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import glob
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pairlearn.cli.running import show_warning
from pairlearn.cli.shared.output import typed_beside
from pairlearn.cli.shared.reading import Reading, schema_to_plain, spelled, split_names
from pairlearn.cli.shared.scoring import OWNED
from pairlearn.cli.shared.settings import Settings, naming, set_parts
from pairlearn.progress import Progress, format_count

#: Options that have an effect on a cluster.
_KNOWN = {"data", "output", "problem", "model", "loss", "feature_map", "decision", "seed", "dask",
          "label", "exclude", "settings", "as_json"}  # fmt: skip
#: Seconds to wait for a scheduler.
_TIMEOUT = 10


def refuse_beside_dask(problem: str, reading: Reading) -> None:
    """Refuse options that training on a cluster would ignore."""
    if problem != "auc":
        raise click.UsageError(
            f"--dask trains --problem auc, not {problem}; for rankings and metrics on a cluster "
            "use pairlearn.cluster.fit_on in Python."
        )
    useless = [spelled(name) for name in reading.changed() if name != "features"]
    useless += typed_beside(*_KNOWN)
    if useless:
        raise click.UsageError(
            f"{useless[0]} has no effect with --dask, which takes columns of Parquet files as they "
            "are; leave it out."
        )


def train_on_cluster(
    data: tuple[str, ...],
    output: str,
    address: str,
    reading: Reading,
    settings: Settings,
    seed: int,
    recorded: dict[str, Any],
) -> tuple[dict[str, Any], str]:
    """Write a model of Parquet files; return the result as values and as text."""
    files = _files(data)
    if reading.label is None:
        raise click.UsageError("the label is needed; name its column with --label.")
    from pairlearn.cluster import OnDask, fit_on
    from pairlearn.estimators import AUCClassifier
    from pairlearn.models import write_model
    from pairlearn.streams.readers.schema import Schema

    learner = set_parts(AUCClassifier(random_state=seed), settings, OWNED)
    try:
        import dask.dataframe
    except ImportError:
        raise ImportError("Dask is not installed; pip install 'pairlearn[dask]'.") from None

    table = dask.dataframe.read_parquet(files)
    label, features = _columns(list(table.columns), reading)
    with (
        _cluster(address) as client,
        Progress(label="training", unit="passes") as bar,
        warnings.catch_warnings(),
        naming(settings),
    ):
        warnings.showwarning = show_warning
        warnings.simplefilter("always", RuntimeWarning)
        engine = OnDask(table[features], table[label], client=client)
        model = fit_on(engine, learner, progress=lambda number, why: bar.update(number, note=why))
    fit = model.cluster_report_
    # Labels in the file, as the reader of the program names them.
    classes = tuple(c if isinstance(c, str) else float(c) for c in model.classes_.tolist())
    schema = Schema(label=label, features=tuple(features), classes=classes)
    known = {"schema": schema_to_plain(schema), "program": "pairlearn train --dask"}
    write_model(output, model.to_record(known | recorded))
    rows = int(model.n_examples_)
    values = {
        "model": output, "problem": "auc", "fit": "dask", "rows": rows, "files": len(files),
        "n_features": len(features), "classes": model.classes_.tolist(), "passes": fit.n_passes,
        "auc": fit.training_auc, "auc_half_width": fit.auc_half_width, "auc_of": "training",
    }  # fmt: skip
    text = (
        f"AUC on the training rows {fit.training_auc:.4f} (certified to "
        f"{max(fit.auc_half_width, 1e-9):.1g}), {fit.n_passes} passes over {len(files)} files\n"
        f"{output}: {format_count(rows)} rows, {len(features)} features"
    )
    return values, text


def _files(data: tuple[str, ...]) -> list[str]:
    """Return the Parquet files of names, folders and patterns."""
    found: list[str] = []
    for entry in data:
        if entry == "-":
            raise click.UsageError(
                "--dask reads files that all workers can read, not standard input (-)."
            )
        pattern = os.path.join(glob.escape(entry), "*.parquet") if Path(entry).is_dir() else entry
        files = [entry] if Path(entry).is_file() else sorted(glob.glob(pattern, recursive=True))
        if not files:
            raise click.UsageError(f"no file matches {entry!r}; name Parquet files or a folder.")
        found += files
    wrong = [file for file in found if not file.endswith((".parquet", ".pq"))]
    if wrong:
        raise click.UsageError(
            f"--dask reads Parquet files (.parquet), got {wrong[0]!r}; write it as Parquet first."
        )
    # Under a second name (a link) a file would count twice. Workers need not be in the same folder.
    once: dict[tuple[int, int], str] = {}
    for file in found:
        facts = os.stat(file)
        once.setdefault((facts.st_dev, facts.st_ino), os.path.abspath(file))
    return list(once.values())


def _columns(names: list[str], reading: Reading) -> tuple[str, list[str]]:
    """Return the label and the features."""
    excluded = [name for part in reading.exclude for name in split_names(part, "--exclude")]
    given = None if reading.features is None else split_names(reading.features, spelled("features"))
    label = str(reading.label)
    present = set(names)
    for asked in (label, *excluded, *(given or ())):
        if asked not in present:
            raise click.UsageError(
                f"there is no column {asked!r}; the files have {', '.join(names[:10])}"
                f"{', ...' if len(names) > 10 else ''}."
            )
    chosen = [name for name in names if name != label] if given is None else given
    left_out = set(excluded)
    features = [name for name in chosen if name not in left_out]
    if not features or label in features:
        raise click.UsageError("features must be one or more columns beside the label.")
    return label, features


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Yield a client of the cluster: one of this machine's processes for "local"."""
    import dask

    import distributed

    if address == "local":
        with (
            # A dead worker is started again. On a busy machine that takes longer than the 15 s
            # after which Dask gives it up.
            dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
            # A free port, so that two programs do not meet, and for this machine alone.
            distributed.LocalCluster(
                threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    if "://" not in address:
        raise click.UsageError(
            f"--dask must be local or the address of a scheduler, as tcp://host:8786; got "
            f"{address!r}."
        )
    try:
        client = distributed.Client(address, timeout=_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise click.ClickException(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with "
            "dask scheduler, or use --dask local."
        ) from None
    with client:
        yield client
