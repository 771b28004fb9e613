# SPDX-License-Identifier: BSD-3-Clause
"""The methods of a comparison: they tune themselves and fit; `table` names them."""
