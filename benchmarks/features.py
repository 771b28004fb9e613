# SPDX-License-Identifier: BSD-3-Clause
"""Feature maps against those of scikit-learn: a block of rows to a block of mapped rows."""

from __future__ import annotations

import numpy as np

from benchmarks.report import Effort, Row
from benchmarks.timing import best_of


def run(effort: Effort) -> list[Row]:
    """Compare Gaussian Fourier features and hats, in both precisions, at 22 features."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import SplineTransformer

    from pairlearn.features import Hats, RandomFourier

    n = effort.pick(2048, 8192)
    rows = []
    for dtype in (np.float64, np.float32):
        X = np.random.default_rng(0).normal(size=(n, 22)).astype(dtype)
        waves = RandomFourier(2048, "gaussian").fit(X, rng=0)
        sampler = RBFSampler(n_components=2048, random_state=0).fit(X)
        hats = Hats(n_knots=16).fit(X)
        splines = SplineTransformer(16, degree=1, knots="quantile", extrapolation="constant")
        splines.fit(X)
        hats_bars = (3, 5) if dtype is np.float64 else (4, 6)
        for name, ours, theirs, bar, goal in (
            ("2048 Fourier features against RBFSampler", waves, sampler, 1.5, 2),
            ("hats of 16 knots against SplineTransformer", hats, splines, *hats_bars),
        ):
            best = best_of(
                {
                    "ours": lambda ours=ours, X=X: ours.transform(X),
                    "theirs": lambda theirs=theirs, X=X: theirs.transform(X),
                },
                seconds=effort.seconds,
            )
            rows.append(
                Row(
                    f"{name}, {np.dtype(dtype).name}, per row",
                    best["ours"] * 1e6 / n,
                    best["theirs"] * 1e6 / n,
                    "us",
                    bar,
                    goal,
                )
            )
    return rows
