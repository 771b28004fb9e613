# SPDX-License-Identifier: BSD-3-Clause
"""What privacy costs: exact accounting, the ledger that adds up, the certificate that tells."""
