# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn stream``: learn from standard input for as long as it lasts, and score as it goes."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.reading import number_or_auto

if TYPE_CHECKING:
    from pairlearn.streams import ProgressiveAUC
    from pairlearn.streams.named import NamedLearner

__all__ = ["Conversation", "command"]

_SHOWN = 60


class LineError(ValueError):
    """A line of input that cannot be used."""


class Conversation:
    """Turns input lines into output lines and learns on the way.

    `auc` watches the scores that labelled examples got. Of the examples without a label the last
    `pending` ones are remembered.
    """

    def __init__(self, learner: NamedLearner, auc: ProgressiveAUC, pending: int) -> None:
        self.learner = learner
        self.auc = auc
        self.pending = pending
        self.waiting: OrderedDict[Any, tuple[dict[str, float], float]] = OrderedDict()
        self.n_forgotten = 0
        self.n_refused = 0

    def answer(self, line: str) -> dict[str, Any] | None:
        """Return what to say about a line; None where it only brings a label."""
        from pairlearn.streams.named import check_example, check_label

        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise LineError('it is not JSON; write {"id": 1, "x": {"a": 0.5}, "y": 1}') from None
        if not isinstance(message, dict) or not {"x", "y"} & set(message):
            raise LineError('it has neither "x" nor "y"')
        odd = sorted(set(message) - {"id", "x", "y"})
        if odd:
            raise LineError(f"it has the entry {odd[0][:_SHOWN]!r}; known are id, x and y")
        key = message.get("id")
        if isinstance(key, (dict, list)):
            raise LineError("its id must be a text or a number")
        if "x" not in message:
            self._label(key, message["y"])
            return None
        x = message["x"]
        try:
            check_example(x)
            if message.get("y") is not None:
                check_label(message["y"])
        except ValueError as error:
            raise LineError(str(error).rstrip(".")) from None
        probability = self.learner.predict_proba_one(x)[True]
        score = self.learner.score_one(x)
        if message.get("y") is not None:
            self._learn(x, score, message["y"])
        elif key is not None:
            self.waiting[key] = (x, score)
            if len(self.waiting) > self.pending:
                self.waiting.popitem(last=False)
                self.n_forgotten += 1
        return {"id": key, "score": score, "probability": probability}

    def _label(self, key: Any, y: Any) -> None:
        if key not in self.waiting:
            raise LineError(
                f"the id {str(key)[:_SHOWN]!r} is not waiting for a label (never seen, already "
                "labelled, or forgotten; see --pending)"
            )
        x, score = self.waiting[key]
        self._learn(x, score, y)
        del self.waiting[key]

    def _learn(self, x: dict[str, float], score: float, y: Any) -> None:
        try:
            self.learner.learn_one(x, y)
        except ValueError as error:
            raise LineError(str(error).rstrip(".")) from None
        self.auc.update([score], [y in (1, True)])


@click.command("stream")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write the model here when the input ends or is interrupted.")  # fmt: skip
@click.option("--checkpoint", type=click.Path(dir_okay=False), metavar="FILE",
              help="Keep the state here, and go on from it.")  # fmt: skip
@click.option("--every", type=click.IntRange(1), default=10_000, show_default=True,
              metavar="LINES", help="Lines between two checkpoints.")  # fmt: skip
@click.option("--loss", default="hinge", show_default=True, help="Pair loss.")
@click.option("--step-size", default="auto", show_default=True, metavar="NUMBER|auto",
              help="Scale of the steps.")  # fmt: skip
@click.option("--window", type=click.IntRange(2), default=10_000, show_default=True,
              help="Labelled examples that the AUC looks back on.")  # fmt: skip
@click.option("--pending", type=click.IntRange(1), default=100_000, show_default=True,
              help="Examples that may wait for a label.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Stop at the first line that cannot be used.")
def command(
    output: str | None,
    checkpoint: str | None,
    every: int,
    loss: str,
    step_size: str,
    window: int,
    pending: int,
    strict: bool,
) -> None:
    r"""Learn from standard input and score as it goes: JSON lines in, JSON lines out.

    A line {"id": 7, "x": {"age": 31.0}} is answered with the score and the probability of a
    positive label. The label may be in the line ("y": 1), which is then learned after it was
    scored, or come later: {"id": 7, "y": 0}. Features may appear and disappear. A line that
    cannot be used is answered on standard error. At the end standard error tells the AUC.

    \b
    Examples:
      producer | pairlearn stream -o model.safetensors > scores.jsonl
      producer | pairlearn stream --checkpoint state.ckpt --step-size 0.1
    """
    from pairlearn.streams import ProgressiveAUC
    from pairlearn.streams.named import NamedLearner

    step = number_or_auto("--step-size", step_size)
    talk = Conversation(NamedLearner(loss, step_size=step), ProgressiveAUC(window), pending)
    if checkpoint is not None:
        _resume(talk, checkpoint)
    interrupted = False
    lines = 0
    try:
        for number, line in enumerate(_lines(), start=1):
            lines = number
            if line.strip():
                _reply(talk, number, line, strict)
            if checkpoint is not None and number % every == 0:
                _save(talk, checkpoint)
    except KeyboardInterrupt:
        interrupted = True
    if checkpoint is not None and lines:
        _save(talk, checkpoint)
    if output is not None:
        if not talk.learner.n_seen:
            raise ValueError("no labelled example came, so there is no model to write.")
        talk.learner.to_model((0, 1)).save(output)
    value = talk.auc.value
    auc = "" if value is None else f", AUC {value:.4f} over the last {min(window, talk.auc.n_seen)}"
    left = f", {len(talk.waiting)} without a label" if talk.waiting else ""
    dropped = f", {talk.n_forgotten} forgotten" if talk.n_forgotten else ""
    refused = f", lines refused: {talk.n_refused}" if talk.n_refused else ""
    click.echo(f"pairlearn: {talk.learner.n_seen} examples learned{auc}{left}{dropped}{refused}",
               err=True)  # fmt: skip
    if interrupted:
        raise click.exceptions.Exit(130)


def _lines() -> Iterator[str]:
    for raw in sys.stdin.buffer:
        yield raw.decode("utf-8", "replace")


def _reply(talk: Conversation, number: int, line: str, strict: bool) -> None:
    try:
        answer = talk.answer(line)
    except LineError as error:
        if strict:
            raise ValueError(f"line {number}: {error} (strict: stopped here)") from None
        talk.n_refused += 1
        if talk.n_refused <= 5:
            click.echo(f"pairlearn: line {number} refused: {error}", err=True)
        return
    if answer is not None:
        # whoever waits for the answer gets it now
        sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _save(talk: Conversation, path: str) -> None:
    from pairlearn.streams.checkpoint import Checkpoint, write_checkpoint

    state = {"learner": talk.learner.state(), "auc": talk.auc.state(),
             "waiting": talk.waiting, "forgotten": talk.n_forgotten}  # fmt: skip
    write_checkpoint(path, Checkpoint(talk.learner.settings(), state, None))


def _resume(talk: Conversation, path: str) -> None:
    import warnings

    from pairlearn.streams import CheckpointWarning
    from pairlearn.streams.checkpoint import CheckpointError, read_checkpoint

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CheckpointWarning)
        found = read_checkpoint(path)
    for entry in caught:
        click.echo(f"pairlearn: warning: {entry.message}", err=True)
    if found is None:
        if not Path(path).resolve().parent.is_dir():
            raise click.UsageError(f"the folder of {path} does not exist; make it first.")
        return
    if found.settings != talk.learner.settings():
        raise CheckpointError(
            f"the checkpoint {path} was made with {found.settings}; use the same options, or "
            "delete the file to start again."
        )
    try:
        talk.learner.restore(found.state["learner"])
        talk.auc = type(talk.auc).from_state(found.state["auc"])
        talk.waiting = OrderedDict(found.state["waiting"])
        talk.n_forgotten = int(found.state["forgotten"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged ({error!r}); delete it.") from None
    click.echo(f"pairlearn: going on from {path}, {talk.learner.n_seen} examples", err=True)
