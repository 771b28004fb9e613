# SPDX-License-Identifier: BSD-3-Clause
"""Results print as tables, and stand as tables in a notebook."""

from html.parser import HTMLParser

import numpy as np
import pytest

from pairlearn import AUCClassifier, Exact, bootstrap
from pairlearn.estimators.shared.evidence import Choice, FeatureChoice, JudgedFeatures, Tried
from pairlearn.estimators.stack.choice import JudgedModel, ModelChoice
from pairlearn.metrics import compare_auc, roc_auc_interval
from pairlearn.privacy import AuditResult, Certificate, Release
from pairlearn.shown import Shown
from pairlearn.solvers import ForgettingCertificate


class Cells(HTMLParser):
    """The texts of all cells, if every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.cells, self.rows = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def results():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    a, b = rng.normal(size=(2, 60)) + y
    yield roc_auc_interval(y, a)
    yield compare_auc(y, a, b)
    tried = Tried({"ridge": 0.1}, 0.81, 0.01, 5), Tried({"ridge": 1.0, "fisher": 0.5}, 0.8, 0.02, 5)
    judged = JudgedFeatures("linear", 0.8, 0.01, 0.1, 3), JudgedFeatures("hats", 0.83, 0.0, 0.2, 24)
    yield Choice(ridge=0.1, evidence=tried[0], tried=tried, features=FeatureChoice("hats", judged))
    yield FeatureChoice("hats", judged)
    yield ModelChoice("stack", (JudgedModel("linear", 0.77, 0.01), JudgedModel("stack", 0.8, 0)), 9)
    release = Release("<mean>", 3, 0.5, 2.0)
    facts = {"neighbours": "replace", "epsilon": 1.0, "delta": 1e-6, "n_examples": 100}
    yield Certificate(
        mechanism="example",
        **facts,
        n_features=2,
        releases=(release,),
        generator="test",
        private=True,
        mu=0.2,
        public={},
        accounting="Gaussian-DP",
    )
    yield AuditResult(1.0, 1e-3, 0.4, 0.5, 0.3, 1000, 0.95)
    yield ForgettingCertificate("a" * 64, "b" * 64, "c" * 64, 7, ("the threshold",))


@pytest.mark.parametrize("result", list(results()), ids=lambda result: type(result).__name__)
def test_a_notebook_shows_the_cells_of_the_table(result):
    assert isinstance(result, Shown)
    head, lines = result.shown_table()
    page = Cells(result._repr_html_())
    assert page.cells == [*head, *(cell for line in lines for cell in line)]
    assert set(page.rows) == {len(head)}
    assert lines
    # The repr is what a doctest or a log needs: the object with all of its fields.
    assert repr(result).startswith(type(result).__name__)
    text = str(result)
    # An interval is one line, which leaves out its standard error.
    assert all(cell in text for cell in lines[0][:3])


def test_a_choice_marks_what_was_taken():
    choice = next(result for result in results() if isinstance(result, Choice))
    text = str(choice)
    assert "ridge 0.1; features: hats has the best held-out AUC" in text
    assert [line.startswith("chosen") for line in text.splitlines()[2:]] == [True, False]
    assert str(Choice()).startswith("nothing was left to choose")


def test_a_fit_and_its_bootstrap_print_as_tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + rng.normal(size=120) > 0
    model = AUCClassifier(random_state=0).fit(X, y)
    assert "chosen" in str(model.choice_)
    assert model.choice_._repr_html_().startswith("<p>")
    found = bootstrap(AUCClassifier(solver=Exact(ridge=0.01)), X, y, n=20, random_state=0)
    assert str(found).startswith("AUC on new examples 0.")
    assert len(str(found).splitlines()) == 4


def test_a_table_that_is_not_written_is_an_error():
    class Bare(Shown):
        pass

    with pytest.raises(TypeError, match="shown_table"):
        Bare()
