# SPDX-License-Identifier: BSD-3-Clause
"""Check a pairing before training: valid rows, and the same law however draws are cut."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.pairings.plans import Pairing, Plan, SlotPlan
from pairlearn.pairings.queries import GroupedSource
from pairlearn.pairings.sound import check_keep, check_plan
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_generator, check_labels

#: A step: the row of an example and the rows that it meets.
Step = tuple[int, tuple[int, ...]]

#: Number of paths to draw, each in one go and in pieces.
_N_PATHS = 300
#: Lengths of the pieces, in steps.
_PIECES = [3, 1, 1, 1]
#: Allowed difference of a mean between the two ways, in standard deviations. With 48 means, it
#: refuses one sound pairing in a million.
_FAR = 6.0


@dataclass(frozen=True)
class PairingCheck:
    """The findings of `check_pairing` for a pairing that passed."""

    #: Steps of the longest draw.
    n_steps: int
    #: Steps of that draw at which an example met itself.
    n_repeats: int
    #: The most examples that a step met.
    most_partners: int
    #: Whether stored examples can be paired only with known labels.
    needs_labels: bool
    #: Whether draws in pieces give the same pairs as one long draw, not only the same law.
    same_in_pieces: bool
    #: The most examples that a stream remembered; None without an online form.
    n_remembered: int | None


def check_pairing(
    pairing: Pairing,
    y: ArrayLike | None = None,
    *,
    qid: ArrayLike | None = None,
    smallest_chunk: int = 1,
    seed: int = 0,
) -> PairingCheck:
    """Check a pairing by drawing from it, in one go and in pieces.

    Offline, plans must have the requested length and name existing rows by int32 or int64. The same
    seed must give the same pairs. The law of a step must not depend on how the draws are cut: over
    300 paths, the means of eight facts about each of the first six steps (who, whom, how many,
    again, of the same label, ...) must agree with those of paths drawn in pieces. A sound pairing
    fails with a probability of one in a million.

    On a stream, if the pairing has an online form, the steps must be the same in one chunk, one by
    one and in ragged chunks. So an example meets only earlier examples that were remembered,
    whatever comes later. A copy of the source must continue as the source does.

    Parameters
    ----------
    pairing : Pairing
        The pairing.
    y : array-like of shape (n,), optional
        Labels to pair; 20 of two classes by default.
    qid : array-like of shape (n,), optional
        The query of each example, for pairs within queries.
    smallest_chunk : int, default=1
        The smallest chunk of a stream: 2 for examples that come as pairs.
    seed : int, default=0
        Seed of the draws.

    Returns
    -------
    PairingCheck
        The findings.

    Raises
    ------
    ValueError
        If the pairing fails; the message names the step.

    Examples
    --------
    >>> from pairlearn import PreviousExample
    >>> from pairlearn.pairings import check_pairing
    >>> check_pairing(PreviousExample()).n_remembered
    1
    """
    if not isinstance(pairing, Pairing):
        raise TypeError(
            f"check_pairing needs a Pairing (an instance, not a class), got {pairing!r}."
        )
    signs = np.where(np.random.default_rng(7).random(20) < 0.4, 1.0, -1.0)
    labels = signs if y is None else check_labels(y, np.size(np.asarray(y)))
    if len(labels) < 2:
        raise ValueError(f"y must hold at least two examples to make a pair, got {len(labels)}.")
    if qid is not None and np.shape(qid) != labels.shape:
        raise ValueError(
            f"qid must hold one query for each of {len(labels)} examples, got {np.shape(qid)}."
        )
    check_generator(seed)
    offline = _check_offline(pairing, labels, seed)
    remembered = None
    if pairing.has_online_form:
        size = check_count("smallest_chunk", smallest_chunk)
        # A whole number of chunks, more than the ragged ones hold.
        repeats = size * max(3, -(-60 // len(labels)))
        names = None if qid is None else np.tile(np.asarray(qid), repeats)
        remembered = _check_online(pairing, np.tile(labels, repeats), names, size, seed)
    return PairingCheck(*offline, remembered)


# ------------------------------------------------------------------------------------- offline


def _check_offline(pairing: Pairing, y: Vector, seed: int) -> tuple[int, int, int, bool, bool]:
    """Return the first five fields of `PairingCheck`; refuse plans that break a rule."""
    n, name, before = len(y), type(pairing).__name__, y.copy()

    def path(cuts: Iterable[int], *entropy: int) -> list[Step]:
        source = pairing.offline(n, np.random.default_rng([seed, *entropy]), y)
        steps: list[Step] = []
        for count in cuts:
            steps += _steps(pairing, source.draw(count), n, count)
        return steps

    long = [1, 7, 1000]
    steps = path(long)
    if steps != path(long):
        raise ValueError(
            f"{name} draws different pairs from the same seed; use rng as the only source of "
            "randomness."
        )
    whole, pieces = (
        np.array([_facts(path(cuts, k), y) for k in range(_N_PATHS)])
        for cuts in ([sum(_PIECES)], _PIECES)
    )
    if not np.array_equal(y, before):
        raise ValueError(f"{name}.offline changes the labels it is given; work on a copy.")
    apart = np.abs(whole.mean(axis=0) - pieces.mean(axis=0))
    error = np.sqrt((whole.var(axis=0) + pieces.var(axis=0)) / _N_PATHS)
    if (apart > _FAR * error + 1e-12).any():
        t, fact = np.unravel_index(int(np.argmax(apart - _FAR * error)), apart.shape)
        one, other = whole.mean(axis=0)[t, fact], pieces.mean(axis=0)[t, fact]
        raise ValueError(
            f"{name} changes its law when drawn in pieces: over {_N_PATHS} paths, {_FACTS[fact]} "
            f"at step {t + 1} is {one:.4g} on average in one draw and {other:.4g} in draws of "
            f"{_PIECES} steps; let the source remember what the next draw depends on."
        )
    met = [len(partners) for _, partners in steps]
    return (
        long[-1],
        sum(partners == (row,) for row, partners in steps[-long[-1] :]),
        max(met),
        _needs_labels(pairing, n, seed),
        bool(np.array_equal(whole, pieces)),
    )


def _needs_labels(pairing: Pairing, n: int, seed: int) -> bool:
    try:
        pairing.offline(n, np.random.default_rng(seed)).draw(1)
    except Exception:  # any error counts, since there is none with labels
        return True
    return False


_FACTS = (
    "the row of the example",
    "the mean row that it meets",
    "the number of examples that it meets",
    "how often it meets itself",
    "how often it meets the example of the step before",
    "how often it is the example of the step before",
    "how often it meets whom the step before met",
    "the share of other labels that it meets",
)


def _facts(steps: list[Step], y: Vector) -> Vector:
    """Return the numbers named by `_FACTS` for each step."""
    facts, labels = np.zeros((len(steps), len(_FACTS))), y.tolist()
    last: Step = (-1, ())
    for t, (row, partners) in enumerate(steps):
        rows = [q for q in partners if q >= 0]
        facts[t] = (
            row,
            sum(partners) / max(len(partners), 1),
            len(partners),
            row in partners,
            last[0] in rows,
            row == last[0],
            bool(rows) and partners == last[1],
            sum(labels[q] != labels[row] for q in rows) / max(len(rows), 1),
        )
        last = row, partners
    return facts


# -------------------------------------------------------------------------------------- online


def _check_online(
    pairing: Pairing, y: Vector, qid: NDArray[Any] | None, smallest: int, seed: int
) -> int:
    """Return the most examples remembered; refuse steps that depend on the chunks."""
    m, name = len(y), type(pairing).__name__
    ragged = [smallest * size for size in (1, 5, 2, 1, 9)]
    cuts = {
        "in one chunk": [m],
        f"in chunks of {smallest}": [smallest] * (m // smallest),
        "in ragged chunks": [*ragged, m - sum(ragged)],
    }
    found = {way: _stream(pairing, y, qid, sizes, seed) for way, sizes in cuts.items()}
    (first, (expected, _)), *others = found.items()
    for way, (steps, _) in others:
        if steps != expected:
            both = enumerate(zip(expected, steps, strict=False))
            t = next((t for t, (a, b) in both if a != b), min(len(expected), len(steps)))
            raise ValueError(
                f"{name} pairs a stream by its chunks: step {t + 1} of {m} examples is "
                f"{_described(expected, t)} {first} and {_described(steps, t)} {way}; let an "
                "example meet earlier ones only, and keep every row that later ones may meet."
            )
    return max(n_remembered for _, n_remembered in found.values())


def _described(steps: list[Step], t: int) -> str:
    if t >= len(steps):
        return "missing"
    row, partners = steps[t]
    return f"(example {row} with {', '.join(map(str, partners)) or 'no example'})"


def _stream(
    pairing: Pairing, y: Vector, qid: NDArray[Any] | None, sizes: list[int], seed: int
) -> tuple[list[Step], int]:
    """Return the steps in the row numbers of the stream, and the number of remembered examples."""
    name, source = type(pairing).__name__, pairing.online(np.random.default_rng(seed))
    known, steps, most, begin = np.empty(0, dtype=np.int64), [], 0, 0
    for size in sizes:
        end = begin + size
        twin = copy.deepcopy(source)
        arrivals = [
            one.arrive_grouped(y[begin:end], None if qid is None else qid[begin:end])
            if isinstance(one, GroupedSource)
            else one.arrive(y[begin:end].copy())
            for one in (source, twin)
        ]
        known = np.concatenate([known, np.arange(begin, end)])
        both = [_steps(pairing, arrival.plan, len(known), None) for arrival in arrivals]
        keep = [np.asarray(arrival.keep) for arrival in arrivals]
        if both[0] != both[1] or not np.array_equal(keep[0], keep[1]):
            raise ValueError(
                f"A copy of the source of {name} does not go on as the source does; keep its "
                "state, and its generator, in attributes of the source."
            )
        check_keep(name, keep[0], len(known))
        steps += [
            (int(known[row]), tuple(int(known[q]) if q >= 0 else q for q in partners))
            for row, partners in both[0]
        ]
        known, begin = known[keep[0]], end
        most = max(most, len(known))
    return steps, most


# --------------------------------------------------------------------------------------- plans


def _steps(pairing: Pairing, plan: Plan | SlotPlan, n: int, count: int | None) -> list[Step]:
    """Return the steps of a plan over n rows; refuse a plan that a kernel cannot run."""
    name = type(pairing).__name__
    check_plan(name, plan, n, count)
    if isinstance(plan, Plan):
        repeats = int(np.count_nonzero(plan.left == plan.right))
        if plan.n_repeats != repeats:
            raise ValueError(
                f"{name} says that {plan.n_repeats} examples meet themselves, but {repeats} do; "
                "leave out distinct=True."
            )
        return [(row, (q,)) for row, q in zip(plan.left.tolist(), plan.right.tolist(), strict=True)]
    if pairing.one_pair_a_step:
        raise ValueError(f"{name} gives a SlotPlan; set one_pair_a_step = False.")
    offsets, right = plan.offsets.tolist(), plan.right.tolist()
    return [
        (row, tuple(right[offsets[t] : offsets[t + 1]])) for t, row in enumerate(plan.left.tolist())
    ]
