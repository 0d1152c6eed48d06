"""Rows to files of a mixed table: split by partition, node of the tree and what they stand for, and named so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil import ambient
from frazil.errors import InvalidValue
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import PARQUET_DICT_ENABLED_COLUMN_PREFIX, PropertyReader
from frazil.iceberg.scan_columns import leaf
from frazil.iceberg.write import RowWriter, as_data_file
from frazil.io.data_files import DataFileWriter, open_data_file
from frazil.io.store import Store
from frazil.mixed.columns import FILE_OFFSET, change_schema
from frazil.mixed.file_names import FileName, FileType
from frazil.mixed.key_hash import key_hashes
from frazil.mixed.operations import Actions, Operation, arrivals
from frazil.mixed.properties import BASE_BUCKETS, BASE_FORMAT, CHANGE_BUCKETS, CHANGE_FORMAT, TARGET_FILE_SIZE
from frazil.mixed.tree import ROOT, nodes
from frazil.mixed.visible import has_ambiguous_text
from frazil.mixed.watermark import full_event_time
from frazil.model.arrow import field_to_arrow
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED, SortOrder
from frazil.model.types import NestedField

Changes = Iterable[tuple[pa.RecordBatch, Actions]]
"""Rows of the table's schema, and what happened to each."""

FIRST_ARRIVAL = 1 << 40
"""Where the places of rows begin that come after all that go: readers compare those of all writers of a transaction."""

_KINDS = (FileType.BASE, FileType.INSERT, FileType.EQ_DELETE)
_NODE = "__node"
_KIND = "__kind"


class TreeWriter(RowWriter):
    """Writes the files of one writer. Rows come with two columns more: their node, and the kind of file they go to."""

    def __init__(
        self,
        metadata: TableMetadata,
        store: Store,
        *,
        schema: Schema,
        file_format: str,
        transaction_id: int,
        partition_id: int = 0,
        task_id: int = 0,
        is_keyed: bool = True,
        unique: Sequence[str] = (),
        target_bytes: int | None = None,
        order: SortOrder = UNSORTED,
        arrange: Callable[[pa.Table], pa.Array] | None = None,
    ) -> None:
        super().__init__(
            metadata,
            store,
            schema=schema,
            order=order,
            properties={
                **{f"{PARQUET_DICT_ENABLED_COLUMN_PREFIX}{name}": "false" for name in unique},
                **full_event_time(schema, metadata.properties),
                **metadata.properties,
            },
            target_bytes=target_bytes or PropertyReader(metadata.properties).get(TARGET_FILE_SIZE),
            arrange=arrange,
        )
        self._format = file_format
        self._name = (transaction_id, partition_id, task_id, ambient.new_snapshot_id())
        self._is_keyed = is_keyed

    def _by_partition(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        for values, rows in super()._by_partition(table):
            numbers = rows.column(_NODE).to_numpy() * len(_KINDS) + rows.column(_KIND).to_numpy()
            plain = rows.drop_columns([_NODE, _KIND])
            order = np.argsort(numbers, kind="stable")
            borders = np.flatnonzero(np.diff(numbers[order], prepend=-1))
            for start, stop in zip(borders, [*borders[1:], len(order)], strict=True):
                node, kind = divmod(int(numbers[order[start]]), len(_KINDS))
                whole = stop - start == len(order)
                yield (*values, node, _KINDS[kind]), plain if whole else plain.take(pa.array(order[start:stop]))

    def _new_file(self, values: tuple[Any, ...]) -> DataFileWriter:
        *partition, node, kind = values
        if self._is_keyed and has_ambiguous_text(self._spec, self._types, partition):
            raise InvalidValue(
                f"a keyed table cannot have the partition {tuple(partition)}: its text cannot be told from null",
                hint="'null' and '__HIVE_DEFAULT_PARTITION__' are how formats write null; use another text",
            )
        self._count += 1
        name = FileName(node, kind, *self._name, self._count).text(self._format)
        location = new_file_location(self._metadata, self._spec.path_of(self._types, partition), name)
        return open_data_file(self._store, location, self._format, self._schema, self._properties)

    def _finish(self, values: tuple[Any, ...], writer: DataFileWriter) -> None:
        self._files.append(as_data_file(writer.close(), self._spec.spec_id, values[:-2], self._order.order_id))


def new_file_location(metadata: TableMetadata, partition_path: str, name: str) -> str:
    """Where a file goes: by partition under the store's location. Amoro asks no other property."""
    folder = f"{metadata.location.rstrip('/')}/data"
    return f"{folder}/{partition_path}/{name}" if partition_path else f"{folder}/{name}"


def row_nodes(
    batch: pa.RecordBatch, schema: Schema, keys: tuple[NestedField, ...], buckets: int
) -> npt.NDArray[np.int64]:
    """The node of each row."""
    if not keys:
        return np.full(batch.num_rows, ROOT, dtype=np.int64)
    columns = [leaf(batch, schema, key.id) for key in keys]
    return nodes(key_hashes(columns, [key.type for key in keys]), buckets)


def refuse_null_keys(batch: pa.RecordBatch, schema: Schema, keys: tuple[NestedField, ...]) -> None:
    """Refuse rows without a key: nothing could ever replace or delete them."""
    for key in keys:
        if leaf(batch, schema, key.id).null_count:
            raise InvalidValue(
                f"a row has no {key.name}, which is in the primary key", hint="give every row a key", column=key.name
            )


class ChangeWriter:
    """Writes changes of one transaction to files of the change store. What it writes is in order.

    Of several writers of a transaction each has its numbers. With `arrivals_last`, rows that come in it come after all
    that go, whoever writes them; else all changes of a key must come to one writer.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        store: Store,
        keys: tuple[NestedField, ...],
        transaction_id: int,
        *,
        partition_id: int = 0,
        task_id: int = 0,
        arrivals_last: bool = False,
    ) -> None:
        settings = PropertyReader(metadata.properties)
        self._schema = metadata.current_schema
        self._keys = keys
        self._buckets = settings.get(CHANGE_BUCKETS)
        self._offset = 0
        self._arrival = FIRST_ARRIVAL if arrivals_last else None
        self._writer = TreeWriter(
            metadata,
            store,
            schema=change_schema(self._schema),
            file_format=settings.get(CHANGE_FORMAT),
            transaction_id=transaction_id,
            partition_id=partition_id,
            task_id=task_id,
            unique=_unique(keys),
        )

    def write(self, changes: Changes) -> list[DataFile]:
        """Write all changes and return the files; if anything fails, none is left behind."""
        return self._writer.write(self._marked(batch, actions) for batch, actions in changes if batch.num_rows)

    def _marked(self, batch: pa.RecordBatch, actions: Actions) -> pa.RecordBatch:
        kinds = np.where(arrivals(actions), _KINDS.index(FileType.INSERT), _KINDS.index(FileType.EQ_DELETE))
        offset = field_to_arrow(FILE_OFFSET).remove_metadata()
        marked = batch.append_column(offset, pa.array(self._offsets(actions), pa.int64()))
        return _with_places(marked, row_nodes(batch, self._schema, self._keys, self._buckets), kinds)

    def _offsets(self, actions: Actions) -> npt.NDArray[np.int64]:
        if self._arrival is None:
            # every row counts but an update's new one, which shares the place of the old one
            offsets = self._offset + np.cumsum(actions != Operation.UPDATE_AFTER)
            self._offset = int(offsets[-1])
            return offsets
        came = arrivals(actions)
        goes, comes = self._offset + np.cumsum(~came), self._arrival + np.cumsum(came)
        self._offset, self._arrival = int(goes[-1]), int(comes[-1])
        return np.where(came, comes, goes)


class BaseWriter:
    """Writes rows to files of the base store, as they come or in an order (see `RowWriter`)."""

    def __init__(
        self,
        metadata: TableMetadata,
        store: Store,
        keys: tuple[NestedField, ...],
        transaction_id: int,
        *,
        partition_id: int = 0,
        task_id: int = 0,
        target_bytes: int | None = None,
        order: SortOrder = UNSORTED,
        arrange: Callable[[pa.Table], pa.Array] | None = None,
    ) -> None:
        settings = PropertyReader(metadata.properties)
        self._schema = metadata.current_schema
        self._keys = keys
        self._buckets = settings.get(BASE_BUCKETS)
        self._writer = TreeWriter(
            metadata,
            store,
            schema=self._schema,
            file_format=settings.get(BASE_FORMAT),
            transaction_id=transaction_id,
            partition_id=partition_id,
            task_id=task_id,
            is_keyed=bool(keys),
            unique=_unique(keys),
            target_bytes=target_bytes,
            order=order,
            arrange=arrange,
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write all rows and return the files; if anything fails, none is left behind."""
        return self._writer.write(self._marked(batch) for batch in batches if batch.num_rows)

    def _marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = np.full(batch.num_rows, _KINDS.index(FileType.BASE))
        return _with_places(batch, row_nodes(batch, self._schema, self._keys, self._buckets), kinds)


def _unique(keys: tuple[NestedField, ...]) -> list[str]:
    """The key, if it is one column: values that differ gain nothing by a dictionary."""
    return [key.name for key in keys] if len(keys) == 1 else []


def _with_places(batch: pa.RecordBatch, of: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]) -> pa.RecordBatch:
    marked = batch.append_column(_NODE, pa.array(of, pa.int64()))
    return marked.append_column(_KIND, pa.array(kinds, pa.int64()))
