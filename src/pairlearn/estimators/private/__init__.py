# SPDX-License-Identifier: BSD-3-Clause
"""Private estimators, and the audit that attacks their public output."""
