# SPDX-License-Identifier: BSD-3-Clause
"""``python -m pairlearn.data``: list the data sets, say where they are, and fetch them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from pairlearn.data import DataError, find, load, lookup, names
from pairlearn.progress import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pairlearn.data", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="list all data sets and where they are")
    listing.add_argument("--json", action="store_true", help="print JSON")
    fetching = actions.add_parser("fetch", help="fetch data sets into the cache")
    fetching.add_argument("names", nargs="+", metavar="NAME")
    given = parser.parse_args(arguments)
    try:
        if given.action == "list":
            _list(as_json=given.json)
        for name in getattr(given, "names", ()):
            with Progress(label=name, unit="bytes") as bar:
                data = load(name, progress=bar.update)
            print(f"{name}: {data.n} examples, {data.d} features, {data.origin}")
    except DataError as error:
        print(f"pairlearn: {error}", file=sys.stderr)
        return 1
    return 0


def _list(*, as_json: bool) -> None:
    rows = [
        {"name": source.name, "alias": source.alias, "n": source.n, "d": source.d,
         "classes": source.n_classes, "address": source.address, "positive": source.positive,
         "where": "scikit-learn" if source.built_in else str(find(source.name) or "")}
        for source in map(lookup, names())
    ]  # fmt: skip
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'name':<28} {'n':>7} {'d':>6} {'classes':>7}  where")
    for row in rows:
        shown = f"{row['name']} ({row['alias']})" if row["alias"] else row["name"]
        where = row["where"] or "to be fetched"
        print(f"{shown:<28} {row['n']:>7} {row['d']:>6} {row['classes']:>7}  {where}")


if __name__ == "__main__":
    sys.exit(main())
