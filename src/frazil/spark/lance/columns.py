"""`table.add_columns(df)`: new columns of a Lance table, written where Spark computes them.

A column `_rowaddr` or `_rowid` of the DataFrame says which rows its values belong to; rows that are not named get null.
The rows of a fragment go to one task, in order, which writes one file for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.errors import FrazilError, InvalidArgument
from frazil.io.store import Store
from frazil.lance.deletions import read_deletions
from frazil.lance.feature_flags import check_writable, has_stable_row_ids
from frazil.lance.field_ids import next_field_id
from frazil.lance.new_columns import new_fields
from frazil.lance.operations.column_values import add_column_files, no_such_row, row_column
from frazil.lance.operations.columns import check_free
from frazil.lance.plain_schema import plain_schema
from frazil.lance.plan import ROW_ADDRESS, ROW_ID, FragmentTask, schema_bytes
from frazil.lance.proto.messages import DataFile, Manifest
from frazil.lance.scan import LanceScan
from frazil.lance.table import LanceTable
from frazil.lance.values import from_model
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, FragmentWriter, remove_job
from frazil.model.conform import conform_batch
from frazil.model.schema import Schema
from frazil.spark.types import schema_from_struct
from frazil.spark.write.commit import was_refused
from frazil.spark.write.from_spark import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTITIONS = 200
_FRAGMENT = "_fragment"
_OFFSET = 0xFFFFFFFF


def add_frame_columns(table: LanceTable, frame: DataFrame) -> LanceVersion:
    """Add the columns of a DataFrame, whose rows belong to those of the version that the table is at."""
    at, store = table.current_snapshot, table.store
    check_writable(at.manifest)
    by = row_column(frame.columns)
    if by is None:
        raise InvalidArgument(
            "the DataFrame does not say which rows its values belong to",
            hint="read _rowaddr along with the table's columns, and keep it: table.to_spark(columns=['_rowaddr', ...])",
        )
    document = frame.drop(by).schema.jsonValue()
    if not document["fields"]:
        raise InvalidArgument("there are no columns to add", hint="give at least one")
    for column in document["fields"]:
        column["nullable"] = True
    schema = schema_from_struct(document)
    fields = new_fields(plain_schema(schema), next_field_id(at))
    check_free(at, fields)
    target = FileTarget(at.folder, schema_bytes(Manifest(fields=fields)), at.file_version).of_job()
    plan = LanceScan(store, at, columns=()).plan()
    writer = WriteColumns(store, target, schema, {task.fragment_id: task for task in plan.fragments})
    rows = _by_fragment(table, frame, by, min(max(len(plan.fragments), 1), _PARTITIONS))
    try:
        found = rows.mapInArrow(writer, "fragment bigint, file binary").toArrow()
        numbers, files = (found.column(name).to_pylist() for name in ("fragment", "file"))
        made: dict[int, DataFile] = {
            number: DataFile.FromString(data) for number, data in zip(numbers, files, strict=True)
        }
        return add_column_files(table._history(), at, fields, made)
    except FrazilError as error:
        if was_refused(error):
            remove_job(store, target)
        raise
    except BaseException:
        remove_job(store, target)
        raise


def _by_fragment(table: LanceTable, frame: DataFrame, by: str, partitions: int) -> DataFrame:
    """The rows with their addresses, those of a fragment in one partition, in order."""
    if by == ROW_ID:
        if has_stable_row_ids(table.current_snapshot.manifest):
            known: Any = table.to_spark(frame.sparkSession, columns=[ROW_ID, ROW_ADDRESS], version=table.version)
            frame = frame.join(known, ROW_ID, "left").drop(ROW_ID)
        else:
            frame = frame.withColumnRenamed(ROW_ID, ROW_ADDRESS)
    placed = frame.selectExpr("*", f"shiftright(`{ROW_ADDRESS}`, 32) AS `{_FRAGMENT}`")
    return placed.repartition(partitions, _FRAGMENT).sortWithinPartitions(ROW_ADDRESS).drop(_FRAGMENT)


@dataclass(frozen=True)
class WriteColumns:
    """Writes further columns of fragments, wherever it is sent: a file for each."""

    store: Store
    target: FileTarget
    schema: Schema
    tasks: Mapping[int, FragmentTask]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files by fragment, of rows in the order of their addresses: what `mapInArrow` calls."""
        written: list[tuple[int, bytes]] = []
        current: _Fragment | None = None
        for batch in batches:
            for number, part in self._split(batch):
                if current is None or current.task.fragment_id != number:
                    if current is not None:
                        written.append(current.close())
                    current = self._begun(number)
                offsets = part.column(ROW_ADDRESS).to_numpy().astype(np.int64) & _OFFSET
                current.write(offsets, self._as_stored(part.drop_columns([ROW_ADDRESS])))
        if current is not None:
            written.append(current.close())
        numbers = pa.array([number for number, _ in written], pa.int64())
        files = pa.array([data for _, data in written], pa.binary())
        yield pa.RecordBatch.from_arrays([numbers, files], names=["fragment", "file"])

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        column = batch.column(ROW_ADDRESS)
        if column.null_count:
            raise InvalidArgument("a value belongs to no row of the table", hint="each needs its _rowaddr or _rowid")
        fragments = column.to_numpy().astype(np.int64) >> 32
        starts = [0, *(np.flatnonzero(np.diff(fragments)) + 1).tolist()] if len(fragments) else []
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            yield int(fragments[start]), batch.slice(start, end - start)

    def _begun(self, number: int) -> _Fragment:
        task = self.tasks.get(number)
        if task is None:
            raise no_such_row(number << 32)
        return _Fragment(self.store, self.target, task)

    def _as_stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plain = conform_batch(from_spark(batch, self.schema), self.schema)
        schema = self.target.arrow_schema
        arrays = [from_model(plain.column(number), field) for number, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Fragment:
    """The file of one fragment: rows as they come, and nulls for those between them."""

    def __init__(self, store: Store, target: FileTarget, task: FragmentTask) -> None:
        self.task = task
        self._deleted = read_deletions(store, task.deletions)
        self._schema = target.arrow_schema
        self._writer = FragmentWriter(store, replace(target, rows_per_file=1 << 62))
        self._next = 0

    def write(self, offsets: Any, batch: pa.RecordBatch) -> None:
        """Add rows at ascending offsets."""
        if offsets[0] < self._next or (np.diff(offsets) <= 0).any():
            raise InvalidArgument("a row is given twice", hint="each row may stand once")
        unknown = (offsets >= self.task.physical_rows) | np.isin(offsets, self._deleted)
        if unknown.any():
            raise no_such_row((self.task.fragment_id << 32) + int(offsets[unknown][0]))
        first, self._next = self._next, int(offsets[-1]) + 1
        index = np.full(self._next - first, -1, np.int64)
        index[offsets - first] = np.arange(len(offsets))
        self._writer.write(batch if len(index) == len(offsets) else batch.take(pa.array(index, mask=index < 0)))

    def close(self) -> tuple[int, bytes]:
        """The fragment's number, and its file."""
        left = self.task.physical_rows - self._next
        if left:
            nulls = [pa.nulls(left, field.type) for field in self._schema]
            self._writer.write(pa.RecordBatch.from_arrays(nulls, schema=self._schema))
        [made] = self._writer.close()
        return self.task.fragment_id, made.files[0].SerializeToString()
