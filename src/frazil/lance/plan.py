"""What to read, in objects that are small and can be sent to other processes: a plan, and a task for each fragment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.lance.data_files import FileRef
from frazil.lance.deletions import DeletionRef
from frazil.lance.proto.messages import Manifest
from frazil.lance.schema import Node, arrow_schema, tree
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.types import LongType, NestedField

ROW_ID, ROW_ADDRESS, ROW_OFFSET = "_rowid", "_rowaddr", "_rowoffset"
CREATED_AT, LAST_UPDATED = "_row_created_at_version", "_row_last_updated_at_version"
_FIRST_ID = (1 << 29) + 1
METADATA_COLUMNS = {
    name: NestedField(_FIRST_ID + number, name, LongType())
    for number, name in enumerate((ROW_ID, ROW_ADDRESS, ROW_OFFSET, CREATED_AT, LAST_UPDATED))
}
"""Columns that every table has, and gives when they are asked for."""

BATCH_ROWS = 8_192
ALL_ROWS = AlwaysTrue()


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """One fragment to read, or some of its rows."""

    fragment_id: int
    files: tuple[FileRef, ...]
    physical_rows: int
    """0 if the manifest does not know; planning then asks a data file."""
    deletions: DeletionRef | None = None
    first_position: int = 0
    """How many rows the fragments before this one have; for `_rowoffset`."""
    row_ids: bytes | None = field(default=None, repr=False)
    created_at: bytes | None = field(default=None, repr=False)
    last_updated: bytes | None = field(default=None, repr=False)
    span: tuple[int, int] | None = None
    """Which rows of it, from one offset up to another; None for all."""

    @property
    def rows(self) -> int:
        """How many rows are left of the whole fragment."""
        return self.physical_rows - (self.deletions.count if self.deletions else 0)

    def parts(self, rows: int) -> list[FragmentTask]:
        """The same rows as tasks of at most so many each; a fragment that does not know its rows stays whole."""
        if self.span is not None or self.physical_rows <= rows:
            return [self]
        starts = range(0, self.physical_rows, rows)
        return [replace(self, span=(start, min(start + rows, self.physical_rows))) for start in starts]


@dataclass(frozen=True)
class ScanPlan:
    """Fragments, columns and a filter. `fields` is the table's schema, as bytes of a manifest without anything else."""

    version: int
    fields: bytes
    columns: tuple[str, ...]
    """The names of what is returned, in order: columns, parts of structs (`a.b`), metadata columns."""
    where: Expression = ALL_ROWS
    fragments: tuple[FragmentTask, ...] = ()
    batch_rows: int = BATCH_ROWS

    @property
    def nodes(self) -> tuple[Node, ...]:
        return _nodes(self.fields)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the table that is read."""
        return _arrow(self.fields)

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """How many rows there are up to the end of each fragment."""
        return np.cumsum([task.rows for task in self.fragments], dtype=np.int64)

    def tasks(self) -> Iterator[FragmentTask]:
        return iter(self.fragments)

    def __len__(self) -> int:
        return len(self.fragments)

    def only(self, *numbers: int) -> ScanPlan:
        """The same plan for some of its tasks."""
        return replace(self, fragments=tuple(self.fragments[number] for number in numbers))


def schema_bytes(manifest: Manifest) -> bytes:
    """The part of a manifest that is its schema."""
    part = Manifest(fields=manifest.fields)
    for key, value in manifest.schema_metadata.items():
        part.schema_metadata[key] = value
    return bytes(part.SerializeToString(deterministic=True))


@lru_cache(maxsize=64)
def _nodes(fields: bytes) -> tuple[Node, ...]:
    return tree(Manifest.FromString(fields).fields)


@lru_cache(maxsize=64)
def _arrow(fields: bytes) -> pa.Schema:
    return arrow_schema(_nodes(fields), Manifest.FromString(fields).schema_metadata)
