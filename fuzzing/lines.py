# SPDX-License-Identifier: BSD-3-Clause
"""The lines of ``pairlearn stream``: any bytes, and a checkpoint in between."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.campaign import Target
from fuzzing.mutations import damage_bytes, damage_tree
from pairlearn.cli.stream import Conversation, _lines, _reply, _resume, _save
from pairlearn.streams import NamedLearner, ProgressiveAUC

__all__ = ["JsonLines"]

_NAMES = ("a", "b", "c", "d", "", "é", "\ud800", "x" * 300, "$array")
_VALUES: tuple[Any, ...] = (
    0,
    1,
    -1,
    True,
    None,
    "1",
    1e59,
    1e61,
    1e200,
    -1e155,
    1e-320,
    2**70,
    [],
    {},
    10**400,
)
_TOKENS = (b'"x"', b'"y"', b'"id"', b"NaN", b"Infinity", b"1e999", b"\\ud800", b"\\u0000", b"[",
           b"{", b"}", b"\xff", b"null", b"-", b"\n", b"\r", b"\x00", b'"', b"," * 5,
           b"9" * 400)  # fmt: skip
_LOSSES = ("auto", "hinge", "square", "logistic", "exponential")
_LIMIT = 2000


class JsonLines(Target):
    """A producer that says anything; no line ends the program, every answer is JSON."""

    name = "jsonl"
    expected = ()
    told = (UserWarning,)  # what the library says to a person

    def prepare(self, folder: Path) -> None:
        lines = [b'{"x": {"a": %d, "b": 1}, "y": %d}' % (k % 7, k % 2) for k in range(50)]
        for loss in _LOSSES:
            self.use((lines, {"loss": loss, "step_size": 0.1, "radius": 1.0}, 20), folder)

    def make(self, rng: Random) -> tuple[list[bytes], dict[str, Any], int]:
        lines = []
        for number in range(1 + int(50 * rng.random() ** 3)):
            x: Any = {}
            for name in rng.sample(_NAMES[:4] if rng.random() < 0.95 else _NAMES, 3):
                x[name] = rng.gauss(0, 1) if rng.random() < 0.97 else rng.choice(_VALUES)
            key: Any = number if rng.random() < 0.9 else rng.choice(
                [None, "a", 1.5, True, [], {}, "\udc00", 10**30]
            )  # fmt: skip
            y: Any = rng.randrange(2) if rng.random() < 0.95 else rng.choice(_VALUES)
            kinds = [{"id": key, "x": x, "y": y}, {"id": key, "x": x}, {"x": x, "y": y}]
            message = rng.choice([*kinds, {"id": rng.randrange(number + 1), "y": y}])
            if rng.random() < 0.1:
                message = damage_tree(rng, message)
            line = json.dumps(message, ensure_ascii=rng.random() < 0.5).encode(
                "utf-8", "surrogatepass"
            )
            lines.append(damage_bytes(rng, line, _TOKENS) if rng.random() < 0.1 else line)
        options = {
            "loss": rng.choice(_LOSSES),
            "step_size": rng.choice(["auto", "auto", 0.1, 1e10, 1e-300]),
            "radius": rng.choice([float("inf"), 1.0]),
        }
        return lines, options, rng.randrange(len(lines))

    def use(self, given: tuple[list[bytes], dict[str, Any], int], folder: Path) -> None:
        lines, options, at = given
        first, answers = self._talk(lines, options)
        assert first.n_lines == sum(1 + line.count(b"\n") for line in lines)
        facts = first.facts()
        assert facts["learned"] + facts["not_learned"] == first.learner.n_seen
        assert len(first.waiting) <= first.pending
        if at % 4:
            return
        # a checkpoint in between changes nothing
        path = str(folder / "a.ckpt")
        begun, before = self._talk(lines[:at], options)
        _save(begun, path)
        twin = self._conversation(options)
        with contextlib.redirect_stderr(io.StringIO()):
            _resume(twin, path, False)
        _, after = self._talk(lines[at:], options, twin)
        (folder / "a.ckpt").unlink()
        (folder / "a.ckpt.previous").unlink(missing_ok=True)
        assert _facts(twin.state()) == _facts(first.state()), "resumed it is another state"
        assert before + after == answers, "resumed it gives other answers"
        if first.learner.feature_names:
            first.learner.to_model((0, 1)).save(folder / "m.safetensors")

    def _conversation(self, options: dict[str, Any]) -> Conversation:
        loss = options["loss"]
        learner = NamedLearner(loss, step_size=options["step_size"], radius=options["radius"])
        return Conversation(learner, ProgressiveAUC(10), 3)

    def _talk(
        self, lines: list[bytes], options: dict[str, Any], talk: Conversation | None = None
    ) -> tuple[Conversation, list[bytes]]:
        """Send lines, and return the answers, each of which must be JSON."""
        talk = talk or self._conversation(options)
        written = io.BytesIO()
        out = io.TextIOWrapper(written, encoding="utf-8")
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for line in _lines(io.BytesIO(b"".join(x + b"\n" for x in lines)), _LIMIT):
                _reply(talk, line, False, _LIMIT)
        answers = written.getvalue().splitlines()
        for answer in answers:
            message = json.loads(answer, parse_constant=_not_json)
            assert 0.0 <= message["probability"] <= 1.0, answer
        return talk, answers


def _facts(state: Any) -> Any:
    """Return a state as what can be compared bit by bit.

    The order of the names in one example is left out: those of an example that waits for others
    with the same names stand in the order of the first of them.
    """
    if isinstance(state, dict):
        return {key: _facts(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_facts(value) for value in state]
    if isinstance(state, np.ndarray):
        return state.dtype.str, state.shape, state.tobytes()
    return repr(state)


def _not_json(text: str) -> None:
    raise AssertionError(f"an answer holds {text}, which is not JSON")
