"""Data files of any format: read by field id, written with exact metrics.

>>> from frazil.io.store import store_for
>>> from frazil.model.arrow import schema_from_anything
>>> store, schema = store_for("memory://docs/data_files"), schema_from_anything("id BIGINT, name STRING")
>>> rows = pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": None}])
>>> written = write_data_file(store, "memory://docs/data_files/x.parquet", "parquet", schema, [rows], {})
>>> written.record_count, dict(written.metrics.null_value_counts)
(2, {1: 0, 2: 1})
>>> for position, batch in read_data_file(store, written.location, "parquet", schema.select(["name"])):
...     position, batch.to_pydict()
(0, {'name': ['a', None]})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import Unsupported
from frazil.io.written_file import DataFileWriter, WrittenFile
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.io.metrics import MetricsModes
    from frazil.io.store import Store
    from frazil.model.expressions import Expression

__all__ = ["DataFileWriter", "WrittenFile", "open_data_file", "read_data_file", "write_data_file"]

BATCH_ROWS = 65_536


def read_data_file(
    store: Store,
    location: str,
    file_format: str,
    schema: Schema,
    *,
    name_mapping: NameMapping | None = None,
    constants: Mapping[int, Any] | None = None,
    batch_rows: int = BATCH_ROWS,
    filter: Expression | None = None,  # noqa: A002 - the word of the format
    split: tuple[int, int] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of `schema_to_arrow(schema)`, each with the position of its first row in the file.

    `schema` has the fields that are wanted, by id. `constants` are canonical values by field id (identity partition
    values), used where the file lacks the field. `filter`, bound to the table's schema, only skips row groups that
    cannot hold a matching row (Parquet); rows are not filtered. `split` (offset, length) selects the row groups or
    stripes that begin in that range of the file. Batches are in file order, with gaps where something was skipped.
    """
    mapping, values = name_mapping, constants or {}
    match file_format.lower():
        case "parquet":
            from frazil.io.parquet import read_parquet
            from frazil.io.parquet_stats import row_group_filter

            keep = None if filter is None else row_group_filter(filter)
            return read_parquet(
                store,
                location,
                schema,
                name_mapping=mapping,
                constants=values,
                batch_rows=batch_rows,
                keep=keep,
                split=split,
            )
        case "orc":
            from frazil.io.orc import read_orc

            return read_orc(
                store, location, schema, name_mapping=mapping, constants=values, batch_rows=batch_rows, split=split
            )
        case "avro":
            from frazil.io.avro_data import read_avro

            return read_avro(
                store, location, schema, name_mapping=mapping, constants=values, batch_rows=batch_rows, split=split
            )
    raise _unknown(file_format, location)


def open_data_file(
    store: Store,
    location: str,
    file_format: str,
    schema: Schema,
    properties: Mapping[str, str],
    *,
    modes: MetricsModes | None = None,
) -> DataFileWriter:
    """A writer for one file. `modes` says what metrics to keep, if not what the properties say."""
    match file_format.lower():
        case "parquet":
            from frazil.io.parquet_writer import ParquetWriter

            return ParquetWriter(store, location, schema, properties, modes)
        case "orc":
            from frazil.io.orc_writer import OrcWriter

            return OrcWriter(store, location, schema, properties, modes)
        case "avro":
            from frazil.io.avro_writer import AvroWriter

            return AvroWriter(store, location, schema, properties, modes)
    raise _unknown(file_format, location)


def write_data_file(
    store: Store,
    location: str,
    file_format: str,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    properties: Mapping[str, str],
    *,
    modes: MetricsModes | None = None,
) -> WrittenFile:
    """Write one file of all the batches. When anything fails, nothing is left at the location."""
    with open_data_file(store, location, file_format, schema, properties, modes=modes) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def _unknown(file_format: str, location: str) -> Unsupported:
    return Unsupported(
        f"{location} is of format {file_format!r}", hint="data files are parquet, orc or avro", location=location
    )
