"""The change store as a table of its own: each row with its transaction, its offset, and whether it came or went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.iceberg.read import TaskReader, take_rows
from frazil.iceberg.scan import ALL_ROWS, BATCH_ROWS, columns_of
from frazil.iceberg.table import IcebergTable
from frazil.mixed.columns import CHANGE_ACTION, CHANGE_COLUMNS, TRANSACTION_ID, TREE_NODE
from frazil.mixed.file_names import FilePlace, FileType, parse_change
from frazil.mixed.plan import StoreState
from frazil.model.arrow import schema_to_arrow
from frazil.model.arrow_evaluator import filter_mask
from frazil.model.binding import bind, field_ids
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import AlwaysTrue, Expression, and_
from frazil.model.schema import FILE, Schema
from frazil.model.types import NestedField

_CONSTANTS = (TRANSACTION_ID, CHANGE_ACTION, TREE_NODE)
ON_REQUEST = {column.name: column for column in (TREE_NODE, FILE)}
"""Columns of changes that are not among those that one gets unasked."""


class ChangeView:
    """`table.change`: what was written to a keyed table and is still in its change store, merged or not."""

    def __init__(self, table: IcebergTable, schema: Schema) -> None:
        self.table = table
        self.schema = Schema((*schema.fields, *CHANGE_COLUMNS), schema.schema_id)

    def scan(
        self,
        where: str | Expression | None = None,
        columns: Iterable[str] | None = None,
        *,
        limit: int | None = None,
        case_sensitive: bool = True,
    ) -> ChangeScan:
        """A read of the current snapshot; filters may be on `_transaction_id`, `_file_offset`, `_change_action` too."""
        table = self.table
        state = StoreState(table.metadata, table.store, table.current_snapshot)
        scan = ChangeScan(state, self.schema, as_expression(where), columns_of(columns), case_sensitive=case_sensitive)
        return scan if limit is None else scan.limit(limit)

    def __repr__(self) -> str:
        return f"ChangeView({self.table.location!r})"


@dataclass(frozen=True)
class ChangeScan:
    """A read of the change store."""

    store: StoreState
    schema: Schema
    where: Expression = ALL_ROWS
    columns: tuple[str, ...] | None = None
    row_limit: int | None = None
    case_sensitive: bool = True
    batch_rows: int = BATCH_ROWS

    def filter(self, where: str | Expression) -> Self:
        """Keep only rows that match; several filters must all match."""
        return replace(self, where=and_(self.where, as_expression(where)))

    def select(self, *columns: str) -> Self:
        """Read only these columns; `_tree_node` and `_file` are given on request."""
        return replace(self, columns=columns_of(columns))

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        if rows < 0:
            raise InvalidArgument(f"limit {rows} is negative", hint="use 0 or more")
        return replace(self, row_limit=rows)

    @cached_property
    def output(self) -> Schema:
        """The columns of the result."""
        if self.columns is None:
            return self.schema
        fields: dict[int, NestedField] = {}
        for name in self.columns:
            known = self.schema.find_or_none(name, case_sensitive=self.case_sensitive) is not None
            picked = self.schema.select([name], case_sensitive=self.case_sensitive).fields if known else ()
            for column in picked or (ON_REQUEST.get(name) or self.schema.find(name),):
                fields[column.id] = column
        return Schema(tuple(fields.values()), self.schema.schema_id)

    @cached_property
    def _bound(self) -> Expression:
        return bind(self.schema, self.where, case_sensitive=self.case_sensitive)

    def plan(self) -> ScanPlan:
        """The files of the change store whose partitions may hold matching rows."""
        return self.store.plan(self.schema, self.where, case_sensitive=self.case_sensitive, metrics_tell=False)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, with bounded memory."""
        batches = (batch for task in self.plan().tasks() for batch in self.read(task))
        return batches if self.row_limit is None else take_rows(batches, self.row_limit)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return pa.Table.from_batches(list(self.to_batches()), schema_to_arrow(self.output))

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas frame; options go to Arrow's `to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """How many rows."""
        return sum(batch.num_rows for batch in self.to_batches())

    @cached_property
    def _stored(self) -> Schema:
        """What is read from files: the columns asked for and those of the filter, but the offset only on demand."""
        wanted = {column.id for column in self.output.fields} | _top_ids(self.schema, self._bound)
        fields = [column for column in self.schema.fields if column.id in wanted and column not in _CONSTANTS]
        if FILE.id in wanted:
            fields.append(FILE)
        return Schema(tuple(fields))

    def read(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        state = self.store
        sequence = task.file.data_sequence_number
        assert sequence is not None
        place = parse_change(task.file.file_path, sequence)
        reader = TaskReader(
            state.store,
            state.metadata,
            self._stored,
            self.schema,
            DeleteReader(state.store, state.metadata),
            self.batch_rows,
        )
        for batch in reader.read(replace(task, residual=AlwaysTrue())):
            whole = self._with_constants(batch, place)
            if not isinstance(self._bound, AlwaysTrue):
                whole = whole.filter(filter_mask(self._bound, whole))
            if whole.num_rows:
                arrays = [whole.column(column.name) for column in self.output.fields]
                if arrays:
                    arrays = [
                        array if array.type == kind else array.cast(kind)
                        for array, kind in zip(arrays, schema_to_arrow(self.output).types, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema_to_arrow(self.output))
                else:
                    yield whole.select([])

    def _with_constants(self, batch: pa.RecordBatch, place: FilePlace) -> pa.RecordBatch:
        action = "DELETE" if place.type is FileType.EQ_DELETE else "INSERT"
        values = {TRANSACTION_ID.name: place.transaction_id, CHANGE_ACTION.name: action, TREE_NODE.name: place.node}
        kinds = {column.name: kind for column, kind in zip(_CONSTANTS, _KINDS, strict=True)}
        arrays = [pa.repeat(pa.scalar(value, kinds[name]), batch.num_rows) for name, value in values.items()]
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*batch.schema.names, *values])


_KINDS = schema_to_arrow(Schema(_CONSTANTS)).types


def _top_ids(schema: Schema, bound: Expression) -> set[int]:
    return {schema.path_ids(number)[0] for number in field_ids(bound)}
