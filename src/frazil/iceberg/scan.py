"""Scans: what to read, described step by step, then planned or read. Nothing happens before that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from frazil.errors import InvalidArgument
from frazil.iceberg.incremental import appended_manifests
from frazil.iceberg.manifest_list import read_manifest_list
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.snapshot import Snapshot
from frazil.io.store import Store
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import AlwaysTrue, Expression, and_
from frazil.model.schema import Schema
from frazil.model.temporal import to_millis
from frazil.model.types import NestedField

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.iceberg.planning import ScanPlan
    from frazil.iceberg.read import TaskReader

BATCH_ROWS = 65_536
ALL_ROWS = AlwaysTrue()


@dataclass(frozen=True)
class Scan:
    """A read of one snapshot. Every method returns a new scan; `to_arrow`, `to_batches` and `count` run it."""

    metadata: TableMetadata
    store: Store
    snapshot: Snapshot | None
    schema: Schema
    where: Expression = ALL_ROWS
    columns: tuple[str, ...] | None = None
    row_limit: int | None = None
    case_sensitive: bool = True
    batch_rows: int = BATCH_ROWS
    metrics_of: frozenset[int] = frozenset()
    """Columns whose metrics the planned files must have, beyond those that the filter looks at."""
    appends: tuple[Snapshot, ...] | None = None
    """If given, only the files that these snapshots added are read, and nothing is deleted from them."""

    def filter(self, where: str | Expression) -> Self:
        """Keep only rows that match; several filters must all match."""
        return replace(self, where=and_(self.where, as_expression(where)))

    def select(self, *columns: str) -> Self:
        """Read only these columns; metadata columns such as `_file`, `_pos` and `_row_id` are given on request."""
        return replace(self, columns=columns_of(columns))

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        if not isinstance(rows, int):
            raise InvalidArgument(f"limit {rows!r} is not a number of rows", hint="use 0 or more")
        if rows < 0:
            raise InvalidArgument(f"limit {rows} is negative", hint="use 0 or more")
        return replace(self, row_limit=rows)

    @cached_property
    def output(self) -> Schema:
        """The columns of the result."""
        from frazil.iceberg.read import METADATA_COLUMNS

        if self.columns is None:
            return self.schema
        names = {name for name in self.columns if name not in METADATA_COLUMNS or self.schema.find_or_none(name)}
        picked = self.schema.select(
            [name for name in self.columns if name in names], case_sensitive=self.case_sensitive
        )
        by_id = {column.id: column for column in picked.fields}
        fields: dict[int, NestedField] = {}
        for name in self.columns:
            if name in names:
                found = self.schema.find(name, case_sensitive=self.case_sensitive)
                top = self.schema.path_ids(found.id)[0]
                fields[top] = by_id[top]
            else:
                fields[METADATA_COLUMNS[name].id] = METADATA_COLUMNS[name]
        return Schema(tuple(fields.values()), self.schema.schema_id)

    @cached_property
    def _plan(self) -> ScanPlan:
        from frazil.iceberg.actions.action import Context
        from frazil.iceberg.planning import Planner

        context = Context(self.metadata, self.store)
        manifests = []
        if self.appends is not None:
            manifests = appended_manifests(self.metadata, self.store, self.appends)
        elif self.snapshot is not None:
            specs = {spec.spec_id: spec for spec in self.metadata.partition_specs}
            manifests = read_manifest_list(self.store, self.snapshot, specs)
        planner = Planner(self.metadata, context.reader)
        return planner.plan(
            self.snapshot,
            manifests,
            self.schema,
            self.where,
            case_sensitive=self.case_sensitive,
            metrics_of=self.metrics_of,
            added_by=None if self.appends is None else frozenset(one.snapshot_id for one in self.appends),
        )

    def plan(self) -> ScanPlan:
        """The files that may hold matching rows, and the deletes that apply to each."""
        return self._plan

    def _reader(self) -> TaskReader:
        from frazil.iceberg.delete_reader import DeleteReader
        from frazil.iceberg.read import TaskReader

        deletes = DeleteReader(self.store, self.metadata)
        return TaskReader(self.store, self.metadata, self.output, self.schema, deletes, self.batch_rows)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        from frazil.iceberg.read import read_table

        return read_table(self._reader(), self.plan(), self.row_limit)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, with bounded memory."""
        from frazil.iceberg.read import read_batches, take_rows

        batches = read_batches(self._reader(), self.plan())
        return batches if self.row_limit is None else take_rows(batches, self.row_limit)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow's reader, which knows their schema also when there are none."""
        import pyarrow as pa

        from frazil.model.arrow import schema_to_arrow

        return pa.RecordBatchReader.from_batches(schema_to_arrow(self.output), self.to_batches())

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas frame; options go to Arrow's `to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """How many rows; answered from metadata for files that the filter takes whole."""
        reader = replace(self.select()._reader(), output=Schema(()))
        total = sum(reader.count(task) for task in self.plan().tasks())
        return total if self.row_limit is None else min(total, self.row_limit)

    def __repr__(self) -> str:
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        where = "" if isinstance(self.where, AlwaysTrue) else f" where {self.where}"
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.snapshot_id}"
        return f"Scan({columns}{where} at {at})"


def choose_snapshot(
    metadata: TableMetadata,
    version: int | None = None,
    ref: str | None = None,
    as_of: int | str | datetime | None = None,
) -> tuple[Snapshot | None, Schema]:
    """The snapshot meant by an id, a branch or tag, or a time; and the schema to read it with.

    A branch is read with the table's schema, as it goes on; anything else with the schema it had.
    """
    if sum(given is not None for given in (version, ref, as_of)) > 1:
        raise InvalidArgument("version, ref and as_of are different ways to say one thing", hint="give one of them")
    if version is not None:
        if not isinstance(version, int):
            raise InvalidArgument(f"version {version!r} is not a snapshot id", hint="give the id as an integer")
        snapshot = metadata.snapshot(version)
        return snapshot, metadata.schema_of(snapshot)
    if ref is not None:
        found = metadata.ref(ref)
        snapshot = metadata.snapshot(found.snapshot_id)
        return snapshot, metadata.schema_of(snapshot) if found.is_tag else metadata.current_schema
    if as_of is not None:
        snapshot = metadata.snapshot_as_of(to_millis(as_of))
        return snapshot, metadata.schema_of(snapshot)
    return metadata.current_snapshot, metadata.current_schema


def columns_of(columns: Iterable[str] | None) -> tuple[str, ...] | None:
    """Column names as a tuple; a single name is not meant letter by letter."""
    if columns is None:
        return None
    given: Any = (columns,) if isinstance(columns, str) else columns
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"{columns!r} does not name columns", hint="give a list of their names")
    return names
