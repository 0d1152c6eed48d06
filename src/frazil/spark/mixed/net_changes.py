"""Change data that does not tell how old rows were, for tables whose partitions do not follow from the key, or have
columns outside of it that are required: old rows are read.

What is left of all changes of a key is its last one. Rows that have one of the keys go, wherever they are, and those of
last changes that bring one come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from frazil.errors import InvalidValue
from frazil.iceberg.row_changes import RowChanges
from frazil.mixed.change_data import loosened, unclear_order, without_place
from frazil.mixed.operations import Operation, unknown_operation, words_for
from frazil.model.types import ListType, MapType, NestedField, StructType, Type
from frazil.spark.mixed.insert import replace_rows, with_keys_of
from frazil.spark.mixed.target import Target
from frazil.spark.scan.relations import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from frazil.spark.bridge import Bridge
    from frazil.spark.mixed.handle import MixedHandle

_LAST = "__frazil_last"


def lacks_old_rows(rows: DataFrame, operation: str, target: Target) -> bool:
    """Whether there are updates of a key without the old row, or deletes: these may tell no more than the key."""
    from pyspark.sql import functions

    keys = [functions.col(quoted_name(key.name)) for key in target.keys]
    counts = {
        name: functions.count_if(is_word(operation, kind))
        for name, kind in (("n", Operation.UPDATE_AFTER), ("o", Operation.UPDATE_BEFORE), ("d", Operation.DELETE))
    }
    counted = rows.groupBy(*keys).agg(*(count.alias(name) for name, count in counts.items()))
    return not counted.where("n <> o OR d > 0").isEmpty()


def lacking(target: Target) -> dict[str, Column]:
    """Whether a row lacks something that is required, at any depth, by the columns outside the key that may."""
    from pyspark.sql import functions

    loose = loosened(target.schema, target.keys).fields
    strict = [column for column, other in zip(target.schema.fields, loose, strict=True) if column != other]
    return {column.name: _lacks(functions.col(quoted_name(column.name)), column) for column in strict}


def _lacks(value: Column, field: NestedField) -> Column:
    """Never null itself."""
    inside = _lacks_inside(value, field.type)
    return value.isNull() | inside if field.required else value.isNotNull() & inside


def _lacks_inside(value: Column, type_: Type) -> Column:
    from pyspark.sql import functions

    if isinstance(type_, StructType):
        inner = (_lacks(value.getField(field.name), field) for field in type_.fields)
        return reduce(or_, inner, functions.lit(False))
    if isinstance(type_, ListType):
        return functions.exists(value, lambda one: _lacks(one, type_.element))
    if isinstance(type_, MapType):
        return functions.exists(functions.map_values(value), lambda one: _lacks(one, type_.value))
    return functions.lit(False)


def has_lacking_deletes(rows: DataFrame, operation: str, target: Target) -> bool:
    """Whether there are deletes that lack something required, and so cannot be written as they are told."""
    lacks = reduce(or_, lacking(target).values())
    return not rows.where(is_word(operation, Operation.DELETE) & lacks).isEmpty()


def apply_net(
    bridge: Bridge,
    handle: MixedHandle,
    target: Target,
    rows: DataFrame,
    operation: str,
    places: Mapping[str, str],
    options: Mapping[str, str],
) -> RowChanges:
    """Apply changes; `places` are the columns that tell their order, by the names the user has for them."""
    from pyspark.sql import Window, functions

    names = [key.name for key in target.keys]
    keys = [functions.col(quoted_name(name)) for name in names]
    order = [functions.col(place) for place in places.values()]
    _check(rows, operation, keys, order, places, lacking(target))
    is_old = is_word(operation, Operation.UPDATE_BEFORE)
    _refuse_ties(rows, names, keys, order, list(places), is_old, is_word(operation, Operation.UPDATE_AFTER))
    latest = Window.partitionBy(*keys).orderBy(*(one.desc() for one in (*order, ~is_old)))
    last = rows.withColumn(_LAST, functions.row_number().over(latest)).where(f"{_LAST} = 1")
    comes = last.where(is_word(operation, Operation.INSERT, Operation.UPDATE_AFTER))
    columns = [quoted_name(name) for name in target.schema.columns]
    return replace_rows(bridge, handle, comes.select(*columns), with_keys_of(rows, target), options)


def is_word(operation: str, *operations: Operation) -> Column:
    """Whether a column has a word for one of some operations."""
    from pyspark.sql import functions

    return functions.lower(functions.col(operation)).isin(*words_for(*operations))


def _check(
    rows: DataFrame,
    operation: str,
    keys: Sequence[Column],
    order: Sequence[Column],
    places: Mapping[str, str],
    lacks: Mapping[str, Column],
) -> None:
    """Refuse unknown operations, rows without a key or a place, and those but deletes that are not whole."""
    from pyspark.sql import functions

    known = functions.coalesce(is_word(operation, *Operation), functions.lit(False))
    bad = ~known
    for column in (*keys, *order):
        bad = bad | column.isNull()
    is_delete = is_word(operation, Operation.DELETE)
    for column in lacks.values():
        bad = bad | (~is_delete & column)
    found = rows.where(bad).select(operation, known, *lacks.values(), *keys, *order).limit(1).collect()
    if not found:
        return
    word, is_known, *rest = found[0]
    flags, values = rest[: len(lacks)], rest[len(lacks) :]
    if not is_known:
        raise unknown_operation(word)
    if None in values[: len(keys)]:
        raise InvalidValue("a row has no value for a column of the primary key", hint="give every row a key")
    missing = next((name for name, value in zip(places, values[len(keys) :], strict=True) if value is None), None)
    if missing is not None:
        raise without_place(missing)
    column_name = next(name for name, is_lacking in zip(lacks, flags, strict=True) if is_lacking)
    raise InvalidValue(
        f"column {column_name!r} lacks what is required, in a row that is no delete",
        hint="fill the nulls, or make the column optional",
        column=column_name,
    )


def _refuse_ties(
    rows: DataFrame,
    names: Sequence[str],
    keys: Sequence[Column],
    order: Sequence[Column],
    shown: Sequence[str],
    is_old: Column,
    is_new: Column,
) -> None:
    """Refuse two changes of a key with the same place, but an update's rows."""
    from pyspark.sql import functions

    grouped = rows.groupBy(*keys, *order).agg(
        functions.count(functions.lit(1)).alias("n"),
        functions.count_if(is_old).alias("old"),
        functions.count_if(is_new).alias("new"),
    )
    found = grouped.where("n > 1 AND NOT (n = 2 AND old = 1 AND new = 1)").limit(1).collect()
    if found:
        raise unclear_order(names, list(found[0])[: len(names)], shown)
