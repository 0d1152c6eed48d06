"""Change data into a keyed table, from a DataFrame or the batches of a stream.

All changes of a key go to one task, which writes them in their order. Without a column that tells the order there may
be one change of a key, or an update's two rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, Unsupported
from frazil.iceberg.row_changes import RowChanges
from frazil.mixed.operations import Operation
from frazil.mixed.properties import UPSERT_ENABLED
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import batch_name
from frazil.model.property_text import property_texts
from frazil.spark.changes.builder import any_bridge
from frazil.spark.changes.once import made_once
from frazil.spark.mixed.handle import MixedHandle, current
from frazil.spark.mixed.insert import append, upsert
from frazil.spark.mixed.layout import by_key
from frazil.spark.mixed.net_changes import apply_net, has_lacking_deletes, is_word, lacking, lacks_old_rows
from frazil.spark.mixed.target import BATCH, PROPERTY, Target, batch_of, summary_of
from frazil.spark.mixed.told import ChangeData
from frazil.spark.mixed.write import write_changes
from frazil.spark.options import folded
from frazil.spark.scan.relations import quoted_name
from frazil.spark.session import is_connect
from frazil.spark.types import spark_struct
from frazil.spark.write.rows import by_name, by_position, check_columns, nullable, refusing_casts, struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.spark.bridge import Bridge

OPERATION = "operation"
"""The option that names the column of operations."""
ORDER = "order"
"""The option that names the columns, with commas between, that say when changes happened."""
_TOLD, _WHEN = "__frazil_operation", "__frazil_order_"


def ingest(bridge: Bridge, handle: MixedHandle, options: Mapping[str, str], rows: DataFrame) -> RowChanges:
    """Apply change data, as the options of a write tell it."""
    handle.refuse_unless_written()
    given = folded(options)
    order = tuple(name.strip() for name in given.get(ORDER, "").split(",") if name.strip())
    target = Target.of(handle.table, handle.schema)
    fitted = _fitted(bridge, target, rows, given[OPERATION], order)
    if target.knows_partition and not lacking(target):
        done = _apply(target, fitted, order, options)
    else:
        with made_once(fitted, bridge.classes) as made:
            if _reads(made, target):
                places = {name: f"{_WHEN}{place}" for place, name in enumerate(order)}
                done = apply_net(bridge, handle, target, made, _TOLD, places, options)
            else:
                done = _apply(target, made, order, options)
    handle.table.refresh()
    return done


def _reads(rows: DataFrame, target: Target) -> bool:
    """Whether old rows have to be read for changes."""
    if target.knows_partition:
        return has_lacking_deletes(rows, _TOLD, target)
    return _upserts(target) or lacks_old_rows(rows, _TOLD, target)


def _upserts(target: Target) -> bool:
    return target.base.metadata.property_reader.get(UPSERT_ENABLED)


def _apply(target: Target, rows: DataFrame, order: tuple[str, ...], options: Mapping[str, str]) -> RowChanges:
    """Write changes as they are told."""
    told = ChangeData(
        target.schema, target.keys, order, upsert=_upserts(target), knows_partition=target.knows_partition
    )
    rows = _sorted(rows, target, len(order))
    return write_changes(target, rows, told, batch=batch_of(options), properties=summary_of(options))


def _fitted(bridge: Bridge, target: Target, rows: DataFrame, operation: str, order: Sequence[str]) -> DataFrame:
    """The operation, what tells the order, and the columns of the table."""
    from pyspark.sql import DataFrame, functions

    fields = struct_of(rows)["fields"]
    types = {field["name"].lower(): field["type"] for field in fields}
    for name in (operation, *order):
        if name.lower() not in types:
            raise InvalidArgument(
                f"the rows have no column {name!r}", hint="name the columns of operations and of their order"
            )
    own = {name.lower() for name in target.schema.columns}
    extra = {name.lower() for name in (operation, *order)} - own
    data = [field for field in fields if field["name"].lower() not in extra]
    sensitive = rows.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    check_columns(data, target.schema, sensitive, check_order=False)
    marked = rows.select(
        functions.col(quoted_name(operation)).alias(_TOLD),
        *(functions.col(quoted_name(name)).alias(f"{_WHEN}{place}") for place, name in enumerate(order)),
        *(functions.col(quoted_name(field["name"])) for field in data),
    )
    names = [_TOLD, *(f"{_WHEN}{place}" for place in range(len(order)))]
    told = [
        {"name": name, "type": types[source.lower()], "nullable": True, "metadata": {}}
        for name, source in zip(names, (operation, *order), strict=True)
    ]
    struct = nullable(spark_struct(target.schema, dialect=bridge.dialect))
    jvm: Any = rows.sparkSession.sparkContext._jvm
    wanted = jvm.org.apache.spark.sql.types.DataType.fromJson(
        json.dumps({"type": "struct", "fields": [*told, *struct["fields"]]})
    )
    with refusing_casts():
        return DataFrame(marked._jdf.to(wanted), rows.sparkSession)


def _sorted(rows: DataFrame, target: Target, places: int) -> DataFrame:
    """Changes of a key in one task, by time; of one time an update's old row comes first."""
    from pyspark.sql import functions

    keys = [functions.col(quoted_name(key.name)) for key in target.keys]
    when = [functions.col(f"{_WHEN}{place}") for place in range(places)]
    is_old = is_word(_TOLD, Operation.UPDATE_BEFORE)
    return by_key(rows, target.keys).sortWithinPartitions(*keys, *when, ~is_old)


# From Python.


def ingest_frame(
    table: MixedTable, rows: DataFrame, operation: str, order: str | Sequence[str] | None, batch: str | None
) -> RowChanges:
    """Apply the change data of a DataFrame."""
    _refuse_connect(rows)
    names = () if order is None else (order,) if isinstance(order, str) else tuple(order)
    options = {OPERATION: operation, ORDER: ",".join(names), **_named(batch, None)}
    return ingest(any_bridge(rows.sparkSession), _handle(table), options, rows)


def append_frame(
    table: MixedTable, rows: DataFrame, upserts: bool, batch: str | None, properties: Mapping[str, str] | None
) -> RowChanges:
    """Add the rows of a DataFrame, by the names of its columns; or let them take the place of those with their keys."""
    _refuse_connect(rows)
    bridge, handle = any_bridge(rows.sparkSession), _handle(table)
    with refusing_casts():
        fitted = by_name(rows, handle.schema, bridge.dialect, check_nulls=False, check_order=False)
    fitted = by_position(fitted, handle.schema, bridge.classes)
    done = (upsert if upserts else append)(bridge, handle, fitted, _named(batch, properties))
    table.refresh()
    return done


def _refuse_connect(rows: DataFrame) -> None:
    if is_connect(rows.sparkSession):
        raise Unsupported("DataFrames of Spark Connect are not written to mixed tables", hint="give rows.toArrow()")


def _handle(table: MixedTable) -> MixedHandle:
    handle = current(table.refresh())
    assert isinstance(handle, MixedHandle)
    return handle


def _named(batch: str | None, properties: Mapping[str, str] | None) -> dict[str, str]:
    told = {f"{PROPERTY}{key}": text for key, text in property_texts(properties).items()}
    name = batch_name(batch)
    return told if name is None else {**told, BATCH: name}
