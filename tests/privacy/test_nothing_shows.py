# SPDX-License-Identifier: BSD-3-Clause
"""Nothing of a record shows, except through the noise.

Every private entry point runs on neighbouring data sets: one cell, row, label or id is of an
awkward kind. Everything that can be observed, except the released numbers, must be the same: the
error (its type, its text and what it was raised from), the warnings, what is printed, what is
logged, the attributes of the result with their types and shapes, the certificate, the entries of
the ledger, and the work that a clock could tell, counted as the calls of the noise source with
their shapes and scales. Time itself is not compared.

The sabotages at the end show that the comparison notices a leak of each of these kinds.
"""

import contextlib
import datetime
import io
import logging
import math
import warnings
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import (
    PrivateAUCClassifier,
    PrivateAUCContinual,
    PrivateEntropyRegressor,
    PrivateMetricLearner,
    PrivateRatings,
)
from pairlearn.estimators.private import auc
from pairlearn.privacy import records
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.bounds import PrivateBounds
from pairlearn.privacy.evaluation import private_roc_auc, private_roc_curve, select_privately
from pairlearn.privacy.mechanisms.by_name import MECHANISMS
from pairlearn.privacy.noise import NoiseSource

N, PLACE = 12, 5

# ------------------------------------------------------------------------------ what is observed

#: Numbers that are released; only their types and shapes are compared.
RELEASED = {
    "coef_", "intercept_", "log_odds_", "components_", "auc", "low", "high", "sample_low",
    "sample_high", "fpr", "tpr", "fpr_low", "fpr_high", "tpr_low", "tpr_high", "scores_", "tie_",
}  # fmt: skip
#: Secret states of a stream, which nobody but the owner of the data sees.
SECRET = {"_stream"}


class Watch(logging.Handler):
    """Watches one call: all that shows of it stands in `seen`."""

    def __init__(self):
        super().__init__(level=0)
        self.seen = []

    def emit(self, record):
        # The first call of a kernel compiles it, where no cache holds it yet.
        if record.name.startswith("numba."):
            return
        self.seen.append(("log", record.name, record.levelname, record.getMessage()))

    def note_call(self, name, *sizes):
        self.seen.append(("noise", name, *sizes))


def describe(value, name=""):
    """Return what shows of a value; of released numbers only their type and shape."""
    if name in RELEASED:
        return type(value).__name__, getattr(value, "dtype", None), np.shape(value)
    if isinstance(value, Certificate):
        shown = value.to_dict() | {"digest": None}
        # The scale of a later round follows from what the rounds before it released.
        for release in shown["releases"]:
            release["noise_scale"] /= release.pop("sensitivity")
            release["noise_scale"] = round(release["noise_scale"], 9)
        return shown
    if isinstance(value, PrivacyLedger):
        return list(value.entries)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if is_dataclass(value):
        return {one.name: describe(getattr(value, one.name), one.name) for one in fields(value)}
    if hasattr(value, "get_params"):
        return {k: describe(v, k) for k, v in vars(value).items() if k not in SECRET}
    return repr(value)


def watched(call):
    """Return all that shows of a call, in order, and of its result or its error."""
    watch, out, err = Watch(), io.StringIO(), io.StringIO()
    root, level = logging.getLogger(), logging.getLogger().level
    with contextlib.ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("protect_integers", "draw_indices", "permutation"):
            patch.setattr(NoiseSource, name, noted(getattr(NoiseSource, name), watch))
        root.addHandler(watch)
        root.setLevel(0)
        try:
            watch.seen.append(("result", describe(call(), "")))
        except Exception as error:
            while error is not None:
                watch.seen.append(("error", type(error), str(error)))
                error = error.__cause__ or error.__context__
        finally:
            root.removeHandler(watch)
            root.setLevel(level)
    watch.seen += [("warning", one.category, str(one.message)) for one in caught]
    return [*watch.seen, ("printed", out.getvalue(), err.getvalue())]


def noted(method, watch):
    def call(self, first, second=None):
        size = first.shape if isinstance(first, np.ndarray) else first
        watch.note_call(method.__name__, size, second)
        return method(self, first) if second is None else method(self, first, second)

    return call


def differences(entry, base, neighbours, *, ends_in="result"):
    """Return the names of the neighbours of which something shows; the call must end as told."""
    ours = watched(partial(entry, *base))
    assert ends_in in [kind for kind, *_ in ours], ours
    return [name for name, other in neighbours.items() if watched(partial(entry, *other)) != ours]


# -------------------------------------------------------------------------------- awkward cells


class Loud:
    """A cell that prints, warns, logs and raises, whatever it is asked."""

    def _tell(self, *args):
        print("secret")
        warnings.warn("secret", UserWarning, stacklevel=2)
        logging.getLogger("secret").warning("secret")
        raise KeyError("secret")

    __float__ = __int__ = __index__ = __complex__ = __bool__ = __len__ = __iter__ = _tell
    __eq__ = __lt__ = __hash__ = __str__ = __repr__ = __format__ = __getitem__ = _tell
    __array__ = __getattr__ = _tell


class LoudFloat(float):
    """A number with methods of its own."""

    __float__ = __int__ = __eq__ = __hash__ = __str__ = __repr__ = Loud._tell


class LoudText(str):
    """A text with methods of its own."""

    __slots__ = ()
    __eq__ = __hash__ = __str__ = __repr__ = __iter__ = __len__ = strip = Loud._tell


class LoudList(list):
    """A list with methods of its own."""

    __iter__ = __len__ = __getitem__ = __repr__ = Loud._tell


CELLS = {
    "number": 3.0, "integer": 2, "huge": 10**400, "past floats": 2**53 + 1, "nan": math.nan,
    "infinite": -math.inf, "none": None, "masked": np.ma.masked, "NA": pd.NA, "NaT": pd.NaT,
    "truth": True, "text": "n/a", "number as text": " 1e0 ", "long text": "9" * 5000,
    "surrogate": "\ud800", "bytes": b"\xff", "decimal": Decimal("1.5"), "sNaN": Decimal("sNaN"),
    "complex": 1j, "date": datetime.date(2020, 1, 1), "time": pd.Timestamp("2020-01-01"),
    "day of numpy": np.datetime64("2020-01-01"), "span of time": np.timedelta64(7, "ns"),
    "month": np.timedelta64(1, "M"), "no span": np.timedelta64("NaT"),
    "list": [1.0, 2.0], "empty list": [],
    "tuple": (1, 2), "dictionary": {"a": 1}, "set": {1}, "array": np.ones(3), "type": int,
    "object": object(), "loud": Loud(), "loud number": LoudFloat(1.0), "loud text": LoudText("1"),
    "loud list": LoudList([1.0]), "float32": np.float32(0.1), "longdouble": np.longdouble("1e4000"),
}  # fmt: skip
FEW = ("huge", "none", "text", "date", "loud")
ROWS = {
    "short": [1.0], "long": [1.0] * 9, "empty": [], "no row": 7.0, "nothing": None, "text": "ab",
    "dictionary": {"a": 1.0, "b": 2.0}, "loud row": Loud(), "loud list": LoudList([1.0, 2.0]),
    "array": np.ones(2), "matrix": np.ones((2, 2)), "series": pd.Series([1.0, None]),
    "dates": np.array(["2020"] * 2, "datetime64[D]"), "tuple": (1.0, 2.0),
    "masked": np.ma.array([1, 2], mask=[1, 0]),
}  # fmt: skip


def data(n=N):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return (rng.normal(size=(n, 2)) + y[:, None]).tolist(), y.tolist()


def objects(values, *shape):
    """Return an array of objects, whatever the cells are."""
    array = np.empty(shape, dtype=object)
    if len(shape) == 1:
        for k, cell in enumerate(values):
            array[k] = cell
        return array
    for k, row in enumerate(values):
        array[k] = objects(row, *shape[1:])
    return array


TABLES = {
    "rows": lambda rows: rows,
    "tuples": lambda rows: tuple(tuple(row) for row in rows),
    "objects": lambda rows: objects(rows, len(rows), 2),
    "frame": lambda rows: pd.DataFrame(objects(rows, len(rows), 2), columns=["a", "b"]),
    "masked": lambda rows: np.ma.array(objects(rows, len(rows), 2)),
}
COLUMNS = {
    "list": lambda cells: cells,
    "tuple": tuple,
    "objects": lambda cells: objects(cells, len(cells)),
    "series": lambda cells: pd.Series(objects(cells, len(cells)), dtype=object),
}


def replaced(cells, value, place=PLACE):
    return [*cells[:place], value, *cells[place + 1 :]]


def with_cells(names=CELLS, table="rows"):
    """Return a data set, and neighbours with one awkward cell of X."""
    (X, y), box = data(), TABLES[table]
    others = {name: (box(replaced(X, [X[PLACE][0], CELLS[name]])), y) for name in names}
    return (box(X), y), others


def with_rows():
    X, y = data()
    return (X, y), {name: (replaced(X, row), y) for name, row in ROWS.items()}


def with_labels(names=CELLS, column="list"):
    """Return a data set, and neighbours with one awkward label."""
    (X, y), box = data(), COLUMNS[column]
    return (X, box(y)), {name: (X, box(replaced(y, CELLS[name]))) for name in names}


def with_ids(column, ids):
    """Return a data set of persons with two rows each, and neighbours with one awkward id."""
    (X, y), box = data(), COLUMNS[column]
    base = [ids[k // 2] for k in range(N)]
    others = {}
    for name, cell in CELLS.items():
        # A person is replaced with both rows, so that the number of persons stays public.
        changed = replaced(replaced(base, cell, 4), cell, 5)
        others[name] = (X, y, box(changed))
    return (X, y, box(base)), others


# ------------------------------------------------------------------------------ the entry points


def ledger_of(groups=None):
    unit = "example" if groups is None else "person"
    return PrivacyLedger(epsilon=1e3, delta=0.5, unit=unit)


def classify(X, y, groups=None, **options):
    ledger = ledger_of(groups)
    given = {"bounds": (-3.0, 4.0), "ledger": ledger} | options
    return PrivateAUCClassifier(1.0, 1e-3, **given).fit(X, y, groups)


def search(X, y, **options):
    model = classify(X, y, bounds=PrivateBounds([-9, -9], [9, 9], n_levels=3), **options)
    model.bounds_ = model.bounds_.shape  # These bounds are releases.
    return model


def learn_metric(X, y, groups=None, **options):
    given = {"bounds": (-3.0, 4.0), "ledger": ledger_of(groups)} | options
    return PrivateMetricLearner(1.0, 1e-3, **given).fit(X, y, groups)


def regress(X, y, groups=None):
    given = {"bounds": (-3.0, 4.0), "target_bounds": (-1.0, 2.0), "ledger": ledger_of(groups)}
    return PrivateEntropyRegressor(1.0, 1e-3, **given).fit(X, y, groups)


def rate(X, y, groups=None):
    """Rate the players 0 and 1: an example is a vote of one for the other."""
    first, other = [row[1] for row in X], y
    most = None if groups is None else 2
    model = PrivateRatings(
        1.0, 1e-3, players=[0, 1], votes_per_judge=most, ledger=ledger_of(groups)
    ).fit(first, other, groups=groups)
    for name in ("counts_", "_found", "_further"):  # These are made of releases.
        delattr(model, name)
    return model


def continual(X, y, groups=None):
    most = None if groups is None else 2
    model = PrivateAUCContinual(
        20, 2, 1.0, 1e-3, bounds=(-3.0, 4.0), rows_per_person=most, ledger=ledger_of(groups)
    )
    first, second = (None, None) if groups is None else (groups[:6], groups[6:])
    model.partial_fit(X[:6], y[:6], groups=first).release()
    return model.partial_fit(X[6:], y[6:], groups=second).release()


def area(X, y, groups=None):
    ledger = ledger_of(groups)
    found = private_roc_auc(
        y, [row[1] for row in X], epsilon=1.0, delta=1e-3, ledger=ledger, groups=groups
    )
    return Both(found, ledger)


def curve(X, y, groups=None):
    ledger = ledger_of(groups)
    found = private_roc_curve(
        y, [row[1] for row in X], thresholds=[0.0, 1.0], epsilon=1.0, delta=1e-3, ledger=ledger,
        groups=groups,
    )  # fmt: skip
    return Both(found, ledger)


def select(X, y, groups=None):
    ledger = ledger_of(groups)
    chosen = select_privately(X, y, epsilon=1.0, ledger=ledger, groups=groups)
    assert chosen in (0, 1)
    return Both(None, ledger)


class Both:
    """A result and the ledger that was charged."""

    def __init__(self, found, ledger):
        self.found, self.ledger = found, ledger

    def get_params(self):
        """Let `describe` look inside."""


ENTRIES = {
    "classifier": classify, "search": search, "metric": learn_metric,
    "regression": regress,
    "ratings": rate, "continual": continual, "auc": area, "curve": curve,
    "selection": select,
}  # fmt: skip
OF_ROWS = {name: ENTRIES[name] for name in ("classifier", "metric", "continual")}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_no_cell_shows(entry):
    assert differences(entry, *with_cells()) == []


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_no_label_shows(entry):
    assert differences(entry, *with_labels()) == []


@pytest.mark.parametrize("entry", OF_ROWS.values(), ids=OF_ROWS)
def test_no_row_shows(entry):
    assert differences(entry, *with_rows()) == []


@pytest.mark.parametrize("table", TABLES)
def test_no_cell_shows_in_any_table(table):
    assert differences(classify, *with_cells(table=table)) == []
    assert differences(learn_metric, *with_cells(FEW, table)) == []


@pytest.mark.parametrize("column", COLUMNS)
def test_no_label_shows_in_any_column(column):
    assert differences(classify, *with_labels(column=column)) == []
    assert differences(area, *with_labels(FEW, column)) == []


@pytest.mark.parametrize("ids", [[1, 2, 3, 4, 5, 6], ["a", "b", "c", "d", "e", "f"],
                                 [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "c")]],
                         ids=["integers", "texts", "tuples"])  # fmt: skip
@pytest.mark.parametrize("column", COLUMNS)
def test_no_id_shows(column, ids):
    base, others = with_ids(column, ids)
    if ids[0] == 1:  # 2, and the text 1, would be other persons of the table.
        others = {k: v for k, v in others.items() if k not in ("integer", "loud text")}
    hidden = partial(classify, neighbours="add_remove", n_examples=20)
    for entry in (hidden, continual):
        assert differences(entry, base, others) == []
    # Elsewhere the number of persons is public, and rows of nobody belong to no person.
    others = persons_only(others)
    for entry in (classify, area, curve, select):
        assert differences(entry, base, others) == []


def persons_only(others):
    return {k: v for k, v in others.items() if (records.read_persons(v[2], N) >= 0).all()}


@pytest.mark.parametrize("entry", [learn_metric, regress, rate])
def test_no_id_of_other_models_shows(entry):
    base, others = with_ids("list", ["a", "b", "c", "d", "e", "f"])
    assert differences(entry, base, persons_only(others)) == []


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "statistics"])
def test_no_record_shows_in_any_mechanism(name):
    def entry(X, y):
        return classify(X, y, mechanism=name)

    for base, others in (with_cells(FEW), with_labels(FEW)):
        assert differences(entry, base, others) == []


def test_no_record_shows_in_an_array_of_numbers():
    X, y = data()
    for dtype in (np.float64, np.float32, np.longdouble):
        base = np.array(X, dtype=dtype)
        others = {}
        for cell in (np.nan, np.inf, -np.inf, np.finfo(dtype).max, -0.0, 5e-324):
            table = base.copy()
            with np.errstate(all="ignore"):
                table[PLACE, 1] = cell
            others[repr(cell)] = (table, y)
        hidden = np.ma.array(base)
        hidden[PLACE] = np.ma.masked
        others["masked"] = (hidden, y)
        for entry in OF_ROWS.values() if dtype is np.float64 else [classify]:
            assert differences(entry, (base, y), others) == []
    labels = {repr(k): (X, np.array(replaced(y, k))) for k in (7, -(2**63), np.nan, np.inf, "n/a")}
    for entry in ENTRIES.values():
        assert differences(entry, (X, np.array(y)), labels) == []


def test_no_record_shows_in_a_column_with_missing_cells():
    pa = pytest.importorskip("pyarrow")
    X, y = data()
    whole = [int(9 * row[0]) for row in X]
    people = [k // 2 for k in range(N)]
    containers = [
        lambda cells: pd.array(cells, dtype="Int64"),
        lambda cells: pd.Series(cells, dtype="int64[pyarrow]"),
        pa.array,
        lambda cells: pa.array(cells).dictionary_encode(),
        lambda cells: np.ma.array([cell or 0 for cell in cells], mask=[k is None for k in cells]),
    ]
    for box in containers:
        base, other = box(whole), box(replaced(whole, None))
        if not isinstance(base, (np.ndarray, pa.Array)):
            tables = [pd.DataFrame({"a": column, "b": 1.0}) for column in (base, other)]
        elif isinstance(base, pa.Array):
            tables = [pa.table({"a": column, "b": [1.0] * N}) for column in (base, other)]
        else:
            tables = [np.ma.stack([column, column], axis=1) for column in (base, other)]
        assert differences(classify, (tables[0], y), {"missing": (tables[1], y)}) == []
        assert differences(classify, (X, box(y)), {"missing": (X, box(replaced(y, None)))}) == []
        others = {"missing": (X, y, box(replaced(people, None, 4)))}
        assert differences(classify, (X, y, box(people)), others) == []


def test_how_a_sparse_matrix_is_stored_does_not_show():
    rng = np.random.default_rng(0)
    X, y = data()
    base = scipy.sparse.csr_array(np.where(rng.random((N, 2)) < 0.5, X, 0.0))
    start, stop = base.indptr[PLACE : PLACE + 2].tolist()
    head, tail = slice(0, start), slice(stop, None)
    others = {}
    for name, own, values in [
        ("explicit zeros", [0, 1], [0.0, 0.0]), ("duplicates", [1, 1, 1], [1.0, 2.0, -9.0]),
        ("not sorted", [1, 0], [1.0, 2.0]), ("nan", [0, 1], [np.nan, np.inf]), ("nothing", [], []),
    ]:  # fmt: skip
        indices = np.concatenate([base.indices[head], own, base.indices[tail]]).astype(np.int32)
        cells = np.concatenate([base.data[head], values, base.data[tail]])
        indptr = base.indptr.copy()
        indptr[PLACE + 1 :] += len(own) - (stop - start)
        others[name] = (scipy.sparse.csr_array((cells, indices, indptr), shape=(N, 2)), y)
    for entry in OF_ROWS.values():
        assert differences(entry, (base, y), others) == []


def test_the_number_of_records_does_not_show_where_it_is_secret():
    X, y = data()
    options = {"neighbours": "add_remove", "n_examples": 20}
    others = {"fewer": (X[:-1], y[:-1]), "none": ([], []), "more": (X + X[:3], y + y[:3])}
    wide = partial(classify, bounds=([-3.0] * 2, [4.0] * 2))
    for entry in (wide, search):
        assert differences(partial(entry, **options), (X, y), others) == []
    ids = [f"p{k // 2}" for k in range(N)]
    people = {"fewer": (X[:-2], y[:-2], ids[:-2]), "more": (X + X[:1], y + y[:1], [*ids, "new"])}
    assert differences(partial(classify, **options), (X, y, ids), people) == []


def is_row(row):
    """Whether a row has the public length; a loud list is not asked."""
    if isinstance(row, list):
        return list.__len__(row) == 2
    return len(row) == 2 if isinstance(row, tuple) else np.shape(row)[:1] == (2,)


def _is_sized(row):
    return isinstance(row, (list, tuple, np.ndarray, pd.Series))


def test_errors_of_form_do_not_depend_on_a_record():
    # The caller's mistake is told in the same words, whatever one record holds.
    X, y = data()
    three = [[*row, 0.0] for row in X]
    mistakes = {
        "width": lambda X, y: classify(X, y, bounds=([-3.0] * 2, [4.0] * 2)),
        "labels": lambda X, y: classify(X, y, labels=(1, "1")),
        "length": lambda X, y: classify(X, y[:-1]),
        "bounds": lambda X, y: classify(X, y, bounds=None),
        "budget": lambda X, y: classify(X, y, ledger=PrivacyLedger(epsilon=1e-3, delta=1e-9)),
        "groups": lambda X, y: classify(X, y, [[label] for label in y]),
    }
    for entry in mistakes.values():
        cells = {name: (replaced(three, [0.0, 0.0, cell]), y) for name, cell in CELLS.items()}
        # A row of the public length would be of the right form, where all others are not.
        right = [k for k, row in ROWS.items() if _is_sized(row) and is_row(row)]
        rows = {f"{name} row": (replaced(three, row), y) for name, row in ROWS.items()}
        rows = {name: rows[name] for name in rows if name.removesuffix(" row") not in right}
        labels = {f"{name} label": (three, replaced(y, cell)) for name, cell in CELLS.items()}
        assert differences(entry, (three, y), cells | rows | labels, ends_in="error") == []


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.dates(),
        st.decimals(), st.complex_numbers(), st.fractions(), st.just(np.ma.masked),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.thorough
@settings(max_examples=100)
@given(anything, st.sampled_from(["cell", "row", "label", "person"]), st.integers(0, N - 1))
def test_nothing_that_can_be_drawn_shows(drawn, where, place):
    X, y = data()
    ids = [f"p{k}" for k in range(N)]
    others = {
        "cell": (replaced(X, [drawn, X[place][1]], place), y, ids),
        "row": (replaced(X, drawn, place), y, ids),
        "label": (X, replaced(y, drawn, place), ids),
        "person": (X, y, replaced(ids, drawn, place)),
    }
    # A row of nobody changes the number of persons, which is public but for "add_remove".
    hidden = {"neighbours": "add_remove", "n_examples": 20} if where == "person" else {}
    entry = partial(classify, **hidden)
    assert differences(entry, (X, y, ids), {where: others[where]}) == []


# --------------------------------------------------------------------------------- the sabotages


def quoting(cell):
    number = records_number_of(cell)
    if isinstance(cell, str):
        raise ValueError(f"{cell!r} is no number")
    return number


records_number_of = records.number_of
read_labels = records.read_labels


def warning_labels(values, public, n_rows=None):
    codes = read_labels(values, public, n_rows)
    if (codes < 0).any():
        warnings.warn("there are other labels", UserWarning, stacklevel=2)
    return codes


def logging_labels(values, public, n_rows=None):
    codes = read_labels(values, public, n_rows)
    logging.getLogger("pairlearn").debug("%d positives", int((codes == 1).sum()))
    return codes


def printing_labels(values, public, n_rows=None):
    codes = read_labels(values, public, n_rows)
    print("positives:", int((codes == 1).sum()))
    return codes


def drawing_labels(values, public, n_rows=None):
    codes = read_labels(values, public, n_rows)
    NoiseSource(seed=0).permutation(int((codes == 1).sum()))
    return codes


def counting_signs(self, y, n):
    signs = signs_of(self, y, n)
    self.class_count = int((signs > 0).sum())
    return signs


def telling_signs(self, y, n):
    signs = signs_of(self, y, n)
    self.n_examples = int((signs > 0).sum()) + 20
    return signs


signs_of = PrivateAUCClassifier._signs


@pytest.mark.parametrize(
    ("owner", "name", "sabotage", "made"),
    [
        (records, "number_of", quoting, with_cells),
        (auc, "read_labels", warning_labels, with_labels),
        (auc, "read_labels", logging_labels, with_labels),
        (auc, "read_labels", printing_labels, with_labels),
        (auc, "read_labels", drawing_labels, with_labels),
        (PrivateAUCClassifier, "_signs", counting_signs, with_labels),
        (PrivateAUCClassifier, "_signs", telling_signs, with_labels),
    ],
    ids=["error", "warning", "log", "print", "draws", "attribute", "certificate"],
)
def test_a_sabotage_is_noticed(monkeypatch, owner, name, sabotage, made):
    def entry(X, y):
        return classify(X, y, neighbours="add_remove", n_examples=20)

    base, others = made(["text"])
    assert differences(entry, base, others) == []
    monkeypatch.setattr(owner, name, sabotage)
    assert differences(entry, base, others) == ["text"]


def test_a_library_that_sees_the_data_first_is_noticed(monkeypatch):
    # What was done before: NumPy converts a list as a whole, and asks each cell for its value.
    def converted(name, rows, n_features=None):
        return np.asarray(rows, dtype=np.float64)

    monkeypatch.setattr(records, "_from_rows", converted)
    found = differences(classify, *with_cells())
    assert {"huge", "masked", "date", "dictionary", "loud", "loud number"} <= set(found)
