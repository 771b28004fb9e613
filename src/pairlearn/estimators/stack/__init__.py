# SPDX-License-Identifier: BSD-3-Clause
"""Stacks: classifiers side by side, and one score of them all that maximises AUC."""
