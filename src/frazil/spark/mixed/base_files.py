"""Rows of a DataFrame to files of a base store: a worker writes the rows of one task, and answers with its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.portable import without_history
from frazil.iceberg.write import abandoning
from frazil.io.store import Store
from frazil.mixed.keys import key_fields
from frazil.mixed.properties import UPSERT_ENABLED
from frazil.mixed.writer import BaseWriter, refuse_null_keys
from frazil.model.conform import conform
from frazil.spark.mixed.new_keys import refuse_repeated
from frazil.spark.mixed.write import Written, answer, run_tasks, this_task
from frazil.spark.write.from_spark import from_spark
from frazil.spark.write.rows import by_position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class WriteBase:
    """Writes the rows of a task, wherever it is sent."""

    store: Store
    metadata: TableMetadata
    primary_key: tuple[str, ...]
    transaction: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What was written, pickled: what `mapInArrow` calls."""
        yield answer(self.write(batches))

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write the rows of batches as Spark gives them."""
        schema = self.metadata.current_schema
        keys = key_fields(schema, self.primary_key)
        partition, task, is_repeated = this_task()
        writer = BaseWriter(self.metadata, self.store, keys, self.transaction, partition_id=partition, task_id=task)

        def checked() -> Iterator[pa.RecordBatch]:
            named = (pa.RecordBatch.from_arrays(batch.columns, names=list(schema.columns)) for batch in batches)
            for batch in conform((from_spark(batch, schema) for batch in named), schema):
                refuse_null_keys(batch, schema, keys)
                yield batch

        return Written(tuple(writer.write(checked())), (), is_repeated)


def write_base_files(
    store: Store,
    metadata: TableMetadata,
    primary_key: tuple[str, ...],
    transaction_id: int,
    rows: DataFrame,
    classes: Any,
) -> list[DataFile]:
    """Write rows that have the table's columns; the files are complete, and nothing refers to them yet.

    In a table that upserts no two rows may have one key.
    """
    schema = metadata.current_schema
    work = WriteBase(store, without_history(metadata), primary_key, transaction_id)
    written = run_tasks(by_position(rows, schema, classes), work, store, metadata.location)
    files = [file for one in written for file in one.files]
    upserts = metadata.property_reader.get(UPSERT_ENABLED)
    if upserts and primary_key:
        with abandoning(store, files):
            refuse_repeated(rows.sparkSession, store, metadata, key_fields(schema, primary_key), files)
    return files
