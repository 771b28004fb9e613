# SPDX-License-Identifier: BSD-3-Clause
"""Which pairs of survival times can be compared, and how the interval of C shrinks with events."""

import matplotlib.pyplot as plt
import numpy as np

from pairlearn import ConcordanceIndex

rng = np.random.default_rng(4)
risk = rng.normal(size=2_000)
died, left_study = rng.exponential(np.exp(-risk)), rng.exponential(1.5, size=2_000)
event, time = died <= left_study, np.minimum(died, left_study)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1), width_ratios=(1.2, 1))
for k in range(8):
    left.plot([0.0, time[k]], [k, k], color="C0" if event[k] else "0.6")
    left.plot(time[k], k, "o", color="C0", markerfacecolor="C0" if event[k] else "white")
left.set(xlabel="time", ylabel="example", title="filled: event, empty: censored")

sizes = [40, 80, 160, 320, 640, 1_280]
y = np.column_stack((event, time))
found = [ConcordanceIndex().interval(y[:n], risk[:n]) for n in sizes]
n_events = [int(event[:n].sum()) for n in sizes]
value = np.array([one.value for one in found])
ends = np.array([[one.value - one.low, one.high - one.value] for one in found]).T
right.errorbar(n_events, value, yerr=ends, fmt="o", capsize=3)
right.axhline(0.5, color="0.4", linestyle="--")
right.set(xscale="log", xlabel="events", ylabel="concordance index", ylim=(0.4, 1.0))
right.xaxis.set_minor_formatter("")
