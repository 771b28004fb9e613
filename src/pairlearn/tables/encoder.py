# SPDX-License-Identifier: BSD-3-Clause
"""A data frame with categories, dates and gaps as features, in scikit-learn's form."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.register import nearest
from pairlearn.streams.readers.base import listed
from pairlearn.tables.columns import choose_columns
from pairlearn.tables.encoding import TableEncoding
from pairlearn.tables.kinds import KINDS, UNUSED
from pairlearn.tables.reader import OddFields, changed_columns, strange_columns, usable_rows
from pairlearn.tables.rows import arrow_series
from pairlearn.tables.series import plain_series, series_of, texts_of
from pairlearn.tables.text import Block, repeated_names
from pairlearn.tables.values import file_style
from pairlearn.validation import warn_caller

if TYPE_CHECKING:
    from polars import DataFrame, Series

#: Rows from which the kinds of columns are decided, spread over the frame.
_SAMPLE = 10_000
_CATEGORIES = (nw.Categorical, nw.Enum)


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a data frame into features as ``pairlearn train`` does with a file.

    Numbers stay numbers; categories become one feature for each level; dates become a number and
    waves of the year, week and day; spans of time become hours; texts become words. A column of
    the type category is one, also if its levels are numbers, and whether they are ordered or not. A
    gap becomes the median, or a feature of its own if there are many. Ids and constants are left
    out. Nothing looks at labels.

    Parameters
    ----------
    kinds : mapping of str to str, optional
        The kinds of some columns: "number", "category", "yes/no", "date", "text". They overrule the
        types of the frame. The others are found.
    exclude : sequence of str
        Columns to leave out.
    missing : {"auto", "indicator", "refuse"} or float, default="auto"
        "indicator" marks every gap by a feature, "refuse" makes gaps an error, a number is filled
        in for missing numbers.

    Attributes
    ----------
    decisions_ : tuple of Decision
        The kind of each column, and why.
    encoding_ : TableEncoding
        What was learned; `encoding_.state()` is plain data for a model file.
    feature_names_in_ : ndarray of str
        The columns of the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from pairlearn import AUCClassifier, TableEncoder
    >>> frame = pd.DataFrame({"age": [31.0, None, 25.0, 52.0] * 5,
    ...                       "plan": ["pro", "free", "free", "pro"] * 5})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age=(missing)', 'plan=free', 'plan=pro', 'plan=(other)']
    >>> encoder.transform(frame)[1]
    array([31.,  1.,  1.,  0.,  0.])
    >>> model = make_pipeline(TableEncoder(), AUCClassifier()).fit(frame, [1, 0, 0, 1] * 5)
    """

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        exclude: Sequence[str] = (),
        missing: str | float = "auto",
    ) -> None:
        self.kinds = kinds
        self.exclude = exclude
        self.missing = missing

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "encoding_")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the kinds of columns, their levels and medians.

        Parameters
        ----------
        X : data frame
            Of pandas, polars or pyarrow.
        y : ignored
            Labels are not looked at.

        Returns
        -------
        self
            Fitted.
        """
        self._learn(*frame_of(X))
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to a frame and return its features."""
        if fit_params:
            raise TypeError(f"TableEncoder.fit has no parameter {listed(list(fit_params))}.")
        part = self._learn(*frame_of(X))
        return self.encoding_.encode(part)

    def transform(self, X: Any) -> Any:
        """Return the features of a frame, an array or a CSR matrix if there are many.

        The columns may stand in another order, and there may be others. A value that cannot be read
        counts as missing, and a warning says how many. Another one names a column of categories
        none of whose values `fit` has seen.

        Parameters
        ----------
        X : data frame
            With the columns of the fit.

        Returns
        -------
        ndarray or csr_matrix of shape (n, n_features)
            The features.
        """
        check_is_fitted(self)
        frame, _ = frame_of(X)
        present = set(frame.columns)
        lacking = [c.name for c in self.encoding_.columns if c.name not in present]
        if lacking:
            raise ValueError(
                f"X has no column {listed(lacking)}, which the encoder was fitted with; its "
                f"columns: {listed(frame.columns)}."
            )
        part = self._read(self.encoding_, frame)
        for line in strange_columns(self.encoding_.columns, part, "X"):
            warn_caller(line, UserWarning)
        return self.encoding_.encode(part)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features.

        Parameters
        ----------
        input_features : array-like of str, optional
            If given, the columns of the fit.

        Returns
        -------
        ndarray of str
            The names.
        """
        check_is_fitted(self)
        if input_features is not None and list(input_features) != self.feature_names_in_.tolist():
            raise ValueError("input_features must be the columns that the encoder was fitted with.")
        return np.array(self.encoding_.feature_names, dtype=object)

    def _learn(self, frame: DataFrame, categories: set[str]) -> list[Any]:
        """Fit to a frame; return its compact values."""
        kinds, names = dict(self.kinds or {}), frame.columns
        if isinstance(self.exclude, str):
            raise TypeError(f"exclude must be a list of names, got {self.exclude!r}.")
        for name in [*kinds, *self.exclude]:
            if name not in names:
                raise ValueError(f"X has no column {name!r}{nearest(name, names)}")
        usable = [kind for kind in KINDS if kind not in UNUSED]
        for name, kind in kinds.items():
            if kind not in usable:
                raise ValueError(f"kinds[{name!r}] must be one of {listed(usable)}, got {kind!r}.")
        missing = _checked_missing(self.missing)
        step = max(1, -(-frame.height // _SAMPLE))
        few = frame.gather_every(step)
        sample = {name: texts_of(few[name]).fill_null("").to_list() for name in names}
        decisions, columns = choose_columns(
            sample, set(names).difference(self.exclude), commas=file_style(sample.values(), ","),
            given=kinds, declared=categories, step=step, missing=missing,
        )  # fmt: skip
        if not columns:
            raise ValueError(
                "X leaves no column for features ("
                + ", ".join(f"{d.name}: {d.note or d.kind}" for d in decisions[:8])
                + "); name the kind of one with kinds."
            )
        encoding = TableEncoding(
            list(columns.values()),
            ids=[decision.name for decision in decisions if decision.kind == "id"],
        )
        part = self._read(encoding, frame, learns=True)
        encoding.fit([part], whole=True)
        if not encoding.n_features:
            raise ValueError("X leaves no feature: no word of its texts is frequent enough.")
        self.decisions_, self.encoding_ = tuple(decisions), encoding
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return part

    def _read(
        self, encoding: TableEncoding, frame: DataFrame, *, learns: bool = False
    ) -> list[Any]:
        """Return the compact values of a frame; warn of values that cannot be read."""
        block = Block("row", frame, np.arange(frame.height), frame.height)

        def check(part: list[Any], wrong: Any) -> None:
            for said in changed_columns(encoding, block, part, wrong):
                raise ValueError(f"{said}; write it as in the frame of fit, or put None for a gap.")

        odd = OddFields()
        found = usable_rows(
            encoding, block, odd, strict=False, labelled=False, check=None if learns else check
        )
        if found.refused:
            row, reason = found.refused[0]
            raise ValueError(f'row {row}: {reason}, and missing="refuse" allows no gap.')
        for line in odd.lines():
            warn_caller(line, UserWarning)
        return found.part


def _checked_missing(missing: Any) -> str | float:
    if isinstance(missing, str) and missing in ("auto", "indicator", "refuse"):
        return missing
    if isinstance(missing, numbers.Real) and not isinstance(missing, bool):
        number = float(missing)
        if math.isfinite(number):
            return number
    raise ValueError(
        f'missing must be "auto", "indicator", "refuse" or a finite number, got {missing!r}.'
    )


def frame_of(X: Any) -> tuple[DataFrame, set[str]]:
    """Return a frame of any library for polars, and its columns of categories."""
    import polars

    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise ValueError(f"the columns of X must have texts as names, got {wrong!r}.")
    if repeated := repeated_names(names):
        raise ValueError(f"X has more than one column named {listed(repeated)}; rename them.")
    if hasattr(X, "collect"):
        raise ValueError("X is a lazy frame; collect it first.")
    try:
        given = nw.from_native(X, eager_only=True)
    except TypeError:
        raise ValueError(
            f"X must be a data frame (pandas, polars or pyarrow), got {type(X).__name__}; an "
            "array of numbers needs no encoder."
        ) from None
    if not len(given) or not names:
        raise ValueError(f"X must have rows and columns, got {len(given)} x {len(names)}.")
    frame = polars.DataFrame([_series(given[name]) for name in names])
    return frame, {n for n in names if given[n].dtype in _CATEGORIES}


def _series(column: nw.Series[Any]) -> Series:
    """Return a column for polars, of a type that is read."""
    import polars

    native, name = column.to_native(), column.name
    if isinstance(native, polars.Series):
        found = plain_series(native)
    elif column.implementation.is_pyarrow():
        found = arrow_series(name, native.combine_chunks())
    else:
        values = np.asarray(native)
        if values.dtype.kind in "fmM":
            kinds = {"f": "float64", "m": "timedelta64[us]", "M": "datetime64[us]"}
            values = values.astype(kinds[values.dtype.kind])
        if values.dtype.kind in "iufbmM" and column.dtype not in _CATEGORIES:
            found = plain_series(polars.Series(name, values))
        else:
            found = series_of(name, native.tolist())
    if found.dtype.is_float() and found.is_infinite().any():
        raise ValueError(f"column {name!r} holds infinity; replace it by a number or a gap.")
    return found
