# SPDX-License-Identifier: BSD-3-Clause
"""Errors of data sets; every message is one line and names the cure."""

from __future__ import annotations


class DataError(Exception):
    """A data set cannot be used."""


class DataUnavailableError(DataError):
    """The file is in no folder and could not be fetched."""


class DataCorruptError(DataError):
    """The file exists but has the wrong content."""
