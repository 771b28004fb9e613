# SPDX-License-Identifier: BSD-3-Clause
"""Private AUC maximisation on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

from sklearn.base import clone

from pairlearn.distributed.dask.estimator import ClusterTwoClasses
from pairlearn.distributed.dask.parts import parts_of
from pairlearn.distributed.private_auc import train_private_auc
from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.privacy.accounting.certificate import Certificate


class DaskPrivateAUCClassifier(ClusterTwoClasses):
    """AUC maximisation over the examples of a cluster, with differential privacy.

    Six passes: the form of the table, and five sums, which are whole numbers and do not depend on
    the partitioning.

    Parameters
    ----------
    estimator : PrivateAUCClassifier
        Epsilon, bounds, labels and whatever else is public, see there; it is not changed. The
        mechanism must be "statistics" and the bounds public.
    trust : {"aggregator", "none"}, default="aggregator"
        Who may see sums without noise: the client and the machines of the cluster, or nobody but
        the worker that holds a partition. With "none" every partition adds its own noise, which
        makes sqrt(P) times as much for P partitions: let partitions be few and large. A client
        could still send other tasks to the workers: it is trusted to run this program.
    key_file : path-like, optional
        With trust="none" the name of a file of at least 32 secret random bytes that workers read
        and nobody else does. Noise is a function of it, so that a task that is run again, because a
        worker died, is no second release. One key serves many fits.
    reach : int or "all"
        With trust="none", and required there: in how many partitions one example (with `groups`
        one person) can make a difference; see `train_private_auc`. 1 for one file a holder or rows
        with a fixed place; "all" for frames that were sorted, indexed or cut anew, with
        `n_examples` in the estimator. ``dask.dataframe.read_csv`` cuts files into blocks of bytes,
        which no value fits: read with ``blocksize=None``, which makes one partition of each file.
        ``read_parquet`` joins small files and splits large ones by what they hold;
        ``dask.dataframe.from_map(pandas.read_parquet, files, dtype_backend="pyarrow")`` makes one
        partition of each file and keeps its types.
    client, worker_timeout, progress : see `DaskAUCClassifier`
        As of `DaskAUCClassifier`.

    Attributes
    ----------
    model_ : PrivateAUCClassifier
        The fitted classifier, an ordinary one.
    certificate_ : Certificate
        What is promised, and who was trusted.
    coef_, classes_
        Those of the model.

    Examples
    --------
    >>> from pairlearn import PrivateAUCClassifier
    >>> private = PrivateAUCClassifier(epsilon=1.0, bounds=(-4, 6), labels=(0, 1))
    >>> clf = DaskPrivateAUCClassifier(private, trust="none", key_file="/secret/key", reach=1)
    >>> clf.fit(X, y).model_.save("model.safetensors")  # doctest: +SKIP
    """

    def __init__(
        self,
        estimator: PrivateAUCClassifier,
        *,
        trust: str = "aggregator",
        key_file: str | os.PathLike[str] | None = None,
        reach: int | str | None = None,
        client: Any = None,
        worker_timeout: float = 60.0,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.estimator, self.trust, self.key_file = estimator, trust, key_file
        self.reach = reach
        self.client, self.worker_timeout, self.progress = client, worker_timeout, progress

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train on collections.

        Parameters
        ----------
        X : dask array of shape (n, d) or dask data frame
            Examples; NaN and values outside the bounds are allowed.
        y : dask array or series
            Labels; whatever is not the positive label counts as negative.
        groups : dask array, series or data frame, optional
            The person of each row; a frame (or an array) of several columns if it takes several
            ids to tell persons apart, such as ``table[["site", "patient"]]``. The promise is then
            about a person with all rows, who counts as their mean. With trust="aggregator" a person
            with rows in several partitions counts with those of the first:
            ``table.shuffle("patient")`` brings all of them together. Do so wherever rows were
            counted and then cut, since one person then moves rows of others. Dask places a row by
            the hash of its id, so let ids be texts or of the type Int64: in a column of integers of
            NumPy or Arrow, one missing id changes the hashes of others. ``reach=1`` is your word
            that the partition of a row depends on no other person; the promise needs it. With
            trust="none" a person counts in each partition; see `reach`.

        Returns
        -------
        self
            The fitted estimator.
        """
        if y is None:
            raise ValueError("AUC needs labels; pass y.")
        parts = parts_of(X, y, cells=True, groups=groups)
        self.model_: PrivateAUCClassifier = self._trained(
            train_private_auc,
            parts,
            estimator=clone(self.estimator),
            unit="example" if groups is None else "person",
        )
        return self

    @property
    def certificate_(self) -> Certificate:
        """What is promised, and who was trusted."""
        certificate: Certificate = self._model().certificate_
        return certificate
