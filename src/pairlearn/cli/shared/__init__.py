# SPDX-License-Identifier: BSD-3-Clause
"""What several commands share: options for reading, problems, tables, configuration."""
