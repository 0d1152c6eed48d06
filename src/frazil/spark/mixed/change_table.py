"""`lake.db.t.change`: the rows of the change store, each with its transaction, its offset, and what happened to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.planning import ScanPlan
from frazil.io import location as locations
from frazil.mixed.change_view import ON_REQUEST, ChangeScan
from frazil.mixed.columns import CHANGE_ACTION, TRANSACTION_ID, TREE_NODE
from frazil.mixed.file_names import FilePlace, FileType, parse_change
from frazil.mixed.plan import StoreState
from frazil.model.schema import Schema
from frazil.model.types import NestedField
from frazil.spark.handles import Asked
from frazil.spark.mixed.arrow import NOTHING, small
from frazil.spark.scan.arrow import Rows, as_told, frame_of_tasks, held_struct, local_frame
from frazil.spark.scan.contents import OnlyFiles, contents_of, is_native
from frazil.spark.scan.files import Constant, routed
from frazil.spark.scan.filters import numbered, pushed_filter
from frazil.spark.scan.native import output_struct
from frazil.spark.scan.options import ARROW, reader_settings, scan_mode
from frazil.spark.scan.plan import Layout, Source, jvm_reads, with_fields_inside
from frazil.spark.scan.relations import identity_columns, obstacle
from frazil.spark.scan.scans import ScanRelation, arrow_document
from frazil.spark.scan.statistics import Statistics, of_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.planning import FileScanTask
    from frazil.spark.bridge import Bridge
    from frazil.spark.mixed.handle import MixedHandle


def describe_changes(bridge: Bridge, handles: Sequence[MixedHandle], asked: Asked, jsession: Any) -> str:
    """The JSON that FrazilPlan makes the plan of, with columns of one or more handles, which all have them."""
    found = [_relation(bridge, handle, asked, jsession) for handle in handles]
    wanted = _wanted(handles[0].schema, asked.columns)
    return bridge.scans.describe([one for one in found if one is not None], output_struct(wanted, bridge.dialect))


def _wanted(schema: Schema, names: Iterable[str]) -> tuple[NestedField, ...]:
    """Columns of changes, and such as come on request."""
    known = ON_REQUEST | {column.name: column for column in schema.fields}
    return tuple(known[name] for name in names)


def _relation(bridge: Bridge, handle: MixedHandle, asked: Asked, jsession: Any) -> ScanRelation | None:
    """What is read of a handle; None if there is nothing."""
    change, options = handle.change, handle.options
    stored = Schema(tuple(column for column in handle.schema.fields if column.name not in _CONSTANTS))
    source = Source(
        change.metadata,
        change.store,
        handle.pair.change,
        stored,
        scan_mode(options, asked.session["scan"]),
        handle.name,
        settings=reader_settings(options, change.metadata.properties),
        only=handle.files,
        filtered=with_fields_inside(stored, asked.filtered),
    )
    contents = contents_of(source.metadata, source.store, source.snapshot, filtered=source.filtered)
    if handle.files is not None:
        contents = contents.only(handle.files)
    plain = not (contents.has_position_deletes or contents.newest_equality_delete)
    native = (
        source.mode != ARROW
        and jvm_reads(bridge, jsession, source)
        and obstacle(source.metadata, stored, bridge.dialect) is None
        and plain
        and all(is_native(entries, 0).all() for entries in contents)
    )
    wanted = _wanted(handle.schema, asked.columns)
    struct = output_struct(wanted, bridge.dialect)
    if not contents.data:
        return None
    if not native:
        key = json.dumps([handle.rows, source.key, *asked.columns])
        document = arrow_document(key, source.name, of_files(contents.data), struct)
        state = StoreState(change.metadata, change.store, handle.pair.change)
        return ChangeRelation(state, handle.schema, wanted, document, handle.files)
    columns = tuple(column.name for column in wanted if column.name not in _CONSTANTS)
    made = Layout(source, columns, bridge.dialect).native(
        identity_columns(source.metadata.default_spec, stored),
        frozenset(entries.spec.spec_id for entries in contents),
        of_files(contents.data),
        contents,
        own_reader=asked.session["byName"],
        constants=[_CONSTANTS[column.name] for column in wanted if column.name in _CONSTANTS],
    )
    key = json.dumps([handle.rows, made.relation.key])
    return replace(made, relation=replace(made.relation, key=key), document={**made.document, "key": key})


def _per_file(value: Callable[[FilePlace], Any], kind: pa.DataType) -> Callable[[Entries], pa.Array]:
    def values(entries: Entries) -> pa.Array:
        pairs = zip(entries.column(ids.FILE_PATH).to_pylist(), entries.numpy(ids.SEQUENCE_NUMBER).tolist(), strict=True)
        return pa.array([value(parse_change(path, sequence)) for path, sequence in pairs], kind)

    return values


def _action(place: FilePlace) -> str:
    return "DELETE" if place.type is FileType.EQ_DELETE else "INSERT"


_CONSTANTS = {
    TRANSACTION_ID.name: Constant(TRANSACTION_ID.name, "long", _per_file(lambda one: one.transaction_id, pa.int64())),
    CHANGE_ACTION.name: Constant(CHANGE_ACTION.name, "string", _per_file(_action, pa.string())),
    TREE_NODE.name: Constant(TREE_NODE.name, "long", _per_file(lambda one: one.node, pa.int64())),
}
"""Columns that all rows of a file have in common."""


@dataclass(frozen=True)
class ChangeRows(Rows):
    """Reads change files, wherever it is sent."""

    _: KW_ONLY
    state: StoreState

    def read(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        scan = ChangeScan(self.state, self.schema, columns=tuple(field.name for field in self.wanted))
        for task in tasks:
            for batch in scan.read(task):
                yield self._for_spark(batch, self.wanted, task)


@dataclass(frozen=True)
class ChangeRelation(ScanRelation):
    """Changes that workers read."""

    state: StoreState
    schema: Schema
    wanted: tuple[NestedField, ...]
    document: dict[str, Any]
    only: OnlyFiles | None = None

    def _plan(self, filters: str) -> ScanPlan:
        plan = self.state.plan(numbered(self.schema), pushed_filter(filters, self.schema), case_sensitive=True)
        return plan if self.only is None else plan.only(self.only.paths)

    def rows(self, columns: Sequence[str], filters: str, session: SparkSession) -> DataFrame:
        fields = {field.name: field for field in self.wanted}
        kinds = {field["name"]: field for field in self.document["data"]["fields"]}
        told = [kinds[name] for name in columns]
        schema = held_struct(told or [NOTHING])
        state, wanted = small(self.state), tuple(fields[name] for name in columns)
        rows = ChangeRows(state.store, state.metadata, self.schema, wanted, state=state)
        tasks = list(self._plan(filters).tasks())
        if locations.parse(routed(state.store, state.metadata.location)).scheme == "memory":
            return as_told(local_frame(list(rows.read(tasks)), session, schema), told, session)
        parallelism = session.sparkContext.defaultParallelism
        return as_told(frame_of_tasks(rows, tasks, session, schema, parallelism), told, session)

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        return of_files([part.entries for part in self._plan(filters).parts])
