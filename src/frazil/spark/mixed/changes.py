"""DELETE, UPDATE and MERGE of a keyed table: rows that go are deleted by their keys, rows that come follow them.

Spark's rules make the query of the changes, with each row as it was and as it becomes. All that comes in a statement
comes after all that goes in it: so keys may be exchanged, and it does not matter which task has a row. Two rows that
come with one key are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.row_changes import RowChanges
from frazil.mixed.transactions import ReadPoint
from frazil.model.expressions import AlwaysTrue
from frazil.spark.changes.cardinality import named_violations
from frazil.spark.mixed.again import until_committed
from frazil.spark.mixed.layout import columns_of_changes, gathered, own_columns
from frazil.spark.mixed.new_keys import refuse_repeated
from frazil.spark.mixed.target import Target, read_point
from frazil.spark.mixed.told import NewRows, OldAndNew
from frazil.spark.mixed.write import write_changes
from frazil.spark.write.partitions import Transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.spark.changes.command import Command
    from frazil.spark.mixed.handle import MixedHandle

OPERATION, OLD_ROW = "__row_operation", "_old_row"


def change_rows(handle: MixedHandle, command: Command) -> RowChanges:
    """Carry out a command; again on what others left, if they were first."""
    command.check()
    clash = next((name for name in handle.schema.columns if name.lower() == OLD_ROW), None)
    if clash is not None:
        raise InvalidArgument(
            f"column {clash!r} of {handle.name} hides a column by which rows are changed", hint="rename it"
        )

    def attempt(at: MixedHandle) -> RowChanges:
        asked = command if at is handle else command.on(at)
        with asked.narrowed() as narrowed, named_violations(narrowed):
            # what it reads of the table besides the rows that it may change is all of it
            read = read_point(at, AlwaysTrue() if asked.reads_itself else narrowed.depends_on())
            return _write(at, narrowed, narrowed.old_and_new(), read)

    done = until_committed(handle, attempt)
    handle.table.refresh()
    return done


def _write(handle: MixedHandle, command: Command, changes: DataFrame, read: ReadPoint) -> RowChanges:
    """Write what a command changes. Refused if others changed rows since the table was read."""
    target = Target.of(handle.table, handle.schema)
    schema, transforms = target.schema, Transforms(command.bridge.name)
    given = list(changes._jdf.columns())

    def check(files: Sequence[DataFile]) -> None:
        change = target.change
        refuse_repeated(command.spark, change.store, change.metadata, target.keys, files)

    if given[:1] != [OPERATION]:  # a MERGE that only inserts
        rows = gathered(changes.toDF(*schema.columns), target, transforms, own_columns(schema))
        return write_changes(target, rows, NewRows(schema, target.keys), read=read, check=check)
    sources = columns_of_changes(schema, given[1:-1], OLD_ROW, OPERATION)
    rows = gathered(changes, target, transforms, sources)
    return write_changes(target, rows, OldAndNew(schema, target.keys), read=read, check=check)
