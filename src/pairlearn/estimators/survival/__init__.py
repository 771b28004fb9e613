# SPDX-License-Identifier: BSD-3-Clause
"""Ranking by risk, from survival times.

Begin at `ranker.SurvivalRanker.fit`: over all comparable pairs (`_minimise`) or by steps over
single ones (`_descend`). `hazard` turns scores into chances of survival.
"""
