# SPDX-License-Identifier: BSD-3-Clause
"""The door of private data: every container, every kind of cell, and what is refused."""

import datetime
import enum
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from pairlearn import PrivateAUCClassifier, PrivateAUCContinual, PrivateMetricLearner
from pairlearn.models.record import ModelFileError
from pairlearn.privacy.persons import FirstRows
from pairlearn.privacy.records import read_labels, read_numbers, read_persons, read_table

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning"),
]

#: The first integer that float64 does not tell from its neighbour.
BIG = 2**53
WHOLE = [BIG + 1, BIG, BIG + 1, None, BIG]
TEXTS = ["007", " bob", "7", None, "7"]


def as_arrow(library, cells, kind=None):
    pa = pytest.importorskip("pyarrow")
    if library == "pandas":
        return pd.Series(cells, dtype=pd.ArrowDtype(pa.array(cells, type=kind).type))
    if library == "chunked":
        return pa.chunked_array([pa.array(cells[:2], type=kind), pa.array(cells[2:], type=kind)])
    if library == "dictionary":
        return pa.array(cells, type=kind).dictionary_encode()
    return pa.array(cells, type=kind)


def as_polars(cells, dtype=None):
    pl = pytest.importorskip("polars")
    return pl.Series(cells, dtype=None if dtype is None else getattr(pl, dtype))


def masked(cells, fill, dtype=None):
    return np.ma.array(
        [fill if cell is None else cell for cell in cells],
        mask=[cell is None for cell in cells],
        dtype=dtype,
    )


def categories(cells):
    known = [cell for cell in dict.fromkeys(cells) if cell is not None]
    codes = [-1 if cell is None else known.index(cell) for cell in cells]
    return pd.Categorical.from_codes(codes, categories=pd.Index(known))


ANY = {
    "list": list,
    "tuple": tuple,
    "objects": lambda cells: np.array(cells, dtype=object),
    "masked objects": lambda cells: masked(cells, 5, dtype=object),
    "series of objects": lambda cells: pd.Series(cells, dtype=object),
    "categorical": categories,
    "series of categories": lambda cells: pd.Series(categories(cells)),
    "index of categories": lambda cells: pd.CategoricalIndex(categories(cells)),
    "arrow": lambda cells: as_arrow("array", cells),
    "arrow in chunks": lambda cells: as_arrow("chunked", cells),
    "arrow dictionary": lambda cells: as_arrow("dictionary", cells),
    "arrow in pandas": lambda cells: as_arrow("pandas", cells),
    "polars": as_polars,
    "polars objects": lambda cells: as_polars(cells, "Object"),
}
OF_INTEGERS = ANY | {
    "masked": lambda cells: masked(cells, 5),
    "Int64": lambda cells: pd.Series(cells, dtype="Int64"),
    "index Int64": lambda cells: pd.Index(cells, dtype="Int64"),
    "array UInt64": lambda cells: pd.array(cells, dtype="UInt64"),
    "polars Int128": lambda cells: as_polars(cells, "Int128"),
}
OF_TEXTS = ANY | {
    "str": lambda cells: pd.Series(cells, dtype="str"),
    "string": lambda cells: pd.Series(cells, dtype="string"),
    "string in Python": lambda cells: pd.Series(cells, dtype="string[python]"),
    "large texts": lambda cells: as_arrow("array", cells, "large_string"),
    "views": lambda cells: as_arrow("array", cells, "string_view"),
    "polars categories": lambda cells: as_polars(cells, "Categorical"),
    "bytes": lambda cells: as_arrow("array", [cell and cell.encode() for cell in cells]),
}


# ---------------------------------------------------------------------------- every container


@pytest.mark.parametrize("container", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_integers_are_exact_in_every_container(container):
    values = container(WHOLE)
    assert read_persons(values, 5).tolist() == [0, 1, 0, -1, 1]
    assert read_labels(values, (BIG, BIG + 1)).tolist() == [1, 0, 1, -1, 0]
    assert np.isnan(read_numbers("score", values)).tolist() == [False] * 3 + [True, False]


@pytest.mark.parametrize("container", OF_TEXTS.values(), ids=OF_TEXTS)
def test_texts_are_exact_persons_and_loose_labels_in_every_container(container):
    values = container(TEXTS)
    assert read_persons(values, 5).tolist() == [0, 1, 2, -1, 2]
    # A number equals its text, and labels are stripped, as public labels are.
    assert read_labels(values, ("bob", 7)).tolist() == [1, 0, 1, -1, 1]
    numbers = read_numbers("score", values)
    assert np.array_equal(numbers, [7.0, np.nan, 7.0, np.nan, 7.0], equal_nan=True)


def test_columns_of_a_frame_keep_their_types():
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "whole": [1, 2], "text": ["3", "x"], "nullable": pd.array([1, None], dtype="Int64"),
            "truth": pd.array([True, None], dtype="boolean"),
            "arrow": pd.Series([1.5, None], dtype="float64[pyarrow]"),
            "sparse": pd.arrays.SparseArray([0.0, 1.0]),
        }
    )  # fmt: skip
    nan = math.nan
    expected = np.array([[1, 3, 1, 1, 1.5, 0], [2, nan, nan, nan, nan, 1]])
    assert np.array_equal(read_table(frame), expected, equal_nan=True)
    cells = {
        "whole": [1, None], "text": ["3", "x"], "truth": [True, None], "empty": [None, None],
        "decimal": [Decimal("1.5"), None],
    }  # fmt: skip
    expected = np.array([[1, 3, 1, nan, 1.5], [nan] * 5])
    table = pa.table(cells)
    for one in (table, table.to_batches()[0]):
        assert np.array_equal(read_table(one), expected, equal_nan=True)
    twice = pd.DataFrame([[1, "2"]], columns=["a", "a"])
    assert read_table(twice).tolist() == [[1.0, 2.0]]


def test_a_frame_of_polars_is_read_as_one_of_pandas():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [1, None], "b": ["3", "x"], "c": [True, None], "d": [1.5, 2.0]})
    expected = np.array([[1, 3, 1, 1.5], [np.nan, np.nan, np.nan, 2.0]])
    assert np.array_equal(read_table(frame), expected, equal_nan=True)
    with pytest.raises(TypeError, match="Date"):
        read_table(pl.DataFrame({"day": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(TypeError, match="List"):
        read_labels(pl.Series([[0], [1]]), (0, 1))


def test_a_damaged_text_of_arrow_raises_nothing():
    pa = pytest.importorskip("pyarrow")
    raw = pa.array([b"bob", b"\xff\xfe", b"\xff", b"bob"])
    texts = pa.StringArray.from_buffers(4, *raw.buffers()[1:])
    # As pandas holds the texts of a Parquet file.
    for held in (texts, pd.Series(pd.arrays.ArrowStringArray(pa.chunked_array([texts])))):
        assert read_persons(held, 4).tolist() == [0, 1, 2, 0]
        assert read_labels(held, ("ann", "bob")).tolist() == [1, -1, -1, 1]


# --------------------------------------------------------------------------------- every cell


class Grade(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Loud(float):
    """A number whose own methods must not be asked."""

    def __float__(self):
        raise KeyError("secret")

    def __eq__(self, other):
        raise KeyError("secret")

    def __hash__(self):
        raise KeyError("secret")


class LoudOfNumpy(np.float64):
    """A number of a type derived from one of NumPy."""

    def __float__(self):
        raise KeyError("secret")


class LoudType(type):
    """A type that must not be asked for its name."""

    @property
    def __name__(cls):
        raise KeyError("secret")


class OfLoudType(metaclass=LoudType):
    pass


CELLS = [
    (3, 3.0), (True, 1.0), ("2.5", 2.5), (" 1e3 ", 1000.0), (b"4", 4.0), (Decimal("0.5"), 0.5),
    (Fraction(1, 4), 0.25), (10**400, math.inf), (-(10**400), -math.inf), ("1e999", math.inf),
    (2 + 0j, 2.0), (2j, math.nan), (np.float32(0.5), 0.5), (np.int8(3), 3.0), (np.bool_(True), 1.0),
    (np.str_("5"), 5.0), (np.longdouble(2), 2.0), (Grade.HIGH, 1.0), (Loud(6.0), 6.0),
    (None, math.nan), (pd.NA, math.nan), (pd.NaT, math.nan), (np.ma.masked, math.nan),
    (np.datetime64("NaT"), math.nan), (np.timedelta64("NaT"), math.nan),
    (np.timedelta64(7, "ns"), math.nan), (Decimal("sNaN"), math.nan), ("nan", math.nan),
    ("\ud800", math.nan), (b"\xff", math.nan), ("9" * 5000, math.inf), ([1.0], math.nan),
    ((1.0,), math.nan), ({}, math.nan), (np.ones(1), math.nan), (object(), math.nan),
    (datetime.date(2020, 1, 1), math.nan), (pd.Timestamp("2020"), math.nan),
    (LoudOfNumpy(6.0), math.nan), (OfLoudType(), math.nan),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "number"), CELLS, ids=lambda value: repr(type(value)))
def test_a_cell_is_read_alone(cell, number):
    column = [1.5, BIG + 1, cell, "2"]
    objects = np.empty((4, 1), dtype=object)
    for k, value in enumerate(column):
        objects[k, 0] = value
    expected = np.array([[1.5], [float(BIG)], [number], [2.0]])
    for table in ([[value] for value in column], [(value,) for value in column], objects,
                  pd.DataFrame(objects)):  # fmt: skip
        assert np.array_equal(read_table(table), expected, equal_nan=True)
    assert np.array_equal(read_numbers("score", column), expected[:, 0], equal_nan=True)


@given(
    st.lists(
        st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text()), min_size=1
    ),
    st.data(),
)
def test_numbers_persons_and_labels_of_one_cell_do_not_depend_on_the_others(cells, data):
    row = data.draw(st.integers(0, len(cells) - 1))
    alone = read_numbers("score", [cells[row]])
    assert np.array_equal(read_numbers("score", cells)[[row]], alone, equal_nan=True)
    public = (BIG, BIG + 1, "ann")
    assert read_labels(cells, public)[row] == read_labels([cells[row]], public)[0]
    # The others stay the same persons, whatever this cell is.
    other = data.draw(st.sampled_from([None, 1.5, [], "x" * 99, True]))
    changed = [*cells[:row], other, *cells[row + 1 :]]
    rest = [k for k in range(len(cells)) if k != row]
    known = [k for k in rest if type(cells[k]) in (int, str)]
    try:
        ours, theirs = (read_persons(ids, len(ids))[known] for ids in (cells, changed))
    except ValueError:  # Lists without any id.
        assert not known
        return
    assert np.array_equal(ours[:, None] == ours, theirs[:, None] == theirs)


def test_a_person_is_exact():
    ids = [7, "07", " 7", "7.0", "+7", b"7", "1234e999", "5678e888", BIG, BIG + 1, np.int64(7)]
    assert read_persons(ids, 11).tolist() == [*range(10), 0]
    texts = np.array(["12e5", "1200000", "bob ", "bob", "a" * 8, "0" * 8])
    assert read_persons(texts, 6).tolist() == [0, 1, 2, 3, 4, 5]
    rng = np.random.default_rng(0)
    codes = [bytes(code).hex() for code in rng.integers(0, 256, (20_000, 4), dtype=np.uint8)]
    assert read_persons(codes, 20_000).max() + 1 == len(set(codes))


def test_an_integer_is_the_person_of_its_digits():
    # pandas reads a large file in parts, and one text among integers makes texts of one part.
    longest = 10**5000
    ids = [7, "7", -3, "-3", BIG + 1, str(BIG + 1), np.uint64(2**64 - 1), str(2**64 - 1), longest]
    assert read_persons(ids, 9).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert read_persons([("n", 7), ("n", "7"), ("n", "07")], 3).tolist() == [0, 0, 1]
    rows = FirstRows(1)
    for chunk, counted in ((np.array([7, 8]), [True, True]), (["7", "A17"], [False, True])):
        mask, later = rows.taken(chunk, 2)
        assert mask.tolist() == counted
        rows.remember(later)


def test_a_missing_id_is_nobody():
    nothing = [None, math.nan, pd.NA, pd.NaT, np.ma.masked, np.float64("nan"), Decimal("NaN"),
               np.datetime64("NaT")]  # fmt: skip
    assert read_persons(["ann", *nothing, "ann", ""], 11).tolist() == [0, *[-1] * 8, 0, 1]
    # What is no id counts as missing, since an error would tell it.
    strange = [1.5, True, [1], {}, object(), datetime.date(2020, 1, 1), ("a", 1.5), ()]
    assert read_persons(["ann", None, *strange], 10).tolist() == [0, *[-1] * 9]
    for ids in ([None, None], pd.Categorical([None, None]), np.ma.masked_all(2, dtype=int)):
        assert read_persons(ids, 2).tolist() == [-1, -1]


def test_a_person_may_have_several_ids():
    site, number = ["n", "s", "n", "n", None, "n"], [1, 1, 1, None, None, 2]
    expected = [0, 1, 0, -1, -1, 2]
    frame = pd.DataFrame({"site": site, "number": pd.array(number, dtype="Int64")})
    tuples = list(zip(site, number, strict=True))
    objects = np.array(tuples, dtype=object)
    hidden = masked(site, "", dtype=object), masked(number, 0, dtype=object)
    for ids in (frame, tuples, objects, np.ma.stack(hidden, axis=1)):
        assert read_persons(ids, 6).tolist() == expected
    pa = pytest.importorskip("pyarrow")
    assert read_persons(pa.table({"site": site, "number": number}), 6).tolist() == expected
    whole = np.array([[1, BIG], [1, BIG + 1], [2, BIG], [1, BIG]])
    assert read_persons(whole, 4).tolist() == [0, 1, 2, 0]
    # No text can imitate several ids.
    assert read_persons([("a", "b"), ("a, b",), "a, b", ("several", "a", "b")], 4).max() == 3


# ---------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1.0, 2.0]), pd.Series([1.0, None]), pd.Series([1, None], dtype="Float64"),
        np.array([True, False]), pd.Series([True, None], dtype="boolean"), np.array([1j, 2]),
        pd.DataFrame({"site": ["a", "b"], "number": [1.0, np.nan]}),
    ],
    ids=lambda ids: str(getattr(ids, "dtype", "frame")),
)  # fmt: skip
def test_a_column_of_floats_or_truth_values_names_no_persons(ids):
    with pytest.raises(TypeError, match="a person is a text or an integer"):
        read_persons(ids, 2)


def test_lists_without_any_id_are_refused():
    for ids in ([["n", 1], ["n", 2]], [1.0, 2.0, math.nan], [True, False], [{}, {}, None]):
        with pytest.raises(ValueError, match="tells no persons apart"):
            read_persons(ids, len(ids))
    with pytest.raises(TypeError, match=r"to_frame\(index=False\)"):
        read_persons(pd.MultiIndex.from_tuples([(1, 2), (3, 4)]), 2)


def test_lists_of_a_wrong_form_are_refused():
    for labels in ([[0], [1]], [{}, {}], [np.array([0]), np.array([1])]):
        with pytest.raises(ValueError, match="y holds neither numbers nor texts"):
            read_labels(labels, (0, 1))
        with pytest.raises(ValueError, match="score holds neither"):
            read_numbers("score", labels)
    day = datetime.date(2020, 1, 1)
    for rows in ([[[1], [2]]] * 3, [[1, day]] * 3, np.array([[1, day]] * 3, dtype=object)):
        with pytest.raises(ValueError, match="X holds neither"):
            read_table(rows)
    for rows in ([{"a": 1}] * 3, [1, 2, 3], ["ab", "cd"], [range(2)] * 2, [np.ones((1, 2))] * 2):
        with pytest.raises(ValueError, match="each of its rows must be a list"):
            read_table(rows, n_features=2)
    with pytest.raises(TypeError, match=r"X\['day'\] has the type datetime64"):
        read_table(pd.DataFrame({"a": [1], "day": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(TypeError, match="must be an array"):
        read_labels({0, 1}, (0, 1))


class Container:
    """An array of somebody else, which quotes a cell when it fails."""

    def __init__(self, array=None):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise ValueError("secret")
        return self.array


def test_a_container_of_somebody_else_is_read_or_refused():
    assert read_table(Container(np.eye(2))).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert read_persons(Container(np.array([BIG, BIG + 1])), 2).tolist() == [0, 1]
    with pytest.raises(TypeError, match="cannot be converted to an array") as caught:
        read_table(Container())
    assert caught.value.__context__ is None


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("ragged", [[], [1.0], [1.0] * 2, [1.0] * 3, [1.0] * 9, {}, None, "abc"])
def test_one_ragged_row_neither_makes_nor_hides_an_error(width, ragged):
    rows = [[0.5] * width for _ in range(6)] + [ragged]
    assert read_table(rows).shape == (7, width)
    if width == 2 or (isinstance(ragged, list) and len(ragged) == 2):
        assert read_table(rows, n_features=2).shape == (7, 2)
        return
    with pytest.raises(ValueError, match="X has 3 features, but the public arguments describe 2"):
        read_table(rows, n_features=2)


def test_one_record_alone_is_never_refused():
    for cell in ([0], {}, datetime.date(2020, 1, 1)):
        assert read_labels([cell], (0, 1)).tolist() == [-1]
        assert read_persons([cell], 1).tolist() == [-1]
        assert np.isnan(read_table([[cell, cell]])).all()
    for row in ([], {}, None, datetime.date(2020, 1, 1)):
        assert np.isnan(read_table([row], n_features=2)).tolist() == [[True, True]]
    # nobody knows how many features it should have
    for row in ([], {}, None):
        with pytest.raises(ValueError, match="and no feature"):
            read_table([row])
    stream = PrivateAUCContinual(9, 1, bounds=(-1, 1)).partial_fit([[0.5, 0.5]], [1])
    for row in ([0.1], [0.1, 0.2, 0.3], {}, None):
        stream.partial_fit([row], [0])
    assert stream.release().n_features_in_ == 2


def damaged_matrices():
    X = scipy.sparse.random(20, 3, density=0.5, format="csr", random_state=0)
    ends, index, falls = X.copy(), X.copy(), X.copy()
    ends.indptr[7] = 10**6
    index.indices[5] = 77
    falls.indptr[4] = falls.indptr[5] + 1
    columns = X.tocsc()
    columns.indices[2] = 99
    points = X.tocoo()
    points.row[3] = 99
    listed = X.tolil()
    listed.rows[3] = [99]
    listed.data[3] = [1.0]
    texts = X.tolil()
    texts.rows[3] = [1]
    texts.data[3] = ["secret"]
    return {"ends": ends, "index": index, "falls": falls, "csc": columns, "coo": points,
            "lil": listed, "texts": texts}  # fmt: skip


@pytest.mark.parametrize("kind", damaged_matrices())
def test_a_damaged_sparse_matrix_is_refused_before_it_is_used(kind):
    X = damaged_matrices()[kind]
    y = np.arange(20) % 2
    learners = PrivateAUCClassifier(bounds=(0, 1)), PrivateMetricLearner(bounds=(0, 1))
    told = set()
    for learner in learners:
        with pytest.raises(ValueError, match="X is a damaged sparse matrix") as caught:
            learner.fit(X, y)
        told.add(str(caught.value))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    (text,) = told
    assert not any(number in text for number in ("99", "77", "secret", "1000000"))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_a_sound_sparse_matrix_is_read_as_its_table(kind):
    X = scipy.sparse.random(20, 3, density=0.5, format=kind, random_state=0)
    assert np.array_equal(read_table(X), X.toarray())
    twice = scipy.sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert read_table(twice).tolist() == [[0.0, 3.0], [0.0, 0.0]]
    shuffled = scipy.sparse.csr_array(([1.0, 2.0], [1, 0], [0, 2]), shape=(1, 2))
    assert read_table(shuffled).tolist() == [[2.0, 1.0]]


def test_public_labels_are_numbers_or_texts():
    for public in (
        (0, None),
        (0, math.nan),
        (0, (1,)),
        (0, datetime.date(2020, 1, 1)),
        ("a", "a "),
    ):
        with pytest.raises(ValueError, match="different numbers or texts"):
            read_labels([0, 1], public)
    assert read_labels(np.array([0.5, 0.1], dtype=np.float32), (0.5, 0.1)).tolist() == [0, 1]
    assert read_labels(np.array([BIG, 3.0]), (BIG + 1, 3)).tolist() == [-1, 1]
    assert read_labels(np.array([BIG + 1, 3]), (float(BIG), 3.0)).tolist() == [-1, 1]
    assert read_labels(np.array([1, 2]), (0.5, 10**400)).tolist() == [-1, -1]
    large = np.array([2**64 - 1, 1], dtype=np.uint64)
    assert read_labels(large, (-1, 2**64 - 1)).tolist() == [1, -1]
    texts = [str(BIG + 1), f"{BIG + 1}.0", "1e400"]
    assert read_labels(texts, (BIG, BIG + 1)).tolist() == [1, 1, -1]
    truths = ["true", "FALSE", "False", "True", " TRUE", "tRUE", "1"]  # as programs write them
    for public in ((False, True), (np.False_, np.True_)):
        assert read_labels(truths, public).tolist() == [1, 0, 0, 1, 1, -1, 1]


# --------------------------------------------------------------- arguments and their certificate


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 9.0), ("delta", 0.1), ("labels", (1, 0)),
     ("levels", [2, 2])],
)  # fmt: skip
def test_a_file_holds_the_arguments_of_its_certificate(name, value, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 2)) + y[:, None]
    models = [
        PrivateAUCClassifier(bounds=(-4, 5)).fit(X, y),
        PrivateMetricLearner(bounds=(-4, 5)).fit(X, y),
        PrivateAUCContinual(60, 1, bounds=(-4, 5)).fit(X, y),
    ]
    models[0].save(tmp_path / "model")
    models.append(PrivateAUCClassifier.load(tmp_path / "model"))
    for model in models:
        before = model.get_params()[name]
        used = getattr(model, "decision_function", None) or model.transform
        scores = used(X)
        model.set_params(**{name: value})
        with pytest.raises(ModelFileError, match=f"{name} changed after the fit"):
            model.save(tmp_path / "other")
        assert np.array_equal(used(X), scores)
        model.set_params(**{name: before}).save(tmp_path / "other")


def test_an_argument_changed_in_place_is_noticed(tmp_path):
    levels = np.zeros(2, dtype=int)
    model = PrivateAUCClassifier(bounds=(0, 1), levels=levels).fit(
        np.eye(2)[[0, 1] * 9], [0, 1] * 9
    )
    levels[0] = 2
    with pytest.raises(ModelFileError, match="levels changed after the fit"):
        model.save(tmp_path / "model")


def test_large_lists_change_no_other_record():
    # One missing id or label must not merge the others.
    rng = np.random.default_rng(0)
    ids = [BIG + int(k) for k in rng.permutation(400)]
    assert read_persons([*ids, math.nan], 401).max() == 399
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = read_labels([*ids, math.nan, np.ma.masked], (BIG, BIG + 1))
    assert (labels >= 0).sum() == 2


def test_numbers_are_never_labels_that_are_texts():
    # scikit-learn numbers the labels for members of an ensemble: all would count as negative.
    for column in (np.array([0, 1, 1]), pd.Series([0.0, 1.0, None]), np.array([True, False])):
        with pytest.raises(TypeError, match=r"none of them is a number.*labels=\(0, 1\)"):
            read_labels(column, ("no", "yes"))
    # What type a cell of a list has is not public.
    assert read_labels([0, 1], ("no", "yes")).tolist() == [-1, -1]
    assert read_labels(np.array([0, 1]), ("0", "yes")).tolist() == [0, -1]
    assert read_labels(np.array([True, False]), (False, True)).tolist() == [1, 0]
