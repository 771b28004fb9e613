# SPDX-License-Identifier: BSD-3-Clause
"""The page of a running stream in a real browser: it fits, renews itself and stays at the end."""

import contextlib
import importlib.util
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pairlearn.cli.streaming.live import Live, live_page
from pairlearn.streams import Alarm, ProgressiveAUC

_SPEC = importlib.util.spec_from_file_location(
    "browser_chromium", Path(__file__).with_name("chromium.py")
)
chromium = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(chromium)

pytestmark = [
    pytest.mark.skipif(
        chromium.find_chromium() is None,
        reason="no Chromium on this machine; install one or name it in PAIRLEARN_CHROMIUM",
    ),
    pytest.mark.skipif(sys.platform == "win32", reason="the debugging pipe needs POSIX"),
]


@pytest.fixture(scope="module")
def browser():
    opened = chromium.Browser(chromium.find_chromium())
    yield opened
    opened.close()


@pytest.fixture
def auc(rng):
    window = ProgressiveAUC(window=2_000)
    y = rng.random(3_000) < 0.2
    window.update(rng.normal(size=3_000) + 1.5 * y, y)
    return window


def fill(live, auc, rng):
    """Tell a stream of a minute."""
    for k in range(60):
        y = rng.random(500) < 0.2
        auc.update(rng.normal(size=500) + (1.5 if k < 40 else 0.6) * y, y)
        live.tick(600 * k, auc, [Alarm(auc.n_seen - 100, 23_000, 0.85, 0.66)] if k > 45 else [])


def wait_for(browser, expression, wanted):
    deadline = time.monotonic() + 30
    while True:
        # While the page is loaded again there is nothing to ask.
        with contextlib.suppress(RuntimeError):
            if browser.evaluate(expression) == wanted:
                return
        assert time.monotonic() < deadline, f"{expression} did not become {wanted!r}"
        time.sleep(0.2)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_fits_without_complaint(browser, auc, rng, tmp_path, width, dark):
    times = iter(np.arange(0.0, 200.0, 1.5))
    path = tmp_path / "page.html"
    live = Live(lambda text: path.write_text(text, encoding="utf-8"), clock=lambda: next(times))
    fill(live, auc, rng)
    live.tick(40_000, auc, [Alarm(26_000, 23_000, 0.85, 0.66)], ended=True)
    browser.open(path.as_uri(), width=width, dark=dark)
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate('document.querySelectorAll("svg path").length') >= 6
    outside = """[...document.querySelectorAll("svg text")].filter((element) => {
        const box = element.getBoundingClientRect(), all = element.closest("svg")
            .getBoundingClientRect();
        return box.left < all.left - 1 || box.right > all.right + 1 || box.bottom > all.bottom + 1;
    }).length"""
    assert browser.evaluate(outside) == 0
    smallest = """Math.min(...[...document.querySelectorAll("svg text")].map((element) =>
        element.getBoundingClientRect().height))"""
    assert browser.evaluate(smallest) >= 9


def test_a_file_is_loaded_again_until_the_end(browser, auc, tmp_path):
    path = tmp_path / "page.html"
    times = iter(np.arange(0.0, 20.0, 2.0))
    live = Live(lambda text: path.write_text(text, encoding="utf-8"), clock=lambda: next(times))
    live.tick(10, auc, [])
    browser.open(path.as_uri())
    state = 'document.querySelector("main").dataset.state'
    assert browser.evaluate(state) == "running"
    live.tick(20, auc, [], ended=True)
    wait_for(browser, state, "ended")


def test_a_served_page_renews_itself_and_outlives_the_server(browser, auc):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = 'document.querySelector(".state").textContent'
    with live_page(str(port)) as live:
        live.tick(10, auc, [])
        browser.open(f"http://127.0.0.1:{port}/")
        auc.update([0.5], [1])
        # Both wait for their time; a browser may be faster than either.
        live._due = live._due_point = 0.0
        live.tick(12_345, auc, [])
        lines = 'document.body.textContent.includes("12,345 lines")'
        wait_for(browser, lines, True)
    # The server has gone without a last page: what was seen stays, and says so.
    wait_for(browser, said, "The stream has ended; this is its last page.")
    assert browser.evaluate(lines) is True
