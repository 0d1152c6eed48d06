"""A row filter against files: which hold only matching rows, which none, which some."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from frazil.iceberg.entries import Entries, Mask, MetricsStats, PartitionStats
from frazil.iceberg.manifest_list import ManifestFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.planning import SummaryStats
from frazil.model.binding import bind
from frazil.model.expressions import Expression
from frazil.model.projection import inclusive
from frazil.model.residuals import all_match, residuals
from frazil.model.schema import Schema
from frazil.model.stats_evaluator import might_match
from frazil.model.types import NestedField


@dataclass(frozen=True)
class FileFilter:
    """One filter, bound to a schema."""

    metadata: TableMetadata
    schema: Schema
    where: Expression
    case_sensitive: bool = True

    @cached_property
    def bound(self) -> Expression:
        return bind(self.schema, self.where, case_sensitive=self.case_sensitive)

    @cached_property
    def _fields(self) -> dict[int, NestedField]:
        return {column.id: column for column in self.schema.all_fields()}

    def may_hold(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may have files with matching rows."""
        spec = self.metadata.spec(manifest.partition_spec_id)
        type_ = partition_type(self.metadata, spec)
        projected = inclusive(self.schema, spec, self.bound)
        return bool(might_match(projected, SummaryStats([manifest], type_))[0])

    def some(self, entries: Entries) -> Mask:
        """Where a file may hold matching rows."""
        if not len(entries):
            return np.zeros(0, dtype=bool)
        mask: Mask = self.some_partitions(entries) & might_match(self.bound, MetricsStats(entries, self._fields))
        return mask

    def some_partitions(self, entries: Entries) -> Mask:
        """Where a file's partition may hold matching rows."""
        if not len(entries):
            return np.zeros(0, dtype=bool)
        return might_match(inclusive(self.schema, entries.spec, self.bound), PartitionStats(entries))

    def every(self, entries: Entries) -> Mask:
        """Where all rows of a file are known to match."""
        if not len(entries):
            return np.zeros(0, dtype=bool)
        which, left = residuals(self.schema, entries.spec, self.bound, entries.partition_columns(), len(entries))
        return all_match(which, left, MetricsStats(entries, self._fields))
