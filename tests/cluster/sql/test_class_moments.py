# SPDX-License-Identifier: BSD-3-Clause
"""Moments that a database sums are those of the same rows in memory, bit for bit."""

from contextlib import closing
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pairlearn import AUCClassifier, Moments
from pairlearn.cluster import batch_moments, class_moments
from pairlearn.cluster.sql.reading import read_moments
from pairlearn.cluster.sql.statements import Limbs, MomentsSelect, Rows, rounded, scaled
from pairlearn.solvers import ClassMoments, Extents, Grid

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")


def in_duckdb(X, y, weight=None, name="rows"):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    weight = np.ones(len(y)) if weight is None else weight
    db = duckdb.connect()
    db.register("given", pa.table({**columns, "y": y, "w": weight}))
    db.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
    return db


IN = {"duckdb": in_duckdb}


def python_state(X, y, weight=None):
    """Extents and moments of rows in memory."""
    reach = Extents.of(X, weight)
    signs = np.where(y == max(y), 1, -1)
    moments = ClassMoments(X.shape[1], Grid.of(reach)).add(X, signs, example_weight=weight)
    return reach, moments


def asked(db, X, dialect, **options):
    names = [f"x{j}" for j in range(X.shape[1])]
    given = {"table": "rows"} if "query" not in options else {}
    return class_moments(db, columns=names, target="y", dialect=dialect, **given, **options)


def check(dialect, X, y, weight=None):
    reach, moments = python_state(X, y, weight)
    with closing(IN[dialect](X, y, weight)) as db:
        found = asked(db, X, dialect, weight=None if weight is None else "w")
    for name, value in vars(reach).items():
        assert np.array_equal(getattr(found.extents, name), value), name
    assert found.digest() == moments.digest()
    assert found.classes.tolist() == [0, 1]
    return found


@pytest.mark.parametrize("dialect", IN)
@pytest.mark.parametrize("kind", ["none", "whole", "some zero", "fractions"])
def test_the_state_is_that_of_rows_in_memory(examples, dialect, kind):
    X, y, whole = examples
    weight = {
        "none": None,
        "whole": whole,
        "some zero": np.where(whole == 3, 0.0, whole),
        "fractions": whole / 7.0,
    }[kind]
    found = check(dialect, X, y, weight)
    assert found.n_examples == (3_000 if weight is None else np.count_nonzero(weight))


VALUES = st.one_of(
    st.integers(-(10**6), 10**6).map(lambda k: k / 1e5),
    st.integers(-40, 40).map(lambda k: k / 8),
    st.floats(1e-3, 1e-2),
    st.floats(1e4, 1e5),
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 5e-324]),
)


@pytest.mark.thorough
@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_any_rows_in_duckdb(data):
    n = data.draw(st.integers(2, 12))
    d = data.draw(st.integers(1, 3))
    X = np.array([[data.draw(VALUES) for _ in range(d)] for _ in range(n)])
    y = np.array([0, 1] + [data.draw(st.integers(0, 1)) for _ in range(n - 2)])
    weight = None
    if data.draw(st.booleans()):
        weight = np.array(
            [data.draw(st.sampled_from([0.5, 1.0, 2.0, 0.1, 3.75])) for _ in range(n)]
        )
    check("duckdb", X, y, weight)


@pytest.mark.parametrize("dialect", IN)
@pytest.mark.parametrize(
    "values",
    [[0.0, -0.0], [1e-300, 3e-300], [5e-324, 1.0], [5e-324, 0.0], [1e5, 1e6], [7.0, 7.0],
     [-1e100, 1e100], [1e-5, -1e-5, 1e-4, 0.0]],
)  # fmt: skip
def test_columns_of_any_size(dialect, values):
    y = np.arange(len(values)) % 2
    check(dialect, np.array(values)[:, None], y)


@pytest.mark.parametrize("dialect", IN)
def test_rounding_is_to_the_nearest_whole_number_ties_to_even(dialect):
    rng = np.random.default_rng(1)
    values = np.concatenate([
        [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 2.0**51 + 0.5, 2.0**52 - 0.5,
         -(2.0**52) + 0.5, 2.0**52, 2.0**53 - 1, 4503599627370497.0, 1e15 + 0.5],
        rng.normal(size=50) * 2.0 ** rng.integers(-3, 54, size=50),
    ])  # fmt: skip
    with closing(IN[dialect](values[:, None], np.zeros(len(values)))) as db:
        found = db.execute(f"SELECT x0, {rounded('x0')} FROM rows").fetchall()
    for value, whole in found:
        assert whole == np.rint(value), value


@pytest.mark.parametrize("dialect", IN)
def test_products_with_powers_of_two_are_exact(dialect):
    with closing(IN[dialect](np.array([[0.1]]), np.zeros(1))) as db:
        for exponent in (-200, -53, -1, 0, 1, 52, 60, 1000):
            ((found,),) = db.execute(f"SELECT {scaled('x0', exponent)} FROM rows").fetchall()
            assert found == np.ldexp(0.1, exponent)


def test_far_values_are_exact_or_refused(examples):
    X, y, weight = examples
    far = X.copy()
    # Floats beyond 2^53 steps of the grid are cut into limbs as others are.
    for value in (1e6, 1e12):
        far[0, 0], far[1, 1] = value, -value
        check("duckdb", far, y)
    check("duckdb", far, y, weight / 7.0)
    far[0, 0] = 1e60
    with closing(in_duckdb(far, y)) as db:
        with pytest.raises(ValueError, match="does not hold the sums"):
            asked(db, far, "duckdb")
        batches = batch_moments(db, "SELECT * EXCLUDE w FROM rows", target="y")
    assert batches.digest() == python_state(far, y)[1].digest()


def test_a_model_has_the_coefficients_of_the_rows_in_memory(examples):
    X, y, _ = examples
    plain = AUCClassifier(loss="square", solver=Moments(0.1)).fit(X, y)
    ranges = (X.min(axis=0), X.max(axis=0))
    memory = AUCClassifier(loss="square", solver=Moments(0.1, ranges=ranges)).fit(X, y)
    with closing(in_duckdb(X, y)) as db:
        found = asked(db, X, "duckdb")
    model = found.model(0.1)
    assert np.array_equal(model.coef_, memory.coef_)
    assert np.allclose(model.coef_, plain.coef_, rtol=1e-10, atol=0)
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    # Scores are nearly normal here.
    assert abs(model.threshold_ - memory.threshold_) < 0.2
    with pytest.raises(ValueError, match="ridge"):
        found.model(-1.0)
    with pytest.raises(TypeError, match="ridge must be a number, got 'auto'"):
        found.model("auto")


def test_rows_that_are_taken_back_leave_no_trace(examples):
    X, y, _ = examples
    kept = ~((X[:, 0] > 1.0) & (y == 1))
    with closing(in_duckdb(X, y)) as db:
        whole = asked(db, X, "duckdb")
        gone = asked(
            db, X, "duckdb", query="SELECT * FROM rows WHERE x0 > 1.0 AND y = 1", like=whole
        )
    rest = whole.without(gone)
    never = ClassMoments(3, whole.grid).add(X[kept], 2 * y[kept] - 1)
    assert rest.digest() == never.digest()
    assert rest.n_examples == kept.sum()
    # The extremes are still there, so that the grid of the others is the same.
    with closing(in_duckdb(X[kept], y[kept])) as db:
        fitted = asked(db, X[kept], "duckdb", like=whole)
    assert np.array_equal(rest.model(0.01).coef_, fitted.model(0.01).coef_)
    assert rest.merge(gone).digest() == whole.digest()
    whole.certificate(gone).verify(after=never.state())
    with pytest.raises(ValueError, match="not all among"):
        gone.without(whole)


def test_batches_can_be_taken_back_too(examples, rows):
    X, y, _ = examples
    whole = batch_moments(rows, target="y", columns=["x0", "x1", "x2"], batch_rows=500)
    assert whole.digest() == python_state(X, y)[1].digest()
    gone = batch_moments(rows.slice(0, 100), target="y", like=whole)
    never = ClassMoments(3, whole.grid).add(X[100:], 2 * y[100:] - 1)
    assert whole.without(gone).digest() == never.digest()
    model = whole.without(gone).model(0.1)
    assert model.n_examples_ == 2_900


def test_decimals_are_the_nearest_floats_in_batches_too(rng):
    with closing(duckdb.connect()) as db:
        db.execute("CREATE TABLE rows (price DECIMAL(9, 2), long DECIMAL(38, 10), y DECIMAL(3, 2))")
        table = [
            (Decimal(top // 10**9).scaleb(-2), Decimal(top).scaleb(-10), Decimal("0.58") * (k % 2))
            for k, top in enumerate(rng.integers(-(10**18), 10**18, 200).tolist())
        ]
        db.executemany("INSERT INTO rows VALUES (?, ?, ?)", table)
        found = batch_moments(db, "SELECT * FROM rows", target="y")
        wanted = class_moments(db, table="rows", columns=["price", "long"], target="y")
    X = np.array([[float(value) for value in row[:2]] for row in table])
    _, moments = python_state(X, np.array([float(row[2]) for row in table]))
    assert found.digest() == wanted.digest() == moments.digest()
    assert found.classes.tolist() == wanted.classes.tolist() == [0.0, 0.58]


def test_a_range_of_rows_that_were_taken_back_is_told(examples):
    X, y, _ = examples
    rows, labels = np.vstack([X, np.full((1, X.shape[1]), 1e30)]), np.append(y, y[0])
    columns = {f"x{j}": rows[:, j] for j in range(X.shape[1])}
    table = pa.table({**columns, "y": labels})
    whole = batch_moments(table, target="y")
    rest = whole.without(batch_moments(table.slice(len(X)), target="y", like=whole))
    with pytest.warns(UserWarning, match="of rows that are gone"):
        rest.model(0.1)


def test_names_are_quoted_whatever_they_hold():
    db = duckdb.connect()
    odd = 'a"; DROP TABLE "rows'
    db.execute('CREATE TABLE "my ""rows" ("a""; DROP TABLE ""rows" DOUBLE, "order" TEXT)')
    db.executemany(
        'INSERT INTO "my ""rows" VALUES (?, ?)', [(1.0, "no"), (2.5, "yes"), (0.5, "no")]
    )
    found = class_moments(db, table='my "rows', columns=[odd], target="order", dialect="duckdb")
    assert found.classes.tolist() == ["no", "yes"]
    assert found.moments.means[:, 0].tolist() == [2.5, 0.75]
    assert '"main"."t"' in Rows(["a"], "y", table=("main", "t")).source
    db.close()
    for name in ("", "a\0b", 3):
        with pytest.raises(ValueError, match="must be a text"):
            Rows(["a"], "y", table=name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE rows SET x1 = NULL WHERE rowid < 3", "column 'x1' is NULL, or no number, in 3"),
        ("UPDATE rows SET x1 = 9e999 WHERE rowid = 1", "holds NaN or infinity"),
        ("UPDATE rows SET y = NULL WHERE rowid = 1", "'y' is NULL in 1 rows"),
        ("UPDATE rows SET y = 2 WHERE rowid = 1", "has 3 different values"),
        ("UPDATE rows SET y = 1", "one class"),
        ("UPDATE rows SET w = NULL WHERE rowid = 1", "column 'w' is NULL, or no number, in 1 rows"),
        ("UPDATE rows SET w = 0", "has no row, or all weights are 0"),
        ("UPDATE rows SET w = -1 WHERE rowid = 1", "at least 0"),
        ("DELETE FROM rows", "has no row"),
    ],
)
def test_what_cannot_be_summed_is_refused(examples, change, said):
    X, y, _ = examples
    with closing(in_duckdb(X[:50], y[:50])) as db:
        db.execute(change)
        with pytest.raises(ValueError, match=said):
            asked(db, X, "duckdb", weight="w" if "w" in change.split("SET")[-1] else None)


def test_names_differ_in_case_where_a_database_says_so():
    assert Rows(["a", "A"], "y", table="t", dialect="postgresql").columns == ("a", "A")


def test_labels_that_are_no_number_are_refused(examples):
    X, y, _ = examples
    labels = np.where(y[:50] == 1, np.nan, 0.0)
    with (
        closing(in_duckdb(X[:50], labels)) as db,
        pytest.raises(ValueError, match="'y' is NaN in"),
    ):
        asked(db, X, "duckdb")


def test_a_statement_refuses_rows_that_it_was_not_written_for(examples):
    X, y, _ = examples
    with closing(in_duckdb(X, y)) as db:
        whole = asked(db, X, "duckdb")
        db.execute("UPDATE rows SET x1 = 1e6 WHERE rowid = 7")
        with pytest.raises(ValueError, match="1 rows of the class"):
            asked(db, X, "duckdb", like=whole)
        db.execute("UPDATE rows SET x1 = NULL WHERE rowid < 3")
        with pytest.raises(ValueError, match="beyond the extents"):
            asked(db, X, "duckdb", like=whole)


def test_weights_that_a_grid_does_not_hold_are_refused(examples):
    X, y, weight = examples
    with closing(in_duckdb(X, y, weight)) as db:
        whole = asked(db, X, "duckdb", weight="w")
        db.execute("UPDATE rows SET w = 1.5 WHERE rowid = 7")
        with pytest.raises(ValueError, match="a weight that the grid does not hold"):
            asked(db, X, "duckdb", weight="w", like=whole)


def test_a_table_that_changes_between_the_statements_is_noticed(examples):
    X, y, _ = examples
    with closing(in_duckdb(X, y)) as db:

        def run(statement):
            if "GROUP BY" in statement:
                db.execute("DELETE FROM rows WHERE rowid = 5")
            return db.execute(statement).fetchall()

        with pytest.raises(ValueError, match="saw 2999 rows, the first one 3000"):
            asked(run, X, "duckdb")


def test_results_may_be_decimals_or_texts_and_never_floats(examples):
    X, y, _ = examples
    reach, moments = python_state(X, y)
    names = ["x0", "x1", "x2"]
    select = MomentsSelect(Rows(names, "y", table="rows"), reach, Grid.of(reach))
    with closing(in_duckdb(X, y)) as db:
        rows = db.execute(select.sql).fetchall()
    for as_told in (Decimal, str):
        told = [(row[0], *map(as_told, row[1:])) for row in rows]
        assert read_moments(select, told).digest() == moments.digest()
    floats = [(row[0], row[1], row[2], *map(float, row[3:])) for row in rows]
    with pytest.raises(ValueError, match="sums floats"):
        read_moments(select, floats)
    with pytest.raises(ValueError, match="whole number is expected"):
        read_moments(select, [(rows[0][0], *map(str, rows[0][1:-1]), "nan"), rows[1]])
    with pytest.raises(ValueError, match="gives no row"):
        read_moments(select, [])


def test_settings_are_checked():
    for options, said in [
        ({"columns": ["a", "a"]}, "named twice"),
        ({"columns": ["a", "y"]}, "named twice"),
        ({"columns": ["a", "Y"]}, "'Y' is named twice"),
        ({"columns": "abc"}, "list of names"),
        ({"columns": []}, "list of names"),
        ({"columns": ["a"], "query": "SELECT 1"}, "either table= or query="),
        ({"columns": ["a"], "dialect": "postgres"}, "did you mean 'postgresql'"),
    ]:
        with pytest.raises(ValueError, match=said):
            class_moments(None, target="y", table="rows", **options)
    with pytest.raises(TypeError, match="must be a connection"):
        class_moments(3, columns=["a"], target="y", table="rows")
    wide = Extents.of(np.random.default_rng(0).normal(size=(9, 60)))
    names = [f"x{j}" for j in range(60)]
    rows = Rows(names, "y", table="t", dialect="postgresql")
    with pytest.raises(ValueError, match="choose fewer columns"):
        MomentsSelect(rows, wide, Grid.of(wide)).sql  # noqa: B018


def test_rows_are_taken_back_on_the_grid_and_with_the_weights_that_they_had():
    X, y = np.random.default_rng(0).normal(size=(40, 1)), np.arange(40) % 2
    X[30:] *= 1e6

    def table_of(rows, weight):
        return pa.table({"x": X[rows, 0], "y": y[rows], "w": np.full(len(rows), weight)})

    asked = {"target": "y", "columns": ["x"], "weight": "w"}
    whole = batch_moments(table_of(np.arange(40), 4.0), **asked)
    with pytest.raises(ValueError, match="finer grid than the others"):
        whole.without(batch_moments(table_of(np.arange(10), 4.0), **asked))
    split = batch_moments(table_of(np.repeat(np.arange(20), 4), 1.0), like=whole, **asked)
    with pytest.raises(ValueError, match="80 of 40 rows cannot be taken back"):
        whole.without(split)
    assert whole.without(whole).n_examples == 0


def test_rows_of_a_merged_table_are_taken_back_with_larger_weights():
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(300, 1)), np.arange(300) % 2, rng.integers(1, 99, 300) * 1.0
    weight[:20] = 2.0
    named = {"target": "y", "columns": ["x"], "weight": "w"}

    def in_memory(rows, like=None):
        table = pa.table({"x": X[rows, 0], "y": y[rows], "w": weight[rows]})
        return batch_moments(table, like=like, **named)

    whole = in_memory(slice(20))
    whole = whole.merge(in_memory(slice(20, 300), like=whole))
    assert whole.extents.n_rows >= 300
    with closing(duckdb.connect()) as db:
        db.execute("CREATE TABLE t (x DOUBLE, y INTEGER, w DOUBLE)")
        rows = zip(X[50:, 0].tolist(), y[50:].tolist(), weight[50:].tolist(), strict=True)
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        gone = class_moments(db, table="t", like=whole, dialect="duckdb", **named)
    assert whole.without(gone).digest() == in_memory(slice(50), like=whole).digest()


def test_moments_of_other_columns_do_not_belong_together(examples, rows):
    X, y, _ = examples
    whole = batch_moments(rows, target="y", columns=["x0", "x1"])
    other = batch_moments(rows, target="y", columns=["x1", "x2"])
    with pytest.raises(ValueError, match="do not belong together"):
        whole.without(other)
    with closing(in_duckdb(X, y)) as db, pytest.raises(ValueError, match="those of the other"):
        asked(db, X, "duckdb", like=whole)


def test_moments_with_weights_and_without_do_not_belong_together():
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "y": [0, 1, 1, 0, 0], "w": [1, 2, 1, 2, 1]})
    asked = {"target": "y", "columns": ["x"]}
    found = {weight: batch_moments(table, weight=weight, **asked) for weight in (None, "w")}
    assert [found[weight].weighed for weight in (None, "w")] == [False, True]
    for own, other in ((None, "w"), ("w", None)):
        like, wrong = found[own], {**asked, "weight": other, "like": found[own]}
        with pytest.raises(ValueError, match=f"rows with.* weights, and weight is {other!r}; rows"):
            batch_moments(table[3:4], **wrong)
        with closing(duckdb.connect()) as db:
            db.execute("CREATE TABLE t (x DOUBLE, y INTEGER, w DOUBLE)")
            db.execute("INSERT INTO t VALUES (4, 0, 2)")
            with pytest.raises(ValueError, match=r"and weight is .*; rows that are merged"):
                class_moments(db, table="t", dialect="duckdb", **wrong)
            select = MomentsSelect(Rows(["x"], "y", other, table="t"), like.extents, like.grid)
            rows = db.execute(select.sql).fetchall()
        with pytest.raises(ValueError, match=r"and weight is .*; rows that are merged"):
            read_moments(select, rows, like=like)
        for work in (like.without, like.merge, like.certificate):
            with pytest.raises(ValueError, match="with weights and of rows without do not belong"):
                work(found[other])
    gone = batch_moments(table[3:4], weight="w", like=found["w"], **asked)
    assert found["w"].without(gone).moments.counts.tolist() == [3.0, 2.0]
    assert found["w"].without(gone).merge(gone).weighed


@given(
    n_rows=st.integers(1, 10**9),
    size=st.integers(0, 2**52),
    weight=st.integers(1, 2**42),
    bits=st.sampled_from([63, 127]),
)
def test_limbs_keep_sums_below_the_largest_number(n_rows, size, weight, bits):
    limbs = Limbs.planned(n_rows, size, weight, 1 << bits)
    if limbs is None:
        return
    long = size if limbs.n == 1 else 1 << (limbs.bits - 1)
    heavy = weight if limbs.n_weight == 1 else 1 << (limbs.weight_bits - 1)
    assert n_rows * heavy * long * long * limbs.n < 1 << bits
    # What is cut off limb by limb leaves a last one that is no longer.
    for value, n, width in (
        (size, limbs.n, limbs.bits),
        (weight, limbs.n_weight, limbs.weight_bits),
    ):
        for _ in range(n - 1):
            value = (2 * value + (1 << width)) // (1 << (width + 1))
        if n > 1:
            assert value <= 1 << (width - 1)


def test_the_unit_of_weights_changes_no_probability(examples):
    X, y, _ = examples
    pa = pytest.importorskip("pyarrow")
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}

    def probabilities(unit):
        table = pa.table({**columns, "y": y, "w": np.full(len(y), unit)})
        model = batch_moments(table, target="y", weight="w").model(0.1)
        return model.predict_proba(pa.table(columns))

    np.testing.assert_allclose(probabilities(2.0**-20), probabilities(1.0), rtol=1e-9)


@pytest.mark.parametrize("dialect", IN)
@pytest.mark.parametrize("name", ["s0", "s1", "source", "c"])
def test_a_table_may_have_the_name_of_a_part_of_the_statement(examples, dialect, name):
    X, y, _ = examples
    X, y = X[:50], y[:50]
    with closing(IN[dialect](X, y, name=name)) as db:
        found = class_moments(
            db, table=name, columns=["x0"], target="y", weight="w", dialect=dialect
        )
    assert found.n_examples == 50


@pytest.mark.parametrize("kind", ["VARCHAR", "ENUM('1', '2', '007')"])
def test_texts_that_look_like_numbers_are_refused_in_duckdb(kind):
    with closing(duckdb.connect()) as db:
        db.execute(f"CREATE TABLE t (x {kind}, y INTEGER)")
        db.execute("INSERT INTO t VALUES ('1', 0), ('2', 1), ('007', 1)")
        with pytest.raises(ValueError, match="'x' is NULL, or no number, in 3 of 3 rows"):
            class_moments(db, table="t", columns=["x"], target="y")


@pytest.mark.parametrize(
    "value", ["DATE '2020-01-01'", "'1010'::BIT", "'a'::BLOB", "[1.0]", "INTERVAL 3 DAYS", "'1'"]
)
def test_columns_that_are_no_numbers_are_refused_in_duckdb(value):
    query = f"SELECT {value} AS x, 1.0 * range AS z, range % 2 AS y FROM range(4)"
    with closing(duckdb.connect()) as db:
        for column, weight in (("x", None), ("z", "x")):
            with pytest.raises(ValueError, match="'x' is NULL, or no number, in 4"):
                class_moments(db, query=query, columns=[column], target="y", weight=weight)


def labelled(pair, kind):
    labels = f"CASE WHEN range % 2 = 0 THEN {pair[0]} ELSE {pair[1]} END"
    return f"SELECT range::DOUBLE AS x, ({labels})::{kind} AS y FROM range(6)"


@pytest.mark.parametrize(
    ("kind", "pair", "classes"),
    [
        ("HUGEINT", (1, 0), [0, 1]),
        ("HUGEINT", (2**53 + 1, 2**53), [2**53, 2**53 + 1]),
        ("DECIMAL(38, 0)", (2**53 + 1, 2**53), [2**53, 2**53 + 1]),
        ("DECIMAL(30, 20)", ("0.58", "-7.5"), [-7.5, 0.58]),
    ],
)
def test_labels_are_the_same_in_batches_and_in_the_database(kind, pair, classes):
    with closing(duckdb.connect()) as db:
        query = labelled(pair, kind)
        batches = batch_moments(db, query, target="y")
        database = class_moments(db, query=query, columns=["x"], target="y")
    assert batches.classes.tolist() == database.classes.tolist() == classes
    assert batches.classes.dtype == database.classes.dtype
    assert batches.digest() == database.digest()


@pytest.mark.parametrize(
    ("kind", "pair", "said"),
    [
        ("HUGEINT", (2**127 - 1, 2**127 - 2), "labels of more than 15 digits may"),
        ("DECIMAL(38, 20)", ("0.1", "0.10000000000000000001"), "labels of more than 15 digits may"),
        ("BLOB", ("'a'", "'b'"), "the labels 'y' are of type binary"),
    ],
)
def test_labels_that_could_become_one_are_refused(kind, pair, said):
    query = labelled(pair, kind)
    with closing(duckdb.connect()) as db:
        with pytest.raises(ValueError, match=said):
            batch_moments(db, query, target="y")
        if kind != "HUGEINT":
            with pytest.raises(ValueError, match=said if kind != "BLOB" else "holds bytes; labels"):
                class_moments(db, query=query, columns=["x"], target="y")


def test_values_beyond_floats_in_steps_of_the_grid_are_told(examples):
    X, y, _ = examples
    with closing(in_duckdb(X[:50], y[:50])) as db:
        db.execute("UPDATE rows SET x1 = 1e308 WHERE rowid = 1")
        with pytest.raises(ValueError, match=r"reach 2\^10\d\d steps of the grid"):
            asked(db, X, "duckdb")


def test_the_weight_that_is_refused_is_shown(examples):
    X, y, _ = examples
    with closing(in_duckdb(X[:50], y[:50])) as db:
        db.execute("UPDATE rows SET w = 9e999 WHERE rowid = 1")
        with pytest.raises(ValueError, match="column 'w' has inf"):
            asked(db, X, "duckdb", weight="w")


def test_moments_that_are_merged_have_the_range_of_all_rows():
    # The scale of a column is at least a tenth of its range.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(4_000), np.zeros(4_000)])
    y = (X[:, 0] + rng.standard_normal(4_000) > 0).astype(int)
    X[:2_000:50, 1], X[2_000::1_000, 1], y[2_000::1_000] = 0.01, [100.0, 200.0], 1
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    first = batch_moments(table.slice(0, 2_000), target="y")
    rest = batch_moments(table.slice(2_000), target="y", like=first)
    for found in (
        first.merge(rest),
        rest.merge(first),
        batch_moments(table, target="y", like=first),
    ):
        assert found.extents.high[1] == 200.0
        in_memory = AUCClassifier(loss="square", solver=Moments(0.1)).fit(X, y)
        np.testing.assert_allclose(found.model(0.1).coef_, in_memory.coef_, rtol=1e-9)
