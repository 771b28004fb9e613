# SPDX-License-Identifier: BSD-3-Clause
"""The columns of a Spark frame that a fit or a prediction reads, checked before any job runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F  # noqa: N812 -- as all of Spark's users write it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.utils import is_remote

from pairlearn.register import nearest
from pairlearn.spark.batches import Layout

#: What Spark's feature transformers tell about a column of vectors.
_ATTRIBUTES = "ml_attr"


@dataclass(frozen=True, eq=False)
class Selected:
    """A frame of nothing but the columns that are read, and what they are."""

    frame: Any
    layout: Layout
    feature_names: list[str] | None


def check_frame(dataset: Any) -> None:
    """Refuse what is no frame of a Spark session of this process."""
    if is_remote():
        raise TypeError(
            "pairlearn.spark does not run over Spark Connect, which cannot hold a broadcast; use a "
            "session of this process (SparkSession.builder.master(...))."
        )
    if not hasattr(dataset, "mapInArrow"):
        raise TypeError(
            f"dataset must be a Spark DataFrame, got {type(dataset).__name__}; "
            "spark.createDataFrame(...) makes one."
        )


def features_of(
    dataset: Any, features: str | Sequence[str], *, private: bool = False
) -> tuple[list[Any], Layout, list[str] | None]:
    """Return the columns of features, how they are stored, and their names if they have any.

    Private cells may be of any type that a private table takes.
    """
    if not isinstance(features, str):
        if not features:
            raise ValueError("featuresCol names no column; give one or more.")
        kinds = [_type_of(dataset, name, "featuresCol") for name in features]
        if not private:
            _check_numbers(features, kinds)
        columns = [_number(name, kind) for name, kind in zip(features, kinds, strict=True)]
        return columns, Layout("columns", len(columns)), list(features)
    kind = _type_of(dataset, features, "featuresCol")
    if isinstance(kind, VectorUDT):
        names, width = _attributes(dataset.schema[features].metadata)
        return [_column(features)], Layout("vector", 1, width=width), names
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType):
        column = _column(features)
        if isinstance(kind.elementType, T.DecimalType):
            column = column.cast("array<double>")
        return [column], Layout("array", 1), None
    raise TypeError(
        f"featuresCol {features!r} is of type {kind.simpleString()}; it must be a column of "
        "vectors or of arrays of numbers (VectorAssembler makes one), or a list of the names of "
        "columns of numbers."
    )


def selected(
    dataset: Any,
    features: str | Sequence[str],
    label: str,
    *,
    weight: str | None = None,
    groups: Sequence[str] = (),
    private: bool = False,
) -> Selected:
    """Select features, label, weight and ids of persons, in this order and under own names."""
    check_frame(dataset)
    read = [*([features] if isinstance(features, str) else features), label]
    read += [weight] if weight else []
    twice = [name for name in read if read.count(name) > 1]
    if twice:
        raise ValueError(
            f"{twice[0]!r} is read twice, as a feature, label or weight; name each column once."
        )
    columns, layout, names = features_of(dataset, features, private=private)
    kind = _type_of(dataset, label, "labelCol")
    if not (private or isinstance(kind, T.NumericType | T.BooleanType)):
        raise TypeError(
            f"labelCol {label!r} is of type {kind.simpleString()}; labels must be numbers. Encode "
            f"them first: StringIndexer(inputCol={label!r}, outputCol=...) makes the rarer one 1."
        )
    columns = [*columns, _number(label, kind)]
    if weight:
        kind = _type_of(dataset, weight, "weightCol")
        _check_numbers([weight], [kind], "weightCol")
        columns.append(_number(weight, kind))
    for name in groups:
        _type_of(dataset, name, "groupsCol")
        columns.append(_column(name))
    own = [column.alias(f"c{k}") for k, column in enumerate(columns)]
    layout = Layout(layout.kind, layout.n_features, bool(weight), len(groups), layout.width)
    return Selected(dataset.select(*own), layout, names)


def _type_of(dataset: Any, name: str, param: str) -> Any:
    """Return the type of a column; refuse a name that the frame does not have, or has twice."""
    known = dataset.columns
    if known.count(name) == 1:
        return dataset.schema[name].dataType
    if name in known:
        raise ValueError(f"{param} {name!r} stands for several columns; rename all but one.")
    raise ValueError(f"{param} {name!r} is no column of the frame{nearest(name, known)}")


def _check_numbers(names: Sequence[str], kinds: Sequence[Any], param: str = "featuresCol") -> None:
    wrong = [
        f"{name!r} ({kind.simpleString()})"
        for name, kind in zip(names, kinds, strict=True)
        if not isinstance(kind, T.NumericType | T.BooleanType)
    ]
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise TypeError(
            f"{param} must name columns of numbers, got {shown}; encode texts and categories first "
            "(StringIndexer, OneHotEncoder), or leave them out."
        )


def _number(name: str, kind: Any) -> Any:
    """Return a column; decimals become doubles."""
    column = _column(name)
    return column.cast("double") if isinstance(kind, T.DecimalType) else column


def _column(name: str) -> Any:
    # Quoted: a dot in a name is no field of a struct.
    return F.col("`" + name.replace("`", "``") + "`")


def _attributes(metadata: dict[str, Any]) -> tuple[list[str] | None, int | None]:
    """Return the names and the number of features of a vector column, None where unknown."""
    told = metadata.get(_ATTRIBUTES, {})
    known = [one for kind in told.get("attrs", {}).values() for one in kind]
    width = told.get("num_attrs") or (len(known) or None)
    names = {one.get("idx"): one.get("name") for one in known}
    if width is None or set(names) != set(range(width)) or None in names.values():
        return None, width
    return [names[k] for k in range(width)], width
