# SPDX-License-Identifier: BSD-3-Clause
"""Private learners: one file each, on the common `base`, and a table of names in `by_name`."""
