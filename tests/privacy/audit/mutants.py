# SPDX-License-Identifier: BSD-3-Clause
"""Sabotage of the private code: each mutant breaks one thing, and the audit must refute it.

A mutant is one small change. `breaks` says what an attacker gains. `what` makes the entry that it
is audited through, after the sabotage. `words` are part of the finding of the exact check; without
them the mutant is found by the runs of an audit, in its noise or its frequencies.
"""

import inspect
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pairlearn.cli.private.commands as commands_module
import pairlearn.estimators.private.auc as auc_module
import pairlearn.estimators.private.base as mixin_module
import pairlearn.estimators.private.entries as entries_module
import pairlearn.estimators.private.ratings as ratings_module
import pairlearn.privacy.bounds as bounds_module
import pairlearn.privacy.evaluation as evaluation_module
import pairlearn.privacy.mechanisms.all_pairs as gradient_module
import pairlearn.privacy.mechanisms.centred as centred_module
import pairlearn.privacy.mechanisms.noisy_sgd as noisy_module
import pairlearn.privacy.mechanisms.sufficient_statistics as statistics_module
import pairlearn.privacy.mechanisms.tree as tree_module
import pairlearn.privacy.persons as persons_module
import pairlearn.privacy.release as release_module
from pairlearn import (
    PrivateAUCClassifier,
    PrivateAUCContinual,
    PrivateMetricLearner,
)
from pairlearn.cli.private.audited import entries
from pairlearn.estimators.private.entries import EvaluationEntry, FitEntry
from pairlearn.losses import DistanceLogistic
from pairlearn.privacy.accounting.certificate import digest_of
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.votes import VoteLimits

OPTIONS = {"epsilon": 1.0, "delta": 1e-3, "bounds": (-1.0, 1.0)}
SIZE = {"n": 16, "n_features": 2}


@dataclass(frozen=True)
class Mutant:
    name: str
    breaks: str
    what: Callable[[], Any]
    sabotage: Callable[[Any], None] = lambda patch: None
    words: str | None = None
    #: Whether it runs in every test run.
    always: bool = False


def entry(name, **options):
    return lambda: entries(epsilon=1.0, delta=1e-3, **SIZE, **options)[name]


def fit(estimator=PrivateAUCClassifier, **options):
    return lambda: FitEntry(estimator(**OPTIONS, **options), **SIZE)


def rewritten(owner, name, old, new):
    """Return a sabotage that changes the source of a function."""

    def sabotage(patch):
        function = inspect.unwrap(getattr(owner, name))
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(old) >= 1, (name, old)
        place: dict[str, Any] = {}
        code = compile(
            "from __future__ import annotations\n" + source.replace(old, new), "mutant", "exec"
        )
        exec(code, function.__globals__, place)
        patch.setattr(owner, name, place[name])

    return sabotage


def constant(owner, name, value):
    return lambda patch: patch.setattr(owner, name, value)


# ------------------------------------------------------------------------------------ the noise


def discrete(change):
    """Change the noise that a source draws: `change(honest, source, scale, size)`."""

    def sabotage(patch):
        honest = NoiseSource._discrete
        patch.setattr(
            NoiseSource, "_discrete", lambda self, scale, size: change(honest, self, scale, size)
        )

    return sabotage


def one_vector_a_source(honest, source, scale, size):
    if not hasattr(source, "kept"):
        source.kept = honest(source, scale, 1000)
    return source.kept[:size]


def one_vector_for_all(patch):
    kept = {}

    def change(honest, source, scale, size):
        if scale not in kept:
            kept[scale] = honest(source, scale, 1000)
        return kept[scale][:size]

    discrete(change)(patch)


def every_tenth_fit_again(patch):
    sources = {}

    def change(honest, source, scale, size):
        number = sources.setdefault(id(source), (source, len(sources)))[1]
        turn = number // 10
        if number % 10:
            return honest(source, scale, size)
        return honest(NoiseSource(seed=turn // 4), scale, size)

    discrete(change)(patch)


def two_equal_numbers(honest, source, scale, size):
    noise = honest(source, scale, size).copy()
    noise[1:2] = noise[:1]
    return noise


def mirrored(honest, source, scale, size):
    noise = honest(source, scale, size).copy()
    half = size // 2
    noise[half : 2 * half] = -noise[:half]
    return noise


def carried_on(honest, source, scale, size):
    fresh = honest(source, scale, 1000).astype(float)
    old = getattr(source, "old", fresh)
    source.old = fresh
    return np.rint(np.sqrt(0.8) * fresh + np.sqrt(0.2) * old).astype(np.int64)[:size]


def smoothed(honest, source, scale, size):
    noise = honest(source, scale, size + 1)
    return np.rint((noise[1:] + noise[:-1]) / np.sqrt(2)).astype(np.int64)


def quieter(share):
    return lambda honest, source, scale, size: np.rint(share * honest(source, scale, size)).astype(
        np.int64
    )


def cut(honest, source, scale, size):
    return np.clip(honest(source, scale, size), -2 * scale, 2 * scale)


def uniform(honest, source, scale, size):
    rng = np.random.default_rng(honest(source, scale, 1)[0] % 2**31)
    return np.rint(rng.uniform(-1, 1, size) * np.sqrt(3) * scale).astype(np.int64)


def fixed_seed(patch):
    honest = NoiseSource.made_from.__func__

    def seeded(cls, seed):
        source = honest(cls, 7)
        source.private = True
        return source

    patch.setattr(NoiseSource, "made_from", classmethod(seeded))


NOISE = [
    Mutant("one noise vector for all rounds", "the difference of two rounds has no noise",
           entry("fit"), discrete(one_vector_a_source), always=True),
    Mutant("one noise vector for all releases of a stream", "differences of releases have no noise",
           entry("continual"), discrete(one_vector_a_source)),
    Mutant("one noise vector for all levels of a search", "differences have no noise",
           entry("bounds"), discrete(one_vector_a_source)),
    Mutant("one noise vector cached across fits", "the second model has no noise to the first",
           entry("fit"), one_vector_for_all, always=True),
    Mutant("one noise vector cached across evaluations", "the second AUC shows the change",
           entry("evaluation"), one_vector_for_all),
    Mutant("the noise of a tenth of the fits is used again", "some models differ without noise",
           entry("metric"), every_tenth_fit_again),
    Mutant("two coordinates with the same noise", "their difference has no noise",
           entry("fit"), discrete(two_equal_numbers)),
    Mutant("half of a vector mirrored", "sums of coordinates have no noise",
           entry("curve"), discrete(mirrored)),
    Mutant("a fifth of the noise of a round is that of the round before", "rounds are correlated",
           entry("fit"), discrete(carried_on)),
    Mutant("noise that is smoothed along a vector", "alternating sums have less noise",
           entry("fit"), discrete(smoothed)),
    Mutant("noise x 0.9", "epsilon is larger than stated", entry("fit"), discrete(quieter(0.9))),
    Mutant("half the noise", "epsilon is twice as large", entry("metric"), discrete(quieter(0.5))),
    Mutant("noise cut at two deviations", "an output out of reach excludes a table",
           entry("fit"), discrete(cut)),
    Mutant("uniform noise", "an output out of reach excludes a table",
           entry("evaluation"), discrete(uniform)),
    Mutant("a fixed seed behind the scenes", "noise can be subtracted", entry("fit"), fixed_seed),
]  # fmt: skip


# ------------------------------------------------------------------------- sums, means and clipping


def multiplied(column, factor):
    def sabotage(patch):
        honest = statistics_module.record_statistics

        def broken(V, signs, *, weights):
            table = honest(V, signs, weights=weights)
            table[:, 2 * V.shape[1] + column] *= factor
            return table

        patch.setattr(statistics_module, "record_statistics", broken)

    return sabotage


def halved_sensitivity(patch):
    honest = statistics_module.Weights.sensitivity
    patch.setattr(
        statistics_module.Weights, "sensitivity", lambda self, _: honest(self, "add_remove")
    )


def without_clipping(patch):
    def broken(V):
        return V, np.minimum(np.sqrt(np.einsum("ij,ij->i", V, V)), 1.0)

    patch.setattr(statistics_module, "clip_to_ball", broken)


def from_data(**found):
    """Return a sabotage that takes public options of a release from the data."""

    def sabotage(patch):
        honest = centred_module.release_moments

        def broken(Z, signs, **options):
            options |= {name: value(Z) for name, value in found.items()}
            return honest(Z, signs, **options)

        patch.setattr(centred_module, "release_moments", broken)

    return sabotage


def raw_label_mean(patch):
    honest = centred_module.release_moments

    def broken(Z, signs, **options):
        moments = honest(Z, signs, **options)
        return replace(moments, label=float(signs.mean()))

    patch.setattr(centred_module, "release_moments", broken)


def rounds(*shares):
    def sabotage(patch):
        changed = tuple(
            (share, weight)
            for share, (_, weight) in zip(shares, centred_module._ROUNDS[5], strict=True)
        )
        patch.setitem(centred_module._ROUNDS, 5, changed)

    return sabotage


def unlisted(patch):
    """Forget the first release of each fit."""
    honest = mixin_module.certify

    def broken(fit, *parts, **facts):
        return honest(replace(fit, releases=fit.releases[1:]), *parts, **facts)

    patch.setattr(mixin_module, "certify", broken)


def labels_by_type(patch):
    def broken(values, public, n_rows=None):
        return np.where(np.asarray(values) == np.asarray(public[1]), 1, 0)

    patch.setattr(auc_module, "read_labels", broken)


def another_unit(patch):
    honest = mixin_module.certify
    patch.setattr(mixin_module, "certify", lambda *parts, unit, **facts: honest(*parts, **facts))


AWAY, DIFFER = "times its sensitivity", "differ on the neighbour"

STATISTICS = [
    Mutant("sums for means of persons", "a person with many rows counts as many",
           entry("groups"), rewritten(statistics_module, "_means_of_persons", " / counts[:, None]",
                                      ""), AWAY, always=True),
    Mutant("sums for means of persons, removed", "a person with many rows counts as many",
           entry("groups", neighbours="add_remove"),
           rewritten(statistics_module, "_means_of_persons", " / counts[:, None]", ""), AWAY),
    Mutant("a row of a person counted twice", "a person counts for more than one",
           entry("groups"), rewritten(statistics_module, "_means_of_persons", " / counts[:, None]",
                                      " / np.maximum(counts - 1, 1)[:, None]"), AWAY, always=True),
    Mutant("sums for means of persons in the search of bounds", "a person counts as many",
           entry("bounds"), rewritten(bounds_module, "quartile_counts", "sums / n_rows",
                                      "sums"), AWAY),
    Mutant("each row is a person", "a person with many rows counts as many",
           lambda: FitEntry(PrivateAUCClassifier(**OPTIONS), **SIZE, persons=True),
           constant(mixin_module, "read_persons", lambda groups, n: np.arange(n)), DIFFER),
    Mutant("the certificate names the wrong unit", "the promise is about rows, not persons",
           entry("groups"), another_unit, "the certificate is about"),
    Mutant("noise of add_remove for replace", "epsilon is larger than stated", entry("fit"),
           halved_sensitivity, AWAY, always=True),
    Mutant("no clipping", "one example moves the sums as far as it likes", entry("fit"),
           without_clipping, AWAY, always=True),
    Mutant("no clipping in a continual stream", "one example moves the sums as far as it likes",
           entry("continual"), without_clipping, AWAY),
    Mutant("second moments before clipping", "one example moves them as far as it likes",
           entry("fit"), rewritten(statistics_module, "record_statistics",
                                   "clipped[:, rows] * clipped[:, columns]",
                                   "V[:, rows] * V[:, columns]"), AWAY),
    Mutant("the radius of the data", "the scale of the release shows the largest example",
           entry("fit"), from_data(radius=lambda Z: 0.5 + float(np.abs(Z).max())), DIFFER),
    Mutant("a raw centre", "the mean of the data leaves without noise", entry("fit"),
           from_data(centre=lambda Z: Z.mean(axis=0)), DIFFER),
    Mutant("a raw label mean", "the number of positives leaves without noise", entry("fit"),
           raw_label_mean, DIFFER, always=True),
    Mutant("label x 10", "labels weigh more than is paid for", entry("fit"), multiplied(0, 10.0),
           AWAY),
    Mutant("length x 10", "lengths weigh more than is paid for", entry("fit"),
           multiplied(1, 10.0), AWAY),
    Mutant("labels compared as a column", "one label changes how all are read", entry("fit"),
           labels_by_type, AWAY),
    Mutant("a free centring round", "its epsilon is not counted", entry("fit"),
           rounds(0.24, 0.04, 0.05, 0.10, 0.78), "certificate claims"),
    Mutant("the whole budget in each round", "epsilon grows with the rounds", entry("fit"),
           rounds(1.0, 1.0, 1.0, 1.0, 1.0), "certificate claims"),
    Mutant("a round that is not listed", "its epsilon is not counted", entry("fit"),
           unlisted, "are listed", always=True),
    Mutant("a search of bounds that is not paid for", "its epsilon is not counted",
           entry("bounds"), unlisted,
           "are listed"),
    Mutant("half the sensitivity of the search of bounds", "epsilon is larger than stated",
           entry("bounds"), rewritten(bounds_module, "quartile_sensitivity",
                                      "math.sqrt((32.0 if", "0.5 * math.sqrt((32.0 if"), AWAY),
]  # fmt: skip


# ------------------------------------------------------------------- what leaves past the noise


class Leaking(PrivateAUCClassifier):
    """Changes the fit by the data, and the certificate so that it covers the change."""

    def fit(self, X, y):
        super().fit(X, y)
        self.leak(np.clip(np.nan_to_num(self._table(X)), -1, 1), self._signs(y, len(X)))
        self.certificate_ = replace(self.certificate_, digest=digest_of(self._pack()))
        return self

    def state(self, name, value):
        facts = {**self.certificate_.public, name: str(value)}
        self.certificate_ = replace(self.certificate_, public=facts)


class RawCoefficients(Leaking):
    def leak(self, rows, signs):
        self.coef_ = (signs @ rows)[None, :] / len(rows)


class CountInAnAttribute(Leaking):
    def leak(self, rows, signs):
        self.n_positive_ = int((signs > 0).sum())


class CountInTheCertificate(Leaking):
    def leak(self, rows, signs):
        self.state("positives", (signs > 0).sum())


class RawThreshold(Leaking):
    def leak(self, rows, signs):
        self.intercept_ = np.array([-np.mean(signs)])


class RawLogOdds(Leaking):
    def leak(self, rows, signs):
        self.log_odds_ = np.array([1.0, np.mean(signs)])


class RealisedSensitivity(Leaking):
    def leak(self, rows, signs):
        self.state("mean", f"{rows.mean():.12g}")


PAST = [
    Mutant("raw coefficients", "the model has no noise", fit(RawCoefficients), words=DIFFER),
    Mutant("a count in an attribute", "the number of positives leaves without noise",
           fit(CountInAnAttribute), words=DIFFER, always=True),
    Mutant("a count in the certificate", "the number of positives leaves without noise",
           fit(CountInTheCertificate), words=DIFFER),
    Mutant("a raw threshold", "the label mean leaves without noise", fit(RawThreshold),
           words=DIFFER),
    Mutant("raw log odds", "the label mean leaves without noise", fit(RawLogOdds), words=DIFFER),
    Mutant("a certificate of realised numbers", "it shows what it should hide",
           fit(RealisedSensitivity), words=DIFFER),
    Mutant("the program counts the positives", "the number of positives leaves without noise",
           entry("program"), rewritten(commands_module, "train_privately", 'typed = " ".join(',
                                       "typed = str(rows.y.count('1')) + \" \".join("), DIFFER),
    Mutant("the program drops rows with gaps", "the number of rows shows a gap", entry("program"),
           rewritten(commands_module, "read_rows", "    d = len(facts.features)\n",
                     "    cells = [row for row in cells if 'nan' not in row]\n"
                     "    d = len(facts.features)\n"), DIFFER),
    Mutant("an evaluation without noise", "the AUC itself leaves",
           lambda: EvaluationEntry(evaluation_module.private_roc_auc, n=16),
           rewritten(evaluation_module, "private_roc_auc", "auc_intervals(noisy,",
                     "auc_intervals(exact,"), DIFFER),
]  # fmt: skip


# ---------------------------------------------------------------- sensitivities of each mechanism


def with_release(old, new):
    """Return a sabotage of `release_vector`, for passes over pairs."""

    def sabotage(patch):
        rewritten(release_module, "release_vector", old, new)(patch)
        patch.setattr(noisy_module, "release_vector", release_module.release_vector)

    return sabotage


def slack(module, factor=0.5):
    return constant(module, "relative_slack", factor)


MECHANISMS = [
    Mutant("half the sensitivity of all_pairs", "epsilon is larger than stated",
           fit(mechanism="all_pairs"), slack(gradient_module), AWAY, always=True),
    Mutant("less noise on the grid than stated", "epsilon is larger than stated",
           entry("metric"), with_release("math.ceil(total /", "math.ceil(0.9 * total /"),
           "too small or off the grid"),
    Mutant("noise off the grid", "the last bits show the value", entry("metric"),
           with_release("np.rint(values / step).astype(np.int64)", "values / step"),
           "off the grid"),
    Mutant("noise once a level of the tree", "differences of releases have no noise",
           entry("continual"), rewritten(tree_module.TreeStatistics, "release",
                                         "grid.protected(total, noise)",
                                         "(total * grid.step + vars(state).setdefault(f'kept "
                                         "{level}', grid.protected(0 * total, noise)))"), DIFFER),
    Mutant("a node of the tree without noise", "the sum of an interval leaves",
           entry("continual"), rewritten(tree_module.TreeStatistics, "release",
                                         "grid.protected(total, noise)",
                                         "(total * grid.step if level == 1 else "
                                         "grid.protected(total, noise))"), "are listed"),
    Mutant("a tree that pays for one level", "epsilon grows with the levels", entry("continual"),
           rewritten(tree_module.TreeStatistics, "grid", " / math.sqrt(self.n_levels)", ""),
           "certificate claims"),
    Mutant("half the sensitivity of an evaluation", "epsilon is larger than stated",
           entry("evaluation"), slack(evaluation_module), AWAY),
    Mutant("half the sensitivity of a curve", "epsilon is larger than stated", entry("curve"),
           slack(evaluation_module), AWAY),
    Mutant("an evaluation with undivided wins", "one example wins n - 1 pairs",
           lambda: EvaluationEntry(evaluation_module.private_roc_auc, n=16),
           rewritten(evaluation_module, "private_roc_auc", " / _most_wins(n, unit)", ""),
           AWAY, always=True),
    Mutant("a curve of running counts", "one example is in many counts",
           lambda: EvaluationEntry(evaluation_module.private_roc_curve, n=16,
                                   thresholds=np.linspace(-0.5, 0.5, 3)),
           rewritten(evaluation_module, "private_roc_curve",
                     "query.release(exact,",
                     "query.release(np.cumsum(exact.reshape(2, -1), axis=1).ravel(),"),
           AWAY),
    Mutant("rows in place of persons in an evaluation", "a person with many rows counts as many",
           entry("evaluation-groups"), lambda patch: whole_rows(patch, evaluation_module), AWAY),
    Mutant("rows in place of persons in a curve", "a person with many rows counts as many",
           entry("curve-groups"), lambda patch: whole_rows(patch, evaluation_module), AWAY),
    Mutant("rows in place of persons in a selection", "a person with many rows counts as many",
           entry("selection-groups"), lambda patch: whole_rows(patch, evaluation_module),
           "times as likely"),
    Mutant("utilities of a selection doubled", "epsilon is twice as large",
           entry("selection"), lambda patch: selected(patch, "/ (2 * most)", "/ most"),
           "times as likely", always=True),
    Mutant("the best model is selected", "a choice without chance shows the best",
           entry("selection"), lambda patch: selected(patch, "source.accept(exponent.numerator, "
                                                      "exponent.denominator)",
                                                      "wins[model] == best"), "times as likely"),
]  # fmt: skip


def whole_rows(patch, module):
    """Let each row of a person have the weight of a person."""
    honest = module.shares

    def broken(groups, n_rows):
        weight, n_persons = honest(groups, n_rows)
        return np.full_like(weight, weight.max()), n_persons

    patch.setattr(module, "shares", broken)


def selected(patch, old, new):
    rewritten(evaluation_module, "select_privately", old, new)(patch)
    patch.setattr(entries_module, "select_privately", evaluation_module.select_privately)


# ---------------------------------------------------------------- gradients of pairs that meet


def noisy_sgd(**options):
    return fit(mechanism=NoisySGD(n_passes=3, n_batches=2, n_partners=3, **options))


def clipped_mean(patch):
    """Clip the mean of the gradients of a batch, and no pair."""
    honest = noisy_module.linear_pair_sum

    def broken(Z, labels, *, loss, clip):
        unclipped = honest(Z, labels, loss=loss, clip=np.inf)

        def pair_sum(rows, cuts, w):
            total, sizes = unclipped(rows, cuts, w), np.diff(cuts)
            most = clip * float((sizes * (sizes - 1)).sum()) / 2
            return total * min(1.0, most / max(float(np.linalg.norm(total)), 1e-300))

        return pair_sum

    patch.setattr(noisy_module, "linear_pair_sum", broken)


def meetings(old, new):
    return rewritten(noisy_module.Meetings, "descend", old, new)


CELLS = [
    Mutant("pair SGD forgets the noise of a batch", "the sum of a batch leaves", noisy_sgd(),
           meetings("w = move(w, noisy / count)",
                    "w = move(w, (noisy if cuts[0] else pair_sum(rows, cuts - cuts[0], w))"
                    " / count)"), DIFFER, always=True),
    Mutant("pair SGD counts one pair too few", "epsilon is larger than stated", noisy_sgd(),
           rewritten(noisy_module.Meetings, "touches", "- 1 for cuts", "- 2 for cuts"), AWAY,
           always=True),
    Mutant("pair SGD clips the mean and no pair", "one example moves the mean as far as it likes",
           noisy_sgd(), clipped_mean, AWAY, always=True),
    Mutant("pair SGD has one noise vector for all batches", "differences have no noise",
           noisy_sgd(), discrete(one_vector_a_source), always=True),
    Mutant("pair SGD spends the whole budget in each pass", "epsilon grows with the passes",
           noisy_sgd(), meetings(" / math.sqrt(self.n_passes)", ""), "certificate claims"),
    Mutant("pair SGD pays for one pass", "the others are not counted", noisy_sgd(),
           meetings("releases.append(", "releases = (lambda one: [one])("), "are listed"),
    Mutant("pair SGD pairs positives with negatives", "a label decides whom others meet",
           fit(mechanism=NoisySGD(n_partners=1)),
           rewritten(noisy_module, "linear_pair_sum", "total = np.zeros(len(w))",
                     "up = labels[rows] > 0\n"
                     "        turn = np.where(up, np.cumsum(up), np.cumsum(~up))\n"
                     "        rows = rows[np.lexsort([up, turn])]\n"
                     "        total = np.zeros(len(w))"), AWAY),
    Mutant("pair SGD takes the rows in their order", "one moved row changes every batch",
           fit(mechanism=NoisySGD(n_batches=8, n_partners=1)),
           meetings("noise.permutation(n)", "np.arange(n)"), AWAY),
    Mutant("pair SGD keeps its order when a row is gone", "one removed row changes every batch",
           fit(mechanism=NoisySGD(n_passes=3, n_batches=2, n_partners=3), neighbours="add_remove",
               n_examples=16), meetings("noise.permutation(n)", "np.arange(n)"), AWAY),
    Mutant("pair SGD counts the pairs that are active", "the number of positives leaves",
           noisy_sgd(), meetings("w = move(w, noisy / count)",
                                 "w = move(w, noisy / max(1.0, 10 * float(np.abs(pair_sum(rows, "
                                 "cuts - cuts[0], w)).sum())))"), DIFFER),
    Mutant("half the sensitivity of noisy_sgd", "epsilon is larger than stated", noisy_sgd(),
           slack(noisy_module), AWAY),
    Mutant("half the sensitivity of noisy_metric_sgd", "epsilon is larger than stated",
           fit(PrivateMetricLearner, mechanism=NoisySGD(loss=DistanceLogistic(), n_partners=3)),
           slack(noisy_module), AWAY),
]  # fmt: skip


# ------------------------------------------------------- narrowed bounds, and persons in streams

SHARED = "found / n_rows[cell // size]"


def every_row_of_a_person(patch):
    honest = persons_module.FirstRows.taken

    def taken(self, groups, n_rows):
        mask, counts = honest(self, groups, n_rows)
        return np.ones_like(mask), counts

    patch.setattr(persons_module.FirstRows, "taken", taken)


TOGETHER = "all releases together are"


def mean_for_missing(self, X):
    rows = np.asarray(X, dtype=np.float64)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        means = np.nan_to_num(np.nanmean(np.where(np.isfinite(rows), rows, np.nan), axis=0))
    rows = np.where(np.isnan(rows), means, rows)
    return np.clip(rows, self.lower, self.upper)


def nobody_is_a_person(patch):
    honest = mixin_module.read_persons

    def broken(groups, n):
        persons = honest(groups, n)
        return np.where(persons < 0, persons.max(initial=-1) + 1, persons)

    patch.setattr(mixin_module, "read_persons", broken)


UNITS = [
    Mutant("a gap is filled by the mean of the column", "one example moves all that have a gap",
           entry("fit"), constant(PublicSetting, "clipped", mean_for_missing), AWAY, always=True),
    Mutant("rows without an id are one person", "he or she is replaced when one row goes",
           entry("groups", neighbours="add_remove"), nobody_is_a_person, AWAY, always=True),
    Mutant("counts of persons summed in a look", "a person with many rows counts as many",
           entry("narrowing"), rewritten(bounds_module, "bin_counts", SHARED, "found"), AWAY,
           always=True),
    Mutant("counts of persons summed in a look, removed", "a person with many rows counts as many",
           entry("narrowing", neighbours="add_remove"),
           rewritten(bounds_module, "bin_counts", SHARED, "found"), AWAY),
    Mutant("looks that are not paid for", "their epsilon is not counted", entry("narrowing"),
           rewritten(mixin_module, "narrowed", "math.sqrt(1.0 - spent)", "1.0"),
           "certificate claims"),
    Mutant("a second look that is not paid for", "its epsilon is not counted", entry("narrowing"),
           rewritten(mixin_module, "narrowed", "spent += ", "spent = spent or "),
           "certificate claims"),
    Mutant("looks that are not listed", "their epsilon is not counted", entry("narrowing"),
           unlisted, "are listed"),
    Mutant("half the noise in looks", "epsilon is larger than stated", entry("narrowing"),
           rewritten(mixin_module, "narrowed", "sensitivity * relative_slack",
                     "0.5 * sensitivity"), AWAY),
    Mutant("bounds narrowed by counts without noise", "one person decides on the bounds",
           entry("narrowing"),
           rewritten(mixin_module, "narrowed", "counts.reshape(-1, _BINS) / n,",
                     "bin_counts(rows[:, features], before, after, persons)"
                     ".reshape(-1, _BINS) / n,"), "released on the neighbour"),
    Mutant("sums for means in the intercept of persons", "a person with many rows counts as many",
           entry("entropy-groups"),
           rewritten(noisy_module.NoisySGD, "_regression", "1.0 / np.bincount(persons)[persons]",
                     "np.ones(len(Z))"), AWAY, always=True),
    Mutant("rows beyond rows_per_person counted", "a person with many rows counts as many",
           entry("continual-groups"), every_row_of_a_person, AWAY, always=True),
    Mutant("rows_per_person not paid for", "epsilon grows with the rows of a person",
           entry("continual-groups"),
           constant(PrivateAUCContinual, "_setting", PrivateAUCClassifier._setting),
           "certificate claims"),
    Mutant("the stream forgets its persons", "a person counts anew in each piece",
           entry("continual-groups"),
           constant(persons_module.FirstRows, "remember", lambda self, counts: None), TOGETHER),
]  # fmt: skip


# --------------------------------------------------------------------------------------- votes


def meetings_without_pairs(patch):
    def broken(self):
        return np.sqrt((1.0 if self.removes else 2.0) * self.most)

    patch.setattr(VoteLimits, "meeting_sensitivity", property(broken))


def halved_property(name):
    def sabotage(patch):
        honest = getattr(VoteLimits, name).fget
        patch.setattr(VoteLimits, name, property(lambda self: 0.5 * honest(self)))

    return sabotage


VOTES = [
    Mutant("a fourth vote of a judge counts", "a judge with many votes counts as more",
           entry("ratings-groups"),
           rewritten(ratings_module, "counted_votes", "< limits.most", "<= limits.most"), AWAY),
    Mutant("meetings as if one vote on a pair counted", "all votes of a judge are on one pair",
           entry("ratings-groups"), meetings_without_pairs, AWAY),
    Mutant("every vote of a judge counted", "a judge with many votes counts as many",
           entry("ratings-groups"),
           rewritten(ratings_module, "counted_votes", "if persons is None:", "if True:"), AWAY,
           always=True),
    Mutant("no limit on the votes on a pair", "a judge can put all votes on one pair",
           entry("ratings-groups"),
           rewritten(ratings_module, "counted_votes", "< limits.per_pair", ">= 0"), AWAY),
    Mutant("half the sensitivity of leads", "epsilon is larger than stated",
           entry("ratings"), halved_property("lead_sensitivity"), AWAY),
    Mutant("half the sensitivity of meetings", "epsilon is larger than stated",
           entry("ratings"), halved_property("meeting_sensitivity"), AWAY),
    Mutant("the exact number of ties", "it counts the ties of everybody else",
           entry("ratings"),
           rewritten(ratings_module, "release_counts", "float(leads[k]) / limits.tie_weight",
                     "counts.ties"), "on the neighbour"),
]  # fmt: skip


MUTANTS = {
    mutant.name: mutant
    for mutant in [*NOISE, *STATISTICS, *PAST, *MECHANISMS, *CELLS, *UNITS, *VOTES]
}
