# SPDX-License-Identifier: BSD-3-Clause
"""Private estimators, and the audit of what a user gets."""
