# SPDX-License-Identifier: BSD-3-Clause
"""The bounds of the paper as code: one function for each statement with constants.

Every bound takes ``constants="corrected"`` (default; proved in ``docs/theory/derivations.md``,
raises outside its conditions) or ``constants="paper"`` (as printed, warns outside its conditions).
`advise` returns the step size that a bound recommends. `measure_stability` and `measure_excess`
compare measurements with the bounds.
"""

from pairlearn.theory.advice import Advice, advise, advise_auc
from pairlearn.theory.excess import (
    excess_nonsmooth,
    excess_online,
    excess_smooth,
    step_size_nonsmooth,
    step_size_online,
    step_size_smooth,
)
from pairlearn.theory.finite_problems import FiniteProblem, hinge_problem, square_problem
from pairlearn.theory.localized import (
    LocalizedStage,
    localized_distance,
    localized_excess,
    localized_schedule,
    localized_stage_gap,
    stage_sizes,
)
from pairlearn.theory.measure import (
    ExcessMeasurement,
    StabilityMeasurement,
    fitted_slope,
    measure_excess,
    measure_stability,
    run_path,
)
from pairlearn.theory.nonconvex import (
    gradient_norm_nonconvex,
    gradient_norm_step_size,
    pl_excess,
    pl_gap,
    pl_horizon,
    pl_stability,
)
from pairlearn.theory.optimization import (
    convex_gap,
    convex_gap_with_confidence,
    strongly_convex_gap,
    strongly_convex_gap_with_confidence,
)
from pairlearn.theory.plots import plot_excess, plot_stability
from pairlearn.theory.private import (
    PrivateProblem,
    PrivateStage,
    private_excess,
    private_schedule,
    private_single_pass_excess,
    private_single_pass_step_size,
)
from pairlearn.theory.private_nonsmooth import (
    PrivateLocalizedStage,
    private_nonsmooth_excess,
    private_nonsmooth_schedule,
)
from pairlearn.theory.sensitivity import (
    binomial_upper,
    chernoff_upper,
    erm_sensitivity,
    gaussian_noise_scale,
    gaussian_privacy_loss,
    sensitivity_single_pass,
    sensitivity_with_confidence,
)
from pairlearn.theory.stability import (
    auc_gradient_change,
    generalization_gap,
    realized_stability,
    stability_nonsmooth,
    stability_smooth,
)

__all__ = [
    "Advice", "ExcessMeasurement", "FiniteProblem", "LocalizedStage", "PrivateLocalizedStage",
    "PrivateProblem", "PrivateStage", "StabilityMeasurement", "advise", "advise_auc",
    "auc_gradient_change", "binomial_upper", "chernoff_upper", "convex_gap",
    "convex_gap_with_confidence", "erm_sensitivity", "excess_nonsmooth", "excess_online",
    "excess_smooth", "fitted_slope", "gaussian_noise_scale", "gaussian_privacy_loss",
    "generalization_gap", "gradient_norm_nonconvex", "gradient_norm_step_size", "hinge_problem",
    "localized_distance", "localized_excess", "localized_schedule", "localized_stage_gap",
    "measure_excess", "measure_stability", "pl_excess", "pl_gap", "pl_horizon", "pl_stability",
    "plot_excess", "plot_stability", "private_excess", "private_nonsmooth_excess",
    "private_nonsmooth_schedule", "private_schedule", "private_single_pass_excess",
    "private_single_pass_step_size", "realized_stability", "run_path", "sensitivity_single_pass",
    "sensitivity_with_confidence", "square_problem", "stability_nonsmooth", "stability_smooth",
    "stage_sizes", "step_size_nonsmooth", "step_size_online", "step_size_smooth",
    "strongly_convex_gap", "strongly_convex_gap_with_confidence",
]  # fmt: skip
