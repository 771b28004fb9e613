# SPDX-License-Identifier: BSD-3-Clause
"""Every problem with every part: it runs and gives finite numbers, or is refused with a reason."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Constant,
    DelayedByStepSize,
    DelayedLinear,
    DistanceHinge,
    DistanceLogistic,
    Epanechnikov,
    FifoBuffer,
    GapWeighted,
    GivenPairs,
    InverseSqrt,
    InverseTime,
    LastIterate,
    LinearScore,
    Logistic,
    MahalanobisScore,
    PairwiseSGD,
    PreviousExample,
    PreviousOfQuery,
    Problem,
    PsdBall,
    PsdCone,
    RandomPair,
    StronglyConvex,
    Tail,
    Uniform,
    Welsch,
    WholeSpace,
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
DOMAINS = [WholeSpace(), Ball(2.0), PsdCone(), PsdBall(2.0), PsdCone(projection="every", period=4)]
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
    n_run = 0
    for pairing, domain, schedule, rule in itertools.product(PAIRINGS, DOMAINS, SCHEDULES, RULES):
        reason = refusal(problem, pairing, domain, storage, online, rule)
        parts = (problem, pairing, schedule, domain, rule, storage, online)
        if reason is None:
            result = run(*parts)
            assert np.isfinite(result.average).all(), parts
            assert len(result.average) == problem.score.n_parameters(D)
            n_run += 1
        else:
            with pytest.raises(ValueError, match=reason):
                run(*parts)
    metric = isinstance(problem.score, MahalanobisScore)
    assert (n_run > 0) == (not metric or storage is np.asarray)
