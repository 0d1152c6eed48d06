"""A DataFrame into a keyed table: rows come, or take the place of those with their keys, of partitions or of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.upsert import several_rows
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.spark.changes.once import made_once
from frazil.spark.mixed.again import rows_of, until_committed
from frazil.spark.mixed.handle import MixedHandle
from frazil.spark.mixed.layout import by_key, gathered, own_columns
from frazil.spark.mixed.overwrite import overwrite_matching, overwrite_partitions
from frazil.spark.mixed.target import Target, batch_of, read_point, refuse_batch, summary_of
from frazil.spark.mixed.told import DELETE, INSERT, GoingAndComing, NewRows, Replacements
from frazil.spark.mixed.write import write_changes
from frazil.spark.options import folded
from frazil.spark.scan.filters import row_filter
from frazil.spark.scan.relations import quoted_name
from frazil.spark.write.partitions import Transforms
from frazil.spark.write.rows import by_position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.spark.bridge import Bridge

_MODES = ("append", "truncate", "overwrite", "dynamic")
_OPERATION = "__row_operation"
_ALL_ROWS = AlwaysTrue()


def insert(
    bridge: Bridge,
    handle: MixedHandle,
    mode: str,
    conditions: str,
    options: Mapping[str, str],
    rows: DataFrame,
) -> RowChanges:
    """Append, or overwrite all (`truncate`), what matches (`overwrite`), or the partitions rows go to (`dynamic`)."""
    if mode not in _MODES:
        raise InvalidArgument(f"write mode {mode!r}", hint="this is an error of Frazil: report it")
    handle.refuse_unless_written()
    rows = by_position(rows, handle.schema, bridge.classes)
    if mode == "append":
        done = (upsert if handle.replaces_by_key else append)(bridge, handle, rows, options)
    else:
        refuse_batch(options, "an overwrite")
        where: Expression = row_filter(conditions, handle.schema) if mode == "overwrite" else AlwaysTrue()
        is_dynamic = folded(options).get("overwrite-mode") == "dynamic" and isinstance(where, AlwaysTrue)
        if mode == "dynamic" or is_dynamic:
            done = overwrite_partitions(bridge, handle, rows, options)
        else:
            done = overwrite(bridge, handle, rows, where, options)
    handle.table.refresh()
    return done


def append(bridge: Bridge, handle: MixedHandle, rows: DataFrame, options: Mapping[str, str]) -> RowChanges:
    """Add rows."""
    target = Target.of(handle.table, handle.schema)
    laid_out = gathered(rows, target, Transforms(bridge.name), own_columns(target.schema))
    return write_changes(
        target,
        laid_out,
        NewRows(target.schema, target.keys),
        batch=batch_of(options),
        properties=summary_of(options),
    )


def upsert(bridge: Bridge, handle: MixedHandle, rows: DataFrame, options: Mapping[str, str]) -> RowChanges:
    """Put rows in the place of those with the same keys, or add them."""
    target = Target.of(handle.table, handle.schema)
    batch, properties = batch_of(options), summary_of(options)
    if target.knows_partition:
        told = Replacements(target.schema, target.keys)
        return write_changes(target, by_key(rows, target.keys), told, batch=batch, properties=properties)
    with made_once(rows, bridge.classes) as made:
        _refuse_twice(made, target)
        return replace_rows(bridge, handle, made, with_keys_of(made, target), options)


def overwrite(
    bridge: Bridge, handle: MixedHandle, rows: DataFrame, where: Expression, options: Mapping[str, str]
) -> RowChanges:
    """Replace what matches: whole partitions in the base store; else each row is deleted by its key."""
    done = overwrite_matching(bridge, handle, rows, where, options)
    if done is not None:
        return done
    with made_once(rows, bridge.classes) as made:
        if handle.replaces_by_key:
            _refuse_twice(made, Target.of(handle.table, handle.schema))
        return replace_rows(bridge, handle, made, lambda table: table.where(str(where)), options, where)


def replace_rows(
    bridge: Bridge,
    handle: MixedHandle,
    rows: DataFrame,
    which: Callable[[DataFrame], DataFrame],
    options: Mapping[str, str],
    where: Expression = _ALL_ROWS,
) -> RowChanges:
    """Delete rows of the table that `which` chooses, of those for which a filter is true, and add others."""
    from pyspark.sql import functions

    columns = [quoted_name(name) for name in handle.schema.columns]

    def marked(frame: DataFrame, operation: int) -> DataFrame:
        return frame.select(functions.lit(operation).alias(_OPERATION), *columns)

    def attempt(at: MixedHandle) -> RowChanges:
        target = Target.of(at.table, at.schema)
        gone = which(rows_of(bridge, at, rows.sparkSession))
        both = marked(gone, DELETE).unionAll(marked(rows, INSERT))
        return write_changes(
            target,
            gathered(both, target, Transforms(bridge.name), own_columns(target.schema)),
            GoingAndComing(target.schema, target.keys),
            batch=batch_of(options),
            read=read_point(at, where),
            properties=summary_of(options),
        )

    return until_committed(handle, attempt)


def with_keys_of(rows: DataFrame, target: Target) -> Callable[[DataFrame], DataFrame]:
    """The rows of a table that have the key of one of these."""
    from pyspark.sql import functions

    names = [key.name for key in target.keys]
    wanted = rows.select(*(functions.col(quoted_name(name)).alias(f"k{n}") for n, name in enumerate(names)))

    def which(table: DataFrame) -> DataFrame:
        same = [table[quoted_name(name)].eqNullSafe(wanted[f"k{n}"]) for n, name in enumerate(names)]
        return table.join(wanted, same, "left_semi")

    return which


def _refuse_twice(rows: DataFrame, target: Target) -> None:
    names = [key.name for key in target.keys]
    several = rows.groupBy(*map(quoted_name, names)).count().where("count > 1").limit(1).collect()
    if several:
        raise several_rows({name: several[0][place] for place, name in enumerate(names)})
