# SPDX-License-Identifier: BSD-3-Clause
"""The first passes over partitioned examples: scales, extents, class moments and a sample."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.distributed.passes import Passes
from pairlearn.distributed.statistics.base import State, Statistic, Together
from pairlearn.distributed.statistics.moments import ColumnExtents, LabelledMoments, LabelMoments
from pairlearn.distributed.statistics.sample import RowSample, SampledRows, SampleKeys
from pairlearn.distributed.statistics.scales import FeatureScales, Scales
from pairlearn.estimators.shared.evidence import FeatureChoice
from pairlearn.estimators.shared.maps import choose_features
from pairlearn.features import FeatureMap
from pairlearn.folds import seed_of
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.rows import DenseRows
from pairlearn.validation import check_positive


class Weighed(Statistic):
    """Whether any example has a weight other than 1, be it 0.

    Other statistics do not see examples of weight 0. Who takes rows back needs to know of them: for
    rows without weights it could not be told which of them were learned.

    Examples
    --------
    >>> X = np.eye(2)
    >>> [Weighed().finish(Weighed().partial_state(X, None, w)) for w in (None, [1, 1], [0, 1])]
    [False, False, True]
    """

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return whether one chunk has such weights."""
        weighed = sample_weight is not None and bool((np.asarray(sample_weight) != 1.0).any())
        return {"weighed": np.array(weighed)}

    def combine(self, a: State, b: State) -> State:
        """Note whether either has."""
        return {"weighed": a["weighed"] | b["weighed"]}

    def finish(self, state: State) -> bool:
        """Return whether one has."""
        return bool(self.needs(state)["weighed"])


def in_two_passes(
    passes: Passes, sample_size: int, seed: int, max_classes: int = 2
) -> dict[str, Any]:
    """Return scales, extents, moments on one grid and a sample of all rows, by name.

    On one grid the partitions do not matter, bit for bit. The rows of the sample wait for the
    second pass, in which it is known which of them are in the sample of all.
    """
    asked: dict[str, Statistic] = {
        "scales": FeatureScales(),
        "extents": ColumnExtents(),
        "keys": SampleKeys(sample_size, seed),
        "weighed": Weighed(),
    }
    found: dict[str, Any] = passes(Together(asked), "scales")
    asked = {
        "moments": LabelMoments(max_classes, Grid.of(found["extents"])),
        "sample": RowSample(sample_size, seed, found["keys"]),
    }
    found |= passes(Together(asked), "moments")
    return found


@dataclass(frozen=True)
class FirstPasses:
    """The result of the first passes."""

    scales: Scales
    #: The scales as the first pass found them.
    plain: Scales
    extents: Extents
    moments: LabelledMoments
    sample: SampledRows
    #: Whether any example has a weight other than 1, be it 0.
    weighed: bool

    @classmethod
    def of(
        cls,
        passes: Passes,
        sample_size: int,
        rng: np.random.Generator,
        *,
        mapped: bool,
        grid: Callable[[int], Grid | None] | None = None,
    ) -> FirstPasses:
        """Make these passes; one is enough if the grid is known."""
        # The seed that a classifier in memory draws.
        seed = seed_of(rng)
        if mapped or grid is not None:
            # The moments of mapped rows make the model; those of the rows count the classes.
            asked = {
                "scales": FeatureScales(),
                "extents": ColumnExtents(),
                "moments": LabelMoments(grid=None if mapped else grid),
                "sample": RowSample(sample_size, seed),
                "weighed": Weighed(),
            }
            found = passes(Together(asked), "moments")
        else:
            found = in_two_passes(passes, sample_size, seed)
        moments = found["moments"]
        scales = found["scales"].of_classes(moments.counts, moments.means, moments.scatters)
        return cls(
            scales, found["scales"], found["extents"], moments, found["sample"], found["weighed"]
        )

    def of_rows(self, passes: Passes) -> FirstPasses:
        """Return the same with exact moments of the rows, for a model that is linear after all."""
        # On one grid the partitions do not matter, bit for bit.
        moments: LabelledMoments = passes(LabelMoments(grid=Grid.of(self.extents)), "moments")
        scales = self.plain.of_classes(moments.counts, moments.means, moments.scatters)
        return replace(self, scales=scales, moments=moments)

    def judged_map(
        self, validation_fraction: float, rng: np.random.Generator
    ) -> tuple[FeatureChoice, FeatureMap]:
        """Return the simplest map within a standard error of the best, judged on the sample."""
        self.moments.two_classes()
        sample = self.sample
        y = np.where(sample.labels == self.moments.classes[1], 1.0, -1.0)
        rows, own, draws = DenseRows(sample.X), sample.weight, copy.deepcopy(rng)
        limits = validation_fraction, np.inf
        # Neither has the weights of classes, which move the threshold only.
        return choose_features(rows, y, own, draws, sample.keys, *limits, counts=own)[:2]


def class_weights(
    class_weight: Mapping[Any, float] | str | None, moments: LabelledMoments
) -> tuple[float, float]:
    """Return the weights of the two classes, the negative one first."""
    if class_weight is None:
        return 1.0, 1.0
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f'class_weight must be a dict, "balanced" or None, got {class_weight!r}.'
            )
        share = moments.counts / moments.counts.sum()
        return float(0.5 / share[0]), float(0.5 / share[1])
    names = moments.classes.tolist()
    unknown = [label for label in class_weight if label not in names]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, the labels are {names}.")
    negative, positive = (
        check_positive(f"class_weight of {name!r}", class_weight.get(name, 1.0)) for name in names
    )
    return negative, positive
