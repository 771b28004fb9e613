# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn estimators."""
