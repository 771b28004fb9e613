# SPDX-License-Identifier: BSD-3-Clause
"""AUCClassifier on the paper's data sets: against logistic regression, and untuned against tuned.

Nothing here looks at test data before the last line: tuning is cross-validation on the training
part. The splits are fixed by their seeds.
"""

import lzma

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split

from pairlearn import SGD, AUCClassifier, Hinge, LinearScore, Problem
from pairlearn.estimators.auc.ways.descent import opposite_scale
from pairlearn.folds import Keys
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import as_rows

pytestmark = pytest.mark.slow

#: Labels of the positive class; with many classes, the first half as in the paper.
DATA_SETS = {
    "diabetes_scale": None,
    "german.numer_scale": None,
    "ijcnn1": None,
    "letter.scale": range(1, 14),
    "usps": range(1, 6),
    "mnist": range(5),
}
N_PASSES = {"ijcnn1": 5, "letter.scale": 20, "usps": 20, "mnist": 3}


def load(folder, name, *, cap=20_000):
    with lzma.open(folder / f"{name}.libsvm.xz") as file:
        X, y = load_svmlight_file(file)
    positive = y > 0 if DATA_SETS[name] is None else np.isin(y, list(DATA_SETS[name]))
    if X.shape[0] > cap and name == "mnist":
        keep = np.random.default_rng(0).choice(X.shape[0], cap, replace=False)
        X, positive = X[keep], positive[keep]
    X = X.toarray()
    X /= np.abs(X).max()
    return X, np.where(positive, 1, -1)


def tuned(X, y, *, n_passes, seed):
    """Return AUCClassifier with step size and radius by 5-fold cross-validation on a wide grid."""
    rng = np.random.default_rng(seed)
    signs = y.astype(float)
    scale = opposite_scale(as_rows(X), signs, Keys.of(X, seed=seed))
    steps, radii = 10.0 ** np.arange(-3, 1.01, 0.5) / scale, np.array([1, 3, 10, 30, 100, np.inf])
    grid = [(step, radius / np.sqrt(scale)) for step in steps for radius in radii]
    sweep = Sweep(tuple(s for s, _ in grid), tuple(r for _, r in grid))
    total = np.zeros(len(grid))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    for train, held in folds.split(X, y):
        solution = sweep.solve(
            Problem(LinearScore(), Hinge()),
            X[train],
            signs[train],
            n_steps=n_passes * len(train),
            rng=rng,
        )
        scores = X[held] @ np.nan_to_num(solution.averages).T
        total += [roc_auc_score(y[held], column) for column in scores.T]
    step, radius = grid[int(np.argmax(total))]
    return AUCClassifier(
        solver=SGD(step_size=step, radius=radius, n_passes=n_passes), random_state=seed
    )


def test_ijcnn1_against_logistic_regression(data_folder):
    X, y = load(data_folder, "ijcnn1")
    gaps = []
    for seed in range(3):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.2, stratify=y, random_state=seed
        )
        models = {
            "logistic": LogisticRegression(max_iter=2000),
            "untuned": AUCClassifier(random_state=seed),
            "tuned": tuned(X_train, y_train, n_passes=N_PASSES["ijcnn1"], seed=seed),
        }
        auc = {
            name: roc_auc_score(y_test, model.fit(X_train, y_train).decision_function(X_test))
            for name, model in models.items()
        }
        gaps.append((auc["tuned"] - auc["logistic"], auc["untuned"] - auc["logistic"]))
    tuned_gap, untuned_gap = np.mean(gaps, axis=0)
    assert tuned_gap >= 0.004
    assert untuned_gap >= 0.004


# Pixels at the border of an image are almost constant, which the classifier remarks on.
@pytest.mark.filterwarnings("ignore:The standard deviations of the features:UserWarning")
@pytest.mark.parametrize("name", DATA_SETS)
def test_untuned_is_close_to_tuned(data_folder, name):
    X, y = load(data_folder, name)
    gaps = []
    for seed in range(2 if len(y) > 5000 else 8):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.2, stratify=y, random_state=seed
        )
        n_passes = N_PASSES.get(name, 100)
        pair = (
            tuned(X_train, y_train, n_passes=n_passes, seed=seed),
            AUCClassifier(random_state=seed),
        )
        auc = [
            roc_auc_score(y_test, model.fit(X_train, y_train).decision_function(X_test))
            for model in pair
        ]
        gaps.append(auc[0] - auc[1])
    assert np.mean(gaps) <= 0.003, gaps
