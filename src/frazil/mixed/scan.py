"""Scans of a keyed table: both stores merged, at one pair of snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from frazil.iceberg.read import take_rows
from frazil.iceberg.scan import ALL_ROWS, BATCH_ROWS, Scan, columns_of
from frazil.mixed.optimized import Optimized, read_optimized
from frazil.mixed.plan import MixedPlan, StoreState, plan_merge
from frazil.model.arrow import schema_to_arrow
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import AlwaysTrue, Expression, and_
from frazil.model.schema import Schema

if TYPE_CHECKING:
    from frazil.mixed.merge import MergeReader


@dataclass(frozen=True)
class MixedScan:
    """A read of one pair of snapshots. Every method returns a new scan; `to_arrow`, `to_batches` and `count` run it."""

    base: StoreState
    change: StoreState
    schema: Schema
    primary_key: tuple[int, ...]
    where: Expression = ALL_ROWS
    columns: tuple[str, ...] | None = None
    row_limit: int | None = None
    case_sensitive: bool = True
    batch_rows: int = BATCH_ROWS

    def filter(self, where: str | Expression) -> Self:
        """Keep only rows that match; several filters must all match."""
        return replace(self, where=and_(self.where, as_expression(where)))

    def select(self, *columns: str) -> Self:
        """Read only these columns; `_file` and `_pos` are given on request."""
        return replace(self, columns=columns_of(columns))

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        return replace(self, row_limit=self._of_base.limit(rows).row_limit)

    @property
    def _of_base(self) -> Scan:
        """The scan of the base store alone: it knows how columns are chosen."""
        base = self.base
        return Scan(
            base.metadata,
            base.store,
            base.snapshot,
            self.schema,
            self.where,
            self.columns,
            case_sensitive=self.case_sensitive,
        )

    @cached_property
    def output(self) -> Schema:
        """The columns of the result."""
        return self._of_base.output

    @cached_property
    def optimized(self) -> Optimized:
        """Up to which change each partition is in the base store."""
        return read_optimized(self.base.metadata, self.base.store, self.base.snapshot)

    @cached_property
    def _plan(self) -> MixedPlan:
        return plan_merge(
            self.base,
            self.change,
            self.optimized,
            self.schema,
            self.where,
            keys=self.primary_key,
            case_sensitive=self.case_sensitive,
        )

    def plan(self) -> MixedPlan:
        """For each partition and node the files to read, and the deletes to apply."""
        return self._plan

    def _reader(self) -> MergeReader:
        from frazil.mixed.merge import MergeReader

        return MergeReader(self.plan(), self.output, self.primary_key, self.batch_rows)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        from frazil.mixed.merge import read_merged

        if self.row_limit is not None:
            return pa.Table.from_batches(list(self.to_batches()), schema_to_arrow(self.output))
        return read_merged(self._reader())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, with bounded memory."""
        reader = self._reader()
        batches = (batch for task in reader.plan.tasks for batch in reader.read(task))
        return batches if self.row_limit is None else take_rows(batches, self.row_limit)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow's reader, which knows their schema also when there are none."""
        return pa.RecordBatchReader.from_batches(schema_to_arrow(self.output), self.to_batches())

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas frame; options go to Arrow's `to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """How many rows; answered from metadata where no change delete, position delete or filter needs them read."""
        reader = replace(self, columns=())._reader()
        total = sum(reader.count(task) for task in reader.plan.tasks)
        return total if self.row_limit is None else min(total, self.row_limit)

    def __repr__(self) -> str:
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        where = "" if isinstance(self.where, AlwaysTrue) else f" where {self.where}"
        numbers = [None if one.snapshot is None else one.snapshot.snapshot_id for one in (self.base, self.change)]
        return f"MixedScan({columns}{where} at base {numbers[0]}, change {numbers[1]})"
