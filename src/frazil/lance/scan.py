"""Scans of a Lance table: described step by step, then planned or read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from frazil.errors import InvalidArgument, Unsupported
from frazil.io.store import Store
from frazil.lance.data_files import open_reader
from frazil.lance.plan import (
    ALL_ROWS,
    BATCH_ROWS,
    CREATED_AT,
    LAST_UPDATED,
    METADATA_COLUMNS,
    ROW_ID,
    FragmentTask,
    ScanPlan,
    schema_bytes,
)
from frazil.lance.proto.messages import DataFragment
from frazil.lance.read import FragmentReader, threads
from frazil.lance.version import LanceVersion
from frazil.model.binding import bind, bound_predicates
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import AlwaysTrue, Expression, and_
from frazil.model.schema import Schema

_LINEAGE = frozenset({ROW_ID, CREATED_AT, LAST_UPDATED})


@dataclass(frozen=True)
class LanceScan:
    """A read of one version. Every method returns a new scan; `to_arrow`, `to_batches` and `count` run it."""

    store: Store
    version: LanceVersion
    where: Expression = ALL_ROWS
    columns: tuple[str, ...] | None = None
    row_limit: int | None = None
    case_sensitive: bool = True
    batch_rows: int = BATCH_ROWS

    def filter(self, where: str | Expression) -> Self:
        """Keep only rows that match; several filters must all match."""
        return replace(self, where=and_(self.where, as_expression(where)))

    def select(self, *columns: str) -> Self:
        """Read only these columns; metadata columns such as `_rowid` and `_rowaddr` are given on request."""
        return replace(self, columns=columns)

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        if rows < 0:
            raise InvalidArgument(f"limit {rows!r} is not a number of rows", hint="use 0 or more")
        return replace(self, row_limit=rows)

    @property
    def schema(self) -> Schema:
        return self.version.schema

    @cached_property
    def _plan(self) -> ScanPlan:
        columns = tuple(self.schema.columns) if self.columns is None else tuple(map(self._spelled, self.columns))
        known = Schema((*self.schema.fields, *_metadata_columns(self.schema)))
        where = bind(known, self.where, case_sensitive=self.case_sensitive)
        looked_at = {*columns, *(leaf.reference.path[0] for leaf in bound_predicates(where))}
        tasks = tuple(self._counted(fragment_tasks(self.version, lineage=not looked_at.isdisjoint(_LINEAGE))))
        fields = schema_bytes(self.version.manifest)
        return ScanPlan(self.version.version, fields, columns, where, tasks, self.batch_rows)

    def _counted(self, tasks: Iterable[FragmentTask]) -> Iterator[FragmentTask]:
        """Tasks that know how many rows they have: old manifests do not say, then a data file does."""
        position = 0
        for task in tasks:
            if not task.physical_rows and task.files:
                rows = open_reader(self.store, task.files[0], None).num_rows
                task = replace(task, physical_rows=rows)
            yield task if task.first_position == position else replace(task, first_position=position)
            position += task.rows

    def _spelled(self, name: str) -> str:
        if name in METADATA_COLUMNS and self.schema.find_or_none(name) is None:
            return name
        found = self.schema.find(name, case_sensitive=self.case_sensitive)
        return name if self.case_sensitive else self.schema.name_of(found.id) or name

    def plan(self) -> ScanPlan:
        """The fragments to read, and how."""
        return self._plan

    @cached_property
    def reader(self) -> FragmentReader:
        """Reads the tasks of the plan."""
        return FragmentReader(self.store, self.plan())

    @property
    def output(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return self.reader.output

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, with bounded memory."""
        left = self.row_limit
        for task in self.plan().tasks():
            if left == 0:
                return
            for batch in self.reader.read(task):
                piece = batch if left is None else batch.slice(0, left)
                yield piece
                if left is not None:
                    left -= piece.num_rows
                    if left == 0:
                        return

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        tasks = self.plan().fragments
        if self.row_limit is None and len(tasks) > 1:
            batches = [batch for part in threads().map(self._task_batches, tasks) for batch in part]
        else:
            batches = list(self.to_batches())
        if not self.reader.output.names:
            rows = sum(batch.num_rows for batch in batches)
            return pa.Table.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.Table.from_batches(batches, self.reader.output)

    def _task_batches(self, task: FragmentTask) -> list[pa.RecordBatch]:
        return list(self.reader.read(task))

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow's reader, which knows their schema also when there are none."""
        return pa.RecordBatchReader.from_batches(self.output, self.to_batches())

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas frame; options go to Arrow's `to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """How many rows; without a filter the manifest tells."""
        total = sum(self.reader.count(task) for task in self.plan().tasks())
        return total if self.row_limit is None else min(total, self.row_limit)

    def __repr__(self) -> str:
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        where = "" if isinstance(self.where, AlwaysTrue) else f" where {self.where}"
        return f"LanceScan({columns}{where} at version {self.version.version})"


def columns_of(columns: Iterable[str] | None) -> tuple[str, ...] | None:
    """Column names as a tuple; a single name is not meant letter by letter."""
    if columns is None:
        return None
    given: Any = (columns,) if isinstance(columns, str) else columns
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"{columns!r} does not name columns", hint="give a list of their names")
    return names


def _metadata_columns(schema: Schema) -> list[Any]:
    return [column for name, column in METADATA_COLUMNS.items() if name not in schema.columns]


def fragment_tasks(version: LanceVersion, *, lineage: bool) -> Iterator[FragmentTask]:
    """A task for each fragment of a version; `lineage` is for row ids and row versions, which may be many bytes."""
    position = 0
    for fragment in version.manifest.fragments:
        task = FragmentTask(
            int(fragment.id),
            version.file_refs(fragment),
            int(fragment.physical_rows),
            version.deletions(fragment),
            position,
            _inline(fragment, "row_ids") if lineage else None,
            _inline(fragment, "created_at") if lineage else None,
            _inline(fragment, "last_updated") if lineage else None,
        )
        yield task
        position += task.rows


def _inline(fragment: DataFragment, name: str) -> bytes | None:
    kind = fragment.WhichOneof(name)
    if kind is None:
        return None
    if not kind.startswith("inline"):
        raise Unsupported(
            f"fragment {fragment.id} has its {name} in a file of their own, which is not read yet",
            hint="open the table with pylance",
        )
    return bytes(getattr(fragment, kind))
