# SPDX-License-Identifier: BSD-3-Clause
"""Solutions in closed form: class moments, mapped features, Fisher's discriminant."""
