# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning: `learner` reads and keeps, `descent` starts and trains."""
