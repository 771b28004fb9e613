"""Threads that teach one model take turns; nobody waits for ever, and locks are not copied."""

import copy
import os
import pickle
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from pairlearn import Hinge, LinearScore, PairwiseSGD, Problem
from pairlearn.pairings import Arrival, OnlineSource, Pairing, Plan
from pairlearn.solvers.turns import Turns, one_at_a_time

PROBLEM = Problem(LinearScore(), Hinge())
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
Y = np.where(X[:, 0] + RNG.normal(size=3000) > 0, 1.0, -1.0)


def in_threads(n_threads, work):
    """Run `work` in threads at once; raise what any of them raised."""
    failures, barrier = [], threading.Barrier(n_threads)

    def run():
        try:
            barrier.wait()
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_that_teach_one_stream_take_turns():
    # All chunks are alike, so that every order of them gives the same bits.
    stream, alone = (PairwiseSGD().start(PROBLEM, 4) for _ in range(2))
    looks = []

    def teach():
        for _ in range(10):
            stream.learn_many(X, Y)
            looks.append(np.isfinite(stream.average).all() and np.isfinite(stream.w).all())

    in_threads(4, teach)
    for _ in range(40):
        alone.learn_many(X, Y)
    assert stream.n_examples == alone.n_examples
    assert stream.n_steps == alone.n_steps
    assert np.array_equal(stream.average, alone.average)
    assert np.array_equal(stream.w, alone.w)
    assert all(looks)


def test_single_examples_from_several_threads_are_all_learned():
    stream = PairwiseSGD().start(PROBLEM, 4)

    def teach():
        for x, y in zip(X[:300], Y[:300], strict=True):
            stream.learn_one(x, y)

    in_threads(4, teach)
    assert (stream.n_examples, stream.n_steps) == (1200, 1199)
    assert np.isfinite(stream.average).all()


class _Echo(OnlineSource):
    """Teaches the stream that asks it."""

    def arrive(self, y):
        _ECHO[0].learn_many(X, Y)
        return Arrival(Plan(np.array([1]), np.array([0])), np.array([0]))


_ECHO = [None]


@dataclass(frozen=True)
class Echo(Pairing):
    def online(self, rng):
        return _Echo()


def test_a_model_that_teaches_itself_is_told_so_instead_of_waiting_for_ever():
    _ECHO[0] = stream = PairwiseSGD(Echo()).start(PROBLEM, 4)
    with pytest.raises(RuntimeError, match="in this very thread"):
        stream.learn_many(X, Y)
    assert stream.n_examples == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_of_a_learning_process_does_not_wait_for_ever():
    turns, held, done = Turns(), threading.Event(), threading.Event()

    def learn():
        with turns:
            held.set()
            done.wait()

    teacher = threading.Thread(target=learn)
    teacher.start()
    held.wait()
    child = os.fork()
    if child == 0:
        try:
            with turns:
                os._exit(1)
        except RuntimeError as error:
            os._exit(7 if "forked while another thread" in str(error) else 2)
    done.set()
    teacher.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_turns_of_its_own(twin):
    stream = PairwiseSGD().start(PROBLEM, 4).learn_many(X, Y)
    with stream._learning:
        other = twin(stream)
        other.learn_many(X, Y)
    assert np.array_equal(other.average, stream.learn_many(X, Y).average)


def test_a_failure_ends_the_turn():
    class Model:
        @one_at_a_time
        def learn(self, fails):
            """Learn."""
            if fails:
                raise ValueError("no")
            return 7

    model = Model()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            model.learn(True)
    assert model.learn(fails=False) == 7
    assert Model.learn.__doc__ == "Learn."
