# SPDX-License-Identifier: BSD-3-Clause
"""A page about a running stream, kept in a file or served to this machine alone.

The server listens on the loopback address and refuses requests that name another host, as a page
from elsewhere would make them.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import click

from pairlearn.cli.streaming.live_page import Moment, page_text

if TYPE_CHECKING:
    from pairlearn.streams.drift import Alarm
    from pairlearn.streams.progressive import ProgressiveAUC

#: Seconds between two pages.
_EVERY = 1.0
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
        self._due = self._begin
        self._n_before = 0
        self.history = History()

    def tick(
        self, n_lines: int, auc: ProgressiveAUC, alarms: list[Alarm], *, ended: bool = False
    ) -> None:
        """Show a new page, if a second has passed since the last one or the stream has ended."""
        now = self._clock()
        if now < self._due and not (ended and self._due < math.inf):
            return
        from pairlearn.metrics import AveragePrecision, PartialAUC, roc_auc_interval

        seconds = now - self._last
        rate = (n_lines - self._n_before) / seconds if seconds > 0.0 else 0.0
        moment = Moment(auc.n_seen, n_lines, now - self._begin, auc.value, rate)
        if not ended or seconds > 0.0:
            self.history.add(moment)
        self._last, self._n_before, self._due = now, n_lines, now + _EVERY
        scores, positive = auc.scores()
        both = bool(positive.any() and not positive.all())
        page = page_text(
            moment,
            self.history.moments,
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
        try:
            self._show(page)
        except OSError as error:
            # A page that cannot be written must not end the stream.
            self._due = math.inf
            click.echo(
                f"pairlearn: the page of --live cannot be written ({error}); the stream goes on "
                "without it",
                err=True,
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
        with _served(port) as show:
            click.echo(f"pairlearn: the stream is shown at http://127.0.0.1:{port}/", err=True)
            yield Live(show)
        return
    from pairlearn.atomic import atomic_write

    yield Live(lambda text: atomic_write(target, text.encode()))


@contextlib.contextmanager
def _served(port: int) -> Iterator[Callable[[str], None]]:
    """Serve a page to this machine until the stream ends."""
    latest = {"page": b"<!doctype html><title>pairlearn stream</title>Nothing has come yet."}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            if host not in ("127.0.0.1", "localhost"):
                self.send_error(403, "this page is for this machine")
                return
            if self.path != "/":
                self.send_error(404, "there is one page, /")
                return
            body = latest["page"]
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: standard error belongs to the stream."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise click.UsageError(
            f"--live {port}: the port cannot be used ({error.strerror}); name another one."
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield lambda text: latest.update(page=text.encode())
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
