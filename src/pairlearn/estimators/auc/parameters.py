# SPDX-License-Identifier: BSD-3-Clause
"""What the parameters of an AUC classifier ask for: which go together, which solver and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.estimators.auc.exact import is_cheap, is_exact
from pairlearn.estimators.auc.objectives import Objective, as_objective
from pairlearn.estimators.shared.by_name import is_scaled
from pairlearn.estimators.shared.decisions import StoredDecisions
from pairlearn.estimators.shared.examples import is_plain, validate_data
from pairlearn.estimators.shared.maps import check_named
from pairlearn.features import FeatureMap, Hats
from pairlearn.losses import PairLoss, Square, get_loss
from pairlearn.pairings import Pairing
from pairlearn.schedules import Schedule
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.top.objectives import TopOfList
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_positive

__all__ = ["AUCParameters"]


class AUCParameters(StoredDecisions):
    """The parameters of `AUCClassifier`, which says what each means, read and checked."""

    loss: str | PairLoss
    step_size: float | str
    radius: float | str
    n_passes: float | str
    schedule: str | Schedule
    averaging: str | Averaging
    pairing: str | Pairing
    buffer_size: int
    validation_fraction: float
    dtype: Any
    random_state: Any
    solver: str
    ridge: float | str
    scaling: str | None
    callbacks: Sequence[Callback] | None
    warm_start: bool
    features: str | FeatureMap
    max_memory: float
    monotone: Mapping[str | int, int] | None
    objective: str
    max_fpr: float | None
    min_tpr: float | None
    power: float | None

    def _check_parameters(self) -> None:
        """Refuse parameters that mean nothing, alone or together."""
        self._check_decisions()
        if self.dtype is not None and np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32, float64 or None, got {self.dtype!r}.")
        if self.solver not in ("auto", "sgd", "exact", "moments"):
            raise ValueError(
                f'solver must be "auto", "sgd", "exact" or "moments", got {self.solver!r}.'
            )
        is_scaled(self.scaling)
        top = self._objective().top
        if top is not None:
            self._check_top(top)
        wrong = ["ridge"] if self.solver == "sgd" and self.ridge != "auto" else []
        if self.solver in ("exact", "moments"):
            wrong = self._asks_for_sgd()
        if wrong:
            listed = ", ".join(f"{name}={getattr(self, name)!r}" for name in wrong)
            other = "exact" if self.solver == "sgd" else "sgd"
            raise ValueError(
                f'solver="{self.solver}" would ignore {listed}; leave it at its default, or pass '
                f'solver="{other}".'
            )
        check_fraction("validation_fraction", self.validation_fraction)
        if self.loss != "auto":
            get_loss(self.loss)
        self._check_features()

    def _check_features(self) -> None:
        check_positive("max_memory", self.max_memory, allow_infinite=True)
        check_named(self.features)
        by_moments = self.solver == "moments" or bool(self.monotone)
        if by_moments and self.loss != "auto" and not isinstance(get_loss(self.loss), Square):
            raise ValueError(
                f"class moments are all that the square loss needs, and no other: got loss="
                f'{self.loss!r}; use loss="square" or "auto", or solver="exact".'
            )
        if self.monotone:
            if self.solver not in ("auto", "moments") or self._asks_for_sgd():
                raise ValueError(
                    'monotone functions are found by solver="moments"; leave the solver and the '
                    "parameters of stochastic gradient descent at their defaults."
                )
            if self.features != "hats" and not isinstance(self.features, Hats):
                raise ValueError(
                    f"monotone constrains piecewise linear functions, got features="
                    f'{self.features!r}; use features="hats" or Hats(...).'
                )

    def _objective(self) -> Objective:
        return as_objective(
            self.objective, max_fpr=self.max_fpr, min_tpr=self.min_tpr, power=self.power
        )

    def _check_top(self, top: TopOfList) -> None:
        """Refuse what an objective for the top of the list does not go with."""
        # Examples meet a sample of the past here, not each other, and steps adapt by themselves.
        for name in self._asks_for_sgd():
            if name not in ("step_size", "radius", "n_passes"):
                raise ValueError(
                    f'objective="{self.objective}" would ignore {name}='
                    f"{getattr(self, name)!r}, which is about pairs of examples; leave it at its "
                    'default, or use objective="auc".'
                )
        if self.step_size == "theory":
            raise ValueError(
                f'step_size="theory" is about the mean over pairs, objective="{self.objective}" is '
                'none; pass a number or "auto".'
            )
        if self.solver == "moments" or self.monotone:
            raise ValueError(
                f'objective="{self.objective}" needs more than class moments, by which monotone '
                'functions are learned: pass solver="exact" without monotone, or objective="auc".'
            )
        if self.loss != "auto":
            top.check_loss(get_loss(self.loss))

    def _asks_for_sgd(self) -> list[str]:
        """Return the parameters that only stochastic gradient descent looks at, if given."""
        defaults = {
            "step_size": "auto",
            "radius": "auto",
            "n_passes": "auto",
            "schedule": "auto",
            "averaging": "step_size",
            "pairing": "previous",
            "callbacks": None,
            "warm_start": False,
        }
        return [
            name
            for name, default in defaults.items()
            if (value := getattr(self, name)) is not default and value != default
        ]

    def _suits_moments(self) -> bool:
        """Whether nothing is asked for that class moments would not honour.

        They know the mean of the square loss over all pairs, and nothing of the top of the list.
        """
        closed = self.loss == "auto" or isinstance(get_loss(self.loss), Square)
        by_pairs = self.objective == "auc"
        return self.solver == "auto" and closed and by_pairs and not self._asks_for_sgd()

    def _solver_for(self, rows: Rows, y: Vector) -> str:
        """Return "sgd" or "exact"; what was asked for by name decides before the data do."""
        if self.solver != "auto":
            return self.solver
        asked = self._asks_for_sgd()
        if self.objective != "auc" and not asked:
            return "exact"
        if asked and self.ridge != "auto":
            raise ValueError(
                f"ridge={self.ridge!r} is for the exact solver, but {asked[0]} asks for stochastic "
                "gradient descent; leave one of them at its default, or name the solver."
            )
        known = self.loss == "auto" or is_exact(get_loss(self.loss))
        if self.ridge != "auto":
            if not known:
                raise ValueError(
                    f"ridge={self.ridge!r} is for the exact solver, which needs a smooth convex "
                    f'loss, got loss={self.loss!r}; use loss="squared_hinge", or leave out ridge.'
                )
            return "exact"
        return (
            "exact" if not asked and known and is_cheap(rows, y, self._loss_for("exact")) else "sgd"
        )

    def _loss_for(self, solver: str) -> PairLoss:
        if self.loss == "auto" and self.objective != "auc":
            return get_loss("squared_hinge")
        if self.loss == "auto":
            return get_loss({"exact": "squared_hinge", "moments": "square"}.get(solver, "hinge"))
        return get_loss(self.loss)

    def _given_step_size(self) -> float | None:
        if self.step_size in ("auto", "theory"):
            return None
        return check_positive("step_size", self.step_size)  # type: ignore[arg-type]

    def _given_radius(self) -> float | None:
        if self.radius == "auto":
            return None
        return check_positive("radius", self.radius, allow_infinite=True)  # type: ignore[arg-type]

    def _examples(
        self, X: Any, y: Any, *, reset: bool, minimum: int, finite: bool | None = False
    ) -> tuple[Rows, NDArray[Any]]:
        """Return rows and labels; whether they are finite is left to others if `finite` is None."""
        if is_plain(self, X, y, reset=reset, minimum=minimum, dtype=self.dtype):
            rows = as_rows(X, finite=finite)
            self.n_features_in_ = X.shape[1]
            return rows, y
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32] if self.dtype is None else self.dtype,
            order="C",
            reset=reset,
            ensure_min_samples=minimum,
            ensure_all_finite=finite is not None,
        )
        return as_rows(X, finite=None if finite is None else True), np.asarray(y)
