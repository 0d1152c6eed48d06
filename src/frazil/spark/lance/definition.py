"""What CREATE TABLE says of a Lance table.

Spark has no vectors and no half floats. A column becomes one by properties: see `frazil.lance.vectors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import Unsupported
from frazil.lance.plain_schema import plain_schema
from frazil.lance.vectors import with_vectors

if TYPE_CHECKING:
    from frazil.spark.definition import Definition


def refuse_layout(new: Definition) -> None:
    """Refuse what Lance tables have no place for."""
    if new.partition_by:
        raise Unsupported("lance tables have no partitions", hint="leave PARTITIONED BY out")
    for column in new.schema.fields:
        if column.initial_default is not None or column.write_default is not None:
            raise Unsupported(f"column {column.name!r} of a lance table has no default", hint="leave DEFAULT out")


def arrow_schema(new: Definition) -> tuple[pa.Schema, dict[str, str]]:
    """The columns exactly, and the properties that are left to store."""
    return with_vectors(plain_schema(new.schema), new.properties)
