# SPDX-License-Identifier: BSD-3-Clause
"""Private pairwise learning: accounting, mechanisms, certificates, audit and planner."""
