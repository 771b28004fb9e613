# SPDX-License-Identifier: BSD-3-Clause
"""Private AUC on a real local Spark: the model of one memory, and nothing told about a row."""

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark and a Java runtime: make test-spark")

from pyspark.sql import functions as F  # noqa: N812

from pairlearn import PrivateAUCClassifier
from pairlearn.distributed import train_private_auc
from pairlearn.models import ModelFileError
from pairlearn.spark import SparkPrivateAUCClassifier, SparkPrivateAUCModel

#: Those of the fixture `frame`.
COLUMNS = ["x0", "x1", "x2", "x3"]
BOUNDS = ([-4.0, -4e3, -4e-2, -4.0], [4.0, 4e3, 4e-2, 4.0])

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning"),
]


def private(**changed):
    return PrivateAUCClassifier(**{"epsilon": 2.0, "bounds": BOUNDS, "random_state": 3, **changed})


def in_parts(parts, **settings):
    """Train by the same passes over parts in memory, each a dict of arguments."""

    def run(statistic):
        return statistic.merge_all(
            statistic.of_part(k).partial_state(**part) for k, part in enumerate(parts)
        )

    estimator = settings.pop("estimator", None) or private()
    return train_private_auc(run, estimator, **settings)


@pytest.fixture(scope="module")
def central(frame):
    return SparkPrivateAUCClassifier(private(), featuresCol=COLUMNS).fit(frame.repartition(5))


def test_the_model_is_that_of_one_memory(table, central):
    X, y = table
    known = private().fit(X, y)
    assert central.estimator.coef_.tobytes() == known.coef_.tobytes()
    assert central.certificate.epsilon == known.certificate_.epsilon
    assert central.certificate.public["trust"].startswith("the aggregator: it saw sums over part")


def test_vectors_that_are_missing_or_wrong_raise_nothing(frame, table):
    X, y = table
    broken = frame.withColumn("features", F.expr("CASE WHEN place = 7 THEN NULL ELSE features END"))
    found = SparkPrivateAUCClassifier(private()).fit(broken.repartition(3))
    holed = X.copy()
    holed[7] = np.nan
    assert found.estimator.coef_.tobytes() == private().fit(holed, y).coef_.tobytes()


def test_a_folder_holds_the_certificate(spark, frame, central, tmp_path):
    folder = str(tmp_path / "private")
    central.save(folder)
    found = SparkPrivateAUCModel.load(folder)
    assert found.certificate == central.certificate
    assert "certificate" in spark.read.text(f"{folder}/metadata").first()[0]
    some = frame.limit(5)
    assert found.transform(some).toArrow().equals(central.transform(some).toArrow())


def test_partitions_that_trust_nobody_add_their_own_noise(frame):
    dealt = frame.repartition(4, "place")
    rows = dealt.select(*COLUMNS, "label", F.spark_partition_id().alias("part")).toArrow()
    where = rows["part"].to_numpy()
    X = np.column_stack([rows[name].to_numpy() for name in COLUMNS])
    parts = [{"X": X[where == k], "y": rows["label"].to_numpy()[where == k]} for k in range(4)]
    known = in_parts(parts, trust="none", reach=1)
    auc = SparkPrivateAUCClassifier(private(), featuresCol=COLUMNS, trust="none", reach=1)
    found = auc.fit(dealt)
    assert found.estimator.coef_.tobytes() == known.coef_.tobytes()
    assert "each of the partitions (4)" in found.certificate.public["trust"]


def test_an_empty_partition_answers_too(frame):
    auc = SparkPrivateAUCClassifier(private(), featuresCol=COLUMNS, trust="none", reach=1)
    found = auc.fit(frame.repartition(3, F.lit(1)))
    assert "each of the partitions (3)" in found.certificate.public["trust"]


def test_persons_count_with_all_their_rows(frame, table):
    X, y = table
    persons = frame.withColumn("person", F.expr("place % 400")).withColumn("site", F.lit("a"))
    auc = SparkPrivateAUCClassifier(
        private(), featuresCol=COLUMNS, groupsCol=["site", "person"], reach=1
    )
    found = auc.fit(persons.repartition(4, "person"))
    known = private().fit(X, y, groups=np.arange(1200) % 400)
    np.testing.assert_allclose(found.estimator.coef_, known.coef_, rtol=1e-12)
    assert found.certificate.public["trust"].endswith("it also saw the ids of persons")


def test_what_the_promise_needs_is_asked_for(frame):
    with pytest.raises(ValueError, match='trust="none" needs reach'):
        SparkPrivateAUCClassifier(private(), featuresCol=COLUMNS, trust="none").fit(frame)
    with pytest.raises(ValueError, match="must be public"):
        SparkPrivateAUCClassifier(private(bounds=(-4, 4)), featuresCol="array").fit(frame)
    with pytest.raises(ValueError, match="estimator is missing"):
        SparkPrivateAUCClassifier().fit(frame)
    with pytest.raises(TypeError, match="must be a PrivateAUCClassifier, got str"):
        SparkPrivateAUCClassifier("private")


def test_an_estimator_in_a_folder_keeps_its_public_settings(tmp_path, spark):
    auc = SparkPrivateAUCClassifier(private(), featuresCol=COLUMNS, trust="none", reach="all")
    auc.save(str(tmp_path / "estimator"))
    found = SparkPrivateAUCClassifier.load(str(tmp_path / "estimator"))
    ours, theirs = (one.getOrDefault("estimator").get_params() for one in (auc, found))
    assert {k: repr(v) for k, v in ours.items()} == {k: repr(v) for k, v in theirs.items()}
    assert found.getOrDefault("reach") == "all"
    with pytest.raises(ModelFileError):
        SparkPrivateAUCModel.load(str(tmp_path / "estimator"))
