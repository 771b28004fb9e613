# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of the bounds, described once.

The docstring of a function with `documented` describes only its special parameters. The decorator
adds the others from `GLOSSARY` at import. It hands NumPy's numbers on as Python's: a bound squares
a number of examples, which overflows in few bits.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

_F = TypeVar("_F", bound=Callable[..., Any])

#: The description of a parameter, by name, or by name and annotation where the type matters.
GLOSSARY = {
    "averaging": "Which average of the iterates is returned.",
    "buffer_size": "Number of previous examples that each example is paired with.",
    "constants": "The proved constants, or those that the paper prints.",
    "diameter": "D, the diameter of the domain.",
    "distance": r"A bound on the distance of w_0 from the w in the bound, at most the diameter D.",
    "failure_probability": "The probability p that the bound fails.",
    "gradient_change": (
        "Largest change c of a pair gradient, 2 G by default; see `auc_gradient_change`."
    ),
    "gradient_moment": "alpha_0, see the module.",
    "lipschitz": "G, the Lipschitz constant of the pair loss over the domain.",
    "n": "Number of examples.",
    "n: int | None": "Number of examples; None for a stream of fresh examples.",
    "n_passes": "T_k / n_k; the paper asks for T_k of the order of n_k.",
    "n_steps": "Number of steps, t or T in formulas.",
    "norm_bound": "A bound B on the norm of an example.",
    "pl_constant": r"mu, with 2 mu (F_S(w) - min F_S) <= \|grad F_S(w)\|^2; never above L.",
    "problem: FiniteProblem": "The problem, with a convex loss.",
    "problem: PrivateProblem": "Constants and privacy parameters; Algorithm 3 needs a smoothness.",
    "rng": "Randomness.",
    "self_pair_gap: float | None": (
        "A bound on f(w; z, z) - f(w'; z, z); G^2 / (2 alpha) by default, which always holds."
    ),
    "self_pair_gap": "A bound on f(w; z, z) - f(w'; z, z); zero for AUC and for metric learning.",
    "self_pair_lipschitz": "Lipschitz constant of f(w; z, z); zero for AUC and metric learning.",
    "smoothness": "L, the Lipschitz constant of the gradient of the pair loss.",
    "stage": "The stage.",
    "step_size": "The constant step size eta.",
    "step_size: StepSize": "The step sizes eta_1, ..., eta_t, or one for all steps.",
    "strong_convexity": "alpha, the strong convexity of the pair loss.",
    "supremum": "B, a bound on the loss.",
}

_TYPES = {
    "AverageRule": '{"step_size", "linear", "uniform", "last"}',
    "ConstantsChoice": '{"corrected", "paper"}',
    "StepSize": "float or array of shape (n_steps,)",
    "int | np.random.Generator | None": "int, Generator or None",
}


def documented(function: _F) -> _F:
    """Describe all parameters and the type of the result, and read NumPy's numbers as Python's.

    >>> @documented
    ... def rate(n: int, *, lipschitz: float = 1.0) -> float:
    ...     '''Return a rate.'''
    >>> rate.__doc__.splitlines()[4:6]
    ['n : int', '    Number of examples.']
    """
    if function.__doc__ is not None:  # python -OO
        function.__doc__ = _described(function, function.__doc__)

    @functools.wraps(function)
    def reading(*args: Any, **kwargs: Any) -> Any:
        given = {name: _as_python(value) for name, value in kwargs.items()}
        return function(*map(_as_python, args), **given)

    return cast(_F, reading)


def _as_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _described(function: Callable[..., Any], doc: str) -> str:
    """Return a docstring with the missing parameters and the type of the result."""
    text, *sections = re.split(r"\n\n(?=\w+\n---+\n)", inspect.cleandoc(doc))
    own: dict[str, str] = {}
    if sections and sections[0].startswith("Parameters\n"):
        for entry in re.split(r"\n(?=\S)", sections.pop(0))[2:]:
            own |= dict.fromkeys(entry.partition(" : ")[0].split(", "), entry)
    parameters = inspect.signature(function).parameters
    # A dict keeps the order, and keeps an entry for several names once.
    entries = dict.fromkeys(own.get(name) or _entry(p) for name, p in parameters.items())
    if not sections or not sections[0].startswith("Returns\n"):
        result = re.sub(
            r"tuple\[(\w+), \.\.\.\]", r"tuple of \1", function.__annotations__["return"]
        )
        sections.insert(0, f"Returns\n-------\n{result}")
    sections.insert(0, "\n".join(["Parameters\n----------", *entries]))
    return "\n\n".join([text, *sections]) + "\n"


def _entry(parameter: inspect.Parameter) -> str:
    name, kind, default = parameter.name, str(parameter.annotation), parameter.default
    meaning = GLOSSARY.get(f"{name}: {kind}") or GLOSSARY[name]
    kind = _TYPES.get(kind, kind.removesuffix(" | None"))
    if default is None:
        kind += ", optional"
    elif default is not parameter.empty:
        kind += f', default="{default}"' if isinstance(default, str) else f", default={default!r}"
    return f"{name} : {kind}\n{textwrap.indent(textwrap.fill(meaning, 92), '    ')}"
