# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn reproduce``: the paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pairlearn.cli.shared.files import result_options
from pairlearn.cli.shared.reading import split_names

#: The names in `pairlearn.experiments.paper.targets`, written out so that --help is fast.
NAMES = (
    "table1", "table-rs1", "table-dp-diabetes", "table-dp-german", "table-dp-time",
    "fig-hinge", "fig-hinge-more", "fig-square", "fig-sampling", "fig-loglink",
    "private-mechanisms", "private-add-remove",
)  # fmt: skip


@click.command("reproduce")
@click.argument(
    "names", nargs=-1, required=True, type=click.Choice([*NAMES, "all"]), metavar="NAME..."
)
@click.option("--quick", is_flag=True, help="Parts of the data and few splits: a look.")
@click.option("--protocol", type=click.Choice(["honest", "paper"]), default="honest",
              show_default=True, help="honest: scaled and tuned on the training part, final model; "
                                      "paper: as published code.")  # fmt: skip
@click.option(
    "--splits", "n_splits", type=click.IntRange(1), help="Splits; by default as the paper has."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--data", "datasets", default="", metavar="A,B,...", help="Other data sets.")
@click.option("--methods", default="", metavar="A,B,...", help="Only these methods or mechanisms.")
@result_options("pairlearn-reproduce.jsonl")
def command(
    names: tuple[str, ...],
    datasets: str,
    methods: str,
    report: Path | None,
    quiet: bool,
    **given: Any,
) -> None:
    r"""Reproduce tables and figures of the paper.

    \b
    NAME is one or more of
      table1 table-rs1                                   test AUC
      table-dp-diabetes table-dp-german table-dp-time    private learning
      fig-hinge fig-hinge-more fig-square                AUC against CPU time
      fig-sampling fig-loglink                           cost of sampling, log-link loss
      all                                                all of these, the paper's
      private-mechanisms private-add-remove              every private mechanism

    Each prints our numbers, beside the published ones where there are any. A data set that is
    neither on this machine nor to be fetched is named in one line, and the rest goes on. If none
    of the paper's is there, `table1 --quick` takes data that ship with scikit-learn, and says so.
    Exit status 1 if a cell failed or nothing could be run.

    \b
    Examples:
      pairlearn reproduce table1 --quick
      pairlearn reproduce all --workers 2 --report report
    """
    from pairlearn.experiments.comparison.runner import ComparisonError
    from pairlearn.experiments.comparison.store import StoreError
    from pairlearn.experiments.paper.outcome import Settings, Shelf
    from pairlearn.experiments.paper.targets import reproduce, write_reproduction
    from pairlearn.progress import Progress

    done = []
    try:
        with Progress(unit="cells", quiet=quiet) as bar:
            settings = Settings(
                datasets=_listed(datasets, "--data"), methods=_listed(methods, "--methods"),
                progress=bar.update,
                tell=lambda line: click.echo(line, err=True),
                command=shlex.join(["pairlearn", *sys.argv[1:]]), **given,
            )  # fmt: skip
            shelf = Shelf(settings)
            for outcome in reproduce(names, settings, shelf):
                click.echo(f"\n{outcome.name}: {outcome.title}\n{outcome.text}")
                click.echo(f"{outcome.name}: {outcome.seconds:.1f} s")
                done.append(outcome)
    except (StoreError, ComparisonError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; the same command goes on from {given['store']}"
        ) from None
    if report is not None and any(outcome.parts for outcome in done):
        click.echo(f"report: {write_reproduction(done, report, settings=settings, shelf=shelf)}")
    if any(outcome.failures for outcome in done) or not any(o.parts for o in done):
        sys.exit(1)


def _listed(text: str, what: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(split_names(text, what))) if text else ()
