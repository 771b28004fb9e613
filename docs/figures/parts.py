# SPDX-License-Identifier: BSD-3-Clause
"""Step sizes, and the weight that each iterate has in an average."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import Constant, InverseSqrt, InverseTime, Tail, Uniform
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.solvers import iterate_weights

steps = np.arange(1, 101)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1))
for schedule in (Constant(0.3), InverseSqrt(1.0), InverseTime(1.0, offset=5.0)):
    left.plot(steps, schedule.step_sizes(1, 100), label=type(schedule).__name__)
left.set(xlabel="step", ylabel="step size")
left.legend()
for rule in (DelayedByStepSize(), DelayedLinear(), Uniform(), Tail(0.5)):
    right.plot(iterate_weights(rule, InverseSqrt(1.0), 100), label=type(rule).__name__)
right.set(xlabel="iterate", ylabel="weight, steps 1/sqrt(t)")
right.legend()
