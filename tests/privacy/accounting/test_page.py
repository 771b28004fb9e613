# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import pytest

from pairlearn.privacy import Certificate, Release, mu_of, promise_page

MU = mu_of(1.0, 1e-6)
CERTIFICATE = Certificate(
    mechanism="example", neighbours="replace", epsilon=1.0, delta=1e-6, n_examples=100,
    n_features=2, releases=(Release("mean", 7, MU, 1.0),), generator="dice", private=True,
    secure=True, mu=MU, public={"labels": "0 and\n1"}, accounting="Gaussian-DP",
)  # fmt: skip


def words(certificate=None):
    return " ".join(promise_page(certificate).split())


def test_the_documentation_has_the_empty_page(root):
    assert promise_page() in (root / "docs" / "privacy" / "promise.md").read_text(encoding="utf-8")


def test_a_certificate_fills_in_the_page():
    text = words(CERTIFICATE)
    for part in (
        "**Who is protected.** One example: one row of the table.",
        "They come from 7 noisy numbers.",
        "epsilon = 1, delta = 1e-06. " + CERTIFICATE.statement().splitlines()[0],
        "a factor of at most 2.7.",
        # 0.01 e / (0.99 + 0.01 e)
        "to Anna's illness. After seeing the model it is at most 2.7 in 100.",
        "* labels: 0 and 1 **What is not covered.**",
        "(`pairlearn privacy certify`): they add up",
        "Noise: dice *",
    ):
        assert part in text
    # The blank fields are those of which no certificate knows.
    assert words().count(r"\_") > text.count(r"\_") > 0


def test_the_page_says_what_the_relation_the_unit_and_epsilon_mean():
    other = replace(CERTIFICATE, neighbours="add_remove", epsilon=5.0, mu=mu_of(5.0, 1e-6))
    text = words(other)
    assert "If one example were not in the data" in text
    assert "a factor of at most 148." in text
    assert "one chance in 100 to Anna being in the data" in text
    assert "at most 60 in 100" in text
    assert "FLOATING POINT" in words(replace(CERTIFICATE, secure=False))
    text = words(replace(CERTIFICATE, unit="person"))
    assert "**Who is protected.** One person with all rows." in text
    assert "If one person were different" in text


def test_the_page_says_who_is_trusted_and_what_counts_together():
    alone = words(CERTIFICATE)
    assert "**Who is trusted.** Whoever runs the program, on one machine" in alone
    assert "one with more has less of it" in alone
    assert "one with more" not in words(replace(CERTIFICATE, unit="person"))
    text = words(replace(CERTIFICATE, public={"releases": "up to 4"}))
    assert "All models of the stream count together." in text


@pytest.mark.parametrize("change", [{"private": False}, {"epsilon": 0.1}])
def test_a_page_without_a_promise_says_so(change):
    text = words(replace(CERTIFICATE, **change))
    assert "NOTHING IS PROMISED" in text
    assert "Anna's illness" not in text
    assert "they add up" not in text
