# SPDX-License-Identifier: BSD-3-Clause
"""Statistics that merge: three verbs each, no engine."""
