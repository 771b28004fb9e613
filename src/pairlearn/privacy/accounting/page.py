# SPDX-License-Identifier: BSD-3-Clause
"""One page about a private model, to print and sign: empty, or filled in from its certificate."""

from __future__ import annotations

import math
import textwrap

from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.verify import accounting_problems

_BLANK = r"\_" * 8

_PAGE = """\
**Model.** File {blank}{blank}, made on {blank}, for {blank}{blank}

**Who is protected.** {unit}

**From whom.** From anybody who sees what is published, even if he or she knows the program, all \
public facts and everybody else's data, and computes without limit.

**Who is trusted.** {trusted}

**What is published.** The model file: the numbers of the model and its certificate. {published}\
No training score, no count, no smallest or largest value leaves the data without noise.

**The numbers.** epsilon = {epsilon}, delta = {delta}. {relation}

**What they mean.** {meaning} What the model teaches about people in general, it teaches \
with or without Anna: this is not hidden.

**What must be public.** These facts count as known. Whoever signs the first line below vouches \
that the caller knew them without looking at the data.

{public}

**What is not covered.** The running time and the memory of the program. The AUC of the model on \
private data, if it is published without a price. Data that were touched before, for example to \
choose columns. Other releases from the same data, unless a ledger counts them: ledger {blank}, \
epsilon spent so far {blank}.

**How it was checked.**

* Proof: the lemmas in the documentation of the program, version {blank}
* Sums of the certificate (`pairlearn privacy certify`): {accounting}
* Noise: {noise}
* Attack on the program (`pairlearn privacy audit`): {blank}{blank}

| | name | date | signature |
| --- | --- | --- | --- |
| vouches for the public facts | | | |
| made the model | | | |
| answers for data protection | | | |
"""


def promise_page(certificate: Certificate | None = None) -> str:
    """Return one page of Markdown that says what is promised, to print and sign.

    It is for a person who answers for data protection. `Certificate.statement` has the facts for an
    engineer.

    Parameters
    ----------
    certificate : Certificate, optional
        What the fields are filled in from; empty fields by default. What no certificate knows (the
        purpose, the audit, the ledger, names) stays empty.

    Returns
    -------
    str
        The page.

    Examples
    --------
    >>> print(promise_page().splitlines()[3])
    **Who is protected.** [ ] One example: one row of the table. [ ] One person with all rows.
    """
    if certificate is None:
        return _page(
            unit="[ ] One example: one row of the table. [ ] One person with all rows.",
            relation="[ ] One is replaced by another. [ ] One is added or removed.",
            meaning="If what is protected were different, the odds of any conclusion would change "
            "by a factor of at most e^epsilon: 1.1 at epsilon 0.1, 2.7 at 1, 20 at 3. For example, "
            "somebody who knows everybody else's data gives one chance in 100 to Anna's illness. "
            "After seeing the model it is at most 2.7 in 100 at epsilon 1, and 17 in 100 at 3. "
            "With probability delta even that may fail. Where one row is protected, this is for a "
            "person with one row; one with more has less of it.",
            trusted="Whoever runs the program, on one machine.",
            public=["bounds of each feature", "labels", "number of examples or of persons",
                    "names and number of features", "settings"],
        )  # fmt: skip
    who = "example" if certificate.unit == "example" else "person"
    factor = math.exp(min(certificate.epsilon, 700.0))
    change, guess = f"If one {who} were different", "Anna's illness"
    if certificate.neighbours == "add_remove":
        change, guess = f"If one {who} were not in the data", "Anna being in the data"
    problems = accounting_problems(certificate)
    meaning = "NOTHING IS PROMISED: " + " ".join(problems)
    if not problems:
        shown = f"{factor:.2g}" if factor < 100 else f"{factor:,.0f}"
        meaning = (
            f"{change}, the odds of any conclusion would change by a factor of at most {shown}. "
            "For example, somebody who knows everybody else's data gives one chance in 100 to "
            f"{guess}. After seeing the model it is at most "
            f"{factor / (0.99 + 0.01 * factor):.2g} in 100. With probability delta even that may "
            "fail."
        )
        if who == "example":
            meaning += " This is for a person with one row; one with more has less of it."
    facts = dict(certificate.public)
    trusted = "Whoever runs the program, on one machine: there the data and the noise can be seen."
    published = (
        f"They come from {sum(release.dimension for release in certificate.releases)} noisy "
        "numbers. "
    )
    if "releases" in facts:
        published += "All models of the stream count together. "
    exact = "" if certificate.secure else "; FLOATING POINT, which betrays the last bits"
    return _page(
        unit="One person with all rows."
        if who == "person"
        else "One example: one row of the table.",
        trusted=trusted,
        published=published,
        epsilon=f"{certificate.epsilon:g}",
        delta=f"{certificate.delta:g}",
        relation=certificate.statement().splitlines()[0],
        meaning=meaning,
        public=[f"{name}: {what}" for name, what in facts.items()],
        accounting="see above" if problems else "they add up",
        noise=f"{certificate.generator}{exact}",
    )


def _page(*, public: list[str], **fields: str) -> str:
    """Return the page with these fields, each paragraph in lines of at most 110 letters."""
    names = ("epsilon", "delta", "accounting", "noise")
    known = {"blank": _BLANK, "published": "", **dict.fromkeys(names, _BLANK), **fields}
    text = _PAGE.format(public="\n".join(f"* {' '.join(fact.split())}" for fact in public), **known)
    return "\n\n".join(
        textwrap.fill(part, 110, break_on_hyphens=False, break_long_words=False)
        if part.startswith("**")
        else part
        for part in text.split("\n\n")
    )
