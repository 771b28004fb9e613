# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn data``: list data sets, show where they are, and fetch them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import click


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn errors of data sets into one line."""
    from pairlearn.data.errors import DataError

    try:
        yield
    except DataError as error:
        raise click.ClickException(str(error)) from error


@click.group("data")
def command() -> None:
    r"""List, fetch and inspect data sets.

    The folder named by PAIRLEARN_DATA is searched first, then the cache (PAIRLEARN_CACHE, or the
    platform's own place); what is in neither is fetched from the LIBSVM site.

    \b
    Examples:
      pairlearn data list
      pairlearn data fetch diabetes german
      pairlearn data info mnist
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List all data sets and say which are on this machine."""
    from pairlearn.data import find, lookup, names

    rows: list[dict[str, Any]] = []
    with _told():
        for source in map(lookup, names()):
            where = "scikit-learn" if source.built_in else str(find(source.name) or "")
            known = source.built_in or bool(source.sha256)
            rows.append({"name": source.name, "alias": source.alias, "n": source.n, "d": source.d,
                         "classes": source.n_classes, "digest_known": known,
                         "where": where})  # fmt: skip
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    click.echo(f"{'name':<28} {'n':>7} {'d':>6} {'classes':>7}  where")
    for row in rows:
        shown = f"{row['name']} ({row['alias']})" if row["alias"] else row["name"]
        where = row["where"] or "to be fetched"
        click.echo(f"{shown:<28} {row['n']:>7} {row['d']:>6} {row['classes']:>7}  {where}")


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--no-verify", is_flag=True, help="Do not compare digests (shapes always are).")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def fetch(names: tuple[str, ...], no_verify: bool, quiet: bool) -> None:
    """Fetch data sets into the cache; a broken download goes on where it stopped."""
    from pairlearn.data import load
    from pairlearn.progress import Progress

    for name in names:
        with _told(), Progress(label=name, unit="bytes", quiet=quiet) as bar:
            data = load(name, verify_digest=not no_verify, progress=bar.update)
        click.echo(f"{name}: {data.n} examples, {data.d} features, {data.origin}")


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(name: str, as_json: bool) -> None:
    """Print the facts about a data set, and load it if it is on this machine."""
    from pairlearn.data import find, load, lookup

    with _told():
        source = lookup(name)
        facts: dict[str, Any] = {
            "name": source.name,
            "alias": source.alias,
            "address": source.address or "ships with scikit-learn",
            "examples": source.n,
            "features": source.d,
            "classes": source.n_classes,
            "label rule": str(source.rule),
            "sha256 of the text": ", ".join(source.sha256) or "not known",
            "note": source.note,
        }
        if source.built_in or find(name) is not None:
            data = load(name, download_missing=False)
            facts |= {"file": data.origin, "verified": "yes", "positive examples": data.n_positive}
        else:
            facts["file"] = f"not on this machine; `pairlearn data fetch {name}`"
    facts = {key: value for key, value in facts.items() if value != ""}
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        click.echo(f"{key:<19} {value}")
