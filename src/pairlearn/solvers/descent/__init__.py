# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent: the paper's algorithms and their relatives."""
