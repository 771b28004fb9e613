# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn stream --live``: what the page says, in a file and at a port."""

import http.client
import io
import json
import re
import socket
import sys

import numpy as np
import pytest

from pairlearn import AveragePrecision, roc_auc
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.streaming.live import History, Live, live_page
from pairlearn.cli.streaming.live_page import Moment
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
        history.add(Moment(k, k, float(k), 0.5, 1.0))
    assert 200 <= len(history.moments) <= 401
    steps = np.diff([moment.n_lines for moment in history.moments])
    assert (steps == history.stride).all()
    assert history.moments[0].n_lines == 0


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


def test_the_server_is_for_this_machine(capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def ask(path="/", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    with live_page(str(port)) as live:
        auc = ProgressiveAUC(window=10)
        assert "Nothing has come yet" in ask()[1]
        auc.update([0.1, 0.9], [0, 1])
        live.tick(2, auc, [])
        status, page = ask()
        assert (status, 'data-state="running"' in page) == (200, True)
        assert ask(Host=f"localhost:{port}")[0] == 200
        assert ask(Host="example.org")[0] == 403
        assert ask("/etc/passwd")[0] == 404
    assert f"http://127.0.0.1:{port}/" in capsys.readouterr().err
    with pytest.raises(OSError, match=r"refused|reset"):
        ask()
