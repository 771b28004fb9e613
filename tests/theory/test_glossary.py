# SPDX-License-Identifier: BSD-3-Clause
"""Every public function of the theory describes all its parameters, once, in their order."""

import inspect

import numpy as np
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


def test_numbers_of_few_bits_do_not_overflow():
    """A bound squares the number of examples: 100 in eight bits had a negative stability."""
    small = dict(lipschitz=2.0, smoothness=1.0, step_size=0.1)
    found = theory.stability_smooth(np.int8(100), np.int8(100), **small)
    assert found == theory.stability_smooth(100, 100, **small)
    assert theory.advise(np.int8(100), lipschitz=1.0, diameter=1.0).n_steps == 10_000
    assert theory.stage_sizes(np.int64(20)) == theory.stage_sizes(20)
    stage = theory.LocalizedStage(np.int8(100), np.int8(100), np.float16(0.5))
    assert stage == theory.LocalizedStage(100, 100, 0.5)
    assert type(theory.localized_distance(stage, lipschitz=np.float32(1.0))) is float


def test_noise_has_all_digits_that_privacy_needs():
    given = dict(epsilon=np.float16(0.5), delta=np.float16(1e-3))
    exact = {name: float(value) for name, value in given.items()}
    scale = theory.gaussian_noise_scale(np.float16(0.5), **given)
    assert scale == theory.gaussian_noise_scale(0.5, **exact)
    constants = dict(lipschitz=1.0, diameter=1.0, smoothness=1.0)
    problem = theory.PrivateProblem(np.int16(300), np.int8(5), **constants, **given)
    same = theory.PrivateProblem(300, 5, **constants, **exact)
    assert theory.private_schedule(problem) == theory.private_schedule(same)
