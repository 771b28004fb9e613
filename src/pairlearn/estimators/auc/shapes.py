# SPDX-License-Identifier: BSD-3-Clause
"""Draw and explain additive models: the contribution of each feature to a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.estimators.shared.examples import check_columns
from pairlearn.features import Hats, Identity
from pairlearn.register import nearest
from pairlearn.typing import Vector

#: Bins of the density below a curve.
_BINS = 40
#: Attributes of fitted stacks, metrics and ratings, which are no sums over features.
_NO_SUMS = ("members_", "components_", "players_")
#: The most panels without a choice of features.
_MOST_PANELS = 12


@dataclass(frozen=True)
class Explanation:
    """The contributions of the features to one score.

    Parameters
    ----------
    contributions : dict of str to float
        The contribution of each feature, the largest first.
    base : float
        The score without any feature: functions are measured from their typical value.
    total : float
        The decision value, the sum of all.

    Examples
    --------
    >>> from pairlearn import AUCClassifier, explain
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> found = explain(AUCClassifier(random_state=0).fit(X, X[:, 1] > 0), [0.0, 1.0])
    >>> list(found.contributions)
    ['x1', 'x0']
    >>> bool(np.isclose(found.base + sum(found.contributions.values()), found.total))
    True
    """

    contributions: dict[str, float]
    base: float
    total: float


def explain(model: Any, x: ArrayLike) -> Explanation:
    """Return what each feature adds to the score of one example.

    Parameters
    ----------
    model : estimator
        A fitted classifier, ranker or regressor with linear features or hats.
    x : array-like of shape (d,)
        The example; the names of a row of a data frame must be those of the model, in its order.

    Returns
    -------
    Explanation
        Contributions that add up to the decision value. Functions of hats are measured from their
        mean over the knots, which lie at quantiles; linear ones from zero.

    Examples
    --------
    >>> from pairlearn import AUCClassifier, explain
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = AUCClassifier(features="hats", random_state=0).fit(X, X[:, 0] ** 2 > 1)
    >>> found = explain(model, [2.0, 0.0])
    >>> list(found.contributions)[0]
    'x0'
    >>> bool(abs(found.total - model.decision_function([[2.0, 0.0]])[0]) < 1e-9)
    True
    """
    names = _names(model)
    row = _example(x, names, is_named=hasattr(model, "feature_names_in_"))
    coef, base = _linear_part(model)
    features = _additive(model)
    if features is None:
        added = coef * _clipped(model, row)
    else:
        added = np.empty(len(row))
        for k in range(len(row)):
            knots, values = features.knots_of(k), features.shape_of(k, coef)
            typical = float(values.mean())
            added[k] = np.interp(row[k], knots, values) - typical
            base += typical
    order = np.argsort(-np.abs(added), kind="stable")
    return Explanation(
        {names[k]: float(added[k]) for k in order}, float(base), float(base + added.sum())
    )


def plot_shapes(
    model: Any,
    X: Any = None,
    *,
    features: Sequence[str | int] | None = None,
    n_columns: int = 4,
    figure: Any = None,
) -> Any:
    """Draw the function of each feature of an additive model.

    Parameters
    ----------
    model : estimator
        A fitted classifier, ranker or regressor with linear features or hats.
    X : array-like of shape (n, d), optional
        Examples whose density is drawn below each function; needed for a linear model. By default
        ticks at the knots, which lie at quantiles.
    features : sequence of str or int, optional
        Which ones to draw, by name or number; by default the 12 that vary most.
    n_columns : int, default=4
        Panels side by side.
    figure : matplotlib.figure.Figure, optional
        An empty figure to draw in, one of pyplot for example; by default a new one.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; all panels have one scale, that of the score.

    Examples
    --------
    >>> from pairlearn import AUCClassifier, plot_shapes
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = AUCClassifier(features="hats", random_state=0).fit(X, X[:, 0] ** 2 > 1)
    >>> figure = plot_shapes(model, X)
    >>> [panel.get_xlabel() for panel in figure.axes]
    ['x0', 'x1']
    """
    from matplotlib.figure import Figure

    names = _names(model)
    coef, _ = _linear_part(model)
    hats = _additive(model)
    if X is not None:
        check_columns(model, X)
    table = None if X is None else np.asarray(X, dtype=np.float64)
    if table is None and hats is None:
        raise ValueError("plot_shapes needs X for a linear model: its functions have no range.")
    if table is not None and (table.ndim != 2 or table.shape[1] != len(names)):
        raise ValueError(f"X must have {len(names)} features, got shape {table.shape}.")
    curves = []
    for k in range(len(names)):
        if hats is not None:
            at, values = hats.knots_of(k), hats.shape_of(k, coef)
        else:
            assert table is not None
            at = np.array([table[:, k].min(), table[:, k].max()])
            if hasattr(model, "certificate_"):  # the function bends where values are clipped
                at = np.unique([*at, *np.clip(model.bounds_[:, k], *at)])
            values = coef[k] * _clipped(model, at, k)
        curves.append((at, values - values.mean()))
    if features is None:
        spans = np.array([float(np.ptp(values)) for _, values in curves])
        chosen = [int(k) for k in np.argsort(-spans, kind="stable")[:_MOST_PANELS]]
    else:
        chosen = [_place(name, names) for name in features]
        if not chosen:
            raise ValueError("features must name at least one feature, got none.")
    n_columns = min(n_columns, len(chosen))
    n_rows = -(-len(chosen) // n_columns)
    if figure is None:
        figure = Figure(figsize=(3.0 * n_columns, 2.4 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).reshape(-1)
    for panel in panels[len(chosen) :]:
        panel.remove()
    for panel, k in zip(panels, chosen, strict=False):
        at, values = curves[k]
        panel.axhline(0.0, color="0.8", linewidth=0.8)
        panel.plot(at, values, color="C0")
        panel.set_xlabel(names[k])
        if table is None:
            panel.plot(at, np.zeros(len(at)), "|", color="0.4", transform=_foot(panel))
        else:
            counts, edges = np.histogram(table[:, k], bins=_BINS)
            panel.fill_between(
                0.5 * (edges[1:] + edges[:-1]),
                0.25 * counts / max(int(counts.max()), 1),
                color="0.7",
                alpha=0.5,
                linewidth=0.0,
                transform=_foot(panel),
            )
    for panel in panels[: len(chosen) : n_columns]:
        panel.set_ylabel("added to the score")
    return figure


def _foot(panel: Any) -> Any:
    """Return the transform with x of the data and y of the panel."""
    return panel.get_xaxis_transform()


def _names(model: Any) -> list[str]:
    from sklearn.utils.validation import check_is_fitted

    if any(hasattr(model, name) for name in _NO_SUMS):
        raise ValueError(
            f"{type(model).__name__} has no coefficients of features; explain a classifier, ranker "
            "or regressor with linear features or hats."
        )
    check_is_fitted(model, "coef_")
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{k}" for k in range(model.n_features_in_)]


def _example(x: Any, names: list[str], *, is_named: bool) -> Vector:
    """Return one example as finite numbers; refuse names of other features or in another order."""
    row = np.asarray(x, dtype=np.float64)
    if row.ndim == 2 and len(row) == 1:
        row = row[0]
    if row.ndim != 1:
        raise ValueError(f"x must be one example, got shape {row.shape}; explain one row.")
    if len(row) != len(names):
        raise ValueError(f"x has {len(row)} features, the model has {len(names)}.")
    # A row of a data frame has its names in the index, a frame of one row in the columns.
    given = list(getattr(x, "columns", x.index)) if hasattr(x, "iloc") else []
    if is_named and given and all(isinstance(one, str) for one in given) and given != names:
        raise ValueError(
            f"x has the features {given[:5]}, the model has {names[:5]}; pass "
            "x[model.feature_names_in_]."
        )
    if not np.isfinite(row).all():
        raise ValueError("x contains NaN or infinity; fill the gaps as for `predict`.")
    return row


def _clipped(model: Any, values: Vector, k: int | slice = slice(None)) -> Vector:
    """Return values of features within the bounds of a private model, as its score takes them."""
    if not hasattr(model, "certificate_"):
        return values
    lower, upper = model.bounds_
    return np.clip(values, lower[k], upper[k])


def _place(name: str | int, names: list[str]) -> int:
    if isinstance(name, str):
        if name not in names:
            raise ValueError(f"the model has no feature {name!r}{nearest(name, names)}")
        return names.index(name)
    if not 0 <= name < len(names):
        raise ValueError(f"the model has features 0 to {len(names) - 1}, got {name}.")
    return int(name)


def _linear_part(model: Any) -> tuple[Vector, float]:
    coef = np.asarray(model.coef_, dtype=np.float64)
    if coef.ndim == 2 and len(coef) > 1:
        raise ValueError(
            f"{type(model).__name__} has {len(coef)} scores, one for each pair of classes or each "
            "label, and what a feature adds is about one; fit two classes, y == label for example."
        )
    if hasattr(model, "line"):
        # Grades: their order may not be that of their names, and their cuts are no intercept.
        line: tuple[Vector, float] = model.line()
        return line
    intercept = getattr(model, "intercept_", 0.0)
    return coef.reshape(-1), float(np.asarray(intercept).reshape(-1)[0])


def _additive(model: Any) -> Hats | None:
    """Return the hats of a model, None if it is linear; refuse other maps."""
    features = getattr(model, "features_", None)
    if features is None or isinstance(features, Identity):
        return None
    if not isinstance(features, Hats):
        raise ValueError(
            f"only a sum of functions of one feature each can be drawn or explained, got "
            f'{features!r}; fit with features="hats".'
        )
    return features
