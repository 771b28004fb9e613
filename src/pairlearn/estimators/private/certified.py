# SPDX-License-Identifier: BSD-3-Clause
"""What all private estimators share: warnings, and a model file that stands by its certificate."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

from pairlearn.estimators.shared.storage import Storable
from pairlearn.models.parts import encode
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.certificate import Certificate, PrivacyWarning, cautions_about
from pairlearn.privacy.mechanisms.by_name import get_mechanism
from pairlearn.validation import check_count, warn_caller

#: Fields of provenance that a private model file may hold: no field measured on data.
_PUBLIC_ORIGIN = ("author", "contact", "created", "data", "license", "program", "purpose", "schema")


class CertifiedMixin(Storable):
    """A private estimator with its certificate.

    It has the parameters `neighbours`, `n_examples`, `random_state` and `ledger`.
    """

    random_state: Any
    neighbours: str
    n_examples: int | None
    certificate_: Certificate
    #: The arguments that the certificate was made with.
    _certified: dict[str, Any]

    # A seed would reveal the noise, and a ledger has its own file.
    _not_stored: ClassVar[tuple[str, ...]] = ("random_state", "ledger")

    def _cautions(self, delta: float, n: int) -> tuple[str, ...]:
        """Return warnings about a promise on n examples or persons."""
        return cautions_about(delta, n, seeded=self.random_state is not None)

    def _public_number(self, n_rows: int) -> int:
        """Return the public number of examples that scales a release."""
        if self.n_examples is None:
            if self.neighbours == "add_remove":
                raise ValueError(
                    'neighbours="add_remove" protects the number of rows, so it cannot be read '
                    "from the data; give n_examples, the largest number that you expect."
                )
            return n_rows
        n = check_count("n_examples", self.n_examples)
        if self.neighbours == "replace" and n != n_rows:
            raise ValueError(
                'neighbours="replace" takes the number of rows (of persons, with groups) as '
                f"public, but n_examples={n} differs from it; leave it out."
            )
        if n_rows > n:
            raise ValueError(
                f"there are more rows than n_examples={n} (persons, with groups), which the "
                "guarantee covers; give a larger public number."
            )
        return n

    def _warn(self, cautions: tuple[str, ...]) -> None:
        for caution in cautions:
            warn_caller(caution, PrivacyWarning)

    def _note_arguments(self) -> None:
        """Remember the arguments that the certificate is made with."""
        self._certified = copy.deepcopy(self._public_arguments())

    def _public_arguments(self) -> dict[str, Any]:
        """Return the arguments that the file holds, in a form that it can hold."""
        return super()._stored_parameters()

    def _stored_parameters(self) -> dict[str, Any]:
        """Return the parameters that the file holds; refuse others than those of the fit."""
        given = self._public_arguments()
        first = self._certified
        changed = [name for name in given if encode(given[name], name) != encode(first[name], name)]
        if changed:
            raise ModelFileError(
                f"{', '.join(changed)} changed after the fit, but the certificate is about the "
                "first values. Set them back, or fit again."
            )
        return given

    @classmethod
    def from_record(cls, record: ModelRecord) -> Self:
        """Return the fitted model of a record, as `Storable.from_record` does."""
        model = super().from_record(record)
        model._note_arguments()
        return model

    def _certificate_of(self, record: ModelRecord) -> Certificate:
        """Return the certificate in a model file."""
        if record.certificate is None:
            raise ModelFileError("a private model needs a certificate, but this file has none.")
        try:
            return Certificate.from_dict(record.certificate)
        except (ValueError, TypeError, KeyError) as error:
            raise ModelFileError(f"its certificate cannot be read: {str(error)[:300]}") from None

    @staticmethod
    def _mechanism_of(certificate: Certificate, **learns: str) -> str:
        """Return the name of the mechanism that a certificate of a model file names."""
        try:
            return get_mechanism(certificate.mechanism, **learns).name
        except ValueError as error:
            raise ModelFileError(f"its certificate cannot be read: {str(error)[:300]}") from None

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        # A value measured on private data (an AUC, a fingerprint) would be a release without noise.
        measured = sorted(str(name) for name in given if name not in _PUBLIC_ORIGIN)
        if measured:
            raise ModelFileError(
                f"the file of a private model does not take {', '.join(measured)}: a value "
                "measured on private data would be a release without noise; it takes "
                f"{', '.join(_PUBLIC_ORIGIN)}."
            )
        return super()._provenance(self._rows_known() | given)

    def _rows_known(self) -> dict[str, Any]:
        units = "persons" if self.certificate_.unit == "person" else "rows"
        known = "seen" if self.certificate_.neighbours == "replace" else "at_most"
        return {f"{units}_{known}": self.certificate_.n_examples}
