"""What written files rely on: if a commit is tried again after others changed the table, it must still be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.errors import CommitConflict
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.model.partition import PartitionSpec
from frazil.model.promotion import can_promote
from frazil.model.schema import Schema
from frazil.model.sorting import SortOrder
from frazil.model.types import NestedField, children

_HINT = "another commit changed the table; write the rows again for the table as it is"


@dataclass(frozen=True, slots=True)
class Layout:
    """The schema, the specs and the sort orders that files were written with."""

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    sort_orders: Mapping[int, SortOrder]

    @classmethod
    def of(cls, metadata: TableMetadata) -> Layout:
        """Those that a table has."""
        return cls(
            metadata.current_schema,
            {spec.spec_id: spec for spec in metadata.partition_specs},
            {order.order_id: order for order in metadata.sort_orders},
        )

    def check_places(self, metadata: TableMetadata, files: Iterable[DataFile]) -> None:
        """Refuse files whose spec or sort order is gone, or is another one under the same id."""
        specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        orders = {order.order_id: order for order in metadata.sort_orders}
        for spec_id, order_id in {(file.spec_id, file.sort_order_id) for file in files}:
            if specs.get(spec_id) != self.specs.get(spec_id):
                raise CommitConflict(f"partition spec {spec_id}, by which files were written, is gone", hint=_HINT)
            if order_id is not None and orders.get(order_id) != self.sort_orders.get(order_id):
                raise CommitConflict(f"sort order {order_id}, by which files were written, is gone", hint=_HINT)

    def check_readable(self, metadata: TableMetadata) -> None:
        """Refuse data files that today's schema cannot read: without a required column, or with one of another type."""
        if metadata.current_schema is not self.schema:
            self._check_fields(metadata.current_schema.fields, metadata)

    def _check_fields(self, fields: Iterable[NestedField], metadata: TableMetadata) -> None:
        for column in fields:
            written = self.schema.field_by_id(column.id)
            if written is None:
                if column.required and column.initial_default is None:
                    raise self._unreadable(column, metadata, "required, and files were written without it")
                continue
            if column.required and written.optional:
                raise self._unreadable(column, metadata, "required, and files were written when it was not")
            if type(written.type) is not type(column.type) or not column.type.is_nested:
                if not can_promote(written.type, column.type, metadata.format_version):
                    raise self._unreadable(column, metadata, f"{column.type}, and files were written as {written.type}")
                continue
            self._check_fields(children(column.type), metadata)

    def _unreadable(self, column: NestedField, metadata: TableMetadata, how: str) -> CommitConflict:
        return CommitConflict(f"column {metadata.current_schema.name_of(column.id)!r} is now {how}", hint=_HINT)
