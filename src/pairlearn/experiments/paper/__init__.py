# SPDX-License-Identifier: BSD-3-Clause
"""Reproduce the paper's tables and figures; `targets` names them."""
