"""Parquet data files: read by field id one row group after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.io.damage import reading
from frazil.io.resolve import FileField, Resolver, file_fields
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.io.store import Store

Keep = Callable[[pq.FileMetaData, Sequence[FileField], Collection[int]], Sequence[bool]]
"""Says of each row group of a file (its footer, its fields, ids not read from it) whether it may hold wanted rows."""


def open_parquet(source: pa.NativeFile) -> pq.ParquetFile:
    """The file with the options that reading tables needs."""
    # INT96 of old writers overflows nanoseconds outside 1677..2262
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", page_checksum_verification=True, pre_buffer=True)


def read_parquet(
    store: Store,
    location: str,
    schema: Schema,
    *,
    name_mapping: NameMapping | None = None,
    constants: Mapping[int, Any] | None = None,
    batch_rows: int = 65_536,
    keep: Keep | None = None,
    split: tuple[int, int] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of `schema` with the position of their first row. See `frazil.io.data_files.read_data_file`."""
    with reading(location), store.open_input(location) as source:
        file = open_parquet(source)
        resolver = Resolver(location, schema, file_fields(location, file.schema_arrow, name_mapping), constants or {})
        leaves = resolver.leaves
        groups = file.metadata.num_row_groups
        kept = [True] * groups if keep is None else keep(file.metadata, resolver.fields, resolver.hidden)
        first = 0
        for number in range(groups):
            rows = file.metadata.row_group(number).num_rows
            start, first = first, first + rows
            if split is not None and not split[0] <= row_group_offset(file.metadata, number) < split[0] + split[1]:
                continue
            if not kept[number]:
                continue
            if not leaves:
                yield from _without_columns(resolver, start, rows, batch_rows)
                continue
            for batch in file.reader.iter_batches(batch_rows, row_groups=[number], column_indices=leaves):
                fields = file_fields(location, batch.schema, name_mapping)
                yield start, resolver.batch(batch, fields)
                start += batch.num_rows


def _without_columns(resolver: Resolver, start: int, rows: int, step: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of a group of which no column is in the file: defaults, partition values and nulls only."""
    for at in range(0, rows, step):
        yield start + at, resolver.empty_source(min(step, rows - at))


def row_group_offset(metadata: pq.FileMetaData, number: int) -> int:
    """Where a row group begins in the file."""
    column = metadata.row_group(number).column(0)
    dictionary = column.dictionary_page_offset
    return int(column.data_page_offset if not dictionary else min(dictionary, column.data_page_offset))
