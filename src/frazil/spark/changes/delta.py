"""The delta of a command: for each file the positions that go, and the rows that come."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from frazil.errors import InvalidArgument
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.io import roaring
from frazil.io.deletion_vector import DeletionVector
from frazil.model.schema import Schema
from frazil.spark.scan.executors import ship_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DELETE, _UPDATE, _INSERT = 1, 2, 3
_OPERATION = "__row_operation"
_PATH, _POSITIONS = struct.Struct(">ii"), struct.Struct(">qi")


def with_lineage(schema: Schema) -> Schema:
    """Columns, and those that tell rows apart wherever they are written."""
    return schema.with_lineage()


class Notes:
    """Where rows are, noted while a query reads them."""

    def __init__(self, rows: DataFrame, classes: Any) -> None:
        from pyspark.sql import DataFrame

        spark = rows.sparkSession
        ship_classes(spark)
        self._notes = classes.FrazilNotes()
        self.rows = DataFrame(classes.FrazilRowLevel.noted(rows._jdf, self._notes), spark)
        """The rows. What is done with them decides what is noted: it must read all of them."""

    def read(self) -> Notes:
        """Read the rows for nothing but where they are."""
        self.rows.select("_pos").write.format("noop").mode("overwrite").save()
        return self

    def told(self) -> Iterator[Noted]:
        """What was noted up to now."""
        data, at = bytes(self._notes.told()), 0
        while at < len(data):
            operation, length = _PATH.unpack_from(data, at)
            at += _PATH.size
            path = data[at : at + length].decode()
            rows, size = _POSITIONS.unpack_from(data, at + length)
            at += length + _POSITIONS.size
            yield Noted(operation, path, rows, data[at : at + size])
            at += size


class Noted(NamedTuple):
    """Rows of one file that an operation concerns; the path of rows that come is empty."""

    operation: int
    path: str
    rows: int
    """How many were read: more than there are, if a task had to be done again."""
    bitmap: bytes
    """Where they are, compressed."""

    @property
    def positions(self) -> DeletionVector:
        """Where they are: made anew each time, of eight bytes for each row."""
        return DeletionVector(roaring.deserialize(self.bitmap))

    @property
    def cardinality(self) -> int:
        """How many they are."""
        return roaring.cardinality(self.bitmap)


@dataclass(frozen=True)
class Gone:
    """Rows that a command takes from one file: those that are deleted, those that are updated, or some of both."""

    noted: tuple[Noted, ...]

    @property
    def positions(self) -> DeletionVector:
        """Where they are: made anew each time."""
        return reduce(DeletionVector.union, (one.positions for one in self.noted))

    @property
    def cardinality(self) -> int:
        """How many they are."""
        return self.noted[0].cardinality if len(self.noted) == 1 else self.positions.cardinality

    def count(self, operation: int) -> int:
        """How many of them an operation takes."""
        return sum(one.cardinality for one in self.noted if one.operation == operation)


class Changes:
    """Changes as FrazilRowLevel tells them: read by `read`, or by whoever writes `rows`."""

    def __init__(self, changes: DataFrame, classes: Any, schema: Schema) -> None:
        self._classes = classes
        self._schema = schema
        self._notes = Notes(changes, classes) if changes.columns[:1] == [_OPERATION] else None
        self._rows = changes if self._notes is None else self._notes.rows
        self._again = changes

    def read(self) -> Delta:
        """Read the changes for nothing but where they are."""
        if self._notes is not None:
            self._notes.read()
            self._rows = self._again
        return self.delta()

    def rows(self, *, lineage: bool) -> DataFrame:
        """The rows that come: columns of the table, and with `lineage` those of `with_lineage`."""
        from pyspark.sql import DataFrame

        made = self._classes.FrazilRowLevel.rows(self._rows._jdf, len(self._schema.fields), lineage)
        return DataFrame(made, self._rows.sparkSession)

    def delta(self) -> Delta:
        """What was found, once the changes were read."""
        return Delta([] if self._notes is None else list(self._notes.told()))


@dataclass(frozen=True)
class Delta:
    """What goes by a command, and how much comes."""

    noted: Sequence[Noted]

    @cached_property
    def gone(self) -> dict[str, Gone]:
        """What goes, by file."""
        parts: dict[str, tuple[Noted, ...]] = {}
        for one in self.noted:
            if one.path:
                parts[one.path] = (*parts.get(one.path, ()), one)
        return {path: Gone(some) for path, some in parts.items()}

    @property
    def inserted(self) -> int:
        """How many new rows were read, if the changes tell operations."""
        return sum(one.rows for one in self.noted if one.operation == _INSERT)

    @property
    def updated(self) -> int:
        """How many rows are updated."""
        return sum(gone.count(_UPDATE) for gone in self.gone.values())

    @property
    def deleted(self) -> int:
        """How many rows are deleted."""
        return sum(gone.count(_DELETE) for gone in self.gone.values())

    def touched(self, plan: ScanPlan) -> list[tuple[FileScanTask, Gone]]:
        """The files of a plan that lose rows."""
        if not self.gone:
            return []
        tasks = list(plan.only(pa.array(sorted(self.gone), pa.string())).tasks())
        lost = self.gone.keys() - {task.file.file_path for task in tasks}
        if lost:  # else rows would be written anew and stay where they were, too
            raise InvalidArgument(f"{min(lost)} is not planned", hint="this is an error of Frazil: report it")
        return [(task, self.gone[task.file.file_path]) for task in tasks]
