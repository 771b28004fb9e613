# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning.

Begin at `learner.MetricLearner.fit`. `start` has the starting point and the unit of a step,
`descent` trains and chooses on held-out data, `mixin` is what a learned metric can do.
"""
