"""ORC data files: read by field id one stripe after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc as orc

from frazil.io.damage import reading
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
        first = 0
        for number in range(file.nstripes):
            stripe = file.reader.read_stripe(number, columns=read)
            inside = file_fields(location, stripe.schema, name_mapping)
            for at in range(0, stripe.num_rows, batch_rows):
                yield first + at, resolver.batch(stripe.slice(at, batch_rows), inside)
            first += stripe.num_rows
