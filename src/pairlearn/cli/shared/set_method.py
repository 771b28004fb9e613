# SPDX-License-Identifier: BSD-3-Clause
"""The method that ``pairlearn compare --set`` adds: `AUCClassifier` with settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pairlearn.cli.shared.problem_kinds import PROBLEMS
from pairlearn.cli.shared.settings import Setting, Settings
from pairlearn.experiments.methods.pairwise import AutoMethod


@dataclass(frozen=True, kw_only=True)
class SetMethod(AutoMethod):
    """`AUCClassifier` with settings; `texts` holds them by path, as they were typed."""

    path: str = "pairlearn.AUCClassifier"
    texts: Mapping[str, str] = field(default_factory=dict)

    def estimator(self) -> Any:
        """Return a function that makes the estimator."""
        settings = Settings({path: Setting.of(path, text) for path, text in self.texts.items()})
        return lambda: PROBLEMS["auc"].make(settings, None)

    @classmethod
    def of(cls, settings: Settings) -> SetMethod:
        """Return the method with these settings, after a check of each."""
        name = ", ".join(f"{path}={text}" for path, text in settings.plain().items())
        method = cls(name=name, texts=settings.plain())
        method.estimator()()
        return method
