# SPDX-License-Identifier: BSD-3-Clause
"""A stack in the safe model file: each member is a model file of its own, inside an array.

Members of this library are stored as they store themselves, trees of scikit-learn as their nodes
(`trees.py`). Other members have no safe form, and `save` refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pairlearn.estimators.shared.decisions import (
    DECISION_ARRAYS,
    ScoreDecisions,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.published import publish, published
from pairlearn.estimators.shared.storage import Storable
from pairlearn.estimators.stack.members import (
    STACK,
    Filling,
    Named,
    check_members,
    takes_gaps,
)
from pairlearn.estimators.stack.trees import TREES, TreeScores, tree_scores
from pairlearn.metrics.delong import AUCInterval
from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord, build_model

#: The entry with the name of a member in its provenance.
_NAME = "member"
#: The level of the intervals of held-out AUC.
_CONFIDENCE = 0.95


class StackStorage(Storable, ScoreDecisions):
    """`save` and `load` of a stack."""

    members: Any
    n_features_in_: int
    n_examples_: int
    data_fingerprint_: str | None

    _not_stored = ("members", "random_state")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        **DECISION_ARRAYS,
        "is_auto": ArraySpec((), ("bool",)),
        "files": ArraySpec(("n_bytes",), ("uint8",)),
        "file_ends": ArraySpec(("n_members",), ("int64",), low=1, order="strictly rising"),
        "weights": ArraySpec(("n_members",), low=0.0, high=1.0),
        "centres": ArraySpec(("n_members",)),
        "spreads": ArraySpec(("n_members",), low=float(np.finfo(np.float64).tiny)),
        "held_out": ArraySpec(("n_judged", 4), low=0.0, high=1.0),
        "medians": ArraySpec(("n_features",)),
        "flagged": ArraySpec(("n_gaps",), ("int64",), low=0, order="strictly rising"),
        "n_examples": ArraySpec((), ("int64",), low=0),
    }

    @property
    def filling(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Medians for gaps, and the features whose gaps become columns, for members without NaN."""
        filling: Filling = published(self)["_filling"]
        return filling.medians, filling.flagged

    def _pack(self) -> dict[str, NDArray[Any]]:
        model = published(self)
        files = [dump_model(_to_record(named)) for named in model["members_"].items()]
        filling: Filling = model["_filling"]
        judged = model["held_out_auc_"].values()
        return {
            **pack_decision(self._decided(model)),
            "is_auto": np.array(isinstance(self.members, str)),
            "files": np.frombuffer(b"".join(files), dtype=np.uint8),
            "file_ends": np.cumsum([len(one) for one in files]).astype(np.int64),
            "weights": np.array(list(model["weights_"].values())),
            "centres": model["centres_"],
            "spreads": model["spreads_"],
            "held_out": np.array([[o.value, o.low, o.high, o.standard_error] for o in judged]),
            "medians": filling.medians,
            "flagged": filling.flagged.astype(np.int64),
            "n_examples": np.array(self.n_examples_),
        }

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        found = [_from_bytes(part) for part in _parts(arrays["files"], arrays["file_ends"])]
        names = [name for name, _ in found]
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError("a stack has two classes; save the fitted model again.")
        if len(arrays["held_out"]) != len(found) + 1 or not arrays["weights"].sum() > 0.0:
            raise ModelFileError("its weights and held-out AUCs do not fit its members.")
        filling = Filling(arrays["medians"].copy(), arrays["flagged"].astype(np.intp))
        width = len(filling.medians)
        if len(filling.flagged) and filling.flagged[-1] >= width:
            raise ModelFileError(f"it fills gaps of a feature beyond its {width} features.")
        for name, member in found:
            wanted = width if takes_gaps(member) else width + len(filling.flagged)
            if member.n_features_in_ != wanted:
                raise ModelFileError(
                    f"its member {name!r} has {member.n_features_in_} features, not {wanted}."
                )
        given = check_members(
            [(name, _unfitted(member)) for name, member in found], list(self._stored_parameters())
        )
        self.members = "auto" if arrays["is_auto"] else given
        self.n_features_in_ = width
        self.n_examples_ = int(arrays["n_examples"])
        fingerprint = record.provenance.get("data_fingerprint")
        self.data_fingerprint_ = fingerprint if isinstance(fingerprint, str) else None
        publish(
            self,
            members_=dict(found),
            weights_=dict(zip(names, arrays["weights"].tolist(), strict=True)),
            centres_=arrays["centres"].copy(),
            spreads_=arrays["spreads"].copy(),
            held_out_auc_={
                name: _interval(*row.tolist())
                for name, row in zip([*names, STACK], arrays["held_out"], strict=True)
            },
            _filling=filling,
            _decision=unpack_decision(arrays),
        )


def described_members(record: ModelRecord) -> list[dict[str, Any]]:
    """Return name, estimator, weight and held-out AUC of each member in the record of a stack."""
    arrays = record.arrays
    parts = _parts(arrays["files"], arrays["file_ends"])
    found = []
    for part, weight, held_out in zip(parts, arrays["weights"], arrays["held_out"], strict=False):
        member = parse_model(part)
        found.append(
            {
                "name": str(member.provenance.get(_NAME)),
                "estimator": str(member.parameters.get("kind", member.estimator)),
                "weight": float(weight),
                "auc": float(held_out[0]),
            }
        )
    return found


def _interval(value: float, low: float, high: float, error: float) -> AUCInterval:
    return AUCInterval(
        value=value, low=low, high=high, standard_error=error, confidence=_CONFIDENCE
    )


def _to_record(named: Named) -> ModelRecord:
    """Return a member as the plain values of a file."""
    name, member = named
    if isinstance(member, Storable):
        return member.to_record({_NAME: name})
    trees = tree_scores(member, takes_gaps(member))
    if trees is None:
        raise ModelFileError(
            f"member {name!r} is a {type(member).__name__}, which has no safe form; a model file "
            f"holds members of pairlearn and {', '.join(TREES)}. Use pickle or skops.io.dump for "
            "others, and load such files only from people you trust."
        )
    return trees.to_record({_NAME: name})


def _parts(files: NDArray[Any], ends: NDArray[Any]) -> list[bytes]:
    """Return the files of the members."""
    if not len(ends) or ends[-1] != len(files):
        raise ModelFileError("the files of its members do not fill their array.")
    return [part.tobytes() for part in np.split(files, ends[:-1])]


def _from_bytes(data: bytes) -> Named:
    """Return the member in a file, checked like any model file."""
    record = parse_model(data)
    name = record.provenance.get(_NAME)
    if not isinstance(name, str):
        raise ModelFileError("a member has no name; save the fitted model again.")
    if record.estimator == "AUCStack":
        raise ModelFileError(f"its member {name[:60]!r} is a stack; a stack in a stack is refused.")
    member = build_model(record)
    scores = hasattr(member, "decision_function")
    if not scores or not (isinstance(member, TreeScores) or len(member.classes_) == 2):
        raise ModelFileError(f"its member {name[:60]!r} does not score two classes.")
    return name, member


def _unfitted(member: Any) -> Any:
    return member.unfitted() if isinstance(member, TreeScores) else clone(member)
