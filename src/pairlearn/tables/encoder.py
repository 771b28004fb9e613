# SPDX-License-Identifier: BSD-3-Clause
"""A data frame with categories, dates and gaps as features, in scikit-learn's form."""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.register import nearest
from pairlearn.streams.readers.schema import listed
from pairlearn.tables.columns import make_column
from pairlearn.tables.encoding import TableEncoding
from pairlearn.tables.kinds import KINDS, UNUSED, Decision, decide
from pairlearn.tables.number_columns import NumberColumn
from pairlearn.tables.reader import OddFields, strange_columns
from pairlearn.tables.rows import Block
from pairlearn.tables.values import file_style
from pairlearn.validation import warn_caller

#: Rows from which the kinds of columns are decided, spread over the frame.
_SAMPLE = 10_000


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
        self._learn(_Frame(X))
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to a frame and return its features."""
        if fit_params:
            raise TypeError(f"TableEncoder.fit has no parameter {listed(list(fit_params))}.")
        part = self._learn(_Frame(X))
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
        frame = _Frame(X)
        present = set(frame.names)
        lacking = [c.name for c in self.encoding_.columns if c.name not in present]
        if lacking:
            raise ValueError(
                f"X has no column {listed(lacking)}, which the encoder was fitted with; its "
                f"columns: {listed(frame.names)}."
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

    def _learn(self, frame: _Frame) -> list[Any]:
        """Fit to a frame; return its compact values."""
        kinds = dict(self.kinds or {})
        if isinstance(self.exclude, str):
            raise TypeError(f"exclude must be a list of names, got {self.exclude!r}.")
        for name in [*kinds, *self.exclude]:
            if name not in frame.names:
                raise ValueError(f"X has no column {name!r}{nearest(name, frame.names)}")
        usable = [kind for kind in KINDS if kind not in UNUSED]
        for name, kind in kinds.items():
            if kind not in usable:
                raise ValueError(f"kinds[{name!r}] must be one of {listed(usable)}, got {kind!r}.")
        missing = _checked_missing(self.missing)
        step = max(1, -(-frame.n // _SAMPLE))
        sample = {name: frame.texts(name, step) for name in frame.names}
        commas = file_style(sample.values(), ",")
        decisions = tuple(
            Decision(name, "excluded", given=True)
            if name in self.exclude
            else decide(
                name,
                sample[name],
                commas=commas,
                given=kinds.get(name),
                declared=frame.is_category(name),
                step=step,
            )
            for name in frame.names
        )
        used = [decision for decision in decisions if decision.kind not in UNUSED]
        if not used:
            raise ValueError(
                "X leaves no column for features ("
                + ", ".join(f"{d.name}: {d.note or d.kind}" for d in decisions[:8])
                + "); name the kind of one with kinds."
            )
        encoding = TableEncoding(
            [make_column(decision, missing=missing) for decision in used],
            ids=[decision.name for decision in decisions if decision.kind == "id"],
        )
        part = self._read(encoding, frame)
        encoding.fit([part], whole=True)
        if not encoding.n_features:
            raise ValueError("X leaves no feature: no word of its texts is frequent enough.")
        self.decisions_, self.encoding_ = decisions, encoding
        self.feature_names_in_ = np.array(frame.names, dtype=object)
        self.n_features_in_ = len(frame.names)
        return part

    def _read(self, encoding: TableEncoding, frame: _Frame) -> list[Any]:
        """Return the compact values of a frame; warn of values that cannot be read.

        A column of which nothing can be read is refused.
        """
        odd, texts = OddFields(), {}
        lines = np.arange(frame.n)
        found: list[Any] = []
        for column in encoding.columns:
            numbers = frame.numbers(column.name)
            if numbers is not None and isinstance(column, NumberColumn) and column.is_plain:
                found.append(column.without_nothing(numbers))
                continue
            texts[column.name] = frame.texts(column.name)
            block = Block("row", {column.name: texts[column.name]}, lines, 0, 0)

            def note(name: str, line: int, reason: str) -> None:
                odd.add("row", name, line, reason)

            found += TableEncoding([column]).read(block, note)
        blame = encoding.refused(found)
        if (blame >= 0).any():
            k = int(np.argmax(blame >= 0))
            raise ValueError(
                f"row {k}: column {encoding.columns[blame[k]].name!r} misses its value, and "
                'missing="refuse" allows no gap.'
            )
        for name in odd.unread_columns(texts):
            raise ValueError(
                f"none of the {odd.counts[name]} values of column {name!r} can be read: "
                f"{odd.first[name]}; write it as in the frame of fit, or put None for a gap."
            )
        for line in odd.lines():
            warn_caller(line, UserWarning)
        return found


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


class _Frame:
    """The columns of a data frame of pandas, polars or pyarrow."""

    def __init__(self, X: Any) -> None:
        if hasattr(X, "column_names") and hasattr(X, "column"):  # pyarrow
            names, self._column = list(X.column_names), X.column
        elif hasattr(X, "columns") and hasattr(X, "__getitem__"):
            names, self._column = list(X.columns), X.__getitem__
        else:
            raise ValueError(
                f"X must be a data frame (pandas, polars or pyarrow), got {type(X).__name__}; an "
                "array of numbers needs no encoder."
            )
        if hasattr(X, "collect"):
            raise ValueError("X is a lazy frame; collect it first.")
        wrong = next((name for name in names if not isinstance(name, str)), None)
        if wrong is not None:
            raise ValueError(f"the columns of X must have texts as names, got {wrong!r}.")
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(f"X has more than one column named {listed(repeated)}; rename them.")
        self.names = tuple(names)
        self.n = len(X)
        if not self.n or not names:
            raise ValueError(f"X must have rows and columns, got {self.n} x {len(names)}.")

    def is_category(self, name: str) -> bool:
        """Whether the type of a column says that it holds categories."""
        column = self._column(name)
        kind = getattr(column, "dtype", getattr(column, "type", None))
        kind = getattr(kind, "pyarrow_dtype", kind)
        # the names of pandas, polars (two) and pyarrow; none of them need be installed
        return type(kind).__name__ in ("CategoricalDtype", "Categorical", "Enum", "DictionaryType")

    def numbers(self, name: str) -> NDArray[np.float64] | None:
        """Return a column of numbers, with NaN for gaps, or None if it holds something else."""
        values = np.asarray(self._column(name))
        if values.dtype.kind == "m":
            values = values / np.timedelta64(1, "h")
        if values.dtype.kind not in "iuf":
            return None
        numbers = values.astype(np.float64)
        if np.isinf(numbers).any():
            raise ValueError(f"column {name!r} holds infinity; replace it by a number or a gap.")
        return numbers

    def texts(self, name: str, step: int = 1) -> list[str]:
        """Return every `step`-th value of a column as the text that a file would hold."""
        column = self._column(name)[::step]
        # pyarrow, pandas and polars each have a word of their own
        words = ("to_pylist", "tolist", "to_list")
        values = next(getattr(column, word) for word in words if hasattr(column, word))()
        if any(isinstance(value, complex) for value in values):
            raise ValueError(
                f"column {name!r} holds complex numbers, of which no kind of column is made; put "
                "their real and imaginary parts into two columns, or leave it out with exclude."
            )
        return [_text(value) for value in values]


def _text(value: Any) -> str:
    """Return a value as a text; a gap is empty, and 3.0 is 3, as Arrow writes it.

    The text depends on the value alone: a row by itself has the level that it had among others.

    >>> _text(3.0), _text(2.5), _text(float("nan")), _text(True), _text("a")
    ('3', '2.5', '', 'true', 'a')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ""
        whole = value.is_integer() and abs(value) < 2.0**53
        return str(int(value)) if whole else repr(float(value))  # np.float64 is a float, too
    if isinstance(value, np.timedelta64) and value == value:
        return _text(float(value / np.timedelta64(1, "h")))
    if isinstance(value, datetime.timedelta) and value == value:
        return _text(value.total_seconds() / 3600.0)
    if isinstance(value, datetime.datetime) and value == value:
        return value.isoformat(" ")
    # pandas has gaps of its own, NA and NaT: neither equals itself
    return str(value) if _equals_itself(value) else ""


def _equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)
    except (TypeError, ValueError):  # NA says neither yes nor no
        return False
