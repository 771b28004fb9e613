# SPDX-License-Identifier: BSD-3-Clause
"""Ranking within queries."""
