# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to trust nobody: ``python -m benchmarks.private_trust``.

Two Gaussian classes in ten features, clipped to public bounds, dealt to shards. Printed is the mean
AUC of 20,000 new examples over repetitions (noise and examples drawn anew), with its standard
error: noise once (``trust="aggregator"``), and noise in each of 4 and 16 shards
(``trust="none"``), where an example makes a difference in one shard, or with ``--reach all`` moves
others across all borders. Delta is 1/(10 n); one example is replaced; the last column is the exact
solution without privacy.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SHARDS = (4, 16)
_BOUND = 4.0


def drawn(rng: np.random.Generator, n: int, d: int = 10) -> tuple[Vector, Vector]:
    """Return examples whose best linear score has an AUC of about .87."""
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    direction = 0.8 * np.linspace(1.0, -1.0, d) / np.linalg.norm(np.linspace(1.0, -1.0, d))
    return np.clip(rng.normal(size=(n, d)) + np.outer(y, direction), -_BOUND, _BOUND), y


def fitted(
    X: Vector, y: Vector, epsilon: float, shards: int, key: Path | None, reach: int | str = 1
) -> Any:
    """Return a private model of examples in shards; with a key nobody is trusted."""
    from pairlearn import PrivateAUCClassifier
    from pairlearn.distributed import train_private_auc

    def run(statistic: Any) -> Any:
        return statistic.merge_all(
            statistic.of_part(k).partial_state(X[k::shards], y[k::shards]) for k in range(shards)
        )

    model = PrivateAUCClassifier(
        epsilon, 0.1 / len(y), bounds=(-_BOUND, _BOUND), labels=(-1.0, 1.0), n_examples=len(y)
    )
    trust = "aggregator" if key is None else "none"
    said = None if key is None else reach
    return train_private_auc(run, model, trust=trust, key_file=key, reach=said)


def main() -> None:
    """Print the table."""
    from pairlearn import AUCClassifier
    from pairlearn.metrics import roc_auc

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--reach", choices=["1", "all"], default="1")
    chosen = parser.parse_args()
    reach = "all" if chosen.reach == "all" else 1
    nobody = "".join(f"{f'none, {shards} shards':>17s}" for shards in SHARDS)
    print(f"{'n':>7s} {'epsilon':>8s} {'aggregator':>15s}{nobody} {'no privacy':>15s}")
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        for n in chosen.rows:
            for epsilon in chosen.epsilon:
                found: dict[str, list[float]] = {}
                for repetition in range(chosen.repetitions):
                    rng = np.random.default_rng([n, repetition])
                    X, y = drawn(rng, n)
                    X_new, y_new = drawn(rng, 20_000)
                    key.write_bytes(rng.bytes(32))
                    models = {"aggregator": fitted(X, y, epsilon, SHARDS[0], None)}
                    models |= {str(p): fitted(X, y, epsilon, p, key, reach) for p in SHARDS}
                    models["plain"] = AUCClassifier(solver="exact", random_state=0).fit(X, y)
                    for name, model in models.items():
                        auc = roc_auc(y_new, model.decision_function(X_new))
                        found.setdefault(name, []).append(float(auc))
                cells = "".join(
                    f"{np.mean(v):10.4f} ±{np.std(v, ddof=1) / len(v) ** 0.5:.4f}"
                    for v in found.values()
                )
                print(f"{n:7d} {epsilon:8g} {cells}", flush=True)


if __name__ == "__main__":
    main()
