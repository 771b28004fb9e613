# SPDX-License-Identifier: BSD-3-Clause
"""The cost of privacy: exact accounting, the ledger of all releases, the certificate of a fit."""
