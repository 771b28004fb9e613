# SPDX-License-Identifier: BSD-3-Clause
"""Exact moments of the classes, summed inside a database: no row leaves it.

`class_moments` asks DuckDB or PostgreSQL three SELECTs (`statements` writes them, `reading` asks
them and reads the answers). `batch_moments` sums batches of Arrow instead, with no limit on values.
Both give `TableMoments` (`moments`): a state that merges, gives rows back and makes a model.
"""
