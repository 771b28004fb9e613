# SPDX-License-Identifier: BSD-3-Clause
"""AUC on a real local Spark: the bits of one machine, whatever the partitions."""

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark and a Java runtime: make test-spark")

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder
from pyspark.sql import functions as F  # noqa: N812

from pairlearn import AUCClassifier, Moments, load_model
from pairlearn.cluster import (
    ColumnExtents,
    LabelMoments,
    OnSpark,
    RowsChangedError,
    SparkAUCClassifier,
    SparkAUCModel,
    SparkJobError,
    fit_on,
    score_on,
)
from pairlearn.cluster.spark.engine import cause_of
from pairlearn.metrics import roc_auc
from pairlearn.models import ModelFileError

#: Those of the fixture `frame`.
COLUMNS = ["x0", "x1", "x2", "x3"]
#: What the ridge is chosen with, in the bits of one machine.
RANGES = Moments(ranges=(-5e3, 5e3))
MODEL = AUCClassifier(solver=RANGES, random_state=0)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]


def on_one_machine(table, solver=RANGES):
    return AUCClassifier(solver=solver, random_state=0).fit(*table)


@pytest.fixture(scope="module")
def square(table):
    return on_one_machine(table)


@pytest.fixture(scope="module")
def model(frame):
    return SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(frame)


@pytest.mark.parametrize("n_parts", [1, 7, 50])
def test_the_bits_are_those_of_one_machine(frame, square, n_parts):
    shuffled = frame.orderBy(F.rand(n_parts)).repartition(n_parts)
    found = SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(shuffled)
    assert found.estimator.coef_.tobytes() == square.coef_.tobytes()
    assert found.estimator.ridge_ == square.ridge_
    assert found.summary.n_passes == 2


@pytest.mark.parametrize("column", ["features", "array"])
def test_vectors_and_arrays_are_columns_side_by_side(frame, square, column):
    found = SparkAUCClassifier(MODEL, featuresCol=column).fit(frame.repartition(3))
    assert found.estimator.coef_.tobytes() == square.coef_.tobytes()
    names = getattr(found.estimator, "feature_names_in_", None)
    assert (names is None) == (column == "array")
    assert names is None or names.tolist() == COLUMNS


def test_nothing_stays_in_the_cache(spark, frame):
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    read = frame.select(*COLUMNS, "label").filter("x0 > -9")
    for cache in (True, False):
        SparkAUCClassifier(MODEL, featuresCol=COLUMNS, cache=cache).fit(read)
        assert spark.sparkContext._jsc.getPersistentRDDs().size() == before
    kept = read.filter("x0 > -8").persist()
    SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(kept)
    assert kept.storageLevel.useMemory
    kept.unpersist()


def test_predictions_are_those_of_the_estimator(frame, table, model):
    found = model.transform(frame.repartition(3)).orderBy("place").toArrow()
    X, y = table
    inner = model.estimator
    rows = found.select(["rawPrediction", "probability", "prediction"]).to_pylist()
    score = np.array([row["rawPrediction"]["values"] for row in rows])
    inner_X = X if not hasattr(inner, "feature_names_in_") else named(X)
    np.testing.assert_array_equal(score[:, 1], inner.decision_function(inner_X))
    np.testing.assert_array_equal(score[:, 0], -score[:, 1])
    chances = np.array([row["probability"]["values"] for row in rows])
    np.testing.assert_allclose(chances, inner.predict_proba(inner_X), rtol=1e-15, atol=1e-15)
    labels = np.array([row["prediction"] for row in rows])
    np.testing.assert_array_equal(labels, inner.predict(inner_X))
    evaluator = BinaryClassificationEvaluator(numBins=0)
    auc = evaluator.evaluate(model.transform(frame))
    assert auc == pytest.approx(roc_auc(y, score[:, 1]), abs=1e-9)
    assert model.numFeatures == 4
    assert model.numClasses == 2
    np.testing.assert_array_equal(model.coefficients.toArray(), inner.coef_[0])


def named(X):
    import pandas as pd

    return pd.DataFrame(X, columns=COLUMNS)


def test_columns_of_the_answer_can_be_renamed_and_left_out(frame, model):
    other = model.copy().setPredictionCol("said").setProbabilityCol("").setRawPredictionCol("")
    assert set(other.transform(frame).columns) - set(frame.columns) == {"said"}
    assert "prediction" in model.transform(frame).columns
    with pytest.raises(ValueError, match="'label' already"):
        model.copy().setPredictionCol("label").transform(frame)
    with pytest.raises(ValueError, match="names 2 columns, the model has 4"):
        model.copy().setFeaturesCol(["x0", "x1"]).transform(frame)


def test_a_model_in_a_folder_is_the_same_model(frame, model, tmp_path):
    folder = str(tmp_path / "model")
    model.save(folder)
    found = SparkAUCModel.load(folder)
    assert found.uid == model.uid
    assert found.getFeaturesCol() == COLUMNS
    assert found.estimator.coef_.tobytes() == model.estimator.coef_.tobytes()
    assert found.summary == model.summary
    first, again = (one.transform(frame.limit(5)).toArrow() for one in (model, found))
    assert first.equals(again)
    with pytest.raises(ModelFileError, match=r"not a 'pairlearn\.cluster\.SparkAUCC"):
        SparkAUCClassifier.load(folder)
    model.write().overwrite().save(folder)
    found.estimator.save(tmp_path / "one.safetensors")
    assert (
        load_model(tmp_path / "one.safetensors").coef_.tobytes() == model.estimator.coef_.tobytes()
    )


def test_an_estimator_in_a_folder_keeps_its_objects(tmp_path):
    inner = AUCClassifier(solver=Moments(0.5), scaling=None, class_weight={0: 1.0, 1: 3.0})
    auc = SparkAUCClassifier(inner, featuresCol=COLUMNS, regParam=0.25, weightCol="weight")
    auc.save(str(tmp_path / "estimator"))
    found = SparkAUCClassifier.load(str(tmp_path / "estimator"))
    ours, theirs = (
        {p.name: v for p, v in one.extractParamMap().items() if p.name != "estimator"}
        for one in (auc, found)
    )
    assert ours == theirs
    assert found.getOrDefault("estimator").get_params() == inner.get_params()


def test_it_is_a_stage_of_a_pipeline(frame, square, tmp_path):
    assembler = VectorAssembler(inputCols=COLUMNS, outputCol="rows")
    auc = SparkAUCClassifier(MODEL, featuresCol="rows")
    fitted = Pipeline(stages=[assembler, auc]).fit(frame)
    assert fitted.stages[1].estimator.coef_.tobytes() == square.coef_.tobytes()
    fitted.save(str(tmp_path / "pipeline"))
    found = PipelineModel.load(str(tmp_path / "pipeline"))
    some = frame.limit(7)
    assert found.transform(some).toArrow().equals(fitted.transform(some).toArrow())


@pytest.mark.filterwarnings("ignore:.*(multiprocessing pool|Pool.__del__)")
def test_cross_validation_chooses_among_ridges(frame, tmp_path):
    auc = SparkAUCClassifier(MODEL, featuresCol=COLUMNS)
    grid = ParamGridBuilder().addGrid(auc.regParam, [0.01, 1e9]).build()
    judge = BinaryClassificationEvaluator(numBins=0)
    search = CrossValidator(
        estimator=auc, estimatorParamMaps=grid, evaluator=judge, numFolds=2, seed=1
    )
    search.save(str(tmp_path / "search"))
    assert len(CrossValidator.load(str(tmp_path / "search")).getEstimatorParamMaps()) == 2
    found = search.fit(frame)
    best = grid[int(np.argmax(found.avgMetrics))][auc.regParam]
    assert found.bestModel.estimator.ridge_ == best
    found.save(str(tmp_path / "found"))
    again = CrossValidatorModel.load(str(tmp_path / "found"))
    assert again.bestModel.estimator.coef_.tobytes() == found.bestModel.estimator.coef_.tobytes()


def test_a_copy_with_other_parameters_trains_by_them(frame, table):
    auc = SparkAUCClassifier(MODEL, featuresCol=COLUMNS)
    found = auc.fit(frame, {auc.regParam: 0.5})
    assert found.estimator.coef_.tobytes() == on_one_machine(table, Moments(0.5)).coef_.tobytes()
    assert not auc.isDefined(auc.regParam)
    assert "the ridge" in auc.explainParams()


def test_it_is_at_least_as_good_as_logistic_regression(frame, table, model):
    rival = LogisticRegression().fit(frame)
    judge = BinaryClassificationEvaluator(numBins=0)
    ours, theirs = (judge.evaluate(one.transform(frame)) for one in (model, rival))
    assert ours > theirs - 1e-3


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"featuresCol": "featurs"}, ValueError, "'featurs' is no column.*mean 'features'"),
        ({"featuresCol": ["x0", "text"]}, ValueError, r"got 'text' \(string\)"),
        ({"featuresCol": []}, ValueError, "no column of a feature"),
        ({"featuresCol": "x0"}, ValueError, "must be a column of vectors or of lists"),
        ({"labelCol": "text"}, TypeError, "'text' is of type string.*StringIndexer"),
        ({"labelCol": "wrong"}, ValueError, "'wrong' is no column"),
        ({"weightCol": "text"}, ValueError, r"got 'text' \(string\)"),
        ({"featuresCol": ["x0", "x0"]}, ValueError, "'x0' is read twice"),
        ({"labelCol": "x1"}, ValueError, "'x1' is read twice"),
        ({"weightCol": "x1"}, ValueError, "'x1' is read twice"),
    ],
)
def test_wrong_columns_are_refused_by_name(frame, changed, error, told):
    with pytest.raises(error, match=told):
        SparkAUCClassifier(**{"featuresCol": COLUMNS, "loss": "square", **changed}).fit(frame)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"x1": "CASE WHEN place = 77 THEN double('NaN') ELSE x1 END"}, "NaN"),
        ({"x1": "CASE WHEN place = 77 THEN NULL ELSE x1 END"}, "'x1' is NULL in 1"),
        ({"label": "CASE WHEN place = 77 THEN NULL ELSE label END"}, "'label' is NULL in 1"),
        (
            {"features": "CASE WHEN place = 77 THEN NULL ELSE features END"},
            "is NULL in 1",
        ),
        ({"weight": "CASE WHEN place = 77 THEN NULL ELSE weight END"}, "weight"),
        ({"label": "1"}, "class"),
    ],
)
def test_rows_that_cannot_be_learned_from_are_one_clear_error(frame, changed, told):
    broken = frame.withColumns({name: F.expr(how) for name, how in changed.items()})
    columns = "features" if "features" in changed else COLUMNS
    auc = SparkAUCClassifier(MODEL, featuresCol=columns, weightCol="weight")
    with pytest.raises(ValueError, match=told) as caught:
        auc.fit(broken.repartition(9))
    assert "\tat " not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_rows_at_all(frame):
    with pytest.raises(ValueError, match="no example"):
        SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(frame.filter("x0 > 1e9"))


def test_empty_partitions_change_nothing(frame, square):
    few = frame.repartition(12, F.lit(1))
    found = SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(few)
    assert found.estimator.coef_.tobytes() == square.coef_.tobytes()


def test_an_error_of_the_frame_itself_is_told_in_one_line(frame):
    @F.udf("double")
    def broken(place):
        return 1.0 / (place - 77)

    with pytest.raises(SparkJobError, match=r"ZeroDivisionError: .*division by zero") as caught:
        SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(frame.withColumn("x1", broken("place")))
    assert str(caught.value).count("\n") == 0
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_rows_that_change_between_passes_are_refused(frame):
    @F.udf("double")
    def random(_):
        return float(np.random.default_rng().normal())

    changing = frame.withColumn("x1", random.asNondeterministic()("place"))
    with pytest.raises(RowsChangedError, match="1,200 rows in the first pass and others in pass"):
        SparkAUCClassifier(MODEL, featuresCol=COLUMNS, cache=False).fit(changing)
    SparkAUCClassifier(MODEL, featuresCol=COLUMNS).fit(changing)  # kept, so all the same


def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(TypeError, match="expected a Spark DataFrame, got list"):
        SparkAUCClassifier().fit([1])
    with pytest.raises(TypeError, match="has no parameter 'ridge'"):
        SparkAUCClassifier().setParams(ridge=1)
    with pytest.raises(TypeError, match="must be an AUCClassifier"):
        SparkAUCClassifier("auc")
    with pytest.raises(ValueError, match="trains the square loss"):
        SparkAUCClassifier(AUCClassifier(loss="logistic")).fit(frame)


def test_a_model_forgets_rows_of_a_frame(frame, table, tmp_path):
    X, y = table
    solver = Moments(0.1, keep_state=True)
    auc = SparkAUCClassifier(AUCClassifier(solver=solver, random_state=0), featuresCol=COLUMNS)
    whole = auc.fit(frame.repartition(3))
    gone = frame.filter("place % 6 = 0").repartition(2)
    left = whole.partialUnfit(gone)
    known = on_one_machine(table, solver)
    known.partial_unfit(X[::6], y[::6])
    assert left.estimator.coef_.tobytes() == known.coef_.tobytes()
    assert left.estimator.n_examples_ == 1000
    assert whole.estimator.n_examples_ == 1200
    whole.save(str(tmp_path / "whole"))
    with pytest.raises(ValueError, match="no moments to take rows from"):
        SparkAUCModel.load(str(tmp_path / "whole")).partialUnfit(gone)


def test_the_engine_takes_batches_apart_and_together(frame, table):
    X, y = table
    engine = OnSpark(frame.repartition(11), COLUMNS, "label")
    state = engine.run(LabelMoments())
    alone = LabelMoments().finish(LabelMoments().partial_state(X, y))
    np.testing.assert_allclose(LabelMoments().finish(state).means, alone.means, rtol=1e-12)
    solver = Moments(0.1, ranges=(-5e3, 5e3))
    model = fit_on(engine, AUCClassifier(solver=solver))
    assert model.coef_.tobytes() == AUCClassifier(solver=solver).fit(X, y).coef_.tobytes()
    assert score_on(engine, model).auc == model.score(named(X), y)


def test_wide_sparse_vectors_stay_sparse(spark):
    import scipy.sparse
    from pyspark.ml.linalg import SparseVector

    rng = np.random.default_rng(0)
    X = scipy.sparse.random(60, 1200, density=0.01, format="csr", random_state=rng)
    rows = [
        (SparseVector(1200, X[k].indices.tolist(), X[k].data.tolist()), k % 2) for k in range(60)
    ]
    wide = spark.createDataFrame(rows, ["features", "label"]).repartition(3)
    engine = OnSpark(wide, "features", "label")
    assert engine.columns.kind == "vector"
    found = ColumnExtents().finish(engine.run(ColumnExtents()))
    np.testing.assert_array_equal(found.high, X.max(axis=0).toarray().ravel())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no reason is known."),
        ("Job aborted: lost task\n\tat java.lang\n\tat java.lang\n", "Job aborted: lost task."),
        ("Traceback\n  File x\nKeyError: 1\n\nJVM stacktrace:\norg.apache", "KeyError: 1."),
    ],
)
def test_the_cause_of_a_failed_job_is_one_line(text, told):
    assert cause_of(text) == told
