# SPDX-License-Identifier: BSD-3-Clause
"""The table of scores, losses and domains that each solver supports, checked before a run.

A kernel never calls methods of a score or a domain: the score is built in, and a domain is passed
as a radius or an address. A kernel would ignore a part outside the table, so it is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from pairlearn.averaging import Averaging, DelayedPastBuffer
from pairlearn.comparisons import OppositeLabels
from pairlearn.domains import Ball, CoordinatewiseDomain, PsdBall, PsdCone, PsdSet, WholeSpace
from pairlearn.losses import PairLoss
from pairlearn.pairings import Pairing
from pairlearn.scalars import Scalar
from pairlearn.scores import LinearScore, MahalanobisScore


class Run(NamedTuple):
    """A supported combination: a score, kinds of loss and domains."""

    score: type
    kinds: tuple[str, ...]
    domains: tuple[type, ...]


_LINEAR = Run(LinearScore, ("margin", "difference"), (WholeSpace, Ball))
_AUC = _LINEAR._replace(kinds=("margin",))

#: The combinations of each solver; streams (`PairwiseSGD.start`) support those of `PairwiseSGD`.
#: Solvers without a loss parameter minimise the square loss or the hinge of margins.
TABLE: dict[str, tuple[Run, ...]] = {
    "PairwiseSGD": (
        _LINEAR._replace(domains=(WholeSpace, Ball, CoordinatewiseDomain)),
        Run(MahalanobisScore, ("distance",), (PsdCone, PsdBall)),
    ),
    "Sweep": (_LINEAR,),
    "LocalizedSGD": (_LINEAR._replace(domains=(Ball,)),),
    "SPAUC": (_AUC,),
    "SOLAM": (_AUC,),
    "OPAUC": (_AUC,),
    "ExactSolver": (_AUC._replace(domains=(WholeSpace,)),),
}

#: The solvers that take any comparison; the others compare labels by their order.
COMPARES = frozenset({"PairwiseSGD", "Sweep"})

#: The methods that a kernel has built in; a subclass that changes one is another part.
_BUILT_IN = {
    LinearScore: ("of_pairs", "n_parameters"),
    MahalanobisScore: ("of_pairs", "n_parameters", "matrix", "parameterization", "rank"),
    WholeSpace: ("project", "radius"),
    Ball: ("project", "radius"),
    PsdCone: ("project", "radius", "projection", "period"),
    PsdBall: ("project", "radius", "projection", "period"),
    CoordinatewiseDomain: ("project", "step", "radius"),
}

_SEEN = {
    "margin": "of a margin s = <w, x - x'>",
    "difference": "of the difference of two errors",
    "distance": "of a squared distance (x - x')' W (x - x')",
}


def check_parts(
    solver: str,
    *,
    score: Any = None,
    loss: Any = None,
    domain: Any = None,
    comparison: Any = None,
) -> None:
    """Refuse parts that a solver (its name in `TABLE`) would ignore, before anything is allocated.

    By default the score is linear, the domain is the whole space, the loss is the solver's own,
    and labels are compared by their order.
    """
    runs = TABLE[solver]
    score_type = LinearScore if score is None else type(score)
    run = next((run for run in runs if not _changes(score_type, run.score)), None)
    if run is None:
        _refuse_score(solver, score)
    if domain is not None and all(_changes(type(domain), known) for known in run.domains):
        _refuse_domain(solver, run, domain)
    if isinstance(domain, CoordinatewiseDomain) and not isinstance(
        getattr(domain, "proximal", None), Scalar
    ):
        raise TypeError(
            f"{type(domain).__name__}.proximal must be a function decorated with @scalar, of "
            "(value, step_size, first, second)."
        )
    if loss is not None and (not isinstance(loss, PairLoss) or loss.kind not in run.kinds):
        _refuse_loss(solver, run, loss)
    by_labels = comparison is None or type(comparison) is OppositeLabels
    if not by_labels and solver not in COMPARES:
        raise ValueError(
            f"{solver} compares labels by their order and not by {comparison!r}; use "
            f"{' or '.join(sorted(COMPARES))}."
        )


def averaging_for(averaging: Averaging, pairing: Pairing) -> Averaging:
    """Return the averaging rule of a run; one past the buffer takes its size from the pairing."""
    if not isinstance(averaging, DelayedPastBuffer):
        return averaging
    reach, name = pairing.reach, type(pairing).__name__
    if reach is None:
        raise ValueError(
            f"{averaging!r} needs a pairing that forgets: with {name} an example can stay for "
            "ever, and no iterate after it is independent of it. Use FifoBuffer(s), or the "
            "default averaging. A pairing of your own says by `reach` how long it remembers."
        )
    if averaging.buffer_size is None:
        return DelayedPastBuffer(reach)
    if averaging.buffer_size < reach:
        raise ValueError(
            f"{averaging!r} is too short for {pairing!r}, whose pairs reach {reach} examples back; "
            f"use DelayedPastBuffer({reach}), or leave the size out."
        )
    return averaging


def _changes(given: type, known: type) -> tuple[str, ...]:
    """Return the built-in methods that a class changes; none if the kernel stands for both."""
    if given is known:
        return ()
    if not issubclass(given, known):
        return ("everything",)
    return tuple(name for name in _BUILT_IN[known] if _method(given, name) != _method(known, name))


def _method(owner: type, name: str) -> Any:
    """Return the attribute of a class, or None for a mere default of a field."""
    value = getattr(owner, name, None)
    return value if callable(value) or hasattr(value, "__get__") else None


def _refuse_score(solver: str, score: Any) -> NoReturn:
    if isinstance(score, MahalanobisScore) and not _changes(type(score), MahalanobisScore):
        raise ValueError(
            f"{solver} does not run {score!r}; use PairwiseSGD(domain=PsdCone()) or MetricLearner, "
            "which do."
        )
    names = " or ".join(f"{run.score.__name__}()" for run in TABLE[solver])
    raise ValueError(
        f"{solver} runs {names}, got {score!r}: its kernel would not call the methods of another "
        "score. Transform the rows so that the score is linear in w, and use LinearScore()."
    )


def _refuse_domain(solver: str, run: Run, domain: Any) -> NoReturn:
    """Raise the error that fits the domain: wrong score, wrong solver, or a changed method."""
    if run.score is MahalanobisScore and not isinstance(domain, PsdSet):
        raise ValueError(
            f"A Mahalanobis score needs a positive semi-definite matrix, got the domain "
            f"{domain!r}; use PsdCone() or PsdBall(radius)."
        )
    if run.score is LinearScore and isinstance(domain, PsdSet):
        raise ValueError(
            f"{type(domain).__name__} is a set of matrices; use WholeSpace() or Ball(radius) with "
            "the linear score."
        )
    names = ", ".join(known.__name__ for known in run.domains)
    if isinstance(domain, CoordinatewiseDomain) and not _changes(
        type(domain), CoordinatewiseDomain
    ):
        raise ValueError(
            f"{solver} does not run the domain {domain!r}, only {names}; use PairwiseSGD, which "
            "runs coordinatewise domains."
        )
    for known in (*run.domains, CoordinatewiseDomain):
        if isinstance(domain, known):
            changed = " and ".join(_changes(type(domain), known))
            raise ValueError(
                f"{type(domain).__name__} changes {changed} of {known.__name__}, which the kernel "
                f"of {solver} would not call; write a CoordinatewiseDomain with a proximal of its "
                "own, or run pairlearn.reference.pairwise_sgd, which takes any projection."
            )
    raise ValueError(
        f"{solver} runs the domains {names}, got {domain!r}, whose project its kernel would not "
        "call. If it acts on each coordinate by itself, derive it from CoordinatewiseDomain and "
        "use PairwiseSGD; else run pairlearn.reference.pairwise_sgd, which takes any projection."
    )


def _refuse_loss(solver: str, run: Run, loss: Any) -> NoReturn:
    """Raise the error that fits the loss: not a loss, an unknown kind, or the wrong kind."""
    if not isinstance(loss, PairLoss):
        raise TypeError(f"loss must be a PairLoss (an instance, not a class), got {loss!r}.")
    if loss.kind not in _SEEN:
        raise ValueError(
            f"{type(loss).__name__}.kind must be one of {', '.join(_SEEN)}, got {loss.kind!r}."
        )
    needed = " or ".join(_SEEN[kind] for kind in run.kinds)
    cure = {
        "margin": "LinearScore()",
        "difference": "LinearScore() and PairwiseSGD",
        "distance": "MahalanobisScore() and PairwiseSGD(domain=PsdCone())",
    }[loss.kind]
    raise ValueError(
        f"{loss!r} is a loss {_SEEN[loss.kind]}, but {solver} with {run.score.__name__} needs one "
        f"{needed}; use it with {cure}. A loss of your own says what it sees by its kind, "
        f"for example kind = {run.kinds[0]!r}."
    )
