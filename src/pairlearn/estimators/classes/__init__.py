# SPDX-License-Identifier: BSD-3-Clause
"""Many classes, and ordered grades, from the moments of the classes (`shared.class_moments`).

`multiclass` has a score for each pair of classes, whose probabilities it couples; `ordinal` has one
score for all grades, and finds the cuts between them. Many labels are in
`pairlearn.estimators.multilabel`.
"""
