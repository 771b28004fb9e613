# SPDX-License-Identifier: BSD-3-Clause
"""What estimators share: rows in, weights, scales, maps, decisions, storage, evidence."""
