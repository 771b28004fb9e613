# SPDX-License-Identifier: BSD-3-Clause
"""Objectives for the top of the list, exact and by descent."""
