# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the closed form: sums of rows, and matrices made of them."""
