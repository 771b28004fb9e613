# SPDX-License-Identifier: BSD-3-Clause
"""Ratings of players from votes between two of them."""
