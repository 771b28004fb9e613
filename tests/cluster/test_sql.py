# SPDX-License-Identifier: BSD-3-Clause
"""Moments that a database sums are those of the same rows in memory, bit for bit."""

from contextlib import closing
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import AUCClassifier, Moments
from pairlearn.cluster import OnArrow, class_moments, fit_on
from pairlearn.cluster.sql import _rounded, _scaled
from pairlearn.solvers import ClassMoments

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

RANGES = (-8.0, 8.0)


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(3_000, 3)) * [1.0, 0.01, 2.0]
    y = (X[:, 0] + rng.normal(size=3_000) > 0).astype(int)
    return X, y, rng.integers(0, 4, 3_000).astype(float)


def in_duckdb(X, y, weight=None, name="rows"):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    weight = np.ones(len(y)) if weight is None else weight
    db = duckdb.connect()
    db.register("given", pa.table({**columns, "y": y, "w": weight}))
    db.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
    return db


def asked(db, X, **options):
    names = [f"x{j}" for j in range(X.shape[1])]
    given = {} if "query" in options else {"table": "rows"}
    given |= {} if "like" in options else {"ranges": RANGES}
    return class_moments(db, **{"columns": names, "target": "y", **given, **options})


def in_memory(X, y, weight=None, ranges=RANGES):
    moments = ClassMoments(X.shape[1], Moments(ranges=ranges).grid(X.shape[1]))
    return moments.add(X, np.where(y == max(y), 1, -1), example_weight=weight)


def check(X, y, weight=None, **options):
    with closing(in_duckdb(X, y, weight)) as db:
        found = asked(db, X, weight=None if weight is None else "w", **options)
    expected = in_memory(X, y, weight, options.get("ranges", RANGES))
    assert found.digest() == expected.digest()
    assert found.classes.tolist() == [0, 1]
    return found


def test_the_state_is_that_of_rows_in_memory(examples):
    X, y, weight = examples
    assert check(X, y).n_examples == 3_000
    assert check(X, y, weight).n_examples == np.count_nonzero(weight)
    # Ranges far from zero count from their middle.
    check(X + 1000.0, y, ranges=([990.0, 999.0, 980.0], [1010.0, 1001.0, 1020.0]))


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.integers(-64, 64).map(lambda k: k / 8),
                st.floats(-8, 8),
                st.sampled_from([0.0, -0.0, 5e-324, 1e-300]),
            ),
            st.integers(0, 3),
        ),
        min_size=4,
        max_size=12,
    )
)
def test_any_rows(data):
    X = np.array([[value] for value, _ in data])
    weight = np.array([weight for _, weight in data], dtype=float)
    weight[:2] = 1.0
    check(X, np.arange(len(X)) % 2, weight)


def test_rounding_is_to_the_nearest_whole_number_ties_to_even(rng):
    values = np.concatenate([
        [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 2.0**51 + 0.5, 2.0**52 - 0.5,
         -(2.0**52) + 0.5, 2.0**52, 2.0**53 - 1, 4503599627370497.0, 1e15 + 0.5],
        rng.normal(size=50) * 2.0 ** rng.integers(-3, 54, size=50),
    ])  # fmt: skip
    with closing(in_duckdb(values[:, None], np.zeros(len(values)))) as db:
        found = db.execute(f"SELECT x0, {_rounded('x0')} FROM rows").fetchall()
        for exponent in (-200, -53, -1, 0, 1, 52, 60, 500):
            query = f"SELECT x0, {_scaled('x0', exponent)} FROM rows"
            for value, scaled in db.execute(query).fetchall():
                assert scaled == np.ldexp(value, exponent)
    for value, whole in found:
        assert whole == np.rint(value), value


def test_a_model_has_the_coefficients_of_the_rows_in_memory(examples):
    X, y, _ = examples
    X = X * [1.0, 100.0, 0.5]
    solver = Moments(0.1, ranges=RANGES)
    memory = AUCClassifier(loss="square", solver=solver).fit(X, y)
    model = check(X, y).model(0.1)
    assert (model.coef_ == memory.coef_).all()
    with closing(in_duckdb(X, y)) as db:
        engine = OnArrow(db, "SELECT * EXCLUDE w FROM rows", target="y")
        batches = fit_on(engine, AUCClassifier(loss="square", solver=solver))
    assert (batches.coef_ == memory.coef_).all()
    assert model.threshold_ == pytest.approx(memory.threshold_, abs=0.1)


def test_rows_that_are_taken_back_leave_no_trace(examples):
    X, y, weight = examples
    gone = X[:, 0] > 1
    with closing(in_duckdb(X, y, weight)) as db:
        whole = asked(db, X, weight="w")
        query = "SELECT * FROM rows WHERE x0 > 1 -- some"
        part = asked(db, X, weight="w", query=query, like=whole)
        rest = whole.without(part)
        assert rest.digest() == in_memory(X[~gone], y[~gone], weight[~gone]).digest()
        assert rest.n_examples == whole.n_examples - part.n_examples
        assert rest.merge(part).digest() == whole.digest()
        one_class = asked(db, X, weight="w", query="SELECT * FROM rows WHERE y = 1", like=whole)
        assert whole.without(one_class).moments.counts[0] == 0
        with pytest.raises(ValueError, match="needs both classes"):
            one_class.model(0.1)
        with pytest.raises(ValueError, match="weighed True and of False"):
            asked(db, X, like=whole)
        with pytest.raises(ValueError, match="feature_names"):
            whole.merge(class_moments(db, table="rows", columns=["x0"], target="y", ranges=RANGES))
        with pytest.raises(ValueError, match=r"neither of \[0, 1\]"):
            asked(db, X, weight="w", query="SELECT * REPLACE (y + 5 AS y) FROM rows", like=whole)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE rows SET x0 = NULL WHERE x1 > 0.02", "hold NULL or no number"),
        ("UPDATE rows SET x0 = 'NaN'::DOUBLE WHERE x1 > 0.02", "hold NULL or no number"),
        ("UPDATE rows SET x0 = 'infinity'::DOUBLE WHERE x1 > 0.02", "beyond the ranges"),
        ("UPDATE rows SET x0 = 1e6 WHERE x1 > 0.02", "beyond the ranges"),
        ("UPDATE rows SET w = -1 WHERE x1 > 0.02", "weight that is no whole number"),
        ("UPDATE rows SET w = 0.5 WHERE x1 > 0.02", "weight that is no whole number"),
        ("UPDATE rows SET w = NULL WHERE x1 > 0.02", "weight that is no whole number"),
        ("UPDATE rows SET y = NULL WHERE x1 > 0.02", "'y' is NULL"),
        ("UPDATE rows SET y = 2 WHERE x1 > 0.02", "3 different values"),
        ("UPDATE rows SET y = 1", "one class|two|2 classes"),
        ("DELETE FROM rows", "gives no row"),
        ("ALTER TABLE rows ALTER x0 TYPE VARCHAR", "hold NULL or no number"),
        ("ALTER TABLE rows ALTER x0 TYPE TIMESTAMP USING TIMESTAMP '2020-01-01'", "no number"),
    ],
)
def test_what_cannot_be_summed_is_refused(examples, change, said):
    X, y, weight = examples
    with closing(in_duckdb(X, y, weight)) as db:
        db.execute(change)
        with pytest.raises(ValueError, match=said):
            asked(db, X, weight="w")


def test_names_are_quoted_whatever_they_hold(examples):
    X, y, _ = examples
    for name in ('5" nails', "a; DROP TABLE rows", "pairlearn_layer1", "source"):
        quoted = name.replace('"', '""')
        with closing(in_duckdb(X, y, name=name.replace('"', '""'))) as db:
            db.execute(f'ALTER TABLE "{quoted}" RENAME x0 TO "{quoted}"')
            found = class_moments(
                db, table=("main", name), columns=[name, "x1", "x2"], target="y", ranges=RANGES
            )
        assert found.digest() == in_memory(X, y).digest()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "x0"}, "list of names"),
        ({"columns": ["x0", "X0"]}, "named twice"),
        ({"columns": ["x0", ""]}, "must be a text"),
        ({"dialect": "duckbd"}, "did you mean 'duckdb'"),
        ({"table": None}, "either table= or query="),
        ({"ranges": None}, "pass ranges="),
        ({"ranges": (1, 0)}, "low|range"),
    ],
)
def test_settings_are_checked(options, said):
    given = {"columns": ["x0"], "target": "y", "table": "rows", "ranges": RANGES, **options}
    with pytest.raises(ValueError, match=said):
        class_moments(lambda statement: [], **given)


def test_results_may_be_decimals_or_texts_and_never_floats():
    given = {"columns": ["x0"], "target": "y", "table": "rows", "ranges": RANGES}
    rows = [(0, 2, 0, 2, 1, 5), (1, 2, 0, 2, 3, 9)]
    expected = class_moments(lambda _: rows, **given).digest()
    for kind in (Decimal, str):
        made = [(row[0], *map(kind, row[1:])) for row in rows]
        assert class_moments(lambda _, made=made: made, **given).digest() == expected
    with pytest.raises(ValueError, match="whole number is expected"):
        class_moments(lambda _: [(0, 2, 0, 2, 1.5, 5), rows[1]], **given)
    with pytest.raises(TypeError, match="must be a connection"):
        class_moments(3, **given)
    labels = [(Decimal("0.10"), *rows[0][1:]), (Decimal("2"), *rows[1][1:])]
    assert class_moments(lambda _: labels, **given).classes.tolist() == [0.1, 2]
