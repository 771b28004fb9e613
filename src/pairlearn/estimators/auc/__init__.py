# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation: the classifier, its ways of training, its streams."""
