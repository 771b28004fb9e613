# SPDX-License-Identifier: BSD-3-Clause
"""What a person sees of long work: on a terminal, in a file, in a notebook."""

import io

import pytest

from pairlearn import progress
from pairlearn.progress import Progress


def test_a_file_gets_one_line_if_asked_for():
    file = io.StringIO()
    with Progress(10, label="training", unit="steps", file=file, asked_for=True) as bar:
        bar.update(4)
        bar.update(10, note="risk 0.5")
    text = file.getvalue()
    assert text.startswith("training  100 %  10/10 steps, ")
    assert "risk 0.5" in text
    assert text.count("\n") == 1
    assert not {"\r", "\x1b"} & set(text)


def test_a_notebook_rewrites_one_line(monkeypatch):
    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    file = io.StringIO()
    with Progress(10, unit="steps", file=file, asked_for=True) as bar:
        bar.update(4, note="a long note that a shorter line has to hide")
        bar.update(10)
    states = file.getvalue().removesuffix("\n").split("\r")
    assert states[0] == ""
    assert [state.split("%")[0].strip() for state in states[1:]] == ["40", "100", "100"]
    assert len(states[2]) >= len(states[1])
    assert states[2].split() == states[3].split()[:-2] + states[2].split()[-2:]


NOTEBOOK = """\
from sklearn.datasets import make_classification
from pairlearn import SGD, AUCClassifier
X, y = make_classification(n_samples=300, random_state=0)
AUCClassifier(solver=SGD(step_size=0.1, n_passes=20), random_state=0, verbose=1).fit(X, y)
None
"""


@pytest.mark.thorough
def test_verbose_in_a_notebook_without_widgets():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    # As on a machine without them, whatever is installed here; a warning would ask for them.
    first = "import sys, warnings; sys.modules['ipywidgets'] = None; warnings.simplefilter('error')"
    last = "warnings.resetwarnings()"
    cells = [nbformat.v4.new_code_cell(code) for code in (first, NOTEBOOK, last)]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=300, coalesce_streams=True).execute()
    shown = book.cells[1].outputs
    assert {(output["output_type"], output["name"]) for output in shown} == {("stream", "stderr")}
    text = "".join(output["text"] for output in shown)
    assert "100 %" in text
    assert "pair risk" in text
