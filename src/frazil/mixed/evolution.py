"""Schema changes of a keyed table: made on the base store, then brought to the change store.

If the second step does not come to pass, the next write does it: the base store's schema counts, and files are read by
field id, so readers do not even notice.
"""

from __future__ import annotations

from typing import Self

from frazil.errors import CommitConflict
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.actions.update_properties import UpdateProperties
from frazil.iceberg.actions.update_schema import UpdateSchema
from frazil.iceberg.committer import TableState
from frazil.iceberg.properties import DEFAULT_NAME_MAPPING
from frazil.iceberg.requirements import AssertCurrentSchemaId
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import LAST_ADDED, AddSchema, SetCurrentSchema
from frazil.mixed.columns import refuse_reserved
from frazil.mixed.keys import check_key_evolution
from frazil.mixed.properties import check_mixed_properties, refuse_store_properties
from frazil.mixed.watermark import check_event_time
from frazil.model.schema import Schema

_ATTEMPTS = 5


class FollowSchema(Action):
    """Makes another store's schema the current one, ids and all."""

    def __init__(self, transaction: Transaction, schema: Schema, last_column_id: int) -> None:
        super().__init__(transaction)
        self._schema = schema
        self._last_column_id = last_column_id

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        if metadata.current_schema == self._schema:
            return Staged(())
        known = next((one for one in metadata.schemas if one == self._schema), None)
        last = max(self._last_column_id, metadata.last_column_id)
        if known is not None:
            return Staged((SetCurrentSchema(known.schema_id),), (AssertCurrentSchemaId(metadata.current_schema_id),))
        updates = (AddSchema(self._schema, last), SetCurrentSchema(LAST_ADDED))
        return Staged(updates, (AssertCurrentSchemaId(metadata.current_schema_id),))


def sync_schema(base: IcebergTable, change: IcebergTable) -> None:
    """Bring the change store to the base store's schema, if it is not there yet."""
    for _ in range(_ATTEMPTS):
        if change.schema == base.schema:
            return
        FollowSchema(change._transaction(), base.schema, base.metadata.last_column_id).commit()
        base.refresh()
    raise CommitConflict("the schema changes faster than the change store can follow", hint="try again")


class UpdateMixedSchema(UpdateSchema):
    """Schema changes of a keyed table; what would break its key, or hide columns of its changes, is refused."""

    def __init__(self, base: IcebergTable, change: IcebergTable, primary_key: tuple[str, ...]) -> None:
        sync_schema(base, change)
        super().__init__(base._transaction())
        self._base, self._change = base, change
        self._primary_key = primary_key

    def stage(self, context: Context) -> Staged:
        staged = super().stage(context)
        before = context.metadata.current_schema
        for update in staged.updates:
            if isinstance(update, AddSchema):
                check_key_evolution(before, update.schema, self._primary_key)
                refuse_reserved(_new_names(before, update.schema))
        return staged

    def finished(self, context: Context, state: TableState) -> None:
        sync_schema(self._base, self._change)


def _new_names(before: Schema, after: Schema) -> list[str]:
    """The names that columns get; one that has a bad name already can be dropped or renamed, and others changed."""
    return [column.name for column in after.fields if before.name_of(column.id) != column.name]


class UpdateMixedProperties(UpdateProperties):
    """Properties of a mixed table, set on both stores; set once more, they reach one that was left without."""

    def __init__(self, base: IcebergTable, change: IcebergTable | None) -> None:
        super().__init__(base._transaction())
        self._change = change

    def stage(self, context: Context) -> Staged:
        check_mixed_properties(self._sets)
        check_event_time(self._sets, context.metadata.current_schema)
        refuse_store_properties(self._removes)
        return super().stage(context)

    def commit(self) -> Self:
        super().commit()
        # also if the base store had them before: who set them there may have been interrupted
        if self._change is not None:
            shared = {name: text for name, text in self._sets.items() if name != DEFAULT_NAME_MAPPING.name}
            self._change.update_properties().set_all(shared).remove(*self._removes).commit()
        return self
