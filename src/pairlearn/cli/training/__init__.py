# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train`` and its variants."""
