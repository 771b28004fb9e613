# SPDX-License-Identifier: BSD-3-Clause
"""Solvers: the loops that run a problem with a pairing, a schedule, a domain and an average."""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "closed_form.forgetting": "ForgettingCertificate",
        "closed_form.grid": "Extents Grid",
        "closed_form.table": "MomentValues",
        "closed_form.moments": "ClassMoments solve_square_auc",
        "closed_form.opauc": "OPAUC",
        "descent.localized": "LocalizedSGD",
        "descent.pairwise_sgd": "PairwiseSGD",
        "descent.saddle": "SOLAM SPAUC",
        "descent.stream": "Stream",
        "descent.sweep": "Sweep SweepSolution",
        "exact.batch": "ExactSolver",
        "iterates": "iterate_weights",
        "running": "Running",
        "solution": "Solution Trace",
        "streams.order": "OrderWarning",
        "top.objectives": "OBJECTIVES AllPairs Objective PartialArea Push SmoothPrecision "
        "TopObjective",
    },
)
