# SPDX-License-Identifier: BSD-3-Clause
"""How private data are read: one cell (`cells`) and the column of any container (`columns`)."""
