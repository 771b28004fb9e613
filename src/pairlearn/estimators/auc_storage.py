# SPDX-License-Identifier: BSD-3-Clause
"""What a model file holds of an `AUCClassifier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.calibration import Isotonic, Sigmoid
from pairlearn.estimators.decisions import ScoreDecisions
from pairlearn.estimators.storage import Storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.solvers.pairwise_sgd import Trace

__all__ = ["StoredDecisions"]


class StoredDecisions(Storable, ScoreDecisions):
    """A linear scorer with its decisions, to and from arrays."""

    step_size_: float | None
    radius_: float
    n_steps_: int
    n_gradients_: int

    _not_stored = ("callbacks", "random_state")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "threshold": ArraySpec(()),
        "step_size": ArraySpec((), required=False),
        "radius": ArraySpec((), required=False),
        "held_out_auc": ArraySpec((), required=False),
        "n_steps": ArraySpec((), ("int64",)),
        "n_gradients": ArraySpec((), ("int64",)),
        "n_examples": ArraySpec((), ("int64",)),
        "sigmoid": ArraySpec((2,), required=False),
        "isotonic_scores": ArraySpec(("n_knots",), required=False),
        "isotonic_values": ArraySpec(("n_knots",), required=False),
    }

    def _pack(self) -> dict[str, NDArray[Any]]:
        self._freshen()
        arrays = super()._pack()
        arrays["coef"] = self.coef_[0]
        if isinstance(self._calibrator, Sigmoid):
            arrays["sigmoid"] = np.array([self._calibrator.slope, self._calibrator.intercept])
        else:
            arrays["isotonic_scores"] = self._calibrator.knots
            arrays["isotonic_values"] = self._calibrator.values
        return arrays

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError("an AUCClassifier has two classes.")
        for name in ("n_steps", "n_gradients", "n_examples"):
            setattr(self, f"{name}_", arrays[name].item())
        self.step_size_ = arrays["step_size"].item() if "step_size" in arrays else None
        held_out = arrays.get("held_out_auc")
        self.held_out_auc_ = None if held_out is None else held_out.item()
        self.radius_ = arrays["radius"].item() if "radius" in arrays else np.inf
        self.coef_ = arrays["coef"].copy()[np.newaxis]
        self._threshold = float(arrays["threshold"])
        self.trace_ = Trace(n_steps=self.n_steps_, n_gradients=self.n_gradients_)
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        self._stream = None
        if "sigmoid" in arrays:
            self._calibrator = Sigmoid(*arrays["sigmoid"].tolist())
        elif "isotonic_scores" in arrays and "isotonic_values" in arrays:
            self._calibrator = Isotonic(arrays["isotonic_scores"], arrays["isotonic_values"])
        else:
            raise ModelFileError("it holds no calibration; save the fitted model again.")
