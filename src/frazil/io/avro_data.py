"""Avro data files: read by field id, a run of blocks at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import MalformedData, MalformedMetadata
from frazil.io.avro import Limits, iter_batches, read_container
from frazil.io.avro.program import compile_schema
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
            whole = compile_schema(container.schema, None, utc_unless_told=False).schema
            # the decoder selects by ids in the file, not by those of a mapping
            by_name = any(field.mapped for field in file_fields(location, whole, name_mapping))
            columns = None if by_name else [column.id for column in schema.fields]
            first = 0
            if split is not None:
                start, end = split[0], split[0] + split[1]
                first = sum(count for count, offset, _ in container.blocks if offset < start)
                inside = tuple(block for block in container.blocks if start <= block.offset < end)
                container = replace(container, blocks=inside)
            for batch in iter_batches(container, columns, utc_unless_told=False):
                fields = file_fields(location, batch.schema, name_mapping)
                resolver = Resolver(location, schema, fields, constants or {})
                for at in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(at, batch_rows)
                    yield first + at, resolver.batch(part, fields)
                first += batch.num_rows
        except MalformedMetadata as error:
            raise MalformedData(f"{location}: {error.message}", hint=error.hint, location=location) from error
