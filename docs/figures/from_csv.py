# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a table with gaps and texts, and what each adds to the score."""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import AUCClassifier
from pairlearn.tables import TableOptions, load_table

rng = np.random.default_rng(0)
calls, fee = rng.poisson(3, 500), rng.gamma(4.0, 5.0, 500).round(2)
plan = rng.choice(["basic", "pro", "team"], 500)
gone = rng.random(500) < 1.0 / (1.0 + np.exp(2.0 - 0.5 * calls + 1.0 * (plan == "team")))
lines = ["calls,monthly fee,plan,churned"]
for row in zip(calls, fee, plan, gone, strict=True):
    shown = "" if rng.random() < 0.08 else row[1]
    lines.append(f"{row[0]},{shown},{row[2]},{'yes' if row[3] else 'No'}")
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "customers.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = load_table([path], TableOptions(label="churned"))
model = AUCClassifier(random_state=0).fit(table.X, table.y)
X = table.X.toarray() if hasattr(table.X, "toarray") else np.asarray(table.X)
spread = X.std(axis=0) * model.coef_[0]
names = list(table.plan.encoder.feature_names)
figure, ax = plt.subplots(figsize=(6.4, 2.6))
ax.barh(names[::-1], spread[::-1], color=np.where(spread[::-1] > 0, "C3", "C0"))
ax.axvline(0.0, color="0.4")
ax.set(xlabel="what one standard deviation of a feature adds to the score")
