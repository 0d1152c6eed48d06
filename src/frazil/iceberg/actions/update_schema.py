"""Schema updates: columns added, dropped, renamed, promoted and moved, as one commit.

What follows from a column's name goes with it: the name mapping, and properties that end in the name of a column. A
schema that another writer changed meanwhile is a conflict: the change was thought out for the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from frazil.errors import CommitConflict
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.requirements import AssertCurrentSchemaId, AssertLastAssignedFieldId
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import (
    LAST_ADDED,
    AddSchema,
    RemoveProperties,
    SetCurrentSchema,
    SetProperties,
    Update,
)
from frazil.model.arrow import schema_from_anything
from frazil.model.column_path import Path
from frazil.model.name_mapping import NameMapping
from frazil.model.schema import Schema
from frazil.model.schema_changes import SchemaChanges
from frazil.model.schema_evolution import UNCHANGED, Position, SchemaEvolution, Unchanged
from frazil.model.transforms import Transform, VoidTransform
from frazil.model.types import Type

COLUMN_PREFIXES = (
    props.METRICS_MODE_COLUMN_PREFIX,
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
    "write.parquet.dict-encoding-enabled.column.",
)
"""Properties whose names end in a column's name."""

_Step = Callable[[SchemaEvolution], SchemaEvolution]


class UpdateSchema(Action):
    """Changes to the current schema; the methods are those of `SchemaEvolution`, and refuse what it refuses at once."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        start = transaction.metadata
        self._started_at = (start.current_schema_id, start.last_column_id)
        self._steps: list[_Step] = []
        self._preview = _evolution(start)

    def add_column(
        self,
        path: Path,
        type_: Type | str,
        doc: str | None = None,
        *,
        required: bool = False,
        default: Any = None,
        position: Position | None = None,
    ) -> Self:
        """Add a column, or a field to a struct, last unless `position` says otherwise."""
        return self._step(
            lambda schema: schema.add_column(path, type_, doc, required=required, default=default, position=position)
        )

    def drop_column(self, path: Path) -> Self:
        """Drop a column; sources of the default partition spec and sort order cannot be dropped."""
        return self._step(lambda schema: schema.drop_column(path))

    def rename_column(self, path: Path, new_name: str) -> Self:
        """Give a column another name."""
        return self._step(lambda schema: schema.rename_column(path, new_name))

    def update_column(
        self,
        path: Path,
        type_: Type | str | None = None,
        *,
        doc: str | Unchanged | None = UNCHANGED,
        default: Any = UNCHANGED,
    ) -> Self:
        """Promote a column's type, replace its documentation, or set its default for new rows."""
        return self._step(lambda schema: schema.update_column(path, type_, doc=doc, default=default))

    def unset_default(self, path: Path) -> Self:
        """Rows written from now on default to null."""
        return self._step(lambda schema: schema.unset_default(path))

    def make_optional(self, path: Path) -> Self:
        """Let a column be null."""
        return self._step(lambda schema: schema.make_optional(path))

    def require_column(self, path: Path) -> Self:
        """Forbid nulls in a column; see `allow_incompatible_changes`."""
        return self._step(lambda schema: schema.require_column(path))

    def move_first(self, path: Path) -> Self:
        """Make a column the first of its struct."""
        return self._step(lambda schema: schema.move_first(path))

    def move_after(self, path: Path, reference: Path) -> Self:
        """Put a column after another one of its struct."""
        return self._step(lambda schema: schema.move_after(path, reference))

    def move_before(self, path: Path, reference: Path) -> Self:
        """Put a column before another one of its struct."""
        return self._step(lambda schema: schema.move_before(path, reference))

    def set_identifier_fields(self, names: Iterable[Path]) -> Self:
        """Replace the columns that identify a row."""
        listed = tuple(names)
        return self._step(lambda schema: schema.set_identifier_fields(listed))

    def union_by_name(self, other: Any) -> Self:
        """Take in the columns, wider types and nulls that `other`, a schema of any kind, has and the table lacks."""
        found = schema_from_anything(other)
        return self._step(lambda schema: schema.union_by_name(found))

    def allow_incompatible_changes(self) -> Self:
        """From here on, allow required columns without a default, and optional columns to become required."""
        return self._step(lambda schema: replace(schema, allow_incompatible=True))

    def case_sensitive(self, sensitive: bool) -> Self:
        """From here on, find columns by exact names (the default), or by names in any case."""
        return self._step(lambda schema: replace(schema, case_sensitive=sensitive))

    def apply(self) -> Schema:
        """The schema as it will be, without committing."""
        return self._preview.apply().schema

    def _step(self, step: _Step) -> Self:
        self._preview = step(self._preview)
        self._steps.append(step)
        return self

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        if (metadata.current_schema_id, metadata.last_column_id) != self._started_at:
            raise CommitConflict(
                "the schema was changed by another writer meanwhile",
                hint="load the table again and repeat the change on its new schema",
            )
        evolution = _evolution(metadata)
        for step in self._steps:
            evolution = step(evolution)
        schema, last_column_id, changes = evolution.apply()
        if schema == metadata.current_schema:
            return Staged(())
        updates: list[Update] = [AddSchema(schema, last_column_id), SetCurrentSchema(LAST_ADDED)]
        updates += _property_updates(metadata, schema, changes)
        requirements = (
            AssertCurrentSchemaId(metadata.current_schema_id),
            AssertLastAssignedFieldId(metadata.last_column_id),
        )
        return Staged(tuple(updates), requirements)


def _evolution(metadata: TableMetadata) -> SchemaEvolution:
    sources: dict[int, list[Transform]] = {}
    for spec in metadata.partition_specs:
        for part in spec.fields:
            for source in part.source_ids:
                sources.setdefault(source, []).append(part.transform)
    protected = {
        source: f"a source of partition field {part.name!r}"
        for part in metadata.default_spec.fields
        for source in part.source_ids
        if not isinstance(part.transform, VoidTransform)
    }
    for key in metadata.default_sort_order.fields:
        for source in key.source_ids:
            protected.setdefault(source, "a key of the table's sort order")
    return SchemaEvolution(
        metadata.current_schema,
        metadata.last_column_id,
        metadata.format_version,
        partition_sources=sources,
        protected=protected,
    )


def _property_updates(metadata: TableMetadata, schema: Schema, changes: SchemaChanges) -> list[Update]:
    """The name mapping and the properties that name columns, after the change."""
    before = metadata.properties
    after = _follow_columns(before, changes)
    text = before.get(props.DEFAULT_NAME_MAPPING.name)
    if text is not None:
        mapping = NameMapping.from_json(text)
        updated = mapping.updated(metadata.current_schema, schema)
        if updated != mapping:
            after[props.DEFAULT_NAME_MAPPING.name] = updated.to_json()
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    removed = tuple(key for key in before if key not in after)
    updates: list[Update] = [SetProperties(changed)] if changed else []
    return [*updates, RemoveProperties(removed)] if removed else updates


def _follow_columns(properties: Mapping[str, str], changes: SchemaChanges) -> dict[str, str]:
    dropped = set(changes.dropped_names)
    result: dict[str, str] = {}
    for key, value in properties.items():
        prefix = next((prefix for prefix in COLUMN_PREFIXES if key.startswith(prefix)), None)
        column = None if prefix is None else key.removeprefix(prefix)
        if prefix is None or column is None:
            result[key] = value
        elif column in changes.moved_names:
            result[prefix + changes.moved_names[column]] = value
        elif column not in dropped:
            result.setdefault(key, value)
    return result
