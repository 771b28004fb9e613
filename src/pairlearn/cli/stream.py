# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn stream``: learn from standard input until it ends, and score each example."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pairlearn.cli.running import stop
from pairlearn.cli.shared.files import OutputPath
from pairlearn.cli.shared.output import json_option, tell
from pairlearn.cli.shared.settings import Named, Settings, naming, set_option
from pairlearn.cli.train_stream import held

if TYPE_CHECKING:
    from pairlearn.streams.drift import DriftAlarm
    from pairlearn.streams.named import NamedLearner
    from pairlearn.streams.progressive import ProgressiveAUC

_SHOWN = 60
#: At most this many refused lines, and warnings, are printed.
_TOLD = 5
_SETTINGS = ("solver.step_size", "solver.radius", "scaling", "memory")
#: Bytes of a line at most.
_LONGEST = 1 << 20


class LineError(ValueError):
    """A line of input that cannot be used."""


@dataclass(eq=False)
class Conversation:
    """Turns input lines into output lines and learns on the way.

    `auc` and, if there is one, `alarm` watch the scores of labelled examples. The last `pending`
    examples without a label are remembered. A line counts once it has been dealt with.
    """

    learner: NamedLearner
    auc: ProgressiveAUC
    pending: int
    alarm: DriftAlarm | None = None
    waiting: OrderedDict[Any, tuple[dict[str, float], float]] = field(default_factory=OrderedDict)
    n_lines: int = 0
    n_forgotten: int = 0
    n_refused: int = 0

    def answer(self, line: str) -> dict[str, Any] | None:
        """Return the answer to a line; None if the line only brings a label."""
        from pairlearn.streams.examples import check_example, check_label

        message = _parsed(line)
        key = message.get("id")
        if "x" not in message:
            self._label(key, message["y"])
            return None
        x = message["x"]
        _checked(check_example, x)
        if message.get("y") is not None:
            _checked(check_label, message["y"])
        probability = self.learner.predict_proba_one(x)[True]
        score = self.learner.score_one(x)
        if message.get("y") is not None:
            self._learn(x, score, message["y"])
        elif key is not None:
            # An id that comes again takes the place of the example that still waits.
            self.n_forgotten += self.waiting.pop(key, None) is not None
            self.waiting[key] = (x, score)
            if len(self.waiting) > self.pending:
                self.waiting.popitem(last=False)
                self.n_forgotten += 1
        return {"id": key, "score": score, "probability": probability}

    def _label(self, key: Any, y: Any) -> None:
        from pairlearn.streams.examples import check_label

        if key not in self.waiting:
            raise LineError(
                f"the id {str(key)[:_SHOWN]!r} is not waiting for a label (never seen, already "
                "labelled, or forgotten; see --pending)"
            )
        _checked(check_label, y)
        self._learn(*self.waiting.pop(key), y)

    def _learn(self, x: dict[str, float], score: float, y: Any) -> None:
        from pairlearn.streams.examples import RefusedExampleWarning
        from pairlearn.validation import DivergenceError

        self.auc.update([score], [y in (1, True)])
        if self.alarm is not None and self.alarm.update([score], [y in (1, True)]):
            found = self.alarm.alarms[-1]
            click.echo(
                f"pairlearn: alarm: the AUC fell from {found.before:.3f} to {found.after:.3f} "
                f"since example {found.since} (now {found.n_seen})",
                err=True,
            )
        try:
            self.learner.learn_one(x, y)
        except DivergenceError as error:  # The model did not learn these examples.
            warnings.warn(str(error), RefusedExampleWarning, stacklevel=2)

    def facts(self) -> dict[str, Any]:
        """Return the counts, for the producer and for a person."""
        learner = self.learner
        return {
            "lines": self.n_lines,
            "learned": learner.n_seen - learner.n_refused,
            "not_learned": learner.n_refused,
            "refused": self.n_refused,
            "waiting": len(self.waiting),
            "forgotten": self.n_forgotten,
            "auc": self.auc.value,
            # None while everything is remembered.
            "half_life": None if math.isinf(learner.half_life) else learner.half_life,
            **({} if self.alarm is None else {"alarms": len(self.alarm.alarms)}),
        }

    def state(self) -> dict[str, Any]:
        """Return everything that the next line depends on."""
        return {"learner": self.learner.state(), "auc": self.auc.state(),
                "waiting": self.waiting, "forgotten": self.n_forgotten,
                "lines": self.n_lines, "refused": self.n_refused,
                "alarm": None if self.alarm is None else self.alarm.state()}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state returned by `state`."""
        from pairlearn.streams.drift import restored_alarm

        saved, window = state["auc"].get("window"), self.auc.window
        if saved != window:
            raise ValueError(
                f"the checkpoint was made with --window {saved!r:.20}, this run has {window}; give "
                "the same, or start again without the checkpoint."
            )
        alarm = restored_alarm(state.get("alarm"), self.alarm)
        self.learner.restore(state["learner"])
        self.alarm = alarm
        self.auc.restore(state["auc"])
        self.waiting = OrderedDict(state["waiting"])
        self.n_forgotten = int(state["forgotten"])
        self.n_lines, self.n_refused = int(state["lines"]), int(state["refused"])


def _checked(check: Callable[[Any], Any], value: Any) -> None:
    try:
        check(value)
    except ValueError as error:
        raise LineError(str(error).rstrip(".")) from None


def _parsed(line: str) -> dict[str, Any]:
    """Return the message in a line; all its texts and numbers can be written as JSON."""
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
    if isinstance(key, (dict, list, bool)) or (isinstance(key, float) and not math.isfinite(key)):
        raise LineError("its id must be a text or a number")
    # An escape may hold half of a surrogate pair, which no file can store.
    if "\\u" in line:
        names = message["x"] if isinstance(message.get("x"), dict) else ()
        for text in (key, *names):
            if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
                raise LineError(f"{text[:_SHOWN]!r} has half of a surrogate pair; write UTF-8")
    return message


@click.command("stream")
@click.option("-o", "--output", type=OutputPath(), metavar="FILE",
              help="Write the model here when the input ends or is interrupted.")  # fmt: skip
@click.option("--checkpoint", type=OutputPath(), metavar="FILE",
              help="Keep the state here, and go on from it.")  # fmt: skip
@click.option("--every", type=click.IntRange(1), default=10_000, show_default=True,
              metavar="LINES", help="Lines between two checkpoints.")  # fmt: skip
@click.option("--loss", type=Named("losses.LOSSES", also=("auto",)), default="auto",
              show_default=True, help="Pair loss; auto keeps class moments.")  # fmt: skip
@set_option("solver", "scaling", "memory",
            example="solver.step_size=0.1, memory=1000 or scaling=null")  # fmt: skip
@click.option("--window", type=click.IntRange(2), default=10_000, show_default=True,
              help="Labelled examples that the AUC looks back on.")  # fmt: skip
@click.option("--pending", type=click.IntRange(1), default=100_000, show_default=True,
              help="Examples that may wait for a label.")  # fmt: skip
@click.option("--alarm", type=click.FloatRange(400), metavar="EXAMPLES",
              help="Tell when the AUC drops; by chance alone about once in this many "
                   "labelled examples.")  # fmt: skip
@click.option("--progress", type=click.IntRange(1), metavar="LINES",
              help="Tell on standard error how the stream is after so many lines; JSON with "
                   "--json.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Stop at the first line that cannot be used.")
@click.option("--resume", is_flag=True,
              help="Read nothing; print how many lines the checkpoint has consumed.")  # fmt: skip
@json_option
def command(
    output: str | None,
    checkpoint: str | None,
    every: int,
    loss: str,
    settings: Settings,
    window: int,
    pending: int,
    alarm: float | None,
    progress: int | None,
    strict: bool,
    resume: bool,
    as_json: bool,
) -> None:
    r"""Learn from standard input and score as it goes: JSON lines in, JSON lines out.

    A line {"id": 7, "x": {"age": 31.0}} is answered with the score and the probability of a
    positive label. The label may be in the line ("y": 1), which is then learned after it was
    scored, or come later: {"id": 7, "y": 0}. Features may appear and disappear. A line that
    cannot be used is answered on standard error. At the end, also by Ctrl-C or SIGTERM, standard
    error tells the counts and the AUC, with --json as JSON.

    By default class moments are kept, and recent examples choose how long they are remembered.
    Beyond 256 features, and with another loss or settings of a solver, steps of descent are taken.

    With --progress a line on standard error tells counts, AUC and alarms while the stream runs.

    \b
    Examples:
      producer | pairlearn stream -o model.safetensors > scores.jsonl
      producer | pairlearn stream --checkpoint state.ckpt --set solver.step_size=0.1
      producer | pairlearn stream --progress 100000 --alarm 1e6
      n=$(pairlearn stream --checkpoint state.ckpt --resume)
      tail -n +$((n + 1)) log.jsonl | pairlearn stream --checkpoint state.ckpt
    """
    from pairlearn.streams.drift import DriftAlarm
    from pairlearn.streams.progressive import ProgressiveAUC

    if resume:
        _tell_place(checkpoint, as_json)
        return
    learner = _learner(loss, settings)
    watch = None if alarm is None else DriftAlarm(alarm, block=int(min(500.0, alarm / 20.0)))
    talk = Conversation(learner, ProgressiveAUC(window), pending, watch)
    with stop.held(), held(checkpoint), _warnings_told():
        if checkpoint is not None:
            _resume(talk, checkpoint, as_json)
        failure: Exception | None = None
        ended = False
        begin = talk.n_lines
        try:
            for line in _lines(sys.stdin.buffer):
                _reply(talk, line, strict)
                if progress is not None and talk.n_lines % progress == 0:
                    _tell_counts(talk, None, as_json)
                if checkpoint is not None and talk.n_lines % every == 0:
                    _save(talk, checkpoint)
            ended = True
        except KeyboardInterrupt:
            pass
        except Exception as error:
            # The reader of the answers may have left. The model is saved all the same.
            failure = error
        # If one file cannot be written, the other is still written.
        writes: list[Callable[[], Any]] = []
        if checkpoint is not None and talk.n_lines > begin:
            writes.append(lambda: _save(talk, checkpoint))
        if output is not None and learner.n_seen:
            writes.append(lambda: learner.to_model((0, 1)).save(output))
        for write in writes:
            try:
                write()
            except Exception as error:
                failure = failure or error
        _tell_counts(talk, ended, as_json)
    if failure is not None:
        raise failure
    if not ended:
        raise click.exceptions.Exit(stop.status)
    if output is not None and not talk.learner.n_seen:
        raise ValueError("no labelled example came, so there is no model to write.")


def _learner(loss: str, settings: Settings) -> NamedLearner:
    from pairlearn.streams.named import NamedLearner

    for path, setting in settings.items():
        if path not in _SETTINGS:
            raise setting.refuse(f"a stream has the settings {', '.join(_SETTINGS)}.")
    values = {path.rpartition(".")[2]: setting.value for path, setting in settings.items()}
    with naming(settings):
        return NamedLearner(loss, **values)


def _lines(file: BinaryIO) -> Iterator[str | None]:
    """Yield lines, None for one that is longer than `_LONGEST` bytes.

    A signal only ends the waiting for a line: each line is either dealt with completely, or neither
    learned nor counted.
    """
    while True:
        with stop.open():
            raw = file.readline(_LONGEST + 1)
            if not raw:
                return
            short = len(raw) <= _LONGEST or raw.endswith(b"\n")
            while len(raw) > _LONGEST and not raw.endswith(b"\n"):
                raw = file.readline(_LONGEST + 1)
        # "sig": some shells begin what they pipe with a byte-order mark
        yield raw.decode("utf-8-sig", "replace") if short else None


def _reply(talk: Conversation, line: str | None, strict: bool) -> None:
    """Learn from one line and print the score; refuse a bad line."""
    number = talk.n_lines + 1
    answer = None
    try:
        if line is None:
            raise LineError(f"it is longer than {_LONGEST} bytes")
        if line.strip():
            answer = talk.answer(line)
    except LineError as error:
        if strict:
            raise ValueError(f"line {number}: {error} (strict: stopped here)") from None
        talk.n_refused += 1
        if talk.n_refused <= _TOLD:
            tell(f"line {number} refused: {error}")
    talk.n_lines = number
    if answer is not None:
        # Answer at once. JSON is UTF-8, whatever the encoding of the terminal.
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    told = 0

    def show(message: Any, *_: Any, **__: Any) -> None:
        nonlocal told
        told += 1
        if told <= _TOLD:
            tell(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def _tell_counts(talk: Conversation, ended: bool | None, as_json: bool) -> None:
    """Print how the stream is; `ended` is None while it runs."""
    facts = talk.facts()
    if as_json:
        end = {} if ended is None else {"ended": ended}
        click.echo(json.dumps({**facts, **end}, allow_nan=False), err=True)
        return
    value = facts["auc"]
    last = min(talk.auc.window, talk.auc.n_seen)
    parts = [
        f"{facts['learned']} examples learned",
        "" if value is None else f"AUC {value:.4f} over the last {last}",
        f"half of the past forgotten after {facts['half_life']:g} examples"
        if facts["half_life"] is not None
        else "",
        f"{facts['not_learned']} not learned" if facts["not_learned"] else "",
        f"{facts['waiting']} without a label" if facts["waiting"] else "",
        f"{facts['forgotten']} forgotten" if facts["forgotten"] else "",
        f"lines refused: {facts['refused']}" if facts["refused"] else "",
        f"alarms: {facts['alarms']}" if facts.get("alarms") else "",
    ]
    tell(f"{', '.join(part for part in parts if part)}")


def _tell_place(checkpoint: str | None, as_json: bool) -> None:
    """Print how many lines a checkpoint has consumed, so that a producer sends the next one."""
    from pairlearn.streams.checkpoint import CheckpointError, read_checkpoint

    if checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint, whose place it prints.")
    with _warnings_told():
        found = read_checkpoint(checkpoint)
    try:
        lines = 0 if found is None else int(found.state["lines"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"the checkpoint {checkpoint} is not one of a stream.") from None
    click.echo(json.dumps({"checkpoint": checkpoint, "lines": lines}) if as_json else lines)


def _save(talk: Conversation, path: str) -> None:
    from pairlearn.streams.checkpoint import Checkpoint, write_checkpoint

    write_checkpoint(path, Checkpoint(talk.learner.settings(), talk.state(), None))


def _resume(talk: Conversation, path: str, as_json: bool) -> None:
    from pairlearn.streams.checkpoint import CheckpointError, read_checkpoint, reason_of

    found = read_checkpoint(path)
    if found is None:
        return
    if found.settings != talk.learner.settings():
        raise CheckpointError(
            f"the checkpoint {path} was made with {found.settings!r:.300}; use the same options, "
            "or delete the file to start again."
        )
    try:
        talk.restore(found.state)
    except (
        AttributeError, LookupError, TypeError, ValueError, ArithmeticError, MemoryError,
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"the checkpoint {path} cannot be restored ({reason_of(error)}); delete it to start "
            "again."
        ) from None
    facts = talk.facts()
    if as_json:
        click.echo(json.dumps({"checkpoint": path, **facts}, allow_nan=False), err=True)
    else:
        click.echo(
            f"pairlearn: going on from {path}: {facts['lines']} lines consumed, "
            f"{facts['learned']} examples learned",
            err=True,
        )
