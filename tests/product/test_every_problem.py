# SPDX-License-Identifier: BSD-3-Clause
"""Every problem with every part: it runs and gives finite numbers, or is refused with a reason."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Box,
    Constant,
    DistanceHinge,
    DistanceLogistic,
    ElasticNet,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    InverseTime,
    LastIterate,
    LinearScore,
    Logistic,
    MahalanobisScore,
    NonNegative,
    PairwiseSGD,
    PreviousExample,
    PreviousOfQuery,
    Problem,
    RandomPair,
    SquaredHinge,
    Sweep,
    Tail,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.losses import Epanechnikov, GapWeighted, Welsch
from pairlearn.pairings import GivenPairs
from pairlearn.schedules import StronglyConvex
from pairlearn.solvers import (
    OPAUC,
    SOLAM,
    SPAUC,
    ExactSolver,
    LocalizedSGD,
)

N, D = 30, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = RNG.integers(0, 3, N).astype(float)

PROBLEMS = {
    "welsch": Problem(LinearScore(), Welsch()),
    "epanechnikov": Problem(LinearScore(), Epanechnikov()),
    "gap weighted": Problem(LinearScore(), GapWeighted(base=Logistic())),
    "full": Problem(MahalanobisScore(), DistanceHinge()),
    "diagonal": Problem(MahalanobisScore("diagonal"), DistanceLogistic()),
    "low rank": Problem(MahalanobisScore("low_rank", rank=2), DistanceHinge(bias=0.0)),
}
PAIRINGS = [
    PreviousExample(),
    RandomPair(),
    FifoBuffer(3),
    PreviousOfQuery(np.arange(N) % 5),
    GivenPairs(),
]
DOMAINS = [
    WholeSpace(),
    Ball(2.0),
    PsdCone(),
    PsdBall(2.0),
    PsdCone(projection="every", period=4),
    Box(-0.5, 0.15),
    ElasticNet(0.1, 0.1),
]
SCHEDULES = [Constant(0.01), InverseSqrt(0.01), InverseTime(0.1), StronglyConvex(0.01)]
RULES = [DelayedByStepSize(), DelayedLinear(), Uniform(), Tail(), LastIterate()]


def refusal(problem, pairing, domain, storage, online, rule):
    """Return a part of the message with which a combination is refused, or None."""
    metric = isinstance(problem.score, MahalanobisScore)
    matrices = isinstance(domain, PsdCone | PsdBall)
    if metric != matrices:
        return "use PsdCone" if metric else "is a set of matrices"
    if online and rule.needs_horizon:
        return "needs the number of steps beforehand"
    if online and not pairing.has_online_form:
        return "needs all examples at once"
    if metric and storage is not np.asarray:
        return "needs dense rows|one pair at a step"
    if metric and isinstance(pairing, FifoBuffer):
        return "one pair at a step"
    return None


def run(problem, pairing, schedule, domain, rule, storage, online):
    solver = PairwiseSGD(pairing, schedule, domain, rule)
    d = problem.score.n_parameters(D)
    start = np.linspace(0.1, 0.2, d)
    if problem is PROBLEMS["full"]:
        start = 0.1 * np.eye(D).ravel()
    if not online:
        return solver.solve(problem, storage(X), Y, n_steps=40, rng=0, w_start=start)
    stream = solver.start(problem, D, rng=0, w_start=start)
    qid = np.arange(N) % 5 if isinstance(pairing, PreviousOfQuery) else None
    for chunk in (slice(0, 14), slice(14, N)):
        part = None if qid is None else qid[chunk]
        stream.learn_many(storage(X[chunk]), Y[chunk], qid=part)
    return stream


@pytest.mark.parametrize("online", [False, True], ids=["stored", "stream"])
@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_runs_or_is_refused(name, storage, online):
    problem = PROBLEMS[name]
    n_run, in_turn = 0, itertools.cycle(SCHEDULES)
    for pairing, domain, rule in itertools.product(PAIRINGS, DOMAINS, RULES):
        reason = refusal(problem, pairing, domain, storage, online, rule)
        if reason is not None:  # whatever the schedule
            with pytest.raises(ValueError, match=reason):
                run(problem, pairing, next(in_turn), domain, rule, storage, online)
            continue
        for schedule in itertools.islice(in_turn, 2):
            parts = (problem, pairing, schedule, domain, rule, storage, online)
            result = run(*parts)
            assert np.isfinite(result.average).all(), parts
            assert len(result.average) == problem.score.n_parameters(D)
            if isinstance(domain, Box):
                assert result.w.max() <= 0.15, parts
            n_run += 1
    metric = isinstance(problem.score, MahalanobisScore)
    assert (n_run > 0) == (not metric or storage is np.asarray)


# ------------------------------------------------ every solver x score x loss x domain

SIGNS = np.where(Y > 0, 1.0, -1.0)


@dataclass(frozen=True)
class Doubled(LinearScore):
    """A score of one's own: it means twice the linear one."""

    def of_pairs(self, w, left, right):
        return 2.0 * super().of_pairs(w, left, right)


@dataclass(frozen=True)
class Named(LinearScore):
    """A subclass that changes nothing."""


class Orthant:
    """A domain of one's own, with all that the library's have."""

    radius = diameter = np.inf

    def project(self, w):
        return np.maximum(w, 0.0)


@dataclass(frozen=True)
class Shifted(Ball):
    """A ball about another point."""

    def project(self, w):
        return 1.0 + super().project(w - 1.0)


@dataclass(frozen=True)
class Halved(Ball):
    """A ball whose radius is not what it says."""

    size: float = 2.0

    @property
    def radius(self):
        return self.size / 2.0

    @radius.setter
    def radius(self, value):
        pass


@dataclass(frozen=True)
class Small(Ball):
    """A ball with a radius by default."""

    radius: float = 0.1


SCORES = [LinearScore(), Named(), Doubled(), MahalanobisScore(), MahalanobisScore("diagonal")]
LOSSES = [Hinge(), SquaredHinge(), GapWeighted(), Welsch(), Epanechnikov(), DistanceHinge(),
          DistanceLogistic(), GapWeighted(base=DistanceHinge())]  # fmt: skip
CONSTRAINTS = [WholeSpace(), Ball(0.1), Small(), Box(-0.01, 0.02), NonNegative(), ElasticNet(0.1),
               PsdCone(), PsdBall(0.1), Shifted(0.1), Halved(0.1), Orthant()]  # fmt: skip


def problem_solver(make):
    """Return a run of a solver that takes score, loss and domain."""
    return lambda score, loss, domain: make(domain).solve(
        Problem(score, loss), X, SIGNS, n_passes=2, rng=0
    )


SOLVERS = {
    "PairwiseSGD": problem_solver(lambda domain: PairwiseSGD(domain=domain)),
    "stream": lambda score, loss, domain: (
        PairwiseSGD(domain=domain).start(Problem(score, loss), D).learn_many(X, SIGNS)
    ),
    "Sweep": lambda score, loss, _: Sweep((0.1,), (0.1,)).solve(
        Problem(score, loss), X, SIGNS, n_steps=60, rng=0
    ),
    "LocalizedSGD": lambda score, loss, _: LocalizedSGD(0.1, 1.0).solve(
        Problem(score, loss), X, SIGNS, rng=0
    ),
    "ExactSolver": lambda _, loss, __: ExactSolver(loss).solve(X, SIGNS),
    "SPAUC": lambda _, __, domain: SPAUC(domain=domain).solve(X, SIGNS, rng=0),
    "SOLAM": lambda _, __, domain: SOLAM(domain=domain).solve(X, SIGNS, rng=0),
    "OPAUC": lambda _, __, domain: OPAUC(domain=domain).solve(X, SIGNS, rng=0),
}
#: What a solver is not told: there the plainest part stands for all.
NO_DOMAIN, NO_PROBLEM = ("Sweep", "LocalizedSGD", "ExactSolver"), ("SPAUC", "SOLAM", "OPAUC")


def sees_a_distance(loss):
    """Tell by its numbers whether a loss looks at which labels are equal, not at their order."""
    found = [loss.value(0.7, y, other, loss.parameter) for y, other in ((1.0, 2.0), (2.0, 1.0))]
    return (
        found[0] == found[1]
        and loss.value(3.0, 1.0, 1.0, loss.parameter) != loss.value(0.0, 1.0, 1.0, loss.parameter)
    ) or (isinstance(loss, GapWeighted) and sees_a_distance(loss.base))


def should_run(solver, score, loss, domain):
    """Say what runs from what the parts mean: a second formulation, without the table."""
    matrix = hasattr(score, "parameterization")
    if type(score) is Doubled or type(domain) in (Shifted, Halved, Orthant):
        return False
    if matrix != sees_a_distance(loss) or matrix != hasattr(domain, "projection"):
        return False
    if matrix or hasattr(domain, "proximal"):
        return solver in ("PairwiseSGD", "stream")
    if solver == "ExactSolver":
        # Convex and without a kink, of opposite labels.
        return loss.convex and loss.opposite_labels_only and loss == SquaredHinge()
    return True


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_honours_its_parts_or_refuses_them(solver):
    scores = SCORES[:1] if solver in (*NO_PROBLEM, "ExactSolver") else SCORES
    losses = LOSSES[:1] if solver in NO_PROBLEM else LOSSES
    domains = CONSTRAINTS[:1] if solver in NO_DOMAIN else CONSTRAINTS
    n_run = 0
    for score, loss, domain in itertools.product(scores, losses, domains):
        parts = (score, loss, domain)
        if not should_run(solver, *parts):
            with pytest.raises(ValueError, match=r"[uU]se |derive it|write a|; define "):
                SOLVERS[solver](*parts)
            continue
        n_run += 1
        w = np.ravel(SOLVERS[solver](*parts).w)
        assert np.isfinite(w).all(), parts
        assert len(w) == score.n_parameters(D), parts
        if not isinstance(score, MahalanobisScore) and domain.project is not None:
            assert np.allclose(domain.project(w), w, rtol=1e-12, atol=1e-15), parts
    assert n_run > 0


def test_parts_are_refused_before_the_examples_are_looked_at():
    class Untouchable:
        def __array__(self, *_, **__):
            raise AssertionError("the examples were read")

    metric = Problem(MahalanobisScore(), DistanceHinge())
    with pytest.raises(ValueError, match=r"LocalizedSGD does not run Maha.*MetricLearner"):
        LocalizedSGD(1.0).solve(metric, Untouchable(), Untouchable())
    with pytest.raises(ValueError, match="Sweep does not run MahalanobisScore"):
        Sweep((0.1,), (1.0,)).solve(metric, Untouchable(), Untouchable(), n_steps=3)
    linear = Problem(LinearScore(), Hinge())
    for domain, reason in (
        (Orthant(), "got .*Orthant.*whose project its kernel would not call.*CoordinatewiseDomain"),
        (Shifted(1.0), "Shifted changes project of Ball.*reference.pairwise_sgd"),
        (Halved(1.0), "Halved changes radius of Ball"),
        (PsdCone(), "is a set of matrices"),
    ):
        with pytest.raises(ValueError, match=reason):
            PairwiseSGD(domain=domain).solve(linear, Untouchable(), Untouchable(), n_steps=3)
        with pytest.raises(ValueError, match=reason):
            SPAUC(domain=domain).solve(Untouchable(), Untouchable())
    with pytest.raises(ValueError, match=r"SOLAM does not run the domain Box.*use PairwiseSGD"):
        SOLAM(domain=Box(0.0, 1.0)).solve(Untouchable(), Untouchable())
    with pytest.raises(ValueError, match=r"runs LinearScore\(\) or Maha.*got Doubled.*Transform"):
        PairwiseSGD().solve(Problem(Doubled(), Hinge()), Untouchable(), Untouchable(), n_steps=3)
    with pytest.raises(ValueError, match=r"Hinge.* is a loss of a margin.*use it with LinearScore"):
        PairwiseSGD(domain=PsdCone()).start(Problem(MahalanobisScore(), Hinge()), 3)
    with pytest.raises(ValueError, match=r"squared distance.*use it with MahalanobisScore"):
        PairwiseSGD().start(Problem(LinearScore(), DistanceHinge()), 3)
    with pytest.raises(TypeError, match=r"loss must be a PairLoss .an instance, not a class"):
        PairwiseSGD().start(Problem(LinearScore(), Hinge), 3)


def test_a_loss_says_what_it_sees():
    class Odd(Hinge):
        kind = "angle"

    with pytest.raises(ValueError, match=r"Odd.kind must be one of margin, .*got 'angle'"):
        PairwiseSGD().start(Problem(LinearScore(), Odd()), 3)
    for loss in LOSSES:
        assert (loss.kind == "distance") == sees_a_distance(loss)
        # Moving score and labels together changes nothing for a difference of errors.
        numbers = [loss.value(0.2 + c, 0.5 + c, 0.0, loss.parameter) for c in (0.0, 0.4)]
        assert (loss.kind == "difference") == bool(np.isclose(*numbers))
