"""The states of a table that are kept: what its tags name, oldest first, and what it is now."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.iceberg.table import IcebergTable
from frazil.model.schema import Schema


@dataclass(frozen=True)
class State:
    """One state: the number of a snapshot or version, the tags that name it, and its columns."""

    number: int | None
    tags: tuple[str, ...]
    schema: Schema
    is_last: bool = False


@dataclass(frozen=True)
class Done:
    """What was made, and where that can be found which was before."""

    location: str
    previous: str
    rows: int
    tags: int


def ordered(table: IcebergTable, main: str) -> list[State]:
    """The states of an Iceberg table."""
    metadata = table.metadata
    current = metadata.current_snapshot
    tagged: dict[int, list[str]] = {}
    for name, ref in sorted(metadata.refs.items()):
        if ref.is_tag:
            tagged.setdefault(ref.snapshot_id, []).append(name)
    now = () if current is None else tuple(tagged.get(current.snapshot_id, ()))
    same = current is not None and metadata.schema_of(current).fields == metadata.current_schema.fields
    earlier = [metadata.snapshot(number) for number in tagged if not (same and number == metadata.current_snapshot_id)]
    earlier.sort(key=lambda snapshot: (snapshot.sequence_number, snapshot.timestamp_ms))
    states = [State(one.snapshot_id, tuple(tagged[one.snapshot_id]), metadata.schema_of(one)) for one in earlier]
    last = State(metadata.current_snapshot_id, now if same else (), metadata.current_schema, is_last=True)
    return [*states, last]
