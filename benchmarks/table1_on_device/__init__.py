# SPDX-License-Identifier: BSD-3-Clause
"""The paper's tables of test AUC on a GPU: ``python -m benchmarks.table1_on_device``."""
