# SPDX-License-Identifier: BSD-3-Clause
"""Ways of training an AUC classifier: descent, exact, class moments, the top of the list."""
