"""Writes to a keyed table, in this process: each is one transaction of the change store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CommitConflict, InvalidArgument, InvalidValue, Unsupported
from frazil.iceberg.properties import COMMIT_NUM_RETRIES
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.scan_columns import leaf
from frazil.iceberg.upsert import several_rows
from frazil.mixed.change_data import ToldChanges, in_order, last_of_keys, loosened, replacing, split, tells_old_rows
from frazil.mixed.commit import commit_changes
from frazil.mixed.deleted_keys import DeletedKeys
from frazil.mixed.evolution import sync_schema
from frazil.mixed.keys import key_fields, partitioned_by_key
from frazil.mixed.operations import Actions, Operation, all_of, arrivals
from frazil.mixed.transactions import ReadPoint, abandoning_unwritten, batch_name, begin_transaction, committed_batch
from frazil.mixed.unique_keys import left_twice, repeated_key
from frazil.mixed.writer import Changes, ChangeWriter, refuse_null_keys
from frazil.model.arrow import schema_to_arrow
from frazil.model.assignments import Assign, assignments
from frazil.model.conform import conform
from frazil.model.expressions import Expression, and_, col
from frazil.model.property_text import property_texts
from frazil.model.schema import Schema
from frazil.model.types import DateType, IntegerType, LongType, NestedField, StringType

if TYPE_CHECKING:
    from frazil.mixed.table import MixedTable

_RANGED = (IntegerType, LongType, DateType, StringType)


class ChangeJob:
    """One write to a table: what is read and written belongs to one transaction."""

    def __init__(
        self, table: MixedTable, batch: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        self._table = table
        self._base, self._change = table.base_store, table._change_store
        self._batch = batch_name(batch)
        self._properties = property_texts(properties)
        table.refresh()
        sync_schema(self._base, self._change)
        self.schema: Schema = self._change.schema
        self.keys: tuple[NestedField, ...] = key_fields(self.schema, table.primary_key)

    @property
    def knows_partition(self) -> bool:
        """Whether a key tells the partition of its row, so that nothing need be read to delete it."""
        return partitioned_by_key(self._change.spec, (key.id for key in self.keys))

    # The operations.

    def append(self, rows: Any) -> RowChanges:
        """Add rows; with `write.upsert.enabled`, in the place of those with their keys."""
        batches = self._checked(conform(rows, self.schema))
        return self._run(lambda: ((batch, all_of(Operation.INSERT, batch.num_rows)) for batch in batches))

    def upsert(self, rows: Any) -> RowChanges:
        """Put rows in the place of those with the same keys, or add them."""
        given = self._table_of(self._checked(conform(rows, self.schema)))
        self._refuse_twice(given)
        if self.knows_partition:
            return self._run(lambda: [replacing(given, np.ones(given.num_rows, dtype=bool))])
        return self._run_reading(lambda: [*_deletes(self._with_keys(given)), *_inserts(given)])

    def delete(self, where: Expression) -> RowChanges:
        """Delete the rows that match."""
        return self._run_reading(lambda: _deletes(self._matching(where)))

    def update(self, values: Mapping[str, Any], where: Expression) -> RowChanges:
        """Give columns of the rows that match other values."""
        assign = assignments(schema_to_arrow(self.schema), values)
        keys = [key.name for key in self.keys if key.name in assign]
        if keys:
            raise Unsupported(
                f"column {keys[0]!r} is in the primary key and cannot be updated",
                hint="delete the rows, and add others",
            )

        def changes() -> Changes:
            old = self._matching(where)
            found = self._repeated_key(old)
            if found is not None:
                raise left_twice(found)
            return _updates(old, self._assigned(old, assign))

        return self._run_reading(changes)

    def merge(self, rows: Any, *, update: bool, delete: bool, insert: bool) -> RowChanges:
        """Update or delete the rows that have the keys of others, and insert those of the others that are new."""
        given = self._table_of(self._checked(conform(rows, self.schema)))
        self._refuse_twice(given)

        def changes() -> Changes:
            old = self._with_keys(given)
            known = ~self._keys_of(old).kept(self._key_columns(given), -1, 0) if old.num_rows else _none(given)
            wanted = (known & update) | (~known & insert)
            gone = _deletes(old) if update or delete else []
            return [*gone, *_inserts(given.filter(pa.array(wanted)))]

        return self._run_reading(changes)

    def delete_keys(self, keys: Any) -> RowChanges:
        """Delete the rows with these keys, given as rows that have at least the key columns."""
        wanted = self._table_of(self._checked(conform(keys, Schema(self.keys))), Schema(self.keys))
        blind = self.knows_partition and all(
            column.optional for column in self.schema.fields if column not in self.keys
        )
        if blind:
            whole = self._table_of(conform(pa.Table.from_batches([wanted]), self.schema))
            return self._run(lambda: _deletes(whole)) if whole.num_rows else RowChanges()
        return self._run_reading(lambda: _deletes(self._with_keys(wanted, Schema(self.keys))))

    def replace(self, rows: Any, where: Expression) -> RowChanges:
        """Delete the rows that match and add others, in one step."""
        given = self._table_of(self._checked(conform(rows, self.schema)))
        return self._run_reading(lambda: [*_deletes(self._matching(where)), *_inserts(given)])

    def ingest(self, rows: Any, operation: str, *, order: tuple[str, ...] = (), upsert: bool) -> RowChanges:
        """Apply change data, in the order of its rows or of columns."""
        columns = self.schema.columns
        plain, actions = split(in_order(rows, order, columns), operation, columns)
        given, is_whole = self._told(plain, actions)
        keys = self._key_columns(given)
        tells_partitions = self.knows_partition or (not upsert and tells_old_rows(actions, keys))
        if not (is_whole and tells_partitions):  # with upserts a change may come twice
            last = last_of_keys(keys)
            comes = self._table_of(conform(given.take(pa.array(last[arrivals(actions[last])])), self.schema))
            return self._run_reading(lambda: [*_deletes(self._with_keys(given)), *_inserts(comes)])
        told = ToldChanges(upsert=upsert, knows_partition=self.knows_partition)
        changes = told.complete(given, actions, keys)
        return self._run(lambda: [changes])

    def _told(self, plain: Any, actions: Actions) -> tuple[pa.RecordBatch, bool]:
        """Rows of change data, and whether all are whole: deletes may lack what is required, but for the key."""
        goes = actions == Operation.DELETE
        schema = loosened(self.schema, self.keys) if goes.any() else self.schema
        given = self._table_of(self._checked(conform(plain, schema)), schema)
        if len(actions) != given.num_rows:
            raise InvalidArgument("rows and operations differ in number", hint="give each row its operation")
        if schema.fields == self.schema.fields:
            return given, True
        self._table_of(conform(given.filter(pa.array(~goes)), self.schema))  # refuses those that are not whole
        try:
            return self._table_of(conform(given, self.schema)), True
        except InvalidValue:
            return given, False

    # How they run.

    def _run_reading(self, read: Callable[[], Changes]) -> RowChanges:
        """Work changes out from rows of the table and write them; again, if others change rows meanwhile."""
        retries = self._change.metadata.property_reader.get(COMMIT_NUM_RETRIES)
        for attempt in range(retries + 1):
            point = ReadPoint.of(self._base.metadata, self._change.metadata)
            changes = [(batch, actions) for batch, actions in read() if batch.num_rows]
            if not changes and self._batch is None:  # a batch is known by its commit, also if it changed nothing
                return RowChanges()
            try:
                return self._run(lambda changes=changes: changes, point)  # type: ignore[misc]
            except CommitConflict:
                self._table.refresh()
                if attempt == retries or self._change.schema.schema_id != self.schema.schema_id:
                    raise
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    def _run(self, changes: Callable[[], Changes], point: ReadPoint | None = None) -> RowChanges:
        """Write changes as one transaction, unless its batch is in the table already."""
        known = committed_batch(self._change.metadata, self._batch)
        if known is not None:
            return RowChanges(snapshot=known)
        transaction = begin_transaction(self._base, self._change, self._batch or "")
        writer = ChangeWriter(self._change.metadata, self._change.store, self.keys, transaction)
        counts = _Counts()
        with abandoning_unwritten(self._base, self._change, transaction):
            files = writer.write(counts.of(changes()))
        snapshot, is_new = commit_changes(
            self._base,
            self._change,
            files,
            transaction,
            batch=self._batch,
            read=point,
            properties=self._properties,
        )
        self._table.refresh()
        if not is_new:
            return RowChanges(snapshot=snapshot)
        return RowChanges(
            rows_inserted=counts.inserted,
            rows_deleted=counts.deleted,
            data_files_added=len(files),
            snapshot=snapshot,
        )

    def _matching(self, where: Expression) -> pa.RecordBatch:
        return _one_batch(self._table.scan(where).to_arrow())

    def _assigned(self, rows: pa.RecordBatch, assign: Mapping[str, Assign]) -> pa.RecordBatch:
        """Rows with new values in some columns, which must fit them."""
        arrays = []
        for field in rows.schema:
            values = assign[field.name](rows) if field.name in assign else rows.column(field.name)
            try:
                arrays.append(values if values.type == field.type else values.cast(field.type))
            except pa.ArrowException as error:
                raise InvalidArgument(
                    f"new values do not fit column {field.name!r}: {error}", hint="cast them"
                ) from None
        made = pa.Table.from_arrays(arrays, names=rows.schema.names)
        return self._table_of(conform(made, self.schema))

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            schema = self.schema if batch.num_columns == len(self.schema.fields) else Schema(self.keys)
            refuse_null_keys(batch, schema, self.keys)
            yield batch

    def _table_of(self, batches: Iterable[pa.RecordBatch], schema: Schema | None = None) -> pa.RecordBatch:
        return _one_batch(pa.Table.from_batches(list(batches), schema_to_arrow(schema or self.schema)))

    def _key_columns(self, rows: pa.RecordBatch, schema: Schema | None = None) -> list[pa.Array]:
        return [leaf(rows, schema or self.schema, key.id) for key in self.keys]

    def _refuse_twice(self, rows: pa.RecordBatch) -> None:
        found = self._repeated_key(rows)
        if found is not None:
            raise several_rows(found)

    def _repeated_key(self, rows: pa.RecordBatch) -> dict[str, Any] | None:
        return repeated_key([key.name for key in self.keys], self._key_columns(rows))

    def _with_keys(self, rows: pa.RecordBatch, schema: Schema | None = None) -> pa.RecordBatch:
        """The rows of the table that have the key of one of these."""
        columns = self._key_columns(rows, schema)
        if not rows.num_rows:
            return rows.slice(0, 0)
        wanted = self._keys_of(rows, schema)
        found = []
        for batch in self._table.scan(self._key_range(columns)).to_batches():
            others = wanted.kept(self._key_columns(batch), -1, 0)
            if not others.all():
                found.append(batch.filter(pa.array(~others)))
        return _one_batch(pa.Table.from_batches(found, schema_to_arrow(self.schema)))

    def _keys_of(self, rows: pa.RecordBatch, schema: Schema | None = None) -> DeletedKeys:
        """Keys to look others up in."""
        zeros = np.zeros(rows.num_rows, dtype=np.int64)
        return DeletedKeys(self._key_columns(rows, schema), zeros, zeros)

    def _key_range(self, columns: list[pa.Array]) -> Expression | None:
        """What the keys lie between, to leave out files without any of them."""
        parts = []
        for key, column in zip(self.keys, columns, strict=True):
            if isinstance(key.type, _RANGED):
                ends = pc.min_max(column)
                parts += [col(key.name) >= ends["min"].as_py(), col(key.name) <= ends["max"].as_py()]
        return and_(*parts) if parts else None


class _Counts:
    """Counts changes as they pass."""

    def __init__(self) -> None:
        self.inserted = self.deleted = 0

    def of(self, changes: Changes) -> Changes:
        for batch, actions in changes:
            came = int(arrivals(actions).sum())
            self.inserted += came
            self.deleted += len(actions) - came
            yield batch, actions


def _deletes(rows: pa.RecordBatch) -> Changes:
    return [(rows, all_of(Operation.DELETE, rows.num_rows))]


def _inserts(rows: pa.RecordBatch) -> Changes:
    return [(rows, all_of(Operation.INSERT, rows.num_rows))]


def _updates(old: pa.RecordBatch, new: pa.RecordBatch) -> Changes:
    """Pairs of a row as it was and as it is."""
    places = np.arange(old.num_rows * 2).reshape(2, -1).T.ravel()
    both = _one_batch(pa.Table.from_batches([old, new.cast(old.schema)]))
    actions = np.tile(np.array([Operation.UPDATE_BEFORE, Operation.UPDATE_AFTER], dtype=np.int8), old.num_rows)
    return [(both.take(pa.array(places)), actions)]


def _none(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    return np.zeros(rows.num_rows, dtype=bool)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in table.schema.types], schema=table.schema)
