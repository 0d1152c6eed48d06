"""The plan that stands for a keyed table in a query: rows of both stores, less those whose key was deleted later.

- Parquet files are read by Spark. Deletes are few mostly, and go to its tasks with the files: keys to base files,
  positions to change files (`frazil.spark.mixed.applied`).
- If there are too many of them to send around, rows and deletes are joined by key (`frazil.spark.mixed.shuffled`).
- Other files, and keys that Spark's reader cannot compare, are merged by Python workers (`frazil.spark.mixed.arrow`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, Unsupported
from frazil.mixed.file_names import FileType
from frazil.mixed.plan import MixedPlan, NodeTask, PlannedFile
from frazil.model.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    TimestampType,
    TimestamptzType,
)
from frazil.spark.handles import Asked
from frazil.spark.mixed.arrow import merged_frame
from frazil.spark.mixed.native import BothStores, Stores, check_spec
from frazil.spark.mixed.shuffled import shuffled_plan
from frazil.spark.mixed.source import MixedSource, source_of
from frazil.spark.options import folded
from frazil.spark.scan.contents import Contents, contents_of, is_native
from frazil.spark.scan.filters import pushed_filter
from frazil.spark.scan.native import output_struct
from frazil.spark.scan.options import ARROW, AUTO, NATIVE, SCAN
from frazil.spark.scan.plan import Described, column_named, jvm_reads, with_fields_inside
from frazil.spark.scan.relations import key_fields, obstacle
from frazil.spark.scan.scans import ScanRelation, arrow_document
from frazil.spark.scan.statistics import Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.mixed.handle import MixedHandle

MERGE = "frazil.merge"
BROADCAST, SHUFFLE = "broadcast", "shuffle"
_HEAP_SHARE = 8
"""Deletes that are sent to tasks take at most one part of so many of the JVM's memory. More of them are joined."""
_NUMBER_BYTES, _KEY_BYTES = 48, 200
"""About what a deleted key takes there: one that is a number, and any other."""
_NUMBERS = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)


def describe_merge(bridge: Bridge, handle: MixedHandle, asked: Asked, jsession: Any) -> Any:
    """The plan of a query, as JSON or as Spark's."""
    source = source_of(handle, asked.session["scan"], asked.filtered)
    stores = Stores(source, tuple(asked.columns), bridge.dialect, own_reader=asked.session["byName"])
    reads = source.mode != ARROW and jvm_reads(bridge, jsession, stores.base_source())
    reason = _obstacle(source, stores, jvm_reads=reads)
    natively = Natively.of(source, possible=reason is None and source.mode != ARROW)
    rest = MergedRelation.of(source, natively, asked.columns, stores)
    if source.mode == NATIVE and (reason is not None or rest is not None):
        why = reason or "it has files of another format than Parquet, or with equality deletes"
        raise Unsupported(f"Spark's reader cannot read this table: {why}", hint=f"leave out {SCAN}={NATIVE}")
    if rest is None and _joins(source, natively, bridge.session(jsession)):
        return shuffled_plan(bridge, stores, natively.base, jsession)
    relations: list[ScanRelation] = [] if rest is None else [rest]
    if natively.possible:
        relations = [*_native(stores, natively, asked), *relations]
    if asked.session["columns"]:
        for one in relations:
            one.document["statistics"] = one.statistics("[]", columns=True).document()  # type: ignore[index]
    return bridge.scans.describe(relations, output_struct(_wanted(source, asked.columns), bridge.dialect))


def _wanted(source: MixedSource, columns: Sequence[str]) -> tuple[NestedField, ...]:
    return tuple(column_named(source.base.metadata, source.schema, name) for name in columns)


def _obstacle(source: MixedSource, stores: Stores, *, jvm_reads: bool) -> str | None:
    """Why Spark's reader cannot read this table's files, or None."""
    if not jvm_reads:
        return f"the JVM has no file system for {source.base.metadata.location}"
    if "_metadata" in {field.name.lower() for field in source.schema.fields}:
        return "a column is named _metadata, as Spark's own"
    if source.changes.deletes and key_fields(source.base.metadata, source.keys) is None:
        return "its key has floating numbers, or a default that Spark does not fill in"
    found = (obstacle(state.metadata, source.schema, stores.dialect) for state in (source.base, source.change))
    return next(filter(None, found), None)


def _joins(source: MixedSource, natively: Natively, spark: SparkSession) -> bool:
    """Whether deletes are joined with the rows: as an option or the session says, or else by how many there are."""
    told = (folded(source.options).get(MERGE) or spark.conf.get(f"spark.{MERGE}", None) or AUTO).lower()
    if told not in (AUTO, BROADCAST, SHUFFLE):
        raise InvalidArgument(f"{MERGE} is {told!r}", hint=f"use {BROADCAST}, {SHUFFLE} or {AUTO}")
    deletes = source.changes.deletes
    if not deletes or not all(natively.takes(one, inserts=True) for one in deletes.values()):
        return False
    return told == SHUFFLE or (told == AUTO and source.changes.delete_rows > most_deletes(source, spark))


def most_deletes(source: MixedSource, spark: SparkSession) -> int:
    """How many deletes are sent to tasks."""
    jvm: Any = spark.sparkContext._jvm
    types = [field.type for field in source.schema.fields if field.id in source.keys]
    each = _NUMBER_BYTES if len(types) == 1 and isinstance(types[0], _NUMBERS) else _KEY_BYTES
    return int(jvm.java.lang.Runtime.getRuntime().maxMemory()) // _HEAP_SHARE // each


def _native(stores: Stores, natively: Natively, asked: Asked) -> list[Described]:
    """The relations of the files that Spark's reader reads."""
    deletes = bool(stores.source.changes.deletes)
    base = stores.base(natively.base, keyed=deletes)
    takes = natively.inserts
    inserts = stores.changes(FileType.INSERT, columns=asked.columns, applied=deletes) if takes else None
    both = None if base is None or inserts is None else BothStores.of(base, inserts)
    return [one for one in ([base, inserts] if both is None else [both]) if one is not None]


@dataclass(frozen=True)
class Natively:
    """Which files Spark's reader reads: a property of each file alone, whatever a query's filters are."""

    possible: bool
    base: Contents
    inserts: bool
    """Whether it may be given change files: nobody deletes rows of those but change deletes."""

    @classmethod
    def of(cls, source: MixedSource, *, possible: bool) -> Natively:
        """What holds for a source."""
        base, change = source.base, source.change
        filtered = with_fields_inside(source.schema, source.filtered)
        contents = contents_of(base.metadata, base.store, base.snapshot, filtered=filtered)
        check_spec(source, list(contents))
        of_change = contents_of(change.metadata, change.store, change.snapshot)
        plain = not (of_change.has_position_deletes or of_change.newest_equality_delete)
        return cls(possible, contents, possible and plain)

    def takes(self, one: PlannedFile, *, inserts: bool) -> bool:
        """Whether a file is read by it."""
        if not self.possible or one.task.file.file_format != "parquet":
            return False
        sequence = one.task.file.data_sequence_number or 0
        return self.inserts if inserts else sequence >= self.base.newest_equality_delete

    def leaves_files(self, source: MixedSource) -> bool:
        """Whether there are files that it does not read."""
        base = (is_native(entries, self.base.newest_equality_delete).all() for entries in self.base)
        inserts = (self.takes(one, inserts=True) for one in source.changes.inserts.values())
        return not (all(base) and all(inserts))

    def left(self, plan: MixedPlan) -> MixedPlan:
        """The part of a plan that workers read."""
        tasks = (
            replace(
                task,
                base=tuple(one for one in task.base if not self.takes(one, inserts=False)),
                inserts=tuple(one for one in task.inserts if not self.takes(one, inserts=True)),
            )
            for task in plan.tasks
        )
        return replace(plan, tasks=tuple(task for task in tasks if task.base or task.inserts))


@dataclass(frozen=True)
class MergedRelation(ScanRelation):
    """Rows that workers merge."""

    source: MixedSource
    natively: Natively
    wanted: tuple[NestedField, ...]
    document: dict[str, Any]

    @classmethod
    def of(
        cls, source: MixedSource, natively: Natively, columns: Sequence[str], stores: Stores
    ) -> MergedRelation | None:
        """What Spark's reader does not read; None if that is nothing."""
        if natively.possible and not natively.leaves_files(source):
            return None
        wanted = _wanted(source, columns)
        key = json.dumps([source.key, "rest" if natively.possible else "merged", *columns])
        document = arrow_document(key, source.name, Statistics(), output_struct(wanted, stores.dialect))
        made = cls(source, natively, wanted, document)
        known = made.statistics("[]", columns=False)
        document["statistics"] = known.document()
        return made if known.rows else None

    def _plan(self, filters: str) -> MixedPlan:
        return self.natively.left(self.source.plan(pushed_filter(filters, self.source.schema)))

    def rows(self, columns: Sequence[str], filters: str, session: SparkSession) -> DataFrame:
        fields = {field.name: field for field in self.wanted}
        kinds = {field["name"]: field for field in self.document["data"]["fields"]}
        wanted = tuple(fields[name] for name in columns)
        parallelism = session.sparkContext.defaultParallelism
        told = [kinds[name] for name in columns]
        return merged_frame(self._plan(filters), self.source.keys, wanted, told, session, parallelism)

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        tasks: tuple[NodeTask, ...] = self._plan(filters).tasks
        files = [one.task.file for task in tasks for one in (*task.base, *task.inserts)]
        return Statistics(sum(file.file_size_in_bytes for file in files), sum(file.record_count for file in files))
