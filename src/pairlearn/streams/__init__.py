# SPDX-License-Identifier: BSD-3-Clause
"""Data that arrives in pieces: readers in chunks, exact positions, atomic files, running AUC."""
