# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn stream`` and its live page."""
