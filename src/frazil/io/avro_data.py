"""Avro data files: read by field id, a run of blocks at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import MalformedData, MalformedMetadata
from frazil.io.avro import Limits, iter_batches, read_container
from frazil.io.damage import reading
from frazil.io.resolve import Resolver, file_fields
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.io.store import Store

# data files are larger than manifests, and compress better
_LIMITS = Limits(total_bytes=64 << 30, ratio=2000)


def read_avro(
    store: Store,
    location: str,
    schema: Schema,
    *,
    name_mapping: NameMapping | None = None,
    constants: Mapping[int, Any] | None = None,
    batch_rows: int = 65_536,
    split: tuple[int, int] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of `schema` with the position of their first row. See `frazil.io.data_files.read_data_file`."""
    with reading(location):
        try:
            container = read_container(store.read(location), _LIMITS)
            # ids of a mapping are known only after decoding: then all columns are decoded
            columns = None if name_mapping is not None else [column.id for column in schema.fields]
            first = 0
            for batch in iter_batches(container, columns, utc_unless_told=False):
                fields = file_fields(location, batch.schema, name_mapping)
                resolver = Resolver(location, schema, fields, constants or {})
                for at in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(at, batch_rows)
                    yield first + at, resolver.batch(part, fields)
                first += batch.num_rows
        except MalformedMetadata as error:
            raise MalformedData(f"{location}: {error.message}", hint=error.hint, location=location) from error
