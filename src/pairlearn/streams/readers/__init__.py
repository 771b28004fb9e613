# SPDX-License-Identifier: BSD-3-Clause
"""Readers: a source in, chunks of features, labels and line numbers out.

Begin with `open_reader` (open.py), which finds the format. polars parses text (csv_file.py: batches
of a file; csv.py: the reader), PyArrow reads Parquet, Arrow and queries (arrow.py, query.py),
scikit-learn svmlight, NumPy ``.npy``. `TabularReader` (tabular.py) turns batches of any file into
chunks; schema.py says what a column is for, encode.py makes features of columns. A place is a
number of rows, with size, time and digest of the file (files.py).
"""
