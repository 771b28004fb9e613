# SPDX-License-Identifier: BSD-3-Clause
"""What ``--private`` does in train, evaluate and rate, and what ``privacy audit`` attacks."""
