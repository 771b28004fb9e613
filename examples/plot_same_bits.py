# SPDX-License-Identifier: BSD-3-Clause
"""
One model, eight ways
=====================

The same rows are learned in memory, from shuffled chunks, from a stream whose process is killed, on
Dask with 1, 7 and 50 partitions, on Spark and by DuckDB. All of them print the same digest: the
coefficients agree in every bit. Then each model forgets 1,000 rows, and all print another digest,
that of a fit that never saw them.
"""

# %%
# With given ranges, the moments of the classes are whole numbers on a grid that no row can move.
# Sums of whole numbers do not depend on their order, and what is subtracted is gone.
import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import AUCClassifier, Moments, OnlineLearner
from pairlearn.cluster import OnArrow, OnDask, fit_on, forget_on
from pairlearn.streams import Schema, open_reader

rng = np.random.default_rng(0)
n, d = 20_000, 8
units = np.geomspace(0.01, 1000.0, d)
X = rng.normal(size=(n, d)) * units
y = (X / units @ np.linspace(1.0, 0.0, d) + rng.normal(size=n) > 1.0).astype(int)
gone, left = np.split(rng.permutation(n), [1000])
solver = Moments(ridge=0.01, ranges=(-6.0 * units, 6.0 * units), keep_state=True)
folder = Path(tempfile.mkdtemp())


class Engine(NamedTuple):
    """A way to learn rows and to forget some; `needs` is the module that it needs."""

    name: str
    learn: Callable[[Any], Any]
    forget: Callable[[Any, Any], Any]
    needs: str = "numpy"


def shuffled(index, n_parts):
    """Return parts of rows, in another order each time."""
    return np.array_split(rng.permutation(index), n_parts)


# %%
# In memory, and from shuffled chunks. `partial_unfit` forgets.
def in_memory(index):
    """Return a model of rows in memory."""
    return AUCClassifier(solver=solver).fit(X[index], y[index])


def by_chunks(index):
    """Return a model of rows that come in chunks."""
    model = AUCClassifier(solver=solver)
    for part in shuffled(index, 13):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    return model


def unfit(model, index):
    """Let a model forget rows."""
    return model.partial_unfit(X[index], y[index])


# %%
# A stream from a file. Its process kills itself after 8,000 rows, between two checkpoints. This
# process goes on.
KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from pairlearn import OnlineLearner
from pairlearn.streams import Schema, open_reader

folder = Path(sys.argv[1])
learner = OnlineLearner(pickle.loads((folder / "model").read_bytes()), classes=[0, 1])

def kill(learner, chunk):
    if learner.n_seen >= 8000:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

reader = open_reader(folder / "rows.npy", Schema(label=0), chunk_rows=1000)
learner.fit_stream(reader, checkpoint=folder / "checkpoint", every=3000, progress=kill)
"""


def by_stream(index):
    """Return a learner of rows in a file, taught by two processes."""
    (order,) = shuffled(index, 1)
    np.save(folder / "rows.npy", np.column_stack([y[order], X[order]]))
    model = AUCClassifier(solver=solver)
    (folder / "model").write_bytes(pickle.dumps(model))
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode != 0
    reader = open_reader(folder / "rows.npy", Schema(label=0), chunk_rows=1000)
    learner = OnlineLearner(model, classes=[0, 1])
    return learner.fit_stream(reader, checkpoint=folder / "checkpoint", every=3000)


def unlearn(learner, index):
    """Let a learner forget rows, and its checkpoint, too."""
    return learner.unlearn_many(X[index], y[index], checkpoint=folder / "checkpoint")


# %%
# Dask, with any number of partitions. The rows to be forgotten may lie on the cluster, too.
def arrays(index, n_parts):
    """Return rows and labels as Dask arrays of so many partitions."""
    da = import_module("dask.array")
    (order,) = shuffled(index, 1)
    height = -(-len(order) // n_parts)
    return da.from_array(X[order], chunks=(height, d)), da.from_array(y[order], chunks=height)


def by_dask(index, n_parts):
    """Return a model of rows in partitions."""
    return fit_on(OnDask(*arrays(index, n_parts)), AUCClassifier(solver=solver))


def unfit_by_dask(model, index):
    """Let a model forget rows in three partitions."""
    return forget_on(OnDask(*arrays(index, 3)), model)


# %%
# Spark has an estimator of its own.
names = [f"x{k}" for k in range(d)]


def table(index):
    """Return rows and labels as an Arrow table."""
    (order,) = shuffled(index, 1)
    columns = {name: X[order, k] for k, name in enumerate(names)}
    return import_module("pyarrow").table({**columns, "y": y[order]})


def frame(index):
    """Return rows as a Spark frame of five partitions."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = import_module("pyspark.sql").SparkSession.builder.master("local[2]")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        session = session.config(name, "false")
    return session.getOrCreate().createDataFrame(table(index)).repartition(5)


def by_spark(index):
    """Return a model of a Spark frame."""
    classifier = import_module("pairlearn.cluster").SparkAUCClassifier
    learner = classifier(AUCClassifier(solver=solver), featuresCol=names, labelCol="y")
    return learner.fit(frame(index))


def unfit_by_spark(model, index):
    """Let a model forget the rows of a Spark frame."""
    return model.partialUnfit(frame(index))


# %%
# A database gives the rows of a query in batches. Any other engine that merges states would do: it
# is all that `fit_on` and `forget_on` ask for.
def query(index):
    """Return an engine of the rows of a query in DuckDB."""
    database = import_module("duckdb").connect()
    database.register("given", table(index))
    database.execute("CREATE TABLE examples AS SELECT * FROM given")
    return OnArrow(database, "SELECT * FROM examples", target="y")


def by_query(index):
    """Return a model of the rows of a query."""
    return fit_on(query(index), AUCClassifier(solver=solver))


def unfit_by_query(model, index):
    """Let a model forget the rows of a query."""
    return forget_on(query(index), model)


# %%
# The same digest, whoever learned. An engine that is not installed is left out.
engines = [
    Engine("in memory", in_memory, unfit),
    Engine("shuffled chunks", by_chunks, unfit),
    Engine("a killed stream", by_stream, unlearn),
    *(
        Engine(f"Dask, partitions: {k}", partial(by_dask, n_parts=k), unfit_by_dask, "dask")
        for k in (1, 7, 50)
    ),
    Engine("Spark", by_spark, unfit_by_spark, "pyspark"),
    Engine("DuckDB", by_query, unfit_by_query, "duckdb"),
]


def coefficients(found):
    """Return the coefficients of a model, or of the model that a learner or Spark holds."""
    model = getattr(found, "model", getattr(found, "estimator", found))
    return model.coef_[0]


def tell(name, found):
    """Print the digest of the coefficients."""
    print(f"{name:20} {hashlib.sha256(coefficients(found).tobytes()).hexdigest()[:32]}")


models = {}
print(f"{n:,} rows")
for engine in engines:
    if find_spec(engine.needs) is None:
        print(f"{engine.name:20} left out: {engine.needs} is not installed")
        continue
    models[engine.name] = engine.learn(np.arange(n))
    tell(engine.name, models[engine.name])
before = [coefficients(found).copy() for found in models.values()]

# %%
# Each forgets 1,000 rows. The last line is a fit that never saw them.
print(f"without {len(gone):,} of them")
for engine in engines:
    if engine.name in models:
        tell(engine.name, engine.forget(models[engine.name], gone))
tell("never seen", in_memory(left))
after = [coefficients(found) for found in models.values()]

# %%
# The bits of the coefficients: every row of the picture is the same.
fig, axes = plt.subplots(2, 1, figsize=(8, 4.5), layout="constrained")
titles = f"{n:,} rows", f"without {len(gone):,} of them"
for axis, found, title in zip(axes, (before, after), titles, strict=True):
    bits = np.unpackbits(np.stack(found).view(np.uint8), axis=1)
    axis.imshow(bits, aspect="auto", cmap="Greys", interpolation="nearest")
    axis.set(title=title, xlabel="bit of the coefficients")
    axis.set_yticks(range(len(models)), list(models))
plt.show()
