# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that take the steps of a solver."""
