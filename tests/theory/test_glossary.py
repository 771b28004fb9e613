# SPDX-License-Identifier: BSD-3-Clause
"""Every public function of the theory describes all its parameters, once, in their order."""

import inspect

import pytest

from pairlearn import theory
from pairlearn.theory.glossary import GLOSSARY, documented

FUNCTIONS = [
    getattr(theory, name)
    for name in theory.__all__
    if inspect.isfunction(getattr(theory, name)) and name != "fitted_slope"
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_all_parameters_are_described(function):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    doc = docscrape.NumpyDocString(inspect.getdoc(function))
    described = [name for entry in doc["Parameters"] for name in entry.name.split(", ")]
    assert described == list(inspect.signature(function).parameters)
    assert all(entry.type and "".join(entry.desc).strip() for entry in doc["Parameters"])
    assert len(doc["Returns"]) == 1
    assert doc["Examples"] or function.__name__.startswith("plot_")


def test_every_entry_of_the_glossary_is_used():
    text = "\n".join(" ".join(inspect.getdoc(function).split()) for function in FUNCTIONS)
    assert [key for key, meaning in GLOSSARY.items() if meaning not in text] == []


def test_a_parameter_that_nobody_describes_is_refused():
    def bound(unheard_of: float) -> float:
        """Return a bound."""

    with pytest.raises(KeyError, match="unheard_of"):
        documented(bound)


def test_functions_without_docstrings_stay_as_they_are():
    def bound(n: int) -> float: ...

    assert documented(bound).__doc__ is None
