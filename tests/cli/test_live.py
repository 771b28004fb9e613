# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn stream --live``: what the page says, in a file and at a port."""

import contextlib
import http.client
import io
import json
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn import AveragePrecision, roc_auc
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.streaming import server
from pairlearn.cli.streaming.live import History, Live, live_page
from pairlearn.cli.streaming.live_page import Moment, page_text
from pairlearn.streams import Alarm, ProgressiveAUC


@pytest.fixture
def watched(rng):
    y = rng.random(500) < 0.3
    scores = rng.normal(size=500) + 2.0 * y
    auc = ProgressiveAUC(window=300)
    auc.update(scores, y)
    return auc, scores[-300:], y[-300:]


def test_a_page_shows_what_the_stream_is_like(watched):
    auc, scores, y = watched
    pages, times = [], iter([0.0, 0.0, 0.5, 2.0, 4.0])
    live = Live(pages.append, clock=lambda: next(times))
    live.tick(100, auc, [])
    live.tick(150, auc, [])  # half a second later: not yet
    assert len(pages) == 1
    live.tick(300, auc, [])
    alarm = Alarm(250, 200, 0.91, 0.72)
    live.tick(500, auc, [alarm], ended=True)
    assert len(pages) == 3
    running, last = pages[1:]
    assert 'data-state="running"' in running
    assert 'data-state="ended"' in last
    assert f"{roc_auc(y, scores):.4f}" in last
    assert f"{AveragePrecision()(y, scores):.4f}" in last
    assert "<dd>500<small>500 lines</small></dd>" in last
    assert "<dd>100<small>2 s since the start</small></dd>" in running  # 200 lines in 2 s
    assert "None." in running
    assert "<td>250</td><td>200</td><td>0.910</td><td>0.720</td>" in last
    assert last.count('class="alarm"') == 1
    assert last.count("<svg ") == 3
    positives = int(y.sum())
    assert f"Scores of {positives} positive and {300 - positives} negative examples." in last
    for page in pages:
        assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'>)]*)""", page) == ["data:,"]


def test_the_past_is_kept_in_bounded_memory():
    history = History()
    for k in range(10_000):
        history.add(Moment(k, k, float(k), 0.5))
    assert 200 <= len(history.moments) <= 401
    steps = np.diff([moment.n_lines for moment in history.moments])
    assert (steps == history.stride).all()
    assert history.moments[0].n_lines == 0


#: Any floats, and those that are hard to tell apart or to subtract.
ANY = st.floats() | st.sampled_from(
    [0.0, 5e-324, 1.0, float(np.nextafter(1.0, 2.0)), -1e308, 1e308, 1.7976931348623157e308]
)


@given(
    scored=st.lists(st.tuples(ANY, st.booleans())),
    past=st.lists(st.tuples(st.integers(0, 10**12), st.none() | ANY, ANY)),
    alarms=st.lists(st.tuples(st.integers(0, 10**12), ANY, ANY), max_size=3),
    rate=ANY,
)
def test_no_number_keeps_the_page_from_being_drawn(scored, past, alarms, rate):
    moments = [Moment(n, n, seconds, auc) for n, auc, seconds in past] or [Moment(0, 0, 0.0, None)]
    page = page_text(
        moments[-1],
        moments,
        rate=rate,
        interval=None,
        measures={"a measure": rate, "another": None},
        scores=np.array([score for score, _ in scored], dtype=float),
        positive=np.array([label for _, label in scored], dtype=bool),
        window=10,
        alarms=[Alarm(n, n, before, after) for n, before, after in alarms],
        ended=False,
    )
    for attribute, text in re.findall(r'\b(d|[cx]?[xy][12]?)="([^"]*)"', page):
        for number in re.findall(r"[^ML, ]+", text):
            assert -1.0 <= float(number) <= 421.0, attribute


@pytest.mark.parametrize(
    "scores", [[1.0, float(np.nextafter(1.0, 2.0))], [-1e308, 1e308], [3.0, 3.0]]
)
def test_scores_that_are_close_or_far_apart(scores):
    pages = []
    live = Live(pages.append)
    auc = ProgressiveAUC(window=4)
    auc.update(scores, [False, True])
    live.tick(2, auc, [])
    assert "Scores of 1 positive and 1 negative examples." in pages[0]


def test_a_short_stream_has_curves():
    pages, times = [], iter(np.arange(11) / 11.0)
    live = Live(pages.append, clock=lambda: next(times))
    auc = ProgressiveAUC(window=100)
    for k in range(9):
        auc.update([0.2, 0.1, 0.7], [False, True, True])
        live.tick(3 * (k + 1), auc, [])
    live.tick(27, auc, [], ended=True)
    assert len(pages) == 2
    curves = re.findall(r'class="curve one" d="([^"]*)"', pages[1])
    assert [path.count("L") + 1 for path in curves] == [10, 62, 9]  # AUC, scores, throughput
    assert pages[0].count('class="dot"') == 1  # one moment: a curve of one point
    # Lines from before a checkpoint are not counted as throughput.
    times, pages = iter([0.0, 0.5]), []
    Live(pages.append, clock=lambda: next(times)).tick(10**9, auc, [])
    assert "<dd>0<small>0 s since the start</small></dd>" in pages[0]


@pytest.mark.parametrize("error", [OSError(28, "no space"), ValueError("odd"), RuntimeError("bad")])
def test_the_stream_goes_on_whatever_happens_to_the_page(error, capsys):
    def show(_):
        raise error

    live = Live(show, clock=iter(np.arange(0.0, 20.0, 2.0)).__next__)
    auc = ProgressiveAUC(window=4)
    for k in range(4):
        live.tick(k, auc, [])
    live.tick(5, auc, [], ended=True)
    said = capsys.readouterr().err
    assert said.count("the stream goes on without it") == 1
    assert error.args[-1] in said


def lines(n, rng, turn):
    x = rng.normal(size=n)
    sign = np.where(np.arange(n) < turn, 1.0, -1.0)
    y = (sign * x + 0.3 * rng.normal(size=n) > 0.0).astype(int)
    return [json.dumps({"x": {"a": float(a)}, "y": int(b)}) for a, b in zip(x, y, strict=True)]


def test_the_program_writes_the_page_and_tells_alarms(tmp_path, monkeypatch, capsysbinary, rng):
    class Input:
        def __init__(self, text):
            self.buffer = io.BytesIO(text.encode())

    text = "\n".join([*lines(900, rng, 600), ""])
    page = tmp_path / "page.html"
    monkeypatch.setattr(sys, "stdin", Input(text))
    arguments = ["stream", "--live", str(page), "--alarm", "2000", "--json"]
    assert run(program, arguments) == 0
    err = capsysbinary.readouterr().err.decode().splitlines()
    assert any("alarm: the AUC fell from" in line for line in err)
    facts = json.loads(err[-1])
    assert facts["alarms"] >= 1
    html = page.read_text(encoding="utf-8")
    assert 'data-state="ended"' in html
    assert "<dd>900<small>900 lines</small></dd>" in html
    assert html.count("<tr>") == 1 + facts["alarms"]
    # Where the page cannot be written the stream goes on.
    monkeypatch.setattr(sys, "stdin", Input(text))
    assert run(program, ["stream", "--live", str(tmp_path / "no" / "page.html")]) == 0
    err = capsysbinary.readouterr().err.decode()
    assert err.count("cannot be written") == 1
    assert "900 examples learned" in err
    for wrong, message in ((["--live", "70000"], "from 1 to 65535"),
                           (["--alarm", "100"], "one in 400 examples or more")):  # fmt: skip
        monkeypatch.setattr(sys, "stdin", Input(""))
        assert run(program, ["stream", *wrong]) == 2
        assert message in capsysbinary.readouterr().err.decode()


def test_alarms_go_on_from_a_checkpoint(tmp_path, monkeypatch, capsysbinary, rng):
    class Input:
        def __init__(self, some):
            self.buffer = io.BytesIO("\n".join([*some, ""]).encode())

    every = lines(900, rng, 600)

    def alarms(some, *more):
        monkeypatch.setattr(sys, "stdin", Input(some))
        assert run(program, ["stream", "--alarm", "2000", "--json", *more]) == 0
        return json.loads(capsysbinary.readouterr().err.decode().splitlines()[-1])["alarms"]

    whole = alarms(every)
    state = str(tmp_path / "state")
    alarms(every[:650], "--checkpoint", state)
    assert alarms(every[650:], "--checkpoint", state) == whole
    monkeypatch.setattr(sys, "stdin", Input([]))
    assert run(program, ["stream", "--checkpoint", state, "--alarm", "3000"]) == 1
    assert "use the same value" in capsysbinary.readouterr().err.decode()


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ask(port, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_the_server_is_for_this_machine(port, capsys):
    with live_page(str(port)) as live:
        auc = ProgressiveAUC(window=10)
        assert "Nothing has come yet" in ask(port)[1]
        auc.update([0.1, 0.9], [0, 1])
        live.tick(2, auc, [])
        status, page = ask(port)
        assert (status, 'data-state="running"' in page) == (200, True)
        for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]"):
            assert ask(port, Host=name)[0] == ask(port, Host=f"{name}:{port}")[0] == 200
        for name in ("example.org", f"example.org:{port}", "127.0.0.1.example.org", "", "::1",
                     "localhost:", "localhost:80@example.org", "[::1].example.org"):  # fmt: skip
            assert ask(port, Host=name)[0] == 403, name
        assert ask(port, "/etc/passwd")[0] == 404
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(OSError, match=r"refused|reset"):
        ask(port)


def test_idle_readers_take_few_handles_for_a_short_time(port, monkeypatch, capfd):
    def handles():
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    place = ("127.0.0.1", port)
    with live_page(str(port)), contextlib.ExitStack() as clients:
        ask(port)
        before = handles()
        idle = [clients.enter_context(socket.create_connection(place)) for _ in range(64)]
        refused = [client for client in idle[server._MOST :] if client.recv(100)]
        assert len(refused) == 64 - server._MOST
        assert ask(port)[0] == 503
        assert handles() - before <= 64 + server._MOST + 4
        clients.close()
        while ask(port)[0] == 503:
            time.sleep(0.01)
        # A reader that keeps sending a little of its request is closed, too.
        monkeypatch.setattr(server, "_PATIENCE", 0.2)
        with socket.create_connection(place, timeout=10) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(1000):
                    slow.sendall(b"A: b\r\n")
                    time.sleep(0.01)
                pytest.fail("the connection stayed open for ten seconds")
        # A reader that resets the connection leaves no word on standard error.
        for _ in range(5):
            rude = socket.create_connection(place)
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            rude.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            rude.close()
        assert ask(port)[0] == 200
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.thorough
def test_idle_readers_do_not_keep_a_stream_from_its_files(tmp_path, port, rng):
    """With 64 file handles, and as many sockets that say nothing, checkpoint and model appear."""
    arguments = ["-m", "pairlearn", "stream", "--live", str(port), "--checkpoint", "state",
                 "-o", "model", "--json"]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    ) as child, contextlib.ExitStack() as idle:  # fmt: skip
        idle.callback(child.kill)
        first, *others = lines(400, rng, 400)
        child.stdin.write(first.encode() + b"\n")
        child.stdin.flush()
        assert b'"score"' in child.stdout.readline()
        with contextlib.suppress(OSError):
            for _ in range(64):
                idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        time.sleep(0.3)
        answers, said = child.communicate("\n".join([*others, ""]).encode(), timeout=60)
    assert (child.returncode, answers.count(b"\n")) == (0, 399), said
    assert json.loads(said.splitlines()[-1])["learned"] == 400
    assert sorted(os.listdir(tmp_path)) == ["model", "state"]
