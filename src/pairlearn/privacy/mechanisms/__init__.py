# SPDX-License-Identifier: BSD-3-Clause
"""Private learners: one file each, what they share in `base`, found by name in `by_name`."""
