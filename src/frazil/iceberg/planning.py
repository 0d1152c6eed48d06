"""Scan planning: from a snapshot and a filter to the files to read and the deletes to apply to each.

Pruning goes from coarse to fine: manifests by the summaries of their partitions, files by their partition values,
files by their column metrics. All of it works on columns; the metrics are decoded only if there is a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_index import Applied, DeleteIndex, is_vector
from frazil.iceberg.entries import Entries, Mask, MetricsStats, PartitionStats
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.manifest_list import DATA, DELETES, ManifestFile
from frazil.iceberg.manifest_reader import ManifestReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import field_in_any_schema, partition_type
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.stored_bounds import stored_bounds
from frazil.io.deletion_vector import DeletionVector
from frazil.model.binding import bind, field_ids
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.model.partition import PartitionSpec
from frazil.model.projection import inclusive
from frazil.model.residuals import all_match, residuals
from frazil.model.schema import Schema
from frazil.model.stats_evaluator import ColumnStats, might_match
from frazil.model.transforms import IdentityTransform
from frazil.model.types import DoubleType, FloatType, StructType

PLAN_COLUMNS = CORE_COLUMNS
FILTER_COLUMNS = CORE_COLUMNS | frozenset(ids.METRICS)


@dataclass(frozen=True, slots=True)
class FileScanTask:
    """One data file to read, the deletes that apply to it, and what is left of the filter to check on its rows."""

    file: DataFile
    deletes: tuple[DataFile, ...]
    residual: Expression
    gone: DeletionVector | None = None
    """Rows to leave out besides: somebody is about to delete them."""


@dataclass(frozen=True)
class PlannedFiles:
    """Planned files of one partition spec, as columns."""

    entries: Entries
    deletes: Applied

    def filter(self, mask: Mask) -> PlannedFiles:
        """Some of the files."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        return PlannedFiles(self.entries.take(pa.array(rows)), self.deletes.take(rows))


@dataclass(frozen=True)
class ScanPlan:
    """What a scan will read. Columns inside; objects are made when tasks are asked for."""

    snapshot: Snapshot | None
    schema: Schema
    filter: Expression
    parts: tuple[PlannedFiles, ...]
    delete_index: DeleteIndex

    def __len__(self) -> int:
        return sum(len(part.entries) for part in self.parts)

    @property
    def record_count(self) -> int:
        """Rows in the planned files, deleted ones included."""
        return sum(int(part.entries.numpy(ids.RECORD_COUNT).sum()) for part in self.parts)

    @property
    def total_bytes(self) -> int:
        """Bytes of the planned data files."""
        return sum(int(part.entries.numpy(ids.FILE_SIZE).sum()) for part in self.parts)

    @property
    def has_deletes(self) -> bool:
        return any(len(part.deletes.numbers) for part in self.parts)

    @property
    def deleted_count(self) -> int | None:
        """Rows of the planned files that are deleted, which vectors tell; None if another delete must be read."""
        if not self.has_deletes:
            return 0
        index = self.delete_index.parts
        numbers = np.concatenate([part.deletes.numbers for part in self.parts])
        if not np.concatenate([is_vector(part) for part in index])[numbers].all():
            return None
        return int(np.concatenate([part.numpy(ids.RECORD_COUNT) for part in index])[numbers].sum())

    @property
    def file_paths(self) -> list[str]:
        """The planned data files."""
        return [path for part in self.parts for path in part.entries.column(ids.FILE_PATH).to_pylist()]

    @cached_property
    def delete_files(self) -> list[DataFile]:
        """All live delete files that the filter did not rule out."""
        return [file for part in self.delete_index.parts for file in part.iter_files()]

    @property
    def used_deletes(self) -> set[int]:
        """The delete files that apply to planned data files, by their numbers."""
        return {number for part in self.parts for number in np.unique(part.deletes.numbers).tolist()}

    def only(self, paths: pa.Array) -> ScanPlan:
        """The part of the plan that these data files are."""
        parts = [
            part.filter(pc.is_in(part.entries.column(ids.FILE_PATH), value_set=paths).to_numpy(zero_copy_only=False))
            for part in self.parts
        ]
        return replace(self, parts=tuple(part for part in parts if len(part.entries)))

    def tasks(self, *, metrics_tell: bool = False) -> Iterator[FileScanTask]:
        """One task per data file. If `metrics_tell`, nothing is left of the filter for files that have only matching
        rows by their metrics, not just for those that have by their partition.
        """
        fields = {column.id: column for column in self.schema.all_fields()} if metrics_tell else {}
        for part in self.parts:
            entries = part.entries
            columns = entries.partition_columns()
            which, filters = residuals(self.schema, entries.spec, self.filter, columns, len(entries))
            if metrics_tell:
                which = np.where(all_match(which, filters, MetricsStats(entries, fields)), len(filters), which)
                filters = [*filters, AlwaysTrue()]
            for row, file in enumerate(entries.iter_files()):
                deletes = tuple(self.delete_files[number] for number in part.deletes.of(row))
                yield FileScanTask(file, deletes, filters[which[row]])

    def to_arrow(self) -> pa.Table:
        """The planned files as a table: path, format, spec, rows, bytes, sequence number, number of deletes."""
        names = {
            "file_path": ids.FILE_PATH,
            "file_format": ids.FILE_FORMAT,
            "record_count": ids.RECORD_COUNT,
            "file_size_in_bytes": ids.FILE_SIZE,
            "data_sequence_number": ids.SEQUENCE_NUMBER,
            "first_row_id": ids.FIRST_ROW_ID,
        }
        tables = []
        for part in self.parts:
            columns = {name: part.entries.column(number) for name, number in names.items()}
            columns["spec_id"] = pa.array(np.full(len(part.entries), part.entries.spec.spec_id, dtype=np.int32))
            columns["deletes"] = pa.array(np.diff(part.deletes.offsets))
            tables.append(pa.table(columns))
        if not tables:
            empty = {name: pa.array([], pa.string() if "file_" in name[:5] else pa.int64()) for name in names}
            return pa.table({**empty, "spec_id": pa.array([], pa.int32()), "deletes": pa.array([], pa.int64())})
        return pa.concat_tables(tables)

    def __repr__(self) -> str:
        return f"ScanPlan({len(self)} files, {self.record_count} rows, {self.total_bytes} bytes)"

    def _repr_html_(self) -> str:
        return f"<b>{escape(repr(self))}</b>{self.to_arrow().slice(0, 20).to_pandas().to_html()}"


class SummaryStats:
    """Partition summaries of manifests of one spec, as statistics."""

    def __init__(self, manifests: Sequence[ManifestFile], type_: StructType) -> None:
        self._manifests = manifests
        self._positions = {column.id: index for index, column in enumerate(type_.fields)}
        self._type = type_
        self.n = len(manifests)
        self.record_count: pa.Array | None = None

    def column(self, field_id: int) -> ColumnStats | None:
        position = self._positions.get(field_id)
        if position is None:
            return None
        summaries = [
            None
            if manifest.partitions is None or position >= len(manifest.partitions)
            else manifest.partitions[position]
            for manifest in self._manifests
        ]
        type_ = self._type.fields[position].type
        lower = pa.array([None if item is None else item.lower_bound for item in summaries], pa.binary())
        upper = pa.array([None if item is None else item.upper_bound for item in summaries], pa.binary())
        # a summary says whether, not how many: "some" is told as unknown, "none" as zero, "all" as the whole count
        nulls = [None if item is None or item.contains_null else 0 for item in summaries]
        nans = [None if item is None or item.contains_nan is not False else 0 for item in summaries]
        ones: list[int | None] = [None] * self.n
        for index, item in enumerate(summaries):
            if item is None or not item.contains_null or item.lower_bound is not None:
                continue
            # no bounds: nothing but nulls, unless there may be NaNs
            if item.contains_nan is False or not isinstance(type_, FloatType | DoubleType):
                nulls[index] = ones[index] = 1
        lower, upper = stored_bounds(type_, lower, upper)
        return ColumnStats(
            lower=lower,
            upper=upper,
            null_count=pa.array(nulls, pa.int64()),
            nan_count=pa.array(nans, pa.int64()),
            value_count=pa.array(ones, pa.int64()),
        )


@dataclass(frozen=True)
class _SpecFilter:
    """A row filter as one partition spec sees it."""

    spec: PartitionSpec
    type: StructType
    partition: Expression | None


class Planner:
    """Plans scans of one table's metadata."""

    def __init__(self, metadata: TableMetadata, reader: ManifestReader) -> None:
        self._metadata = metadata
        self._reader = reader

    def plan(
        self,
        snapshot: Snapshot | None,
        manifests: Sequence[ManifestFile],
        schema: Schema,
        where: Expression,
        *,
        case_sensitive: bool = True,
        metrics_of: frozenset[int] = frozenset(),
        added_by: frozenset[int] | None = None,
        metrics_tell: bool = True,
    ) -> ScanPlan:
        """Files of the manifests that may hold rows matching `where`, with their deletes.

        The files have the metrics of the columns `metrics_of`, and of those that the filter looks at. With `added_by`
        they are only those that these snapshots added. Unless `metrics_tell`, only partitions are pruned: for files
        whose rows stand for others.
        """
        bound = bind(schema, where, case_sensitive=case_sensitive)
        matching = self._matching(_of(manifests, DELETES), FILTER_COLUMNS, schema, bound, metrics_tell=False)
        deletes = DeleteIndex(list(matching), partial(field_in_any_schema, self._metadata))
        data = _of(manifests, DATA)
        # metrics are most of a manifest: those of columns that nobody asks about are not decoded
        decoded = None if deletes.has_equality_deletes else self._telling_columns(data, bound) | metrics_of
        columns = PLAN_COLUMNS if decoded == frozenset() else FILTER_COLUMNS
        parts = (
            PlannedFiles(entries, deletes.apply_to(entries))
            for entries in self._matching(
                data, columns, schema, bound, metrics_of=decoded, metrics_tell=metrics_tell, added_by=added_by
            )
            if len(entries)
        )
        return ScanPlan(snapshot, schema, bound, tuple(parts), deletes)

    def _matching(
        self,
        manifests: Sequence[ManifestFile],
        columns: frozenset[int],
        schema: Schema,
        bound: Expression,
        *,
        metrics_of: frozenset[int] | None = None,
        metrics_tell: bool = True,
        added_by: frozenset[int] | None = None,
    ) -> Iterator[Entries]:
        unfiltered = isinstance(bound, AlwaysTrue)
        filters: dict[int, _SpecFilter] = {}
        chosen: list[ManifestFile] = []
        by_spec: dict[int, list[ManifestFile]] = {}
        for manifest in manifests:
            if manifest.has_live_files:
                by_spec.setdefault(manifest.partition_spec_id, []).append(manifest)
        for spec_id, members in by_spec.items():
            spec_filter = filters[spec_id] = self._spec_filter(spec_id, schema, bound)
            if spec_filter.partition is None or unfiltered:
                chosen.extend(members)
                continue
            keep = might_match(spec_filter.partition, SummaryStats(members, spec_filter.type))
            chosen.extend(manifest for manifest, kept in zip(members, keep, strict=True) if kept)
        fields = {column.id: column for column in schema.all_fields()}
        for entries in self._reader.read(chosen, columns, metrics_of):
            entries = entries.filter(entries.live if added_by is None else entries.added_by(added_by))
            spec_filter = filters[entries.spec.spec_id]
            if not unfiltered and len(entries) and spec_filter.partition is not None:
                partition_mask = might_match(spec_filter.partition, PartitionStats(entries))
                entries = entries.filter(partition_mask)
            # an equality delete may carry values of other columns than its keys, which say nothing of the rows it hits
            if not unfiltered and len(entries) and metrics_tell:
                metrics = MetricsStats(entries, fields)
                entries = entries.filter(might_match(bound, metrics))
            yield entries

    def _telling_columns(self, manifests: Sequence[ManifestFile], bound: Expression) -> frozenset[int]:
        """The columns whose metrics may rule files out; none if partition values say all there is to say."""
        columns = field_ids(bound)
        specs = (self._metadata.spec(spec_id) for spec_id in {manifest.partition_spec_id for manifest in manifests})
        identities = (
            {part.source_id for part in spec.fields if isinstance(part.transform, IdentityTransform)} for spec in specs
        )
        return frozenset() if all(columns <= sources for sources in identities) else columns

    def _spec_filter(self, spec_id: int, schema: Schema, bound: Expression) -> _SpecFilter:
        spec = self._metadata.spec(spec_id)
        type_ = partition_type(self._metadata, spec)
        projected = inclusive(schema, spec, bound)
        return _SpecFilter(spec, type_, None if isinstance(projected, AlwaysTrue) else projected)


def _of(manifests: Sequence[ManifestFile], content: int) -> list[ManifestFile]:
    return [manifest for manifest in manifests if manifest.content == content]
