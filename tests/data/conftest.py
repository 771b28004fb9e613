# SPDX-License-Identifier: BSD-3-Clause
"""The tests' own folders, and a server on this machine that can break off."""

import http.server
import threading
from dataclasses import dataclass, field

import pytest

GOOD = b"".join(
    b"%+d 1:%d 2:0.5%s\n" % (1 if i % 3 else -1, i, b" 3:1" if i % 2 else b"") for i in range(40)
)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No test reads or writes the user's own cache."""
    monkeypatch.setenv("PAIRLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PAIRLEARN_DATA", raising=False)


@dataclass
class Server:
    """What the test server serves, how, and what it was asked."""

    content: bytes
    cut_after: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    status: int = 0
    address: str = ""


@pytest.fixture
def server():
    state = Server(content=GOOD)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            state.asked.append(self.path)
            if state.status:
                self.send_error(state.status)
                return
            rest = state.content
            self.send_response(200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            if state.cut_after:
                rest = rest[: state.cut_after.pop(0)]
            self.wfile.write(rest)

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.address = f"http://127.0.0.1:{httpd.server_port}/toy.txt"
    yield state
    httpd.shutdown()
    httpd.server_close()
    thread.join()
