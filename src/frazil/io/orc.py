"""ORC data files: read by field id one stripe after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import orc

from frazil.io.damage import reading
from frazil.io.orc_tail import read_tail
from frazil.io.orc_timestamps import is_nanoseconds, pyarrow_checks_range, read_stripe_in_microseconds
from frazil.io.resolve import Resolver, file_fields
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.io.store import Store


def read_orc(
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
    with reading(location), store.open_input(location) as source:
        file = orc.ORCFile(source)
        fields = file_fields(location, file.schema, name_mapping)
        resolver = Resolver(location, schema, fields, constants or {})
        names = [file.schema.names[index] for index in resolver.columns]
        # one column at least, to count the rows; all of them where a name could also mean a path inside another column
        read = None if any("." in name for name in file.schema.names) else names or file.schema.names[:1]
        stripes = () if split is None else read_tail(source).stripes
        first = 0
        for number in range(file.nstripes):
            if split is not None and not split[0] <= stripes[number].offset < split[0] + split[1]:
                first += stripes[number].rows
                continue
            stripe = _read_stripe(source, file, number, read)
            inside = file_fields(location, stripe.schema, name_mapping)
            for at in range(0, stripe.num_rows, batch_rows):
                yield first + at, resolver.batch(stripe.slice(at, batch_rows), inside)
            first += stripe.num_rows


def _has_microseconds(field: pa.Field) -> bool:
    """Whether there is a timestamp in the field that is not one of nanoseconds, by what the writer says."""
    if pa.types.is_timestamp(field.type):
        return not is_nanoseconds(field)
    return any(_has_microseconds(field.type.field(index)) for index in range(field.type.num_fields))


def _read_stripe(source: pa.NativeFile, file: orc.ORCFile, number: int, columns: list[str] | None) -> pa.RecordBatch:
    schema = file.schema
    if not any(_has_microseconds(field) for field in schema if columns is None or field.name in columns):
        return file.reader.read_stripe(number, columns=columns)
    if pyarrow_checks_range():
        try:
            return file.reader.read_stripe(number, columns=columns)
        except pa.ArrowInvalid as error:
            if "out of range" not in str(error):
                raise
    return read_stripe_in_microseconds(source, schema, number, columns)
