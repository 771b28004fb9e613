# SPDX-License-Identifier: BSD-3-Clause
"""To numbers: text (`csv`, `svmlight`), columns in memory (`columns`), dicts (`dicts`)."""
