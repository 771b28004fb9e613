# SPDX-License-Identifier: BSD-3-Clause
"""Text and columns to numbers: `csv` and `svmlight` with `records` and `decimal`; `columns`."""
