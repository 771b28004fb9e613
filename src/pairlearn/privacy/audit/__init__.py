# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on a mechanism that bound its epsilon from below."""
