# SPDX-License-Identifier: BSD-3-Clause
"""Readers that return the rows of a file or an iterator in chunks, with exact positions."""
