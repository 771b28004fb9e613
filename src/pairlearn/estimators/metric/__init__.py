# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning: `learner` reads and keeps, `descent` trains, `start` is where it begins."""
