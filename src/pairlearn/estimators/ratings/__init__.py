# SPDX-License-Identifier: BSD-3-Clause
"""Ratings from votes between two.

Begin at `ratings.PairwiseRatings`. `votes` reads votes and counts them, `likelihood` finds the
scores, `inference` says how sure they are, and `answers` turns both into intervals, ranks,
probabilities and a plot (also for the private ratings).
"""
