"""The keyed table that a write goes to: its newest state, apart from the one that the rows may be read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import CommitConflict, Unsupported
from frazil.iceberg.table import IcebergTable
from frazil.mixed.evolution import sync_schema
from frazil.mixed.keys import columns_of_changes, key_fields, partitioned_by_key
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import ReadPoint, batch_name, told_by_changes
from frazil.model.expressions import Expression
from frazil.model.schema import Schema
from frazil.model.types import NestedField
from frazil.spark.options import folded
from frazil.spark.streaming.write import EPOCH_ID, QUERY_ID

if TYPE_CHECKING:
    from frazil.spark.mixed.handle import MixedHandle

PROPERTY = "snapshot-property."
"""How options begin that go into the summary of the snapshot."""
BATCH = "batch-id"
"""The option that names a write: what was written under a name is not written again."""


@dataclass(frozen=True)
class Target:
    """A table that is only written to here, with a schema that the rows have."""

    table: MixedTable
    schema: Schema

    @classmethod
    def of(cls, table: MixedTable, schema: Schema) -> Target:
        """The table as it is now, which must still have the schema; a change of it that is half done is finished."""
        found = newest_of(table)
        sync_schema(found.base_store, found._change_store)
        target = cls(found, schema)
        if target.change.schema.fields != schema.fields:
            raise CommitConflict(f"the columns of {table.identifier} were changed meanwhile", hint="write again")
        return target

    @property
    def base(self) -> IcebergTable:
        return self.table.base_store

    @property
    def change(self) -> IcebergTable:
        return self.table._change_store

    @property
    def keys(self) -> tuple[NestedField, ...]:
        return key_fields(self.schema, self.table.primary_key)

    @property
    def knows_partition(self) -> bool:
        """Whether a key tells the partition of its row, so that nothing need be read to delete it."""
        return partitioned_by_key(self.change.spec, (key.id for key in self.keys))


def newest_of(table: MixedTable) -> MixedTable:
    """A keyed table as it is now; the one given stays as it is."""
    stores = [
        IcebergTable(store.identifier, store.store, store._committer, store._committer.load())
        for store in (table.base_store, table._change_store)
    ]
    return MixedTable(table.identifier, stores[0], stores[1], table.primary_key).refresh()


def read_point(handle: MixedHandle, where: Expression) -> ReadPoint:
    """Up to which commits a handle's rows are, of which those of a bound filter are looked at."""
    base, change = (0 if one is None else one.sequence_number for one in (handle.pair.base, handle.pair.change))
    keys = (key.id for key in key_fields(handle.schema, handle.table.primary_key))
    return ReadPoint(base, change, told_by_changes(where, columns_of_changes(handle.change.spec, keys)))


def summary_of(options: Mapping[str, str]) -> dict[str, str]:
    """What options of a write want in the summary of its snapshot."""
    return {key[len(PROPERTY) :]: text for key, text in options.items() if key.lower().startswith(PROPERTY)}


def batch_of(options: Mapping[str, str]) -> str | None:
    """What a write is known by, if it may come again: its name, or the batch of a streaming query."""
    told = summary_of(options)
    if QUERY_ID in told:
        return f"{told[QUERY_ID]}:{told[EPOCH_ID]}"
    return batch_name(folded(options).get(BATCH))


def refuse_batch(options: Mapping[str, str], what: str) -> None:
    """Refuse the name of a batch where nobody would ask whether it was written before."""
    if BATCH in folded(options):
        raise Unsupported(
            f"{what} takes no {BATCH}",
            hint=f"leave it out: an overwrite can be repeated; {BATCH} is for rows that are added to keyed tables",
        )


def last_batch(table: MixedTable, query: str) -> int:
    """The newest batch of a streaming query that is in either store, -1 if there is none."""
    found = [-1]
    for store in (table.base_store, table._change_store):
        metadata = store.metadata
        for snapshot in metadata.ancestors_of(metadata.current_snapshot_id):
            if snapshot.summary.get(QUERY_ID) == query:
                found.append(int(snapshot.summary.get(EPOCH_ID, "-1")))
                break
    return max(found)
