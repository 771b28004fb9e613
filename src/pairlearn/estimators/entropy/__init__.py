# SPDX-License-Identifier: BSD-3-Clause
"""Minimum-error-entropy regression."""
