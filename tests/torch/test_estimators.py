# SPDX-License-Identifier: BSD-3-Clause
"""Both network estimators: parameters, files, weights, sparse rows, networks of one's own."""

import functools
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from scipy.sparse import csr_array, csr_matrix, random_array
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from pairlearn import DivergenceError, ModelFileError, load_model
from pairlearn.metrics import roc_auc
from pairlearn.models import ModelRecord, write_model
from pairlearn.torch import MLP, Adam, EmbeddingLearner, NeuralAUCClassifier
from pairlearn.torch.standardise import Standardiser

SMALL = {
    "network": MLP((8,)),
    "solver": Adam(learning_rate=0.01, max_epochs=3, n_networks=1),
    "random_state": 0,
    "device": "cpu",
}
MAKERS = {
    "classifier": lambda **more: NeuralAUCClassifier(**SMALL).set_params(**more),
    "embedder": lambda **more: EmbeddingLearner(2, **SMALL).set_params(**more),
}
BOTH = pytest.mark.parametrize("kind", MAKERS)


def answers(model, X):
    return model.transform(X) if isinstance(model, EmbeddingLearner) else model.predict_proba(X)


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.25, random_state=0)


def name_of(check):
    while isinstance(check, functools.partial):
        check = check.func
    return check.__name__


#: A repeated row changes how folds and batches are dealt; a weight multiplies the same pairs. Both
#: descend on the same risk along different random paths. And as for AUCClassifier, predict
#: maximises the balanced accuracy.
DIFFERENT = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_classifiers_train",
    "check_class_weight_classifiers",
}
SLOW = pytest.mark.slow
CHECKS = [
    pytest.param(kind, check, id=f"{kind}-{name_of(check)}", marks=[SLOW] * (kind == "embedder"))
    for kind, make in MAKERS.items()
    for _, check in estimator_checks_generator(make(solver__max_epochs=2))
    if name_of(check) not in DIFFERENT
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "check"), CHECKS)
def test_scikit_learn(kind, check):
    check(MAKERS[kind](solver__max_epochs=2))


def test_number_of_checks():
    assert len(CHECKS) >= 80


@BOTH
def test_parameters_reach_inside(kind):
    model = MAKERS[kind](network=MLP((8,), dropout=0.5), solver=Adam(max_epochs=3))
    found = model.get_params()
    assert (found["network__hidden"], found["solver__max_epochs"]) == ((8,), 3)
    copy = clone(model).set_params(network__dropout=0.0, solver__patience=2)
    assert (copy.network, copy.solver) == (MLP((8,)), Adam(max_epochs=3, patience=2))
    assert (model.network.dropout, model.solver.patience) == (0.5, None)
    named = type(model)().set_params(network__hidden=[4], solver__max_epochs=1)
    assert (named.network, named.solver) == (MLP((4,)), Adam(max_epochs=1))


def test_a_search_changes_fields(moons):
    model = NeuralAUCClassifier(solver=Adam(max_epochs=1, n_networks=1), random_state=0)
    grid = {"network__hidden": [(2,), (16,)], "solver__learning_rate": [1e-9, 0.05]}
    best = GridSearchCV(model, grid, cv=2).fit(*moons).best_estimator_
    assert best.solver.learning_rate == 0.05
    assert best.networks_[0][-1].in_features == best.network.hidden[0]


@BOTH
def test_a_file_brings_back_the_model(kind, moons, tmp_path):
    X, y = moons
    path = tmp_path / "m.safetensors"
    model = MAKERS[kind](network=MLP((8,), activation="relu")).fit(X, np.array(["a", "b"])[y])
    model.save(path)
    for back in (load_model(path), type(model).load(path), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(answers(back, X), answers(model, X))
        assert (back.network, back.solver) == (model.network, model.solver)
        assert (back.held_out_, back.n_examples_) == (model.held_out_, 200)
    # A network that is set after the fit was never trained.
    model.set_params(network=MLP((9, 9))).save(path)
    assert load_model(path).network == MLP((8,), activation="relu")
    assert np.array_equal(answers(load_model(path), X), answers(model, X))
    with pytest.raises(ModelFileError, match="leave out network="):
        type(model).load(path, network=torch.nn.Linear(2, 1))
    state = torch.random.get_rng_state()
    load_model(path)
    assert torch.equal(state, torch.random.get_rng_state())


@BOTH
@pytest.mark.parametrize("forged", ["hidden", "pieces", "weights", "count"])
def test_a_file_cannot_ask_for_absurd_layers(kind, forged, moons, tmp_path):
    record = MAKERS[kind]().fit(*moons).to_record()
    arrays, parameters = dict(record.arrays), dict(record.parameters)
    if forged == "hidden":
        parameters["network"] = {"part": "MLP", "hidden": [10**9, 10**9], "dropout": 0.0}
    elif forged == "pieces":
        arrays["pieces"] = np.array([1 << 20])
    elif forged == "weights":
        arrays["weights"] = arrays["weights"][:-1]
    else:
        arrays["pieces"] = np.zeros(0, dtype=np.int64)
    write_model(
        tmp_path / "m.safetensors",
        ModelRecord(record.estimator, arrays, parameters=parameters, classes=record.classes),
    )
    with pytest.raises(ModelFileError, match=r"networks of this shape|one network"):
        load_model(tmp_path / "m.safetensors")


class Bumps(torch.nn.Module):
    """Bumps at learned centres: not a perceptron, and with a buffer in its state."""

    def __init__(self, d):
        super().__init__()
        self.centres = torch.nn.Parameter(torch.randn(40, d))
        self.norm = torch.nn.BatchNorm1d(40)
        self.last = torch.nn.Linear(40, 1)

    def forward(self, x):
        return self.last(self.norm(torch.exp(-(torch.cdist(x, self.centres) ** 2))))


def test_any_module(moons, tmp_path):
    X, y = moons
    path = tmp_path / "m.safetensors"
    torch.manual_seed(0)
    for network in (Bumps, Bumps(2), torch.nn.Linear(2, 1).half()):
        model = MAKERS["classifier"](solver__max_epochs=8, network=network).fit(X, y)
        model.save(path)
        with pytest.raises(ModelFileError, match=r"load\(path, network="):
            load_model(path)
        back = NeuralAUCClassifier.load(path, network=network)
        assert np.array_equal(back.decision_function(X), model.decision_function(X))
    with pytest.raises(ModelFileError, match="pass the network that it was trained with"):
        NeuralAUCClassifier.load(path, network=torch.nn.Linear(7, 1))
    learned = MAKERS["classifier"](solver__max_epochs=8, network=Bumps).fit(X, y)
    assert isinstance(learned.networks_[0], Bumps)
    assert learned.score(X, y) > 0.93


class _Tuple(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows), rows


class _Single(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows.float())


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (torch.nn.Linear(2, 2), "has 2 outputs for each row, and needs 1"),
        (torch.nn.Linear(3, 1), "cannot take rows of 2 features"),
        (_Single(2, 1), "in double precision"),
        (_Tuple(2, 1), "as many rows as it was given, 2, got tuple"),
        (torch.nn.Linear(2, 1).requires_grad_(False), "no parameters to learn"),
        (lambda d: d, "must return a module"),
        (3, r"network must be .* got 3"),
        ("mpl", "did you mean 'mlp'"),
    ],
)
def test_a_network_is_tried_before_it_learns(network, message, moons):
    for make in (NeuralAUCClassifier, functools.partial(EmbeddingLearner, 1)):
        with pytest.raises((ValueError, TypeError), match=message):
            make(network=network, solver=Adam(max_epochs=1)).fit(*moons)


def test_a_module_is_copied_and_may_answer_without_columns(moons):
    X, y = moons
    own = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0, 1))
    before = own[0].weight.detach().clone()
    solver = Adam(max_epochs=1, n_networks=2)
    models = [
        NeuralAUCClassifier(network=network, solver=solver, random_state=0).fit(X, y)
        for network in (own, lambda d: own)
    ]
    assert np.array_equal(*(model.decision_function(X) for model in models))
    assert torch.equal(own[0].weight, before)


class Fragile(torch.nn.Module):
    """A line that breaks where the first feature is far out."""

    def __init__(self, d, n_outputs):
        super().__init__()
        self.last = torch.nn.Linear(d, n_outputs)

    def forward(self, x):
        return self.last(x) * torch.where((x[:, :1] > 3.0), torch.nan, 1.0)


@BOTH
def test_a_fit_that_fails_leaves_the_model(kind, moons):
    X, y = moons
    width = {"classifier": 1, "embedder": 2}[kind]
    model = MAKERS[kind](network=lambda d: Fragile(d, width), solver__batch_size=20).fit(X, y)
    before = answers(model, X)
    far = X.copy()
    far[:10, 0] = 1e9
    with pytest.raises(DivergenceError, match="NaN or infinity at step"):
        model.fit(far, y)
    assert np.array_equal(answers(model, X), before)


@BOTH
def test_a_seed_decides_and_leaves_other_generators_alone(kind, moons):
    X, y = moons
    state = torch.random.get_rng_state()
    first, same, other = (
        answers(MAKERS[kind](network__dropout=0.1, random_state=seed).fit(X, y), X)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, same)
    assert not np.allclose(first, other)
    assert torch.equal(state, torch.random.get_rng_state())


@BOTH
def test_equal_weights_are_none_and_zero_is_absent(kind, moons):
    X, y = moons
    make = MAKERS[kind]
    plain = answers(make().fit(X, y), X)
    assert np.array_equal(answers(make().fit(X, y, sample_weight=np.full(200, 4.0)), X), plain)
    there = np.arange(200) % 3 != 0
    same = make().fit(X, y, sample_weight=2.0 * there)
    assert np.array_equal(answers(same, X), answers(make().fit(X[there], y[there]), X))
    assert same.n_examples_ == there.sum()
    uneven = make().fit(X, y, sample_weight=np.where(there, 3.0, 0.5))
    assert not np.allclose(answers(uneven, X), plain)
    with pytest.raises(ValueError, match="zero"):
        make().fit(X, y, sample_weight=np.zeros(200))
    with pytest.raises(ValueError, match="at least 0"):
        make().fit(X, y, sample_weight=np.full(200, -1.0))


def test_what_weighs_more_is_learned():
    """Two parts of the plane contradict each other; the heavier one is right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    odd = np.arange(400) % 2 == 1
    y = ((X[:, 0] > 0) ^ odd).astype(int)
    for heavy, sign in ((odd, -1.0), (~odd, 1.0)):
        weight = np.where(heavy, 1.0, 0.05)
        model = MAKERS["classifier"](solver__max_epochs=10).fit(X, y, sample_weight=weight)
        assert roc_auc(X[:, 0] > 0, sign * model.decision_function(X)) > 0.9
        # The held-out AUC counts pairs by their weight; unweighted it would be near one half.
        assert model.held_out_ > 0.85
        assert MAKERS["embedder"](solver__max_epochs=10).fit(X, y, weight).held_out_ > 0.8


@BOTH
def test_dense_and_sparse_rows_make_one_model(kind, rng):
    X = rng.normal(size=(160, 6)) * (rng.uniform(size=(160, 6)) < 0.4)
    y = (X.sum(axis=1) > 0).astype(int)
    dense = MAKERS[kind]().fit(X, y)
    for make in (csr_array, csr_matrix):
        sparse = MAKERS[kind]().fit(make(X), y)
        np.testing.assert_allclose(
            answers(sparse, make(X)), answers(dense, X), rtol=1e-3, atol=1e-4
        )
    np.testing.assert_allclose(answers(dense, csr_array(X)), answers(dense, X), atol=1e-12)


@BOTH
def test_a_wide_table_is_never_dense(kind, rng):
    n, d = 1000, 50_000
    X = random_array((n, d), density=2e-4, rng=rng, format="csr")
    tracemalloc.start()
    try:
        make = MAKERS[kind](network=MLP((4,)), solver__max_epochs=1, solver__batch_size=128)
        answers(make.fit(X, np.arange(n) % 2), X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # In single precision all rows are 200 MB; a batch has 26, in double precision 51.
    assert peak < 0.7 * 4 * n * d


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_scales_are_those_of_numpy_and_weights_repeat_rows(make, rng):
    X = rng.normal(size=(30, 4)) * (rng.uniform(size=(30, 4)) < 0.5)
    X[:, 3] = 2.5
    weight = rng.integers(1, 4, size=30)
    units = Standardiser.of(make(X), weight.astype(float))
    repeated = np.repeat(X, weight, axis=0)
    np.testing.assert_allclose(units.centre, repeated.mean(axis=0), atol=1e-12)
    deviation = repeated[:, :3].std(axis=0)
    np.testing.assert_allclose(
        units.factor[:3], 1.0 / np.maximum(deviation, 0.1 * np.ptp(X[:, :3], axis=0))
    )
    assert units.factor[3] == 0.0
    np.testing.assert_allclose(
        units.transform(make(X)), (X - units.centre) * units.factor, atol=1e-12
    )
    with pytest.raises(ValueError, match="squares of column 1 overflow"):
        Standardiser.of(make(np.array([[0.0, 1e200], [1.0, -1e200]])), np.empty(0))


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "hinge"}, {"loss": "logistic", "pairing": "previous"}],
)
def test_embeddings_tell_classes_apart(options, tmp_path):
    X, y = make_moons(300, noise=0.2, random_state=0)
    X = np.column_stack([X, 3 * np.random.default_rng(0).normal(size=(300, 2))])
    learner = EmbeddingLearner(
        3, **SMALL | {"network": MLP((16,), activation="relu")}, **options
    ).set_params(solver__max_epochs=6)
    learner.fit(X[:200], y[:200])
    Z = learner.transform(X)
    assert Z.shape == (300, 3)
    assert list(learner.get_feature_names_out()) == [f"embeddinglearner{k}" for k in range(3)]
    before = KNeighborsClassifier(5).fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert KNeighborsClassifier(5).fit(Z[:200], y[:200]).score(Z[200:], y[200:]) > before
    pairs = np.stack([X[200:250], X[250:300]], axis=1)
    np.testing.assert_allclose(
        learner.pair_distance(pairs), np.linalg.norm(Z[200:250] - Z[250:300], axis=1)
    )
    assert roc_auc(y[200:250] == y[250:300], learner.pair_score(pairs)) > 0.7


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_what_an_embedder_refuses(moons):
    X, y = moons[0][:40], moons[1][:40]
    for options, message in [
        ({"loss": "triplet"}, 'loss must be "contrastive"'),
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"solver__n_networks": 2}, "EmbeddingLearner trains one network, got n_networks=2"),
        ({"validation_fraction": "half"}, "validation_fraction must be a number"),
    ]:
        with pytest.raises(ValueError, match=message):
            MAKERS["embedder"](**options).fit(X, y)
    with pytest.raises(ValueError, match="y has one class"):
        MAKERS["embedder"]().fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="40 labels for as many examples"):
        MAKERS["embedder"]().fit(X, np.arange(40))


def test_verbose(moons, capsys):
    for kind in MAKERS:
        MAKERS[kind](solver__max_epochs=2, verbose=1).fit(*moons)
        shown = capsys.readouterr().err
        assert "1 network on cpu" in shown
        assert "held-out score" in shown


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(moons):
    with pytest.raises(ValueError, match='"cuda" needs a CUDA device, this machine has none'):
        NeuralAUCClassifier(device="cuda").fit(*moons)
    for odd in ("gpu", "meta"):
        with pytest.raises(ValueError, match="device must be"):
            NeuralAUCClassifier(device=odd).fit(*moons)
    assert MAKERS["classifier"](device="auto").fit(*moons).device_ == "cpu"


def test_training_does_not_load_the_compiler():
    # It takes as long to load as PyTorch does.
    program = (
        "import sys; import numpy as np; from pairlearn.torch import Adam, NeuralAUCClassifier; "
        "X = np.arange(20.0)[:, None]; solver = Adam(max_epochs=1, n_networks=1); "
        "NeuralAUCClassifier(solver=solver, device='cpu').fit(X, X[:, 0] > 9.5); "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
