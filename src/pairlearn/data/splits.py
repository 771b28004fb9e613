# SPDX-License-Identifier: BSD-3-Clause
"""Split examples into training and test parts, and into folds for cross-validation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.folds import deal, members_of, splits_of
from pairlearn.validation import check_count, check_fraction, check_generator


class Split(NamedTuple):
    """Sorted indices of the training and the test examples."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def random_split(n: int, *, test_fraction: float = 0.2, rng: Any = None) -> Split:
    """Return a random split, by default 80 % for training and 20 % for testing.

    Parameters
    ----------
    n : int
        The number of examples.
    test_fraction : float, default=0.2
        The share of test examples; the training part has floor((1 - test_fraction) n).
    rng : Generator, int or None
        The source of randomness.

    Returns
    -------
    Split
        Indices.

    Examples
    --------
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

    Parameters
    ----------
    n : int
        The number of examples.
    n_folds : int, default=5
        The number of folds, whose sizes differ by at most one (for each class, with `y`).
    y : array-like of shape (n,), optional
        Labels. With them, each class is divided separately, so every fold has both classes and its
        AUC is defined.
    rng : Generator, int or None
        The source of randomness.

    Returns
    -------
    list of Split
        One for each fold.

    Examples
    --------
    >>> [len(split.test) for split in folds(11, 5, rng=0)]
    [3, 2, 2, 2, 2]
    """
    check_count("n_folds", n_folds, minimum=2)
    check_count("n", n, minimum=n_folds)
    generator = check_generator(rng)
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
    fold = deal(groups, n, generator, n_folds=n_folds, onward=True)
    return [Split(*one) for one in splits_of(fold)]


def repeated_folds(n: int, n_splits: int, *, n_folds: int = 5, rng: Any = None) -> list[Split]:
    """Return the first `n_splits` splits of repeated cross-validations, not stratified.

    The paper mentions 25 random shuffles; its published code uses five repetitions of five folds.

    Examples
    --------
    >>> len(repeated_folds(100, 25, rng=0))
    25
    """
    check_count("n_splits", n_splits)
    generator = check_generator(rng)
    splits: list[Split] = []
    while len(splits) < n_splits:
        splits.extend(folds(n, n_folds, rng=generator))
    return splits[:n_splits]
