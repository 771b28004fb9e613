# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --model``: which kind of model is trained, and why.

"auto" chooses on held-out folds where it can. Elsewhere it is linear, and a line says why. A kind
that is asked for by name is trained, or refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.problem_kinds import OWNED
from pairlearn.cli.shared.settings import Settings, set_parts
from pairlearn.cli.stopping import Stopping
from pairlearn.progress import Progress, format_count

if TYPE_CHECKING:
    from pairlearn.estimators.stack.choice import ModelChoice

#: The values of ``--model``.
MODELS = ("auto", "linear", "curves", "trees", "stack")
#: What ``--model`` sets where the estimator has feature maps.
FEATURES = {"linear": "linear", "curves": "hats"}
#: Settings that all kinds have; others are of one kind.
_OF_ALL = ("decision", "class_weight", "n_jobs")
#: Parameters of stacks that are not settings.
_STACK_OWNED = {**OWNED, "members": "use --model trees or --model stack; others in Python."}


@dataclass(frozen=True)
class ModelKind:
    """The kind to train. "auto" is chosen on the data; a `reason` says why another one is taken."""

    name: str
    reason: str = ""

    @property
    def line(self) -> str:
        """The kind and its reason, for a person; empty if it was asked for."""
        return f"model: {self.name} ({self.reason})" if self.reason else ""

    def facts(self) -> dict[str, Any]:
        """Return the kind as plain values."""
        return {"model_kind": self.name, "model_reason": self.reason or None}

    def without(self, reason: str) -> ModelKind:
        """Return linear in place of "auto", for a reason; refuse kinds that were asked for."""
        if self.name == "auto":
            return ModelKind("linear", reason)
        if self.name in FEATURES:
            return self
        raise click.UsageError(f"--model {self.name}: {reason}; leave it out, or pass --model "
                               "linear.")  # fmt: skip


def planned(name: str, problem: str, parts: Settings, *, how: str) -> ModelKind:
    """Return the kind for a problem, for the settings of the user and a way to fit."""
    kind = ModelKind(name)
    if problem != "auc":
        return kind.without(f"trees and stacks are for --problem auc, not {problem}")
    if how != "offline":
        return kind.without("trees and stacks are trained in memory, with --fit offline")
    if name == "auto":
        for root in parts.without(*_OF_ALL).roots():
            typed = next(iter(parts.under(root).values())).typed
            if root == "features":
                return ModelKind("linear", f"in the features of {typed}")
            return ModelKind("linear", f"{typed} is a setting of this kind alone")
    return kind


def suited(kind: ModelKind, X: Any, y: Any) -> ModelKind:
    """Return the kind, or linear in place of "auto" if the examples allow nothing else."""
    if kind.name in FEATURES:
        return kind
    from pairlearn.estimators.stack.choice import why_linear

    reason = why_linear(X, y)
    # Few rows are no reason to refuse what was asked for: the estimator says what it needs.
    return kind.without(reason) if reason and (kind.name == "auto" or hasattr(X, "nnz")) else kind


def make_stack(kind: str, parts: Settings, seed: int) -> Any:
    """Return trees or a stack with the settings of the user, not fitted."""
    from pairlearn.estimators.stack.choice import make_model

    return set_parts(make_model(kind, seed), parts, _STACK_OWNED)


def fit_stack(model: Any, X: Any, y: Any, stop: Stopping) -> None:
    """Fit trees or a stack, with a bar, until a signal comes."""
    n_members = 1 if isinstance(model.members, list) else 3
    # A forest has held-out scores without further trainings; the other members have folds.
    total = n_members + model.n_folds * min(n_members, 2)
    with _told(total, "training", stop) as told:
        model.fit_watched(X, y, told=told)


def chosen(model: Any, X: Any, y: Any, seed: int, stop: Stopping) -> tuple[Any, dict[str, Any]]:
    """Return the model that "auto" takes, fitted, and the evidence as facts.

    `model` is linear and has the settings of the user, all of which other kinds have too.
    """
    from pairlearn.estimators.stack.choice import N_TRAININGS, choose_model

    given = {name: model.get_params(deep=False)[name] for name in _OF_ALL}
    with _told(N_TRAININGS + 1, "choosing a model", stop) as told:
        choice, fitted = choose_model(X, y, seed=seed, settings=given, told=told)
    return fitted, evidence_of(choice, len(y))


@contextmanager
def _told(total: int, label: str, stop: Stopping) -> Iterator[Callable[[str], None]]:
    """Yield what draws a bar when a training ends, and ends the block after a signal."""
    done: list[str] = []
    with Progress(total, label=label, unit="trainings") as bar:

        def told(name: str) -> None:
            # A solver keeps its model so far when a signal comes; others must not follow.
            if stop.received is not None:
                raise KeyboardInterrupt
            done.append(name)
            bar.update(min(len(done), total), note=name)

        yield told


def evidence_of(choice: ModelChoice, n_rows: int) -> dict[str, Any]:
    """Return the evidence of a choice as plain values, with its line."""
    some = "" if choice.n_rows == n_rows else f", judged on {format_count(choice.n_rows)} rows"
    return {
        "model_kind": choice.kind,
        "model_reason": f"held-out AUC: {choice.line}",
        "model_auc": choice.aucs,
        "model_line": f"model: held-out AUC {choice.line} (the simplest within a standard error "
                      f"of the best{some})",
    }  # fmt: skip


def stored(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the model file holds for people: its kind and why, how good, what matters."""
    found: dict[str, Any] = {"kind": facts["model_kind"]}
    if facts.get("model_auc"):
        found["held_out_auc"] = facts["model_auc"]
    if "auc" in facts:
        found["auc"] = {name: facts[name] for name in ("auc", "low", "high") if name in facts}
        found["auc_of"] = facts["auc_of"]
    if facts.get("importance"):
        found["importance"] = {one["column"]: one["share"] for one in facts["importance"]}
    return found
