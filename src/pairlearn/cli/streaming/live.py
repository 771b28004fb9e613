# SPDX-License-Identifier: BSD-3-Clause
"""A page about a running stream, kept in a file or served to this machine alone.

The page must never harm the stream: whatever fails here costs the page, and one line says so. The
server is in `server.py`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from pairlearn.atomic import atomic_write, described
from pairlearn.cli.streaming.live_page import Moment, page_text
from pairlearn.cli.streaming.server import served
from pairlearn.metrics import AveragePrecision, PartialAUC, roc_auc_interval
from pairlearn.streams.progressive import ProgressiveAUC

if TYPE_CHECKING:
    from pairlearn.streams.drift import Alarm

#: Seconds between two pages, and between two points of a curve until the first are dropped.
_EVERY, _STEP = 1.0, 0.05
#: Most points of a curve; beyond that, every other point is dropped.
_POINTS = 400
#: The false positive rate up to which the partial AUC counts.
_MAX_FPR = 0.05


@dataclass
class History:
    """Moments of a stream, in bounded memory and spread evenly over it."""

    moments: list[Moment] = field(default_factory=list)
    #: One moment in this many is kept.
    stride: int = 1
    _n_told: int = 0

    def add(self, moment: Moment) -> None:
        """Keep a moment if its turn has come."""
        if self._n_told % self.stride == 0:
            self.moments.append(moment)
            if len(self.moments) > _POINTS:
                self.moments = self.moments[::2]
                self.stride *= 2
        self._n_told += 1


class Live:
    """Keeps the page of one stream: `show` is given the text of each page."""

    def __init__(
        self, show: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._clock = clock
        self._begin = self._last = clock()
        self._due = self._due_point = self._begin
        self._n_before: int | None = None
        self.history = History()
        # A rehearsal: what a page needs is opened and imported now, while there are file handles.
        auc = ProgressiveAUC(window=2)
        auc.update([0.0, 1.0], [False, True])
        self._page(Moment(2, 2, 0.0, 0.5), auc, [], 0.0, False)

    def tick(
        self,
        n_lines: int,
        auc: ProgressiveAUC,
        alarms: list[Alarm],
        *,
        half_life: float = math.inf,
        ended: bool = False,
    ) -> None:
        """Note how the stream is; show a new page once a second, and when the stream has ended.

        A page that fails for any reason is given up, and the stream goes on.
        """
        try:
            self._tick(n_lines, auc, alarms, half_life, ended)
        except Exception as error:
            self._due = self._due_point = math.inf
            said = f"{type(error).__name__}: {error}"
            if isinstance(error, OSError):
                said = described(error).rstrip(".")
            click.echo(
                f"pairlearn: the page of --live cannot be written ({said}); the stream goes on "
                "without it",
                err=True,
            )

    def _tick(
        self,
        n_lines: int,
        auc: ProgressiveAUC,
        alarms: list[Alarm],
        half_life: float,
        ended: bool,
    ) -> None:
        now = self._clock()
        ended = ended and self._due < math.inf
        if now < self._due_point and not ended:
            return
        moment = Moment(auc.n_seen, n_lines, now - self._begin, auc.value, half_life)
        self.history.add(moment)
        self._due_point = now + _STEP
        if now < self._due and not ended:
            return
        # A stream that goes on from a checkpoint does not begin with line 0.
        n_new = n_lines - (n_lines if self._n_before is None else self._n_before)
        rate = n_new / (now - self._last) if now > self._last else 0.0
        self._last, self._n_before, self._due = now, n_lines, now + _EVERY
        self._show(self._page(moment, auc, alarms, rate, ended))

    def _page(
        self, moment: Moment, auc: ProgressiveAUC, alarms: list[Alarm], rate: float, ended: bool
    ) -> str:
        """Return the page of a stream that is as `auc` and `alarms` say."""
        scores, positive = auc.scores()
        moments = self.history.moments
        both = bool(positive.any() and not positive.all())
        return page_text(
            moment,
            moments if moments and moments[-1] is moment else [*moments, moment],
            rate=rate,
            interval=roc_auc_interval(positive, scores) if both else None,
            measures={
                "average precision": auc.measure(AveragePrecision()),
                f"partial AUC, fpr &le; {_MAX_FPR:g}": auc.measure(PartialAUC(_MAX_FPR)),
            },
            scores=scores,
            positive=positive,
            window=auc.window,
            alarms=alarms,
            ended=ended,
        )


@contextlib.contextmanager
def live_page(target: str | None) -> Iterator[Live | None]:
    """Keep the page in the file `target`, or serve it on that port; yield None for no page."""
    if target is None:
        yield None
        return
    if target.isdecimal():
        port = int(target)
        if not 1 <= port <= 65535:
            raise click.BadParameter(
                f"--live {target}: a port is a number from 1 to 65535, anything else a file."
            )
        with served(port) as show:
            click.echo(f"pairlearn: the stream is shown at http://127.0.0.1:{port}/", err=True)
            yield Live(show)
        return
    yield Live(lambda text: atomic_write(target, text.encode()))
