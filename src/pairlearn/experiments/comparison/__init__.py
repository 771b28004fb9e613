# SPDX-License-Identifier: BSD-3-Clause
"""Data sets x splits x methods: the cells, their store, their statistics and tables."""
