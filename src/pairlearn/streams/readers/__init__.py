# SPDX-License-Identifier: BSD-3-Clause
"""Readers: a source in, chunks of features, labels and line numbers out.

Begin with `open_reader` (open.py), which finds the format. Tables of named columns (text, Parquet,
Arrow, queries) are read in `pairlearn.tables`, scikit-learn reads svmlight, NumPy ``.npy``. A place
is a number of rows, with size, time and digest of the file (files.py).
"""
