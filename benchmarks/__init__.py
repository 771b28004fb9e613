# SPDX-License-Identifier: BSD-3-Clause
"""Ratios of speed, side by side in one run: ``python -m benchmarks --help``.

Times are CPU seconds of one thread, best of several, with the competitors taking turns in the same
process and compilation outside the clock. Ratios carry over to other machines better than seconds.
"""
