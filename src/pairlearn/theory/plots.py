# SPDX-License-Identifier: BSD-3-Clause
"""Plot measurements and bounds on log-log axes, with fitted slopes."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pairlearn.theory.measure import ExcessMeasurement, StabilityMeasurement, fitted_slope
from pairlearn.typing import Vector


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.0, 4.0))[1]


def _line(ax: Any, x: NDArray[Any], y: Vector, label: str, **style: Any) -> None:
    positive = y > 0.0
    if positive.sum() >= 2:
        label = f"{label} (slope {fitted_slope(x[positive], y[positive]):.2f})"
    ax.plot(x[positive], y[positive], label=label, **style)


def plot_stability(measurement: StabilityMeasurement, *, ax: Any = None) -> Any:
    """Plot the distance of neighbouring models over the steps, with the bounds.

    Parameters
    ----------
    measurement : StabilityMeasurement
        The result of `measure_stability`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from pairlearn.theory import hinge_problem, measure_stability
    >>> measured = measure_stability(hinge_problem(), 20, n_steps=50, step_size=0.01, rng=0)
    >>> plot_stability(measured).get_xscale()
    'log'
    """
    ax = _axes(ax)
    steps = measurement.steps
    for run in measurement.distances:
        positive = run > 0.0
        ax.plot(steps[positive], run[positive], color="0.8", linewidth=0.7, zorder=1)
    _line(ax, steps, measurement.mean, "measured mean", color="C0", marker="o")
    realized = measurement.realized.mean(axis=0)
    _line(ax, steps, realized, "bound of the paths, mean", color="C2", linestyle=":")
    _line(ax, steps, measurement.expected, "corrected bound", color="C1")
    _line(ax, steps, measurement.paper, "paper's bound", color="C3", linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel="steps", ylabel="distance of neighbouring models")
    ax.legend(fontsize="small")
    return ax


def plot_excess(measurement: ExcessMeasurement, *, ax: Any = None) -> Any:
    """Plot the excess risk against the number of examples, with the bounds.

    Parameters
    ----------
    measurement : ExcessMeasurement
        The result of `measure_excess`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from pairlearn.theory import hinge_problem, measure_excess
    >>> plot_excess(measure_excess(hinge_problem(), [20, 40], n_runs=2, rng=0)).get_yscale()
    'log'
    """
    ax = _axes(ax)
    sizes = measurement.sizes
    for run in measurement.excess:
        positive = run > 0.0
        ax.plot(sizes[positive], run[positive], color="0.8", marker=".", linestyle="", zorder=1)
    _line(ax, sizes, measurement.mean, "measured mean", color="C0", marker="o")
    _line(ax, sizes, measurement.bounds, "corrected bound", color="C1")
    _line(ax, sizes, measurement.paper, "paper's bound", color="C3", linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel="examples", ylabel="excess risk")
    ax.set_xticks(sizes, [str(size) for size in sizes.tolist()])
    ax.minorticks_off()
    ax.legend(fontsize="small")
    return ax
