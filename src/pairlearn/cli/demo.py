# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn demo``: the story of the library, measured on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from pairlearn.cli.shared.paths import FilePath, force_option

#: The largest seed of scikit-learn, less those of the further splits.
_LARGEST_SEED = 2**32 - 1 - 4


@click.command("demo")
@click.option("--report", type=FilePath("write", "page", folder=True, path_type=Path),
              default=Path("report"),
              show_default=True, help="Folder of the page.")  # fmt: skip
@force_option
@click.option("--only", multiple=True, metavar="CHAPTER",
              help="One chapter: stream, paper, imbalance, private, metric, curved.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, _LARGEST_SEED), default=0, show_default=True,
              help="Determines all numbers but times.")  # fmt: skip
def command(report: Path, only: tuple[str, ...], seed: int) -> None:
    r"""Tell what the library does, measured on data that ship with scikit-learn.

    Six chapters, each with a conclusion made of its own numbers: a stream in one pass, the paper's
    comparison, imbalance, privacy, a metric, and a score that is not linear. Takes about a minute,
    most of it for the comparison, and writes a page.

    \b
    Examples:
      pairlearn demo
      pairlearn demo --only stream --only private --report story
    """
    from pairlearn.experiments.comparison.runner import ComparisonError
    from pairlearn.experiments.comparison.store import StoreError
    from pairlearn.experiments.story import CHAPTERS, tell

    for name in only:
        if name not in CHAPTERS:
            raise click.UsageError(f"there is no chapter {name!r}; take of {', '.join(CHAPTERS)}.")
    try:
        page = tell(report, only=only, seed=seed, say=click.echo)
    except (StoreError, ComparisonError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"report: {page}")
