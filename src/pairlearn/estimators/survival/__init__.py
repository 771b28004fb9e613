# SPDX-License-Identifier: BSD-3-Clause
"""Ranking by risk from censored survival times."""
