# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn bounds``: measurements on problems with known constants, beside the bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pairlearn.atomic import atomic_open
from pairlearn.cli.output import emit, json_option, with_options
from pairlearn.cli.shared.names import Named
from pairlearn.cli.shared.paths import FilePath, force_option

if TYPE_CHECKING:
    from pairlearn.theory.finite_problems import FiniteProblem

F = TypeVar("F", bound=Callable[..., Any])

_LOSSES = ("hinge", "logistic", "square")
_POSITIVE = click.FloatRange(0, math.inf, min_open=True, max_open=True)


@click.group("bounds")
def command() -> None:
    r"""Measure what the theorems bound, and print both.

    The problems have finitely many values of an example, so that risk, minimiser and constants
    are known exactly. `advise` needs no measurement: it prints the step size that minimises a
    bound. Each command says what its numbers mean, and where a bound is vacuous: where it says no
    more than is known without learning. A difference of 1e-12 counts as rounding.

    \b
    Examples:
      pairlearn bounds stability --loss logistic --steps 2000 --plot stability.svg
      pairlearn bounds excess --loss hinge --sizes 50,100,200,400 --plot excess.png
      pairlearn bounds advise --n 10000 --norm-bound 1 --radius 5 --loss logistic
    """


def _measured(function: F) -> F:
    """Add the options that both measurements share."""
    return with_options(
        function,
        click.option("--loss", default="hinge", show_default=True, type=click.Choice(_LOSSES),
                     help="The pair loss; hinge has a kink, the others are smooth."),
        click.option("--features", default=2, show_default=True, type=click.IntRange(1),
                     help="Number of features."),
        click.option("--runs", "n_runs", default=20, show_default=True, type=click.IntRange(1),
                     help="Independent runs."),
        click.option("--seed", "rng", type=click.IntRange(0), default=0, show_default=True,
                     help="Determines all numbers."),
        click.option("--plot", metavar="FILE", type=FilePath("write", "picture"),
                     help="Draw both on one doubly logarithmic axis (.png, .svg, .pdf)."),
        force_option,
        json_option,
    )  # fmt: skip


@command.command()
@_measured
@click.option("--n", default=200, show_default=True, type=click.IntRange(2),
              help="Number of examples.")  # fmt: skip
@click.option("--steps", "n_steps", default=2000, show_default=True, type=click.IntRange(3),
              help="Number of steps.")  # fmt: skip
@click.option("--step-size", default=0.01, show_default=True, help="The constant step size.")
@click.option("--averaging", default="step_size", show_default=True,
              type=click.Choice(["step_size", "last"]),
              help="Compare the paper's averages or the last iterates.")  # fmt: skip
def stability(
    loss: str, features: int, plot: str | None, as_json: bool, n: int, **given: Any
) -> None:
    r"""Print the distance of models of neighbouring data sets, beside Theorem 4 or 5.

    Two data sets that differ in one example are learned along the same indices. The bound of the
    path holds in every run, the others hold for the mean over the indices.

    \b
    Examples:
      pairlearn bounds stability
      pairlearn bounds stability --loss square --n 500 --steps 5000 --json
    """
    from pairlearn.theory.measure import measure_stability

    draw = _canvas(plot)
    problem = _problem(loss, features)
    found = measure_stability(problem, n, **given)
    runs, step_size = given["n_runs"], given["step_size"]
    smooth = step_size * problem.constants.smoothness <= 2.0
    columns = {
        "steps": found.steps.tolist(),
        "mean": found.mean.tolist(),
        "largest": found.distances.max(axis=0).tolist(),
        "path_bound_mean": found.realized.mean(axis=0).tolist(),
        "bound": found.expected.tolist(),
        "paper_bound": found.paper.tolist(),
    }
    n_above, theorem = found.n_runs_above, "Theorem 5" if smooth else "Theorem 4"
    facts = {
        "theorem": theorem,
        "loss": loss,
        "n": n,
        "step_size": step_size,
        "averaging": given["averaging"],
        "runs": runs,
        "runs_above_the_bound_of_their_path": n_above,
    }
    title = (
        f"distance of neighbouring models, {loss} loss, {n} examples, step size {step_size:g} "
        f"({theorem})"
    )
    model = "averages" if given["averaging"] == "step_size" else "last iterates"
    meaning = {
        "steps": "Number of steps so far.",
        "mean": f"Distance of the two {model}, mean over {runs} runs.",
        "largest": "The largest of these distances.",
        "path_bound_mean": "A bound for the indices that a run drew, mean over the runs. It holds "
        "in every run.",
        "bound": f"{theorem} with proved constants: a bound on the mean over all indices.",
        "paper_bound": f"{theorem} as the paper prints it.",
        "slope": "The power of the number of steps with which a column grows.",
    }
    trivial = problem.domain.diameter, "the diameter of the ball, in which both models lie"
    note = f"runs above the bound of their own path: {n_above} of {runs}"
    _report(title, columns, facts, note, as_json, meaning, trivial)
    if draw is not None:
        from pairlearn.theory.plots import plot_stability

        draw(lambda ax: plot_stability(found, ax=ax), as_json)


@command.command()
@_measured
@click.option("--sizes", default="50,100,200,400,800", show_default=True, metavar="N,N,...",
              help="Numbers of examples.")  # fmt: skip
@click.option("--setting", default="online", show_default=True,
              type=click.Choice(["online", "offline"]),
              help="One pass, or draws with replacement (n^2 steps for the hinge).")  # fmt: skip
def excess(
    loss: str, features: int, plot: str | None, as_json: bool, sizes: str, **given: Any
) -> None:
    r"""Print the excess risk against the number of examples, beside Theorem 1, 2 or 6.

    Each run takes the step size that the bound recommends.

    \b
    Examples:
      pairlearn bounds excess
      pairlearn bounds excess --loss logistic --setting offline --sizes 100,1000,10000
    """
    from pairlearn.theory.measure import measure_excess

    draw = _canvas(plot)
    numbers = _sizes(sizes)
    problem = _problem(loss, features)
    found = measure_excess(problem, numbers, **given)
    runs, setting = given["n_runs"], given["setting"]
    columns = {
        "examples": found.sizes.tolist(),
        "mean": found.mean.tolist(),
        "largest": found.excess.max(axis=0).tolist(),
        "bound": found.bounds.tolist(),
        "paper_bound": found.paper.tolist(),
    }
    n_above = found.n_sizes_above
    facts = {"loss": loss, "setting": setting, "runs": runs, "sizes_above_the_bound": n_above}
    title = f"excess risk, {loss} loss, {setting}, mean of {runs} runs"
    note = f"sizes whose mean is above the bound: {n_above} of {len(numbers)}"
    meaning = {
        "examples": "Number of examples.",
        "mean": f"Risk of the model minus the least risk, mean over {runs} runs.",
        "largest": "The largest of these differences.",
        "bound": "A bound on the mean over data and indices, with proved constants, at the step "
        "size that makes it smallest.",
        "paper_bound": "The same with the paper's constants.",
        "slope": "The power of the number of examples with which a column changes.",
    }
    zero = problem.excess_risk(problem.minimizer * 0.0)
    trivial = zero, "the excess risk of w = 0, which has learned nothing"
    _report(title, columns, facts, note, as_json, meaning, trivial)
    if draw is not None:
        from pairlearn.theory.plots import plot_excess

        draw(lambda ax: plot_excess(found, ax=ax), as_json)


@command.command()
@click.option("--n", required=True, type=click.IntRange(3), help="Number of examples.")
@click.option("--norm-bound", required=True, type=_POSITIVE,
              help="Bound on the norm of an example.")  # fmt: skip
@click.option("--radius", required=True, type=_POSITIVE, help="Radius of the ball of the model.")
@click.option("--loss", type=Named("losses.LOSSES"), default="hinge", show_default=True,
              help="The pair loss.")  # fmt: skip
@click.option("--setting", default="offline", show_default=True,
              type=click.Choice(["online", "offline"]),
              help="One pass, or draws with replacement.")  # fmt: skip
@click.option(
    "--steps", "n_steps", type=click.IntRange(1), help="Number of steps; default: the theorem's."
)
@json_option
def advise(n: int, loss: str, as_json: bool, **given: Any) -> None:
    r"""Print the step size that minimises a bound on the excess risk, and the bound.

    \b
    Examples:
      pairlearn bounds advise --n 10000 --norm-bound 1 --radius 5
      pairlearn bounds advise --n 10000 --norm-bound 1 --radius 5 --setting online --json
    """
    from pairlearn.losses import LOSSES
    from pairlearn.problem import Problem
    from pairlearn.scores import LinearScore
    from pairlearn.theory.advice import advise_auc

    problem = Problem(LinearScore(), LOSSES.make(loss))
    advice = advise_auc(problem, n, **given)
    # Of a pair of independent labels at most half are opposite, and w = 0 has the margin 0.
    trivial = 0.5 * float(problem.loss.value(0.0, 1.0, -1.0, problem.loss.parameter))
    vacuous = advice.bound >= trivial
    values = {
        "theorem": advice.theorem,
        "schedule": type(advice.schedule).__name__,
        "step_size": advice.step_size,
        "n_steps": advice.n_steps,
        "averaging": type(advice.averaging).__name__,
        "bound": advice.bound,
        "trivial": trivial,
        "vacuous": vacuous,
    }
    meaning = {
        "theorem": "the statement that gives the bound",
        "schedule": "how the steps change with time",
        "step_size": "the scale of the steps that makes the bound smallest",
        "n_steps": "steps to take",
        "averaging": "which average of the iterates is the model",
        "bound": "its expected risk exceeds the least risk in the ball by at most this",
        "trivial": "the risk of w = 0 is at most this, without learning",
        "vacuous": "whether the bound says no more than that"
        + ("; take more examples or a smaller ball" if vacuous else ""),
    }
    texts = {name: f"{v:.6g}" if isinstance(v, float) else str(v) for name, v in values.items()}
    texts["vacuous"] = "yes" if vacuous else "no"
    name_width, width = max(map(len, texts)), max(map(len, texts.values()))
    lines = [f"{k:<{name_width}}  {v:<{width}}  {meaning[k]}" for k, v in texts.items()]
    emit(values | {"meaning": meaning}, "\n".join(lines), as_json=as_json)


def _problem(loss: str, features: int) -> FiniteProblem:
    from pairlearn.losses import Logistic
    from pairlearn.theory.finite_problems import hinge_problem, square_problem

    if loss == "square":
        return square_problem(features)
    return hinge_problem(features, loss=Logistic() if loss == "logistic" else None)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 3 or sorted(set(sizes)) != sizes:
        raise click.BadParameter(
            f"{text!r} is not an increasing list of numbers from 3 on, such as 50,100,200.",
            param_hint="--sizes",
        )
    return sizes


def _slope(x: list[float], y: list[float]) -> float | None:
    from pairlearn.theory.measure import fitted_slope

    points = [(a, b) for a, b in zip(x, y, strict=True) if b > 0.0]
    if len(points) < 2:
        return None
    return fitted_slope([a for a, _ in points], [b for _, b in points])


def _report(
    title: str,
    columns: dict[str, list[Any]],
    facts: dict[str, Any],
    note: str,
    as_json: bool,
    meaning: dict[str, str],
    trivial: tuple[float, str],
) -> None:
    """Print the measurements beside the bounds, or as JSON.

    `meaning` has a sentence for each column and for the slopes; `trivial` is a value that needs no
    theorem, and what it is.
    """
    first, *others = columns
    slopes = {name: _slope(columns[first], columns[name]) for name in others}
    heads = [name.replace("_", " ") for name in columns]
    table = [heads]
    for row in zip(*columns.values(), strict=True):
        table.append([str(row[0]), *(f"{value:.3g}" for value in row[1:])])
    table.append(["slope", *("-" if s is None else f"{s:.2f}" for s in slopes.values())])
    widths = [max(len(line[k]) for line in table) for k in range(len(heads))]
    lines = [title]
    for line in table:
        cells = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        lines.append("  ".join(cells))
    lines.append(note)
    value, what = trivial
    vacuous = {
        name: [
            at for at, bound in zip(columns[first], columns[name], strict=True) if bound >= value
        ]
        for name in ("bound", "paper_bound")
    }
    for name, places in vacuous.items():
        if places:
            told = "everywhere" if places == columns[first] else _places(first, places)
            lines.append(
                f"{name.replace('_', ' ')} is vacuous {told}: at least {value:.3g}, {what}"
            )
    width = max(map(len, meaning))
    lines += ["", *(f"{k.replace('_', ' '):<{width}}  {text}" for k, text in meaning.items())]
    found = facts | {"columns": columns, "slopes": slopes, "meaning": meaning}
    found |= {"trivial": value, "vacuous": vacuous}
    emit(found, "\n".join(lines), as_json=as_json)


def _places(first: str, places: list[int]) -> str:
    """Say where a bound is vacuous: "at 5, 10 steps"."""
    listed = ", ".join(map(str, places[:4])) + (", ..." if len(places) > 4 else "")
    return f"at {listed} {first}"


def _canvas(path: str | None) -> Callable[[Callable[[Any], Any], bool], None] | None:
    """Return a function that draws into the file, after checking that it can be written."""
    if path is None:
        return None
    try:
        from matplotlib.backend_bases import FigureCanvasBase
        from matplotlib.figure import Figure
    except ImportError as error:
        raise click.ClickException(
            "--plot needs matplotlib; install it with `pip install pairlearn[plot]`."
        ) from error
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if "." not in path or path.rsplit(".", 1)[1].lower() not in known:
        raise click.BadParameter(
            f"{path!r} must end in one of {', '.join('.' + kind for kind in known)}.",
            param_hint="--plot",
        )

    kind = path.rsplit(".", 1)[1].lower()
    # A later run knows the picture by its mark, and replaces it.
    mark = {"png": "Software"}.get(kind, "Creator" if kind in ("svg", "pdf", "ps", "eps") else "")
    marks = {mark: "pairlearn"} if mark else None

    def draw(paint: Callable[[Any], Any], as_json: bool) -> None:
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        paint(figure.subplots())
        with atomic_open(path) as out:
            figure.savefig(out, format=kind, dpi=150, metadata=marks)
        click.echo(f"picture: {path}", err=as_json)

    return draw
