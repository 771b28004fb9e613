# SPDX-License-Identifier: BSD-3-Clause
"""Serve one page to this machine, beside work that must not suffer from it.

The server listens on the loopback address and refuses requests that name another host, as a page
from elsewhere would make them. It serves a few connections at once and each for a short time,
since idle ones would otherwise take every file handle of the process.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click

#: Connections served at the same time; further ones are answered with 503 and closed.
_MOST = 8
#: Seconds after which a connection is closed, whatever it has asked or read by then.
_PATIENCE = 5.0
#: Seconds between two looks for connections to close, and after the system refused one.
_LOOK = 0.1
#: The names of this machine in a request, with or without a port.
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_BUSY = b"This page has too many readers at the moment."
_REFUSAL = (
    b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(_BUSY), _BUSY)
)
_FIRST = (
    b'<!doctype html><meta http-equiv="refresh" content="1"><title>pairlearn stream</title>'
    b"Nothing has come yet."
)


class _Server(ThreadingHTTPServer):
    """A server of few connections. Clients that misbehave are dropped without a word."""

    daemon_threads = True
    #: Connections that wait for an answer; they take no handle.
    request_queue_size = 64

    def __init__(self, port: int) -> None:
        self.page = _FIRST
        #: The connections being served, and when they must be closed.
        self._served: dict[socket.socket, float] = {}
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; wait a little if the system has no handle for it."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_LOOK)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or refuse it if there are too many."""
        with self._guard:
            full = len(self._served) >= _MOST
            if not full:
                self._served[request] = time.monotonic() + _PATIENCE
        if not full:
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.sendall(_REFUSAL)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._guard:
            self._served.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections whose time is over."""
        self._wake(time.monotonic())

    def server_close(self) -> None:
        """Stop listening, and close all connections."""
        super().server_close()
        self._wake(math.inf)

    def _wake(self, now: float) -> None:
        """Wake the threads of connections that end before `now`; each then closes its own."""
        with self._guard:
            for request, end in self._served.items():
                if end < now:
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a client that left: standard error belongs to the stream."""

    def run(self) -> None:
        """Serve until `shutdown`."""
        try:
            self.serve_forever(_LOOK)
        except Exception as error:
            click.echo(
                f"pairlearn: the page of --live is no longer served ({error}); the stream goes on "
                "without it",
                err=True,
            )


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: _Server

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _HERE.fullmatch(hosts[0].strip()):
            self.send_error(403, "this page is for this machine")
            return
        if self.path != "/":
            self.send_error(404, "there is one page, /")
            return
        body = self.server.page
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: standard error belongs to the stream."""


@contextlib.contextmanager
def served(port: int) -> Iterator[Callable[[str], None]]:
    """Serve a page at `port` until the block ends; yield what sets the page."""
    try:
        server = _Server(port)
    except OSError as error:
        raise click.UsageError(
            f"--live {port}: the port cannot be used ({error.strerror}); name another one."
        ) from None
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()

    def show(text: str) -> None:
        server.page = text.encode()

    try:
        yield show
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
