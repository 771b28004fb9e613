# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn evaluate`` and its variants."""
