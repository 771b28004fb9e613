# SPDX-License-Identifier: BSD-3-Clause
"""Rows of Spark frames: an engine for `fit_on`, and an estimator and a model of ``pyspark.ml``.

The extra ``spark``: nothing else in the library imports it. `engine` runs statistics in the tasks
of Spark, `ml` has the thin wrappers for pipelines and cross-validation, `storage` saves them.
"""
