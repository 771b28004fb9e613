# SPDX-License-Identifier: BSD-3-Clause
"""Exact minimisers of the pair risk for data in memory."""
