# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that make sums of rows, and of the sums the matrices of the closed form."""
