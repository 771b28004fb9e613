# SPDX-License-Identifier: BSD-3-Clause
"""AUC of private learners on the paper's two small data sets, honestly.

``python -m pairlearn.privacy.table --data DIR`` reads ``diabetes`` and ``german.numer`` (LIBSVM
text, also compressed with xz or bz2) from a folder and prints the mean AUC over random splits with
256 training examples, delta = 1/256, one example replaced. Only bounds and kinds written below,
from the documentation of the data, are public; nothing is tuned on the data.
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.by_name import MECHANISMS, get_mechanism
from pairlearn.privacy.mechanisms.localized_sgd import LocalizedPairSGD
from pairlearn.privacy.noise import NoiseSource

__all__ = ["EPSILONS", "PUBLIC_FACTS", "PublicFacts", "auc_over_splits", "load_table_data", "main"]

Vector = NDArray[np.float64]

#: The values of epsilon in the paper's tables.
EPSILONS = (0.2, 0.5, 0.8, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class PublicFacts:
    """Bounds and kinds of the features of a data set, from its documentation.

    Parameters
    ----------
    file : str
        Name of the file without suffixes.
    lower, upper : tuple of float
        Bounds of each feature.
    levels : tuple of int
        0 for continuous, k for a code of k levels.
    """

    file: str
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[int, ...]


_GERMAN_LOWER = (1, 0, 0, 0, 1, 1, 1, 1, 1, 18, 1, 1, 1, 1, 1) + (0,) * 9
_GERMAN_UPPER = (4, 72, 4, 200, 5, 5, 4, 4, 4, 80, 3, 4, 2, 2, 2) + (1,) * 9

PUBLIC_FACTS = {
    "diabetes": PublicFacts(
        "diabetes",
        (0, 0, 0, 0, 0, 0, 0, 20),
        (20, 200, 140, 100, 900, 70, 2.5, 90),
        (0,) * 8,
    ),
    "german": PublicFacts(
        "german.numer",
        _GERMAN_LOWER,
        _GERMAN_UPPER,
        tuple(
            # Duration, credit amount and age are continuous.
            0 if j in (1, 3, 9) else high - low + 1
            for j, (low, high) in enumerate(zip(_GERMAN_LOWER, _GERMAN_UPPER, strict=True))
        ),
    ),
}


def load_table_data(name: str, folder: str | Path) -> tuple[Vector, Vector]:
    """Read a data set of the table.

    Parameters
    ----------
    name : str
        A key of `PUBLIC_FACTS`.
    folder : path
        Where the LIBSVM file is.

    Returns
    -------
    X, signs : ndarray
        Examples and labels as -1 and +1.
    """
    facts = PUBLIC_FACTS[name]
    openers: dict[str, Callable[..., object]] = {
        "": open,
        ".libsvm": open,
        ".xz": lzma.open,
        ".libsvm.xz": lzma.open,
        ".bz2": bz2.open,
    }
    for suffix, opener in openers.items():
        path = Path(folder) / (facts.file + suffix)
        if path.is_file():
            with opener(path, "rt") as stream:  # type: ignore[attr-defined]
                return _parse(stream.read().splitlines(), len(facts.lower))
    raise FileNotFoundError(
        f"no file {facts.file} (plain, .libsvm, .xz, .libsvm.xz or .bz2) in {folder}; fetch it "
        "from the LIBSVM site."
    )


def _parse(lines: Sequence[str], n_features: int) -> tuple[Vector, Vector]:
    rows = [line.split() for line in lines if line.strip()]
    X = np.zeros((len(rows), n_features))
    signs = np.empty(len(rows))
    for i, (label, *entries) in enumerate(rows):
        signs[i] = 1.0 if float(label) > 0 else -1.0
        for entry in entries:
            index, value = entry.split(":")
            X[i, int(index) - 1] = float(value)
    return X, signs


def _auc(scores: Vector, signs: Vector) -> float:
    from scipy.stats import rankdata

    positive = signs > 0
    n_positive = int(positive.sum())
    n_negative = len(signs) - n_positive
    rank_sum = float(rankdata(scores)[positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def auc_over_splits(
    name: str,
    folder: str | Path,
    *,
    mechanism: str | Mechanism = "statistics",
    epsilons: Sequence[float] = EPSILONS,
    n_examples: int = 256,
    n_splits: int = 200,
    delta: float | None = None,
    neighbours: str = "replace",
    seed: int = 0,
) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of the test AUC over random splits.

    The splits and the noise are seeded so that the table can be repeated; the score itself is
    computed on data that a private user would not publish.

    Parameters
    ----------
    name : str
        A key of `PUBLIC_FACTS`.
    folder : path
        Where the data are.
    mechanism : str or Mechanism, default="statistics"
        The private learner.
    epsilons : sequence of float
        Privacy parameters.
    n_examples : int, default=256
        Size of the training part; the rest is tested on.
    n_splits : int, default=200
        Number of random splits.
    delta : float, optional
        1 / n_examples by default, as in the paper's tables.
    neighbours : str, default="replace"
        The neighbouring relation.
    seed : int, default=0
        Seed of splits and noise.

    Returns
    -------
    mean, deviation : ndarray
        One value for each epsilon.
    """
    X, signs = load_table_data(name, folder)
    facts = PUBLIC_FACTS[name]
    learner = get_mechanism(mechanism)
    settings = [
        PublicSetting.make(
            n_examples,
            lower=facts.lower,
            upper=facts.upper,
            levels=facts.levels,
            epsilon=epsilon,
            delta=1.0 / n_examples if delta is None else delta,
            neighbours=neighbours,
        )
        for epsilon in epsilons
    ]
    Z = settings[0].to_standard(X)
    found = np.empty((n_splits, len(settings)))
    for split in range(n_splits):
        order = np.random.default_rng([seed, split]).permutation(len(signs))
        train, test = order[:n_examples], order[n_examples:]
        for k, setting in enumerate(settings):
            noise = NoiseSource(seed=[seed, split, k])
            fit = learner.fit(Z[train], signs[train], setting=setting, noise=noise)
            found[split, k] = _auc(Z[test] @ fit.direction, signs[test])
    return found.mean(axis=0), found.std(axis=0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line; that of the process by default.
    """
    parser = argparse.ArgumentParser(prog="python -m pairlearn.privacy.table")
    parser.add_argument("--data", required=True, help="folder with the LIBSVM files")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--neighbours", default="replace")
    parser.add_argument("--mechanism", action="append", help="repeat for several; all by default")
    parser.add_argument("--markdown", action="store_true", help="print rows of a Markdown table")
    options = parser.parse_args(arguments)
    chosen: dict[str, tuple[Mechanism, float]] = {
        name: (get_mechanism(name), np.inf)
        for name in options.mechanism or list(MECHANISMS)
        if options.neighbours in get_mechanism(name).relations
    }
    if not options.mechanism and options.neighbours == "replace":
        # The published noise is proved for epsilon <= 1 and refuses more.
        chosen["localized_sgd (paper noise)"] = LocalizedPairSGD("paper"), 1.0
    print("Mean test AUC over", options.splits, "splits, n = 256, delta = 1/256,")
    print(f"neighbours: {options.neighbours}. Scores of private models on data kept out.")
    if not options.markdown:
        print(f"{'data':10s}{'mechanism':30s}" + "".join(f"{e:>13g}" for e in EPSILONS))
    for name in PUBLIC_FACTS:
        for label, (mechanism, largest) in chosen.items():
            started = time.process_time()
            epsilons = [epsilon for epsilon in EPSILONS if epsilon <= largest]
            mean, deviation = auc_over_splits(
                name,
                options.data,
                mechanism=mechanism,
                epsilons=epsilons,
                n_splits=options.splits,
                seed=options.seed,
                neighbours=options.neighbours,
            )
            cost = (time.process_time() - started) / (options.splits * len(epsilons))
            cells = [f"{m:.3f}±{s:.3f}" for m, s in zip(mean, deviation, strict=True)]
            cells += ["refused"] * (len(EPSILONS) - len(cells))
            if options.markdown:
                short = (cell.replace("0.", ".") for cell in cells)
                print("|", name, "|", label, "|", " | ".join(short), "|", flush=True)
            else:
                row = "".join(f"{cell:>13s}" for cell in cells)
                print(f"{name:10s}{label:30s}{row}  {1000 * cost:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
