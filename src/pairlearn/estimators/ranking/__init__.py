# SPDX-License-Identifier: BSD-3-Clause
"""Ranking of graded examples within queries.

`ranker.PairwiseRanker` is all of it: `fit` (over `shared.descent.descend`), `partial_fit`, and the
functions that say who meets whom (`_pairing`) and what is held out (`_folds`).
"""
