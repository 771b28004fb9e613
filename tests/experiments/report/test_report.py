# SPDX-License-Identifier: BSD-3-Clause
import csv
import html.parser
import math
import re
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")


from pairlearn.experiments.comparison.cell import Result
from pairlearn.experiments.comparison.runner import HONEST, Comparison, Failure
from pairlearn.experiments.comparison.tables import (
    auc_rows,
    cost_rows,
    difference_rows,
    headline,
    matrix,
    trajectories,
)
from pairlearn.experiments.report.comparison import write_report
from pairlearn.experiments.report.page import Cell, Facts, Figure, Page, Table, Text, write_page


def result(dataset, split, method, auc, **changes):
    fields = {
        "cpu_seconds": 0.01 * (1 + split),
        "tune_cpu_seconds": 0.5,
        "n_train": 80,
        "n_test": 20,
        "params": {"C": 0.1},
    }
    return Result(dataset, split, method, auc, **(fields | changes))


def comparison(n_splits=3, *, failures=(), protocol=HONEST, datasets=("diabetes", "a<b>&c")):
    results = [
        result(
            dataset,
            split,
            method,
            0.8 + 0.01 * k + 0.001 * split,
            warnings=["<i>odd</i>"] if k else [],
            n_gradients=1000 if k else None,
        )
        for dataset in datasets
        for split in range(n_splits)
        for k, method in enumerate(("ours", "olp", "spauc"))
    ]
    methods = ("ours", "olp", "spauc")
    return Comparison(
        results, list(failures), datasets, methods, n_splits, 7, protocol, len(results)
    )


class Checker(html.parser.HTMLParser):
    """Balanced tags, unique identifiers, resolved references, nothing from elsewhere."""

    VOID = frozenset(("meta", "link", "img"))

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.refs, self.outside, self.tags = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.note(tag, dict(attributes))

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.note(tag, dict(attributes))

    def note(self, tag, attributes):
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name in ("href", "src", "xlink:href", "clip-path"):
            value = attributes.get(name) or ""
            if value.startswith(("http:", "https:", "//")):
                self.outside.append(value)
            match = re.search(r"#([^)\"]+)", value)
            if match:
                self.refs.append(match[1])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(path):
    checker = Checker()
    text = path.read_text(encoding="utf-8")
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert set(checker.refs) <= set(checker.ids)
    assert checker.outside == []
    return text, checker


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.thorough
def test_page_is_well_formed_and_needs_nothing_from_elsewhere(tmp_path):
    failures = [Failure("diabetes", 0, "olp", "ValueError: <b>no</b>")]
    page = write_report(comparison(failures=failures), tmp_path, commands=["pairlearn x --y '<z>'"])
    text, checker = check(page)
    assert checker.tags.count("img") == 2
    assert checker.tags.count("script") == 1
    assert "<b>no</b>" not in text
    assert "<i>odd</i>" not in text
    assert "a&lt;b&gt;&amp;c" in text
    assert "@import" not in text
    assert "url(http" not in text
    for link in re.findall(r'href="([^"#]+\.csv)"', text):
        assert (tmp_path / link).is_file()
    assert "seed 7" in text


@pytest.mark.thorough
def test_one_split_has_no_interval(tmp_path):
    text, _ = check(write_report(comparison(n_splits=1), tmp_path))
    shown = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "nan" not in shown.lower()


def test_nothing_to_report(tmp_path):
    empty = Comparison([], [], ("d",), ("m",), 1, 0, HONEST, 0)
    with pytest.raises(ValueError, match="nothing to report"):
        write_report(empty, tmp_path)


def test_tables_of_a_comparison():
    done = comparison()
    rows = auc_rows(done)
    assert rows[0].auc.mean == pytest.approx(0.801)
    assert rows[0].auc.n == 3
    gaps = difference_rows(done, baseline="olp")
    assert {row.baseline for row in gaps} == {"olp"}
    assert gaps[0].difference.mean == pytest.approx(-0.01)
    assert gaps[0].wins == 0
    assert cost_rows(done)[0].cpu_seconds == pytest.approx(0.02)
    assert cost_rows(done)[0].n_gradients is None
    assert cost_rows(done)[1].n_gradients == 1000
    with pytest.raises(ValueError, match="not among the methods"):
        difference_rows(done, baseline="logistic")


def test_an_interval_of_auc_stays_between_zero_and_one():
    results = [result("d", split, "a", auc) for split, auc in enumerate((0.99, 1.0, 0.9))]
    done = Comparison(results, [], ("d",), ("a",), 3, 0, HONEST, 3)
    assert auc_rows(done)[0].auc.high == 1.0


def test_parts_of_a_page(tmp_path):
    parts = [
        Text("Words", ("One & two",)),
        Facts("Facts", (("name", "<value>"),)),
        Table("Table", "t", {"a": "", "b": ".1f"}, [["x", 1.0], ["y", Cell("-", math.nan)]]),
        Figure("Figure", "f", "data:image/svg+xml;base64,", (["x"], [[1]]), "d"),
    ]
    page = write_page(Page("Title", "Intro", parts), tmp_path)
    text, _ = check(page)
    assert 'alt="d"' in text
    assert "&lt;value&gt;" in text
    assert (tmp_path / "t.csv").read_text().splitlines()[:2] == ["a,b", "x,1.0"]


@pytest.mark.parametrize("names", [("a", "a"), ("../a",), ("A b",)])
def test_names_of_parts(tmp_path, names):
    parts = [Table("T", name, {"a": ""}, [["x"]]) for name in names]
    with pytest.raises(ValueError, match="distinct names"):
        write_page(Page("Title", "", parts), tmp_path)


def with_checkpoints(lengths=(3, 3)):
    results = [
        result(
            "d",
            split,
            "a",
            0.9,
            checkpoints=[[0.1 * 2**t, 10.0 * t, 0.7 + 0.1 * t + 0.01 * split * (2 - t)]
                         for t in range(length)],
        )
        for split, length in enumerate(lengths)
    ]  # fmt: skip
    return Comparison(results, [], ("d",), ("a",), len(lengths), 0, HONEST, len(lengths))


def test_trajectories_and_the_papers_way_to_report():
    (path,) = trajectories(with_checkpoints())
    assert path.auc_mean == pytest.approx([0.71, 0.805, 0.9])
    assert path.auc_sd == pytest.approx([0.02 / 2**0.5, 0.01 / 2**0.5, 0.0])
    assert path.cpu_seconds == pytest.approx([0.1, 0.2, 0.4])
    assert (path.auc_mean[-1], path.auc_sd[-1]) == pytest.approx((0.9, 0.0))
    assert path.as_published == pytest.approx((0.9, 0.0))
    assert trajectories(comparison()) == []


def test_checkpoints_at_different_steps_are_not_averaged():
    with pytest.raises(ValueError, match="2, 3 checkpoints"):
        trajectories(with_checkpoints((2, 3)))


def test_curves_are_drawn_where_there_are_checkpoints(tmp_path):
    text, checker = check(write_report(with_checkpoints(), tmp_path))
    assert "AUC during training" in text
    assert checker.tags.count("img") == 2
    assert len(read_csv(tmp_path / "figure-curves.csv")) == 3


def places(means, *, noise=0.0, methods=("ours", "logistic"), n_splits=6):
    """Return a comparison whose differences between methods vary by `noise` from split to split."""
    results = [
        result(dataset, split, method, auc + (noise * (-1) ** split if k else 0.0))
        for dataset, row in means.items()
        for split in range(n_splits)
        for k, (method, auc) in enumerate(zip(methods, row, strict=True))
    ]
    return Comparison(results, [], tuple(means), methods, n_splits, 0, HONEST, len(results))


def test_the_best_and_what_is_tied():
    clear = matrix(places({"a": (0.8, 0.7)}, noise=0.001))["a"]
    assert (clear["ours"].best, clear["logistic"].best) == (True, False)
    assert not clear["logistic"].tied
    close = matrix(places({"a": (0.8, 0.79)}, noise=0.05))["a"]
    assert close["logistic"].tied
    assert not close["ours"].tied
    same = matrix(places({"a": (0.8, 0.8)}))["a"]
    assert (same["ours"].best, same["logistic"].tied) == (True, True)


@pytest.mark.parametrize(
    ("means", "noise", "said"),
    [
        ({"a": (0.8, 0.7)}, 0.001, "On a ours has the highest mean test AUC, 0.8000; all others "
                                   "are clearly below."),
        ({"a": (0.8, 0.79)}, 0.05, "On a ours has the highest mean test AUC, 0.8000; logistic is "
                                   "not clearly below it."),
        ({"a": (0.7, 0.8)}, 0.001, "On a logistic has the highest mean test AUC, 0.8000; ours has "
                                   "0.7000, clearly below."),
        ({"a": (0.8, 0.7), "b": (0.7, 0.8), "c": (0.9, 0.5)}, 0.001,
         "ours has the highest mean test AUC on 2 of 3 data sets; on 1 it is behind, at most by "
         "0.1000 (b)."),
        ({"a": (0.8, 0.7), "b": (0.79, 0.8)}, 0.05,
         "ours has the highest mean test AUC on 1 of 2 data sets, and on 1 more no method is "
         "clearly above it."),
    ],
)  # fmt: skip
@pytest.mark.thorough
def test_the_headline(means, noise, said, tmp_path):
    done = places(means, noise=noise)
    assert headline(done) == said
    text, _ = check(write_report(done, tmp_path))
    assert said in text
    assert "<strong>" in text


def test_methods_that_failed_are_not_compared():
    full = places({"a": (0.8, 0.7), "b": (0.6, 0.9)}, noise=0.001)

    def kept(*cells):
        found = [one for one in full.results if (one.dataset, one.method) in cells]
        return replace(full, results=found)

    ours, theirs = ("a", "ours"), ("a", "logistic")
    assert headline(kept(theirs)) == "ours has no result, and the others are not compared with it."
    assert headline(kept(ours)) == "ours has a mean test AUC of 0.8000 on a."
    assert headline(kept(ours, theirs, ("b", "ours"))) == (
        "On a ours has the highest mean test AUC, 0.8000; all others are clearly below."
    )
    apart = [one for one in full.results if (one.split < 3) == (one.method == "ours")]
    assert matrix(replace(full, results=apart))["a"]["logistic"].tied


def test_one_split_gives_no_verdict():
    done = places({"a": (0.8, 0.7), "b": (0.6, 0.9)}, n_splits=1)
    said = headline(done)
    assert "clearly" not in said
    assert "highest" not in said
    assert "on b ours 0.6000, logistic 0.9000. One split cannot tell" in said
    assert matrix(done)["a"]["logistic"].tied


def test_every_method_is_explained():
    from pairlearn.experiments.methods.table import explain, method_names

    lines = [explain(name) for name in method_names()]
    assert len(set(lines)) == len(lines)
    assert "import path" in explain("of my own")


def test_a_page_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    """A disk that is full while a report is written again leaves the report that was there."""
    table = Table("Numbers", "numbers", {"n": ""}, [["1"]])
    page = Page("Report", introduction="", parts=[table])
    write_page(page, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_page(page, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
