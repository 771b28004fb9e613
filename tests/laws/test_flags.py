# SPDX-License-Identifier: BSD-3-Clause
"""A parameter that is yes or no takes True and False alone: the text "no" would count as yes."""

import numpy as np
import pytest

import pairlearn as pl
from pairlearn.distributed import train_ranker
from pairlearn.features import Hats
from pairlearn.metrics import ConcordanceIndex, HandTill, PartialAUC
from pairlearn.privacy import NoiseSource, private_roc_auc
from pairlearn.solvers import MomentumSGD

X = np.random.default_rng(0).standard_normal((40, 2))
Y = (X[:, 0] > 0).astype(int)
VOTES = (["ann", "bob", "cid"], ["bob", "cid", "ann"], [1, 0, 1])

USES = {
    "home": lambda flag: pl.PairwiseRatings(home=flag).fit(*VOTES),
    "neutral": lambda flag: (
        pl.PairwiseRatings().fit(*VOTES).predict_proba("ann", "bob", neutral=flag)
    ),
    "weight_by_grade": lambda flag: pl.PairwiseRanker(weight_by_grade=flag).fit(X, Y),
    "weight_by_grade of parts": lambda flag: train_ranker(
        lambda statistic: statistic.partial_state(X, Y, qid=np.zeros(40, int)), weight_by_grade=flag
    ),
    "warm_start": lambda flag: pl.AUCClassifier(solver="sgd", warm_start=flag).fit(X, Y),
    "ipcw": ConcordanceIndex,
    "ipcw of a ranker": lambda flag: pl.SurvivalRanker(ipcw=flag).fit(
        X, [(True, t) for t in 1.0 + X[:, 0] ** 2]
    ),
    "standardised": lambda flag: PartialAUC(standardised=flag),
    "pairs": lambda flag: HandTill(pairs=flag),
    "nesterov": lambda flag: MomentumSGD(nesterov=flag),
    "cumulative": lambda flag: Hats(cumulative=flag),
    "keep_state": lambda flag: pl.Moments(keep_state=flag),
    "secure": lambda flag: NoiseSource(secure=flag),
    "secure of a model": lambda flag: pl.PrivateAUCClassifier(
        1.0, 1e-3, bounds=(-4, 4), secure=flag
    ).fit(X, Y),
    "secure of a metric": lambda flag: private_roc_auc(
        Y, X[:, 0], epsilon=1.0, delta=1e-3, secure=flag
    ),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("flag", ["no", 1, None, 0.0])
def test_refused(name, flag):
    with pytest.raises(ValueError, match=rf"{name.split()[0]} must be True or False, got"):
        USES[name](flag)


@pytest.mark.parametrize("name", USES)
@pytest.mark.filterwarnings("ignore")
def test_a_flag_of_numpy_is_one(name):
    USES[name](np.bool_(True))
    USES[name](False)
