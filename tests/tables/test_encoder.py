# SPDX-License-Identifier: BSD-3-Clause
"""Data frames in Python become the features that the program makes of the same file."""

from __future__ import annotations

import datetime
import decimal
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from pairlearn import AUCClassifier, TableEncoder
from pairlearn.tables import TableEncoding, TableOptions, load_table
from pairlearn.tables.columns import YesNoColumn
from pairlearn.tables.dates import parse_date
from pairlearn.tables.series import read_days, read_numbers, series_of


@pytest.fixture
def frame():
    rng = np.random.default_rng(5)
    n = 240
    made = pd.DataFrame(
        {
            "customer": [f"C{k}" for k in range(n)],
            "usage": rng.normal(size=n).round(3),
            "calls": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 9, n)),
            "plan": pd.Categorical(rng.choice(["basic", "pro", "max"], n)),
            "since": pd.date_range("2019-01-05", periods=n, freq="D"),
            "active": rng.random(n) < 0.4,
            "place": 1,
        }
    )
    made.loc[7, "plan"] = np.nan
    made.loc[9, "since"] = pd.NaT
    return made


def labels_of(frame):
    return (frame["usage"] + (frame["plan"] == "pro") > 0.4).astype(int).to_numpy()


def test_a_frame_gives_the_features_of_its_file(frame, tmp_path):
    y = labels_of(frame)
    frame.assign(y=y).to_csv(tmp_path / "a.csv", index=False)
    table = load_table([tmp_path / "a.csv"], TableOptions(label="y"))
    encoder = TableEncoder()
    X = encoder.fit_transform(frame)
    assert encoder.get_feature_names_out().tolist() == list(table.plan.encoder.feature_names)
    assert np.array_equal(X, table.X)
    kinds = {decision.name: decision.kind for decision in encoder.decisions_}
    assert kinds == {decision.name: decision.kind for decision in table.plan.decisions}
    assert encoder.encoding_.ids == ("customer",)


def test_arrow_and_another_order_of_columns_give_the_same(frame):
    encoder = TableEncoder().fit(frame)
    X = encoder.transform(frame)
    assert np.array_equal(encoder.transform(frame[frame.columns[::-1]]), X)
    assert np.array_equal(TableEncoder().fit_transform(pa.Table.from_pandas(frame)), X)
    restored = TableEncoding.from_state(encoder.encoding_.state())
    assert restored.feature_names == encoder.encoding_.feature_names


def test_polars(frame):
    polars = pytest.importorskip("polars")
    X = TableEncoder().fit_transform(frame)
    assert np.array_equal(TableEncoder().fit_transform(polars.from_pandas(frame)), X)


@pytest.mark.parametrize("unit", ["D", "h"])
def test_durations_are_hours(unit):
    """As texts they would be categories, or all different and left out without a word."""
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    spans = pd.Series(pd.to_timedelta(rng.integers(1, 4000, 200), unit=unit)).mask(
        np.arange(200) < 2
    )
    frame = pd.DataFrame({"usage": rng.normal(size=200), "span": spans})
    expected = frame.assign(span=spans / pd.Timedelta(hours=1))
    X = TableEncoder().fit_transform(expected)
    for given in (frame, polars.from_pandas(frame), pa.Table.from_pandas(frame)):
        encoder = TableEncoder().fit(given)
        assert encoder.get_feature_names_out().tolist()[:2] == ["usage", "span"]
        np.testing.assert_allclose(encoder.transform(given), X, rtol=1e-15)
    with pytest.raises(ValueError, match="TableEncoder"):
        AUCClassifier().fit(frame, np.arange(200) % 2)
    make_pipeline(TableEncoder(), AUCClassifier()).fit(frame, np.arange(200) % 2)


def test_numbers_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    values = rng.normal(size=300) * 10.0 ** rng.integers(-200, 200, size=300)
    X = TableEncoder().fit_transform(pd.DataFrame({"x": values}))
    assert np.array_equal(X[:, 0], values)


def test_it_is_a_transformer_of_scikit_learn(frame):
    y = labels_of(frame)
    model = make_pipeline(TableEncoder(missing="indicator"), AUCClassifier(random_state=0))
    assert cross_val_score(clone(model), frame, y, cv=3).mean() > 0.95
    fitted = model.fit(frame, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.decision_function(frame), fitted.decision_function(frame))
    wide = TableEncoder().set_output(transform="pandas").fit_transform(frame)
    assert "plan=pro" in wide.columns


def test_given_kinds_and_exclusions(frame):
    encoder = TableEncoder(kinds={"calls": "category"}, exclude=["since"]).fit(frame)
    names = encoder.get_feature_names_out().tolist()
    assert "calls=3" in names
    assert not any(name.startswith("since") for name in names)


def test_what_cannot_be_read_is_told(frame):
    encoder = TableEncoder().fit(frame)
    odd = frame.assign(usage=frame["usage"].astype(object))
    odd.loc[3, "usage"] = "a lot"
    with pytest.warns(UserWarning, match="'usage': 1 value taken as missing; first: row:3"):
        X = encoder.transform(odd)
    assert X[3, 0] == np.median(frame["usage"])


def test_a_column_of_which_nothing_can_be_read_is_refused(frame):
    encoder = TableEncoder().fit(frame)
    odd = frame.assign(usage=frame["usage"].map("{} pieces".format))
    assert len(odd) >= 20
    with pytest.raises(
        ValueError,
        match=r"240 of the first 240 values of column 'usage' cannot be read: .* in piece;",
    ):
        encoder.transform(odd)


def test_a_column_of_unknown_levels_is_told():
    """Codes that have lost their zeros were other levels, all of them, without a word."""
    codes = [f"{k % 5:02d}" for k in range(60)]
    encoder = TableEncoder().fit(pd.DataFrame({"code": codes, "a": range(60, 0, -1)}))
    bare = pd.DataFrame({"code": [*(code[1:] for code in codes), None], "a": 1.0})
    message = "'code': none of the first 60 values of X is one of the 5 levels .* first: '0'"
    with pytest.warns(UserWarning, match=message):
        encoder.transform(bare)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Few rows may be of new levels, and one known level shows that the writing is right.
        encoder.transform(bare[:19])
        encoder.transform(pd.concat([bare, pd.DataFrame({"code": ["03"], "a": 1.0})]))
        encoder.transform(bare.assign(code=None))


def test_a_model_names_the_encoder_as_the_cure(frame):
    with pytest.raises(ValueError, match=r"column 'customer' .* make_pipeline\(TableEncoder\(\)"):
        AUCClassifier().fit(frame, labels_of(frame))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: TableEncoder().fit(f.to_numpy()), "must be a data frame"),
        (lambda f: TableEncoder().fit(f.iloc[:0]), "must have rows and columns"),
        (lambda f: TableEncoder().fit(f[["place"]]), "leaves no column for features"),
        (lambda f: TableEncoder().fit(f.rename(columns={"plan": 3})), "texts as names, got 3"),
        (lambda f: TableEncoder().fit(pd.concat([f, f], axis=1)), "more than one column named"),
        (lambda f: TableEncoder(kinds={"pla": "category"}).fit(f), "no column 'pla'"),
        (lambda f: TableEncoder(kinds={"plan": "id"}).fit(f), "must be one of"),
        (lambda f: TableEncoder(exclude=["plans"]).fit(f), "no column 'plans'"),
        (lambda f: TableEncoder(missing="drop").fit(f), "missing must be"),
        (lambda f: TableEncoder(missing="refuse").fit(f), "the value is missing, and missing="),
        (
            lambda f: TableEncoder().fit(f).transform(f[["usage", "plan"]]),
            "no column 'calls', 'since', 'active'",
        ),
        (
            lambda f: TableEncoder().fit(f.assign(usage=np.r_[np.inf, f["usage"][1:]])),
            "holds infinity",
        ),
        (lambda f: TableEncoder().fit(f).get_feature_names_out(["a"]), "columns that"),
    ],
)
def test_wrong_input_is_refused(change, words, frame):
    with pytest.raises(ValueError, match=words):
        change(frame)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_level_does_not_depend_on_the_other_rows(library):
    frames = pytest.importorskip(library)
    values = [1.0, 2.0, 2.5, None] * 10
    frame = frames.DataFrame({"a": values})
    encoder = TableEncoder(kinds={"a": "category"}).fit(frame)
    whole = encoder.transform(frame)
    for row in range(4):
        alone = encoder.transform(frames.DataFrame({"a": frame["a"][row : row + 1]}))
        np.testing.assert_array_equal(alone[0], whole[row])
    some = encoder.transform(frames.DataFrame({"a": [2, 1]}))
    np.testing.assert_array_equal(some, whole[[1, 0]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_spans_of_time_are_hours(library):
    frames = pytest.importorskip(library)
    spans = [datetime.timedelta(hours=k % 7, minutes=30) for k in range(40)] + [None]
    encoder = TableEncoder().fit(frames.DataFrame({"a": spans}))
    found = encoder.transform(frames.DataFrame({"a": spans[:3]}))
    assert found[:, 0].tolist() == [0.5, 1.5, 2.5]


def test_columns_to_leave_out_are_a_list():
    frame = pd.DataFrame({"a": [1.5, 2.5] * 10, "b": [3.5, 4.5] * 10, "c": [5.5, 6.5] * 10})
    with pytest.raises(TypeError, match="exclude must be a list of names, got 'ab'"):
        TableEncoder(exclude="ab").fit(frame)


def test_a_whole_number_is_its_level_however_it_is_written():
    kinds = {"a": "category"}
    for levels, later in ((["1", "2"], ["1.0", "2.00"]), (["1.0", "2.0"], ["1", "2"])):
        encoder = TableEncoder(kinds=kinds).fit(pd.DataFrame({"a": levels * 20}))
        found = encoder.transform(pd.DataFrame({"a": [*later, "1.5"]}))
        assert found.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    # Both spellings may be levels.
    encoder = TableEncoder(kinds=kinds).fit(pd.DataFrame({"a": ["1", "1.0"] * 20}))
    assert encoder.transform(pd.DataFrame({"a": ["1", "1.0"]}))[:, :2].tolist() == [[1, 0], [0, 1]]


def _of_type_category(values, texts, library):
    """Return a frame whose column `c` is declared a category, with a gap in the first row."""
    if library == "pandas":
        c = pd.Series(pd.Categorical(values)).mask(np.arange(len(values)) < 1)
        return pd.DataFrame({"c": c})
    if library == "pandas of arrow":
        kind = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.array(values).type))
        return pd.DataFrame({"c": pd.Series([None, *values[1:]], dtype=kind)})
    if library == "arrow":
        return pa.table({"c": pa.array([None, *values[1:]]).dictionary_encode()})
    polars = pytest.importorskip("polars")
    kind = polars.Categorical() if library == "polars" else polars.Enum(sorted(set(texts)))
    return polars.DataFrame({"c": polars.Series([None, *texts[1:]]).cast(kind)})


LIBRARIES = ["pandas", "pandas of arrow", "arrow", "polars", "polars enum"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "levels", [[100, 110, 120], [0, 1], [1.0, 2.5, 4.0], [2**60, 2**60 + 1]], ids=str
)
def test_a_column_of_the_type_category_is_one_whatever_its_levels(levels, library):
    """Levels that are numbers made a number of it: shops 100, 110, ... had one slope."""
    values = [levels[k * k % len(levels)] for k in range(60)]
    texts = [str(int(v)) if v == int(v) else str(v) for v in values]
    frame = _of_type_category(values, texts, library)
    encoder = TableEncoder().fit(frame)
    expected = [*sorted({f"c={text}" for text in texts}), "c=(other)"]
    names = encoder.get_feature_names_out().tolist()
    assert [name for name in names if name != "c=(missing)"] == expected
    X = encoder.transform(frame)
    # rows go by their levels, whatever the type of the column is then
    plain = pd.Series(values, dtype=object).mask(np.arange(60) < 1)
    for column in (plain, plain.map(str, na_action="ignore")):
        assert np.array_equal(encoder.transform(pd.DataFrame({"c": column})), X)
    whole = encoder.transform(pd.DataFrame({"c": values}))
    assert np.array_equal(whole[1:], X[1:])
    number = TableEncoder(kinds={"c": "number"}).fit(frame)
    assert number.decisions_[0].kind == "number"


@pytest.mark.parametrize("library", ["pandas", "arrow"])
@pytest.mark.parametrize("levels", [[True, False], ["yes", "no"], ["a", "b"], ["10 cm", "1 m"]])
def test_a_category_of_two_levels_is_what_a_text_of_the_same_values_is(levels, library):
    values = [levels[k * k % 3 % 2] for k in range(60)]
    texts = [str(value) for value in values]
    frame = _of_type_category(values, texts, library)
    expected = TableEncoder(kinds={"c": "category"} if "1 m" in levels else None).fit(
        pd.DataFrame({"c": [None, *texts[1:]]})
    )
    encoder = TableEncoder().fit(frame)
    assert encoder.decisions_[0].kind == expected.decisions_[0].kind
    assert np.array_equal(encoder.transform(frame), expected.transform(frame))


def test_a_category_of_many_levels_is_an_id_as_a_text_is():
    values = np.random.default_rng(0).permutation(3000)
    ids = pd.DataFrame({"shop": pd.Categorical(values), "a": np.arange(3000.0) ** 2})
    assert TableEncoder().fit(ids).encoding_.ids == ("shop",)
    repeated = ids.assign(shop=pd.Categorical(values % 1000, ordered=True))
    encoder = TableEncoder().fit(repeated)
    assert encoder.decisions_[0].kind == "category"
    assert "shop" not in encoder.get_feature_names_out()


@pytest.mark.parametrize("kind", ["feather", "parquet", "arrow", "parquet of arrow"])
def test_a_file_tells_that_a_column_is_a_category(kind, tmp_path):
    """Parquet itself keeps a dictionary of texts only; pandas leaves a note about numbers."""
    rng = np.random.default_rng(0)
    shops = rng.integers(0, 4, 200) * 10
    frame = pd.DataFrame(
        {"shop": pd.Categorical(shops), "x": rng.normal(size=200), "y": rng.integers(0, 2, 200)}
    )
    path, form = tmp_path / "a", "arrow" if kind in ("feather", "arrow") else "parquet"
    if kind == "feather":
        frame.to_feather(path)
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        texts = pa.array(shops.astype(str)).dictionary_encode()
        table = pa.table({"shop": texts, "x": frame["x"], "y": frame["y"]})
        if kind == "arrow":
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
        else:
            pa.parquet.write_table(table, path)
    table = load_table([path], TableOptions(label="y", format=form))
    encoder = TableEncoder().fit(frame[["shop", "x"]])
    assert list(table.plan.encoder.feature_names) == encoder.get_feature_names_out().tolist()
    assert np.array_equal(table.X, encoder.transform(frame))
    number = load_table([path], TableOptions(label="y", format=form, kinds={"shop": "number"}))
    assert number.X.shape[1] == 2


def test_a_fit_that_fails_changes_nothing(frame):
    encoder = TableEncoder().fit(frame)
    before = vars(encoder).copy()
    for wrong in (frame[["place"]], pd.DataFrame({"x": [1.0, 2.0, np.inf]})):
        with pytest.raises(ValueError, match=r"no column for features|infinity"):
            encoder.fit(wrong)
        assert vars(encoder) == before


def test_a_number_of_numpy_fills_gaps():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 2.0]})
    for missing in (-7, -7.0, np.int64(-7), np.float32(-7)):
        assert TableEncoder(missing=missing).fit_transform(frame)[1, 0] == -7.0
    for wrong in (True, np.True_, np.inf, "7"):
        with pytest.raises(ValueError, match="missing must be"):
            TableEncoder(missing=wrong).fit(frame)


def test_complex_numbers_are_refused():
    """They were texts, each with one row: `z=(other)` alone was left of them."""
    with pytest.raises(ValueError, match=r"'z' holds complex numbers.*two columns"):
        TableEncoder().fit(pd.DataFrame({"z": np.arange(30.0) * 1j, "x": np.arange(30.0) ** 2}))
    with pytest.raises(ValueError, match="'z' holds complex numbers"):
        TableEncoder().fit(pd.DataFrame({"z": [1.0, 1j, None, 2.0]}))


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_numbers_of_numpy_among_texts_are_numbers(kind):
    """NumPy 2 writes np.float64(0.125), which was taken for a text that stands once."""
    x = np.random.default_rng(0).normal(size=200).astype(np.float16)
    column = [kind(v) if k % 20 else "n/a" for k, v in enumerate(x)]
    table = pd.DataFrame({"x": pd.Series(column, dtype=object), "z": np.arange(200) * 0.37})
    encoder = TableEncoder().fit(table)
    assert encoder.decisions_[0].kind == "number"
    plain = table.assign(x=[float(v) if v != "n/a" else "n/a" for v in column])
    np.testing.assert_allclose(encoder.transform(table), encoder.transform(plain), rtol=1e-3)


def test_durations_of_numpy_are_hours_in_an_object_column_too():
    spans = [np.timedelta64(int(k) * 10**9, "ns") for k in range(100, 90_100, 450)]
    z = np.arange(200) * 0.37
    objects = pd.DataFrame({"span": pd.Series(spans, dtype=object), "z": z})
    typed = pd.DataFrame({"span": pd.Series(spans), "z": z})
    encoder = TableEncoder().fit(objects)
    np.testing.assert_allclose(encoder.transform(typed), encoder.transform(objects))
    assert encoder.transform(typed)[0, 0] == pytest.approx(100 / 3600)


@pytest.mark.parametrize(
    ("before", "later", "said"),
    [
        ("%m/%d/%Y", "%d/%m/%Y", "dates with the month first, this looks like dates with the day"),
        ("{:.2f}", "{:,.2f}", "plain numbers .*, this looks like numbers with commas"),
    ],
)
def test_a_column_that_is_written_in_another_way_than_in_training(before, later, said):
    """Half of the dates were misread, the other half missing, and the status was 0."""
    values = [datetime.date(2023, 1, 1) + datetime.timedelta(days=7 * k) for k in range(100)]
    if "{" in before:
        values = (1000.0 + 97.3 * np.arange(100)).tolist()

    def frame(form):
        texts = [form.format(v) if "{" in form else v.strftime(form) for v in values]
        return pd.DataFrame({"c": texts, "z": np.sin(np.arange(100))})

    encoder = TableEncoder().fit(frame(before))
    with pytest.raises(ValueError, match=f"column 'c' cannot be read: .*; training saw {said}"):
        encoder.transform(frame(later))
    with pytest.warns(UserWarning, match="values taken as missing"):
        encoder.transform(frame(later)[:19])


SCALARS = {
    "number": (2.5, [2.5, np.float64(2.5), np.float32(2.5), decimal.Decimal("2.50"), "2.5"]),
    "whole": (3.0, [3, 3.0, np.int8(3), np.uint64(3), np.float32(3), decimal.Decimal(3), "3"]),
    "flag": (1.0, [True, np.bool_(True), "true", "Yes"]),
    "span": (1.5, [datetime.timedelta(minutes=90), np.timedelta64(90, "m"),
                   pd.Timedelta(minutes=90), "1.5"]),
    "day": (19723.0, [datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1),
                      np.datetime64("2024-01-01"), pd.Timestamp("2024-01-01"), "2024-01-01"]),
    "gap": (np.nan, [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), "n/a", ""]),
}  # fmt: skip


@pytest.mark.parametrize("kind", SCALARS)
def test_a_scalar_has_one_meaning_whatever_its_type(kind):
    expected, values = SCALARS[kind]
    for value in values:
        for column in ([value], [value, "other"], [value, None]):
            series = series_of("c", column)
            if kind == "day":
                found = read_days(series, lambda text: parse_date(text, "ymd"))[0][0]
            elif kind == "flag":
                found = YesNoColumn("c").read(series)[0][0]
            else:
                found = read_numbers(series, "plain")[0][0]
            assert found == expected or (found != found and kind == "gap"), (value, column)
