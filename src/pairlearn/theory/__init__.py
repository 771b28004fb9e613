# SPDX-License-Identifier: BSD-3-Clause
"""The bounds of the paper as code, and of what came after it: a function for each statement.

Every bound takes ``constants="corrected"`` (default; proved in ``docs/theory/derivations.md``,
raises outside its conditions) or ``constants="paper"`` (as printed, warns outside its conditions).
`advise` returns the step size that a bound recommends. `measure_stability` and `measure_excess`
compare measurements with the bounds.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "advice": "Advice advise advise_auc",
        "excess": "excess_nonsmooth excess_online excess_smooth step_size_nonsmooth "
        "step_size_online step_size_smooth",
        "finite_problems": "FiniteProblem hinge_problem square_problem",
        "localized": "LocalizedStage localized_distance localized_excess localized_schedule "
        "localized_stage_gap stage_sizes",
        "measure": "ExcessMeasurement StabilityMeasurement fitted_slope measure_excess "
        "measure_stability run_path",
        "nonconvex": "gradient_norm_nonconvex gradient_norm_step_size pl_excess pl_gap "
        "pl_horizon pl_stability",
        "optimization": "convex_gap convex_gap_with_confidence strongly_convex_gap "
        "strongly_convex_gap_with_confidence",
        "pl_condition": "pl_constant",
        "plots": "plot_excess plot_stability",
        "private": "PrivateLocalizedStage PrivateProblem PrivateStage private_excess "
        "private_nonsmooth_excess private_nonsmooth_schedule private_schedule",
        "sensitivity": "binomial_upper chernoff_upper erm_sensitivity gaussian_noise_scale "
        "gaussian_privacy_loss sensitivity_single_pass sensitivity_with_confidence",
        "stability": "auc_gradient_change generalization_gap realized_stability "
        "stability_nonsmooth stability_smooth",
    },
)
