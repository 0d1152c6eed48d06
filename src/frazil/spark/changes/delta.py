"""The delta of a command: for each file the positions that go, and the rows that come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.io import roaring
from frazil.io.deletion_vector import DeletionVector
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, Schema
from frazil.spark.scan.executors import ship_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DELETE, _UPDATE, _INSERT = 1, 2, 3
_OPERATION = "__row_operation"


def with_lineage(schema: Schema) -> Schema:
    """Columns, and those that tell rows apart wherever they are written."""
    return Schema((*schema.fields, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER), schema.schema_id)


def positions_of(rows: DataFrame, classes: Any) -> list[tuple[Any, ...]]:
    """By operation (if rows tell one) and file: the positions of rows, as a bitmap, and how many rows there are."""
    from pyspark.sql import DataFrame

    ship_classes(rows.sparkSession)
    found = DataFrame(classes.FrazilRowLevel.positions(rows._jdf), rows.sparkSession)
    return list(zip(*(column.to_pylist() for column in found.toArrow().columns), strict=True))


@dataclass(frozen=True)
class Gone:
    """Positions that a command takes from one file: deleted rows, and rows that are updated."""

    deleted: DeletionVector
    updated: DeletionVector

    @cached_property
    def positions(self) -> DeletionVector:
        """All of them."""
        return self.deleted.union(self.updated)


class Delta:
    """Changes as FrazilRowLevel tells them. They are computed when they are asked for."""

    def __init__(self, changes: DataFrame, classes: Any, schema: Schema) -> None:
        self._changes = changes
        self._classes = classes
        self._schema = schema

    @property
    def _tells(self) -> bool:
        return self._changes.columns[:1] == [_OPERATION]

    @cached_property
    def _told(self) -> list[tuple[int, str | None, bytes, int]]:
        """Operation, file, positions, and how many rows there are of them."""
        return positions_of(self._changes, self._classes) if self._tells else []

    @cached_property
    def gone(self) -> dict[str, Gone]:
        """What goes, by file."""
        parts: dict[str, dict[int, DeletionVector]] = {}
        for operation, path, data, _ in self._told:
            if path is not None:
                parts.setdefault(path, {})[operation] = DeletionVector(roaring.deserialize(data))
        none = DeletionVector(np.empty(0, np.int64))
        return {path: Gone(some.get(_DELETE, none), some.get(_UPDATE, none)) for path, some in parts.items()}

    @property
    def inserted(self) -> int | None:
        """How many rows are inserted; None if the changes are insertions only, which are not counted before."""
        return sum(count for operation, _, _, count in self._told if operation == _INSERT) if self._tells else None

    @property
    def updated(self) -> int:
        """How many rows are updated."""
        return sum(gone.updated.cardinality for gone in self.gone.values())

    @property
    def deleted(self) -> int:
        """How many rows are deleted."""
        return sum(gone.deleted.cardinality for gone in self.gone.values())

    def rows(self, *, lineage: bool) -> DataFrame:
        """The rows that come: columns of the table, and with `lineage` those of `with_lineage`."""
        from pyspark.sql import DataFrame

        made = self._classes.FrazilRowLevel.rows(self._changes._jdf, len(self._schema.fields), lineage)
        return DataFrame(made, self._changes.sparkSession)

    def touched(self, plan: ScanPlan) -> list[tuple[FileScanTask, Gone]]:
        """The files of a plan that lose rows."""
        if not self.gone:
            return []
        tasks = list(plan.only(pa.array(sorted(self.gone), pa.string())).tasks())
        lost = self.gone.keys() - {task.file.file_path for task in tasks}
        if lost:  # else rows would be written anew and stay where they were, too
            raise InvalidArgument(f"{min(lost)} is not planned", hint="this is an error of Frazil: report it")
        return [(task, self.gone[task.file.file_path]) for task in tasks]
