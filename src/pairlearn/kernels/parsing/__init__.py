# SPDX-License-Identifier: BSD-3-Clause
"""Text, columns and dicts to numbers: `csv` and `svmlight` with `records` and `decimal`; `columns`; `dicts`."""
