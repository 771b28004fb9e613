# SPDX-License-Identifier: BSD-3-Clause
"""Bad input of AUCClassifier: the message says what is wrong and how to cure it."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pairlearn import SGD, AUCClassifier, DivergenceError, PairLoss, scalar


class NotANumber(PairLoss):
    """A loss with a bug."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        return 0.0

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        return np.nan


def sample(n=60, d=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


def quick(**parameters):
    solver = SGD(step_size=0.1, n_passes=1)
    return AUCClassifier(solver=solver, random_state=0).set_params(**parameters)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_numbers_that_are_none(bad, sparse):
    X, y = sample()
    X[5, 2] = bad
    given = scipy.sparse.csr_array(X) if sparse else X
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        quick().fit(given, y)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        quick().partial_fit(given, y, classes=[0, 1])
    good, _ = sample()
    model = quick().fit(good, y)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.predict(given)


def test_labels_that_are_none():
    X, y = sample()
    with pytest.raises(ValueError, match="y has no label in row 3"):
        quick().fit(X, np.where(np.arange(60) == 3, np.nan, y))
    with pytest.raises(ValueError, match="Input y contains infinity"):
        quick().fit(X, np.where(np.arange(60) == 3, np.inf, y))


def test_numbers_of_rows():
    X, y = sample()
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        quick().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match=r"Found array with 1 sample\(s\).* minimum of 2"):
        quick().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        quick().partial_fit(X[:0], y[:0], classes=[0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(X, y[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().partial_fit(X, y[:-1], classes=[0, 1])


def test_numbers_of_classes():
    X, y = sample()
    with pytest.raises(ValueError, match=r"y has one class: \[0\]\. Add examples of the other"):
        quick().fit(X, np.zeros(60, dtype=int))
    with pytest.raises(ValueError, match=r"y has 3 classes.*OneVsOneClassifier"):
        quick().fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="Unknown label type"):
        quick().fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"classes must hold two labels, got \[0"):
        quick().partial_fit(X, y, classes=[0])


def test_two_rows_are_enough():
    model = AUCClassifier(random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"])
    assert model.predict([[1.0, 0.0]]).tolist() == ["yes"]


def test_numbers_of_features():
    X, y = sample()
    model = quick().fit(X, y)
    for method in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(ValueError, match="X has 3 features, but AUCClassifier is expecting 4"):
            getattr(model, method)(X[:, :3])
    with pytest.raises(ValueError, match="X has 3 features, but AUCClassifier is expecting 4"):
        model.partial_fit(X[:, :3], y)
    stream = quick().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="X has 3 features, but AUCClassifier is expecting 4"):
        stream.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="warm_start: X has 3 features, the model has 4"):
        model.set_params(warm_start=True).fit(X[:, :3], y)


PARAMETERS = {
    "solver__step_size": [
        (0.0, "step_size must be a positive number, got 0.0; choose step_size > 0")
    ]
    + [(bad, "step_size must be a positive number") for bad in (-0.1, np.nan, np.inf)]
    + [("large", "step_size must be a number, got 'large'")],
    "solver__radius": [
        (bad, "radius must be a positive number.*choose radius") for bad in (0, -1, np.nan)
    ]
    + [("wide", "radius must be a number, got 'wide'")],
    "solver__n_passes": [(bad, "n_passes must be a positive number") for bad in (0, -1.0, np.nan)],
    "loss": [("hinges", "loss must be one of 'hinge'"), (None, "or a PairLoss, got None")],
    "solver__schedule": [
        ("slow", "schedule must be one of .*'inverse_sqrt'.* or a Schedule, got 'slow'")
    ],
    "solver__averaging": [("mean", "averaging must be one of .* got 'mean'")],
    "solver__pairing": [
        ("all", "pairing must be one of 'previous', .*'all_previous', .* or a Pairing, got 'all'")
    ],
    "solver__max_memory": [(0, "max_memory must be a positive number")],
    "decision": [
        ("best", "decision must be one of 'balanced_accuracy'.* or a DecisionRule, got 'best'"),
        (np.nan, "threshold must be a finite number, got nan"),
    ],
    "decision__calibration": [
        ("platt", 'calibration must be "sigmoid" or "isotonic", got \'platt\'')
    ],
    "objective": [("auk", "objective must be one of 'auc'.*; did you mean 'auc'")],
    "solver": [("newton", "solver must be one of 'auto', 'sgd', 'exact', 'moments'")],
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(name, value, message) for name, cases in PARAMETERS.items() for value, message in cases],
)
def test_parameters(name, value, message):
    X, y = sample()
    with pytest.raises((ValueError, TypeError), match=message):
        quick(**{name: value}).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=message):
        quick(**{name: value}).partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, np.nan])
def test_validation_fraction(bad):
    X, y = sample()
    with pytest.raises(ValueError, match="validation_fraction must lie strictly between 0 and 1"):
        AUCClassifier(validation_fraction=bad).fit(X, y)


def test_weights():
    X, y = sample()
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(60,\), got \(2,\)"):
        quick().fit(X, y, sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="finite numbers of at least 0"):
        quick().fit(X, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match=r"one of the classes \[0, 1\] is zero; both classes need"):
        quick().fit(X, y, sample_weight=y.astype(float))
    with pytest.raises(ValueError, match="'balanced' needs all labels at once; pass a dict"):
        quick(class_weight="balanced").partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_weights_of_classes(bad):
    X, y = sample()
    model = quick(class_weight={0: 1.0, 1: bad})
    with pytest.raises(ValueError, match="class_weight must hold finite numbers of at least 0"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="class_weight must hold finite numbers of at least 0"):
        model.partial_fit(X, y, classes=[0, 1])


def test_divergence():
    X, y = sample()
    model = quick(loss="square", solver=SGD(step_size=10.0, n_passes=100))
    with pytest.raises(DivergenceError, match=r"stopped being finite at step \d+.*scaling=None"):
        model.fit(X, y)
    with pytest.raises(DivergenceError, match=r"NotANumber returned NaN at step \d+"):
        quick(loss=NotANumber()).fit(X, y)


def test_pairings_that_do_not_serve():
    X, y = sample()
    with pytest.raises(ValueError, match="RandomPair needs all examples at once"):
        quick(solver__pairing="random").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="averaging needs the number of steps beforehand"):
        quick(solver__averaging="tail").partial_fit(X, y, classes=[0, 1])


def test_not_fitted():
    from sklearn.exceptions import NotFittedError

    X, _ = sample()
    for method in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(AUCClassifier(), method)(X)
    assert not hasattr(AUCClassifier(), "threshold_")
    assert not hasattr(AUCClassifier(), "intercept_")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda y: np.where(np.arange(60) < 5, 2, y), r"y holds .*2.*, neither of \[0, 1\]"),
        (lambda y: np.where(np.arange(60) < 5, np.nan, y), "y has no label in row 0"),
        (lambda y: y.astype(str), "y holds .*'[01]'.*, neither of"),
        (lambda y: [None, *y[1:].tolist()], "y has no label in row 0"),
    ],
)
def test_a_score_refuses_labels_that_the_model_does_not_know(labels, message):
    # As negatives they would give an AUC of another question.
    X, y = sample()
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y).score(X, labels(y))


def test_a_warm_start_goes_on_with_the_same_columns():
    """Its coefficients would otherwise start as those of other columns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    labels = (table["a"] > 0).astype(int)
    model = AUCClassifier(solver="sgd", warm_start=True, random_state=0).fit(table, labels)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="feature names should match"):
        model.fit(table[["c", "b", "a"]], labels)
    np.testing.assert_array_equal(model.coef_, before)
    assert model.fit(table, labels).feature_names_in_.tolist() == ["a", "b", "c"]
