# SPDX-License-Identifier: BSD-3-Clause
"""Estimators on a Dask cluster, the only modules that know Dask."""
