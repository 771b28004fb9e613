# SPDX-License-Identifier: BSD-3-Clause
"""A column far from zero: variances from sums of floats in SQL, and from the generated SELECT."""

from contextlib import closing
from fractions import Fraction

import duckdb
import matplotlib.pyplot as plt
import numpy as np

from pairlearn.cluster import class_moments

rng = np.random.default_rng(0)
noise, y = rng.normal(size=2000), rng.integers(0, 2, size=2000).tolist()
offsets = 10.0 ** np.arange(10)
found = {"SUM(x * x) in floats": [], "the generated SELECT": []}
for offset in offsets:
    x = (noise + offset).tolist()
    with closing(duckdb.connect()) as db:
        db.execute("CREATE TABLE t (x DOUBLE, y INTEGER)")
        db.executemany("INSERT INTO t VALUES (?, ?)", list(zip(x, y, strict=True)))
        n, s, q = db.execute("SELECT COUNT(*), SUM(x), SUM(x * x) FROM t WHERE y = 1").fetchone()
        ranges = offset - 10, offset + 10
        exact = class_moments(db, table="t", columns=["x"], target="y", ranges=ranges)
    own = [Fraction(value) for value, label in zip(x, y, strict=True) if label == 1]
    mean = sum(own) / len(own)
    truth = float(sum((value - mean) ** 2 for value in own) / len(own))
    variances = q / n - (s / n) ** 2, float(exact.moments.values.covariances[0, 0, 0])
    for name, variance in zip(found, variances, strict=True):
        found[name].append(max(abs(variance - truth) / truth, 1e-17))
figure, ax = plt.subplots(figsize=(6.0, 3.0))
for name, error in found.items():
    ax.loglog(offsets, error, "o-", markersize=4, label=name)
ax.set(xlabel="distance of the column from zero", ylabel="relative error of a variance")
ax.legend()
