# SPDX-License-Identifier: BSD-3-Clause
"""Estimators for scikit-learn."""
