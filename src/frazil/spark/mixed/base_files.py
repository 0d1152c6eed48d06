"""Rows of a DataFrame to files of a base store: a worker writes the rows of one task, and answers with its files."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.portable import without_history
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.mixed.keys import key_fields
from frazil.mixed.writer import BaseWriter, refuse_null_keys
from frazil.model.conform import conform
from frazil.spark.scan.files import routed
from frazil.spark.write.arrow import with_known_columns
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
    transaction_id: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of the rows, pickled: what `mapInArrow` calls."""
        made = [pickle.dumps(file) for file in self.write(batches)]
        yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["file"])

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write the rows of batches as Spark gives them."""
        schema = self.metadata.current_schema
        keys = key_fields(schema, self.primary_key)
        writer = BaseWriter(self.metadata, self.store, keys, self.transaction_id)

        def checked() -> Iterator[pa.RecordBatch]:
            for batch in conform((from_spark(batch, schema) for batch in batches), schema):
                refuse_null_keys(batch, schema, keys)
                yield batch

        return writer.write(checked())


def write_base_files(
    store: Store,
    metadata: TableMetadata,
    primary_key: tuple[str, ...],
    transaction_id: int,
    rows: DataFrame,
    classes: Any,
) -> list[DataFile]:
    """Write rows that have the table's columns; the files are complete, and nothing refers to them yet."""
    schema = metadata.current_schema
    writer = WriteBase(store, without_history(metadata), primary_key, transaction_id)
    fitted = with_known_columns(by_position(rows, schema, classes), schema)
    if locations.parse(routed(store, metadata.location)).scheme == "memory":
        return writer.write(fitted.toArrow().to_batches())
    found = fitted.mapInArrow(writer, "file binary").toArrow().column(0).to_pylist()
    return [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers
