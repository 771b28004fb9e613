# SPDX-License-Identifier: BSD-3-Clause
"""Split examples into training and test parts, into folds, and scale features to [-1, 1].

The paper's published code fits the scaling on all examples, including the test examples. Here the
default ``"train"`` fits on the training part only; ``"paper"`` does as the paper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.folds import deal, members_of, splits_of
from pairlearn.validation import check_count, check_fraction, check_generator

#: Scalings by name: fitted on the training part, fitted on all examples, none.
SCALINGS = ("train", "paper", "none")
#: Bytes of a dense matrix at most.
_DENSE_LIMIT = 4 * 2**30


class Split(NamedTuple):
    """Sorted indices of the training and the test examples."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def random_split(n: int, *, test_fraction: float = 0.2, rng: Any = None) -> Split:
    """Return a random split of n examples; floor((1 - test_fraction) n) of them are for training.

    >>> split = random_split(10, rng=0)
    >>> len(split.train), len(split.test)
    (8, 2)
    """
    check_count("n", n, minimum=2)
    check_fraction("test_fraction", test_fraction)
    # 1e-9: 0.8 * 5 may round below 4.0, and floor must not lose an example
    n_train = int((1.0 - test_fraction) * n + 1e-9)
    if n_train in (0, n):
        raise ValueError(
            f"a test fraction of {test_fraction} leaves one part of {n} examples empty; "
            "choose another fraction."
        )
    order = check_generator(rng).permutation(n)
    return Split(np.sort(order[:n_train]), np.sort(order[n_train:]))


def folds(n: int, n_folds: int = 5, *, y: ArrayLike | None = None, rng: Any = None) -> list[Split]:
    """Return the splits of one cross-validation; every example tests exactly once.

    With labels `y`, each class is divided separately, so every fold has both classes and its AUC is
    defined. The sizes of the folds differ by at most one (for each class, with `y`).

    >>> [len(split.test) for split in folds(11, 5, rng=0)]
    [3, 2, 2, 2, 2]
    """
    check_count("n_folds", n_folds, minimum=2)
    check_count("n", n, minimum=n_folds)
    groups = [np.arange(n)]
    if y is not None:
        labels = np.asarray(y)
        if labels.shape != (n,):
            raise ValueError(f"y must have shape ({n},), got {labels.shape}.")
        groups = members_of(labels)
        smallest = min(len(group) for group in groups)
        if smallest < n_folds:
            raise ValueError(
                f"the smallest class has {smallest} examples, fewer than {n_folds} folds; "
                "use fewer folds or more data."
            )
    fold = deal(groups, n, check_generator(rng), n_folds=n_folds, onward=True)
    return [Split(*one) for one in splits_of(fold)]


def repeated_folds(n: int, n_splits: int, *, n_folds: int = 5, rng: Any = None) -> list[Split]:
    """Return the first `n_splits` splits of repeated cross-validations, not stratified.

    The paper mentions 25 random shuffles; its published code uses five repetitions of five folds.

    >>> len(repeated_folds(100, 25, rng=0))
    25
    """
    check_count("n_splits", n_splits)
    generator = check_generator(rng)
    splits: list[Split] = []
    while len(splits) < n_splits:
        splits.extend(folds(n, n_folds, rng=generator))
    return splits[:n_splits]


def prepare(
    X: Any, train: NDArray[np.int64], test: NDArray[np.int64], *, scaling: str = "train"
) -> tuple[Any, Any]:
    """Return the scaled training and test examples.

    `scaling` is fitted on the training part ("train"), on all examples as the paper does ("paper"),
    or left out ("none"). A feature that is constant there becomes 0. Scaling fills the zeros of a
    sparse matrix, so a large one is refused.

    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> prepare(X, np.array([0, 1]), np.array([2]))[1]
    array([[3.]])
    >>> prepare(X, np.array([0, 1]), np.array([2]), scaling="paper")[1]
    array([[1.]])
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}.")
    if scaling == "none":
        return X[train], X[test]
    if hasattr(X, "toarray"):
        if 8 * X.shape[0] * X.shape[1] > _DENSE_LIMIT:
            raise ValueError(
                f"scaling would fill the zeros of a sparse matrix of shape {X.shape}; "
                'use scaling="none".'
            )
        X = X.toarray()
    seen = X if scaling == "paper" else X[train]
    low, width = seen.min(axis=0), np.ptp(seen, axis=0)
    varies = width > 0
    factor = np.where(varies, 2.0 / np.where(varies, width, 1.0), 0.0)
    offset = np.where(varies, -1.0 - low * factor, 0.0)
    return X[train] * factor + offset, X[test] * factor + offset
