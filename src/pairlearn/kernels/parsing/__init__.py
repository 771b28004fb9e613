# SPDX-License-Identifier: BSD-3-Clause
"""Text and columns to numbers, in machine code."""
