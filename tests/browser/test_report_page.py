# SPDX-License-Identifier: BSD-3-Clause
"""The report in a real browser: no complaints, tables sort, nothing wider than a phone."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")

from pairlearn.data import load
from pairlearn.experiments import EstimatorMethod, compare
from pairlearn.experiments.paper.targets import Settings, Shelf, reproduce, write_reproduction
from pairlearn.experiments.report.comparison import write_report

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
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    methods = [
        EstimatorMethod(name="naive-bayes", path="sklearn.naive_bayes.GaussianNB"),
        EstimatorMethod(
            name="a-method-with-quite-a-long-name",
            path="sklearn.linear_model.RidgeClassifier",
            grid={"alpha": [0.1, 10.0]},
        ),
        EstimatorMethod(
            name="fails", path="sklearn.linear_model.LogisticRegression", fixed={"C": -1.0}
        ),
    ]
    done = compare(
        [load("breast_cancer"), load("digits")],
        methods,
        store=folder / "results.sqlite",
        n_splits=3,
    )
    long_command = "pairlearn compare " + "breast_cancer," * 20
    return write_report(done, folder / "page", commands=[long_command]).as_uri()


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    settings = Settings(
        store=folder / "results.sqlite",
        quick=True,
        n_splits=1,
        datasets=("breast_cancer",),
        methods=("ours", "sgd-pair"),
    )
    shelf = Shelf(settings)
    outcomes = list(reproduce(["table1", "fig-hinge", "fig-sampling"], settings, shelf))
    page = write_reproduction(outcomes, folder / "page", settings=settings, shelf=shelf)
    return page.as_uri()


@pytest.mark.parametrize("width", [375, 1100])
def test_reproduction_opens_without_complaint_and_fits(browser, reproduction, width):
    browser.open(reproduction, width=width, dark=width < 600)
    assert browser.complaints() == []
    assert browser.requests() == [reproduction]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    chapters = browser.evaluate('[...document.querySelectorAll("nav a")].map((a) => a.textContent)')
    assert [text.partition(":")[0] for text in chapters[:3]] == [
        "table1",
        "fig-hinge",
        "fig-sampling",
    ]
    assert browser.evaluate('document.querySelectorAll("figure img").length') >= 3


@pytest.fixture(scope="module")
def browser():
    opened = chromium.Browser(chromium.find_chromium())
    yield opened
    opened.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [375, 1100])
def test_opens_without_complaint_and_fits(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    assert browser.complaints() == []
    assert browser.requests() == [page]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # Wide tables and figures scroll inside their own frame, not with the page.
    outside = """[...document.querySelectorAll("main *")].filter((element) =>
        !element.closest(".frame") && element.getBoundingClientRect().right > innerWidth).length"""
    assert browser.evaluate(outside) == 0


def test_follows_the_readers_colours(browser, page):
    def lightness(selector, attribute):
        colour = browser.evaluate(
            f'getComputedStyle(document.querySelector("{selector}")).{attribute}'
        )
        return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 765

    browser.open(page, dark=False)
    assert lightness("body", "backgroundColor") > 0.9
    browser.open(page, dark=True)
    assert lightness("body", "backgroundColor") < 0.2


def test_tables_sort_by_number_and_by_text(browser, page):
    browser.open(page)
    column = """[...document.querySelector("table").tBodies[0].rows].map((row) =>
        row.cells[%d].dataset.value ?? row.cells[%d].textContent)"""
    click = 'document.querySelector("table").tHead.rows[0].cells[%d].firstChild.click()'
    before = [float(value) for value in browser.evaluate(column % (2, 2))]
    assert before != sorted(before)
    browser.evaluate(click % 2)
    assert [float(value) for value in browser.evaluate(column % (2, 2))] == sorted(before)
    browser.evaluate(click % 2)
    assert [float(v) for v in browser.evaluate(column % (2, 2))] == sorted(before, reverse=True)
    sort_state = 'document.querySelector("table").tHead.rows[0].cells[2].getAttribute("aria-sort")'
    assert browser.evaluate(sort_state) == "descending"
    names = browser.evaluate(column % (1, 1))
    browser.evaluate(click % 1)
    assert browser.evaluate(column % (1, 1)) == sorted(names)
    assert browser.complaints() == []


def test_links_lead_to_files_and_parts(browser, page):
    browser.open(page)
    links = browser.evaluate('[...document.querySelectorAll("a")].map((a) => a.href)')
    targets = set(browser.evaluate('[...document.querySelectorAll("[id]")].map((e) => e.id)'))
    folder = Path(page.removeprefix("file://")).parent
    for link in links:
        file, _, part = link.partition("#")
        if part:
            assert part in targets
        else:
            assert (folder / Path(file).name).is_file()
    assert sum(link.endswith(".csv") for link in links) >= 7


def test_prints(browser, page):
    browser.open(page, dark=True)
    pdf = chromium.base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")
    browser.call("Emulation.setEmulatedMedia", media="print")
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    browser.call("Emulation.setEmulatedMedia", media="")


def test_tables_and_labels_have_room_on_a_desk(browser, page):
    browser.open(page, width=1400)
    scrolled = """[...document.querySelectorAll(".frame")].filter((frame) =>
        frame.scrollWidth > frame.clientWidth).map((frame) => frame.ariaLabel)"""
    assert browser.evaluate(scrolled) == []
    # numbers on an axis do not run into each other
    axes = """[...document.querySelectorAll('[id*="matplotlib.axis_"]')].map((axis) =>
        [...axis.querySelectorAll('[id*="-text_"]')].map((text) => text.getBoundingClientRect())
        .map((box) => [box.left, box.right, box.top, box.bottom]))"""
    found = browser.evaluate(axes)
    assert sum(map(len, found)) > 20
    for boxes in found:
        for k, (left, right, top, bottom) in enumerate(boxes):
            for other in boxes[:k]:
                apart = (
                    left >= other[1] or other[0] >= right or top >= other[3] or other[2] >= bottom
                )
                assert apart, boxes
