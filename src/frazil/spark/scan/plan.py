"""The plan that stands for a table in a query: relations of Spark's own reader, or rows from Python workers.

The relations are chosen before the query's filters are known, so by what holds for a file whatever is asked:

- Parquet files are read by Spark. One relation per set of identity partition columns: those are constants of each file,
  so Spark prunes by them, also dynamically. If the snapshot has deletes, its reader is one that applies them.
- Other formats, and files that equality deletes of nested or floating columns may hit, are read by Python workers
  (`frazil.spark.scan.arrow`). ORC is among them: Spark's reader knows no field ids and moves dates before 1582, and is
  only 1.4 times as fast.
- The option `frazil.scan` says `native` or `arrow` for all files.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import Unsupported
from frazil.iceberg.entries import Entries
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.read import METADATA_COLUMNS
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.model.schema import PARTITION_ID, Schema
from frazil.model.types import NestedField
from frazil.spark.handles import Asked
from frazil.spark.scan.contents import Contents, OnlyFiles, contents_of, is_native
from frazil.spark.scan.files import Constant, Relation, jvm_path, list_files
from frazil.spark.scan.native import NativeColumns, output_struct
from frazil.spark.scan.options import ARROW, AUTO, NATIVE, SCAN, appends_asked_for, reader_settings, scan_mode
from frazil.spark.scan.relations import has_nested_floats, identity_columns, key_fields, obstacle, partition_struct
from frazil.spark.scan.scans import OWN, ScanRelation, arrow_document
from frazil.spark.scan.statistics import Statistics, distinct_values, of_files
from frazil.spark.types import Dialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.iceberg.snapshot import Snapshot
    from frazil.spark.bridge import Bridge
    from frazil.spark.iceberg.handle import IcebergHandle


@dataclass(frozen=True)
class Source:
    """What is read: a snapshot of a table with one of its schemas."""

    metadata: TableMetadata
    store: Store
    snapshot: Snapshot | None
    schema: Schema
    mode: str = AUTO
    name: str = "table"
    appends: tuple[Snapshot, ...] | None = None
    """What some snapshots added, instead of all of one."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark for this read alone."""
    only: OnlyFiles | None = None
    """Some files of the snapshot, instead of all."""
    filtered: frozenset[int] = frozenset()
    """The columns that filters will probably name."""

    @property
    def key(self) -> str:
        table = self.metadata.table_uuid or self.metadata.location
        snapshot = "none" if self.snapshot is None else self.snapshot.snapshot_id
        appends = "" if self.appends is None else "+".join(["", *(str(one.snapshot_id) for one in self.appends)])
        part = "" if self.only is None else f"[{self.only.key}]"
        return f"{table}@{snapshot}{appends}{part}.{self.schema.schema_id}"


@dataclass(frozen=True)
class Described(ScanRelation):
    """A relation and what the JVM must know to make it."""

    relation: Relation
    document: dict[str, Any]

    def list_files(self, filters: str) -> bytes:
        return list_files(self.relation, filters)

    def rows(self, columns: Sequence[str], filters: str, session: SparkSession) -> DataFrame:
        from frazil.spark.scan.arrow import rows_frame

        return rows_frame(self.relation, columns, filters, session, self.document["data"])

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        return _of_relation(self.relation, filters, columns=columns)


def describe(
    source: Source, columns: Sequence[str], dialect: Dialect, *, jvm_reads: bool, own_reader: bool = False
) -> list[Described]:
    """The relations whose union has the rows of a source; none for a table without files.

    `jvm_reads` tells whether the JVM has a file system for the table's location; with `own_reader` it reads by our
    kind of Spark's reader also where nothing was deleted.
    """
    contents = contents_of(source.metadata, source.store, source.snapshot, source.appends, source.filtered)
    if source.only is not None:
        contents = contents.only(source.only)
    if key_fields(source.metadata, contents.equality_ids) is not None:
        contents = replace(contents, newest_equality_delete=0)  # no file is out of the reader's reach for its deletes
    reason = obstacle(source.metadata, source.schema, dialect)
    if not jvm_reads:
        reason = f"the JVM has no file system for {source.metadata.location}"
    elif "_metadata" in {field.name.lower() for field in source.schema.fields}:
        reason = "a column is named _metadata, as Spark's own"
    if source.mode == NATIVE:
        _check_native(contents, reason)
    native = source.mode != ARROW and reason is None
    groups: dict[tuple[int, ...], set[int]] = {}
    files: dict[tuple[int, ...] | None, list[Entries]] = {}
    for entries in contents:
        mask = is_native(entries, contents.newest_equality_delete) & native
        if mask.any():
            key = identity_columns(entries.spec, source.schema)
            groups.setdefault(key, set()).add(entries.spec.spec_id)
            files.setdefault(key, []).append(entries.filter(mask))
        if not mask.all():
            files.setdefault(None, []).append(entries.filter(~mask))
    layout = Layout(source, tuple(columns), dialect)
    result = [
        layout.native(identity, frozenset(specs), of_files(files[identity]), contents, own_reader=own_reader)
        for identity, specs in sorted(groups.items())
    ]
    if None in files:
        result.append(layout.arrow(of_files(files[None]), contents, everything=not groups))
    return result


def _check_native(contents: Contents, reason: str | None) -> None:
    foreign = any(not is_native(entries, contents.newest_equality_delete).all() for entries in contents)
    if reason is None and foreign:
        reason = "it has files of another format than Parquet, or with equality deletes"
    if reason is not None:
        raise Unsupported(f"Spark's reader cannot read this table: {reason}", hint=f"leave out {SCAN}={NATIVE}")


@dataclass(frozen=True)
class Layout:
    """The columns of a query's relation of a table, and how native and Arrow relations give them."""

    source: Source
    columns: tuple[str, ...]
    dialect: Dialect

    @property
    def _wanted(self) -> list[NestedField]:
        return [column_named(self.source.metadata, self.source.schema, name) for name in self.columns]

    def output(self) -> dict[str, Any]:
        """The output as Spark's schema, all nullable."""
        return output_struct(self._wanted, self.dialect)

    def native(
        self,
        identity: tuple[int, ...],
        specs: frozenset[int],
        statistics: Statistics,
        contents: Contents,
        *,
        own_reader: bool,
        constants: Sequence[Constant] = (),
    ) -> Described:
        """Parquet files of some specs, all with the same identity columns; constants are columns after the others."""
        source = self.source
        columns = NativeColumns(source.metadata, source.schema, self.dialect, identity)
        for column in self._wanted:
            columns.add(column)
        for constant in constants:
            columns.constants[constant.name] = constant
            columns.select.append([constant.name, constant.name])
        compared = key_fields(source.metadata, contents.equality_ids) if not contents.newest_equality_delete else None
        keys, key_struct = columns.keys(compared or {})
        leaves_out = source.only is not None and bool(source.only.without)
        deletes = contents.has_position_deletes or bool(keys) or leaves_out
        kind = OWN if deletes or own_reader or has_nested_floats(source.schema) else "parquet"
        relation = Relation(
            _key(source, kind, [*map(str, sorted(specs)), *columns.constants]),
            source.metadata,
            source.store,
            source.snapshot,
            columns.filterable,
            tuple(columns.constants.values()),
            specs,
            native=True,
            newest_equality_delete=contents.newest_equality_delete,
            deletes=deletes,
            keys=keys,
            appends=source.appends,
            only=source.only,
        )
        document = {
            "kind": kind,
            "key": relation.key,
            "root": jvm_path(source.store, source.metadata.location),
            "name": source.name,
            "statistics": statistics.document(),
            "settings": dict(source.settings),
            "data": columns.data_struct(),
            "constants": columns.constants_struct(),
            "keys": key_struct,
            "select": columns.select,
        }
        return Described(relation, document)

    def arrow(self, statistics: Statistics, contents: Contents, *, everything: bool) -> Described:
        """Files that Python workers read."""
        source = self.source
        relation = Relation(
            _key(source, ARROW, ["all" if everything else "rest", *self.columns]),
            source.metadata,
            source.store,
            source.snapshot,
            source.schema,
            native=None if everything else False,
            newest_equality_delete=contents.newest_equality_delete,
            wanted=Schema(tuple(self._wanted), source.schema.schema_id),
            appends=source.appends,
            only=source.only,
        )
        return Described(relation, arrow_document(relation.key, source.name, statistics, self.output()))


def column_named(metadata: TableMetadata, schema: Schema, name: str) -> NestedField:
    """A column of the table or a metadata column."""
    found = next((field for field in schema.fields if field.name == name), None)
    if found is not None:
        return found
    if name == "_partition":
        return NestedField(PARTITION_ID, name, partition_struct(metadata))
    if name in METADATA_COLUMNS:
        return METADATA_COLUMNS[name]
    return schema.find(name)  # says what there is


def _key(source: Source, kind: str, parts: Sequence[str]) -> str:
    return f"{source.key}/{kind}/{zlib.crc32(json.dumps(list(parts)).encode()):08x}"


# In Spark


def describe_scan(bridge: Bridge, handles: Sequence[IcebergHandle], asked: Asked, jsession: Any) -> str:
    """The JSON that FrazilPlan makes the plan of, with columns of one or more handles, which all have them."""
    facts = asked.session
    sources = [source_of(handle, facts["scan"], asked.filtered) for handle in handles]
    described: list[Described] = []
    for source in sources:
        reads = source.mode != ARROW and jvm_reads(bridge, jsession, source)
        own_reader = reads and facts["byName"]
        described += describe(source, asked.columns, bridge.dialect, jvm_reads=reads, own_reader=own_reader)
    if facts["columns"]:
        for item in described:
            item.document["statistics"] = item.statistics("[]", columns=True).document()
    nothing = None if described else Layout(sources[0], tuple(asked.columns), bridge.dialect).output()
    return bridge.scans.describe(described, nothing)


def source_of(handle: IcebergHandle, mode: str | None, filtered: Sequence[str] = ()) -> Source:
    """What a handle reads, with the options it was given; `mode` is the session's."""
    table, options = handle.table, handle.options
    return Source(
        table.metadata,
        table.store,
        handle.snapshot,
        handle.schema,
        scan_mode(options, mode),
        handle.name,
        appends_asked_for(table.metadata, handle.snapshot, options),
        reader_settings(options, table.metadata.properties),
        handle.files,
        with_fields_inside(handle.schema, filtered),
    )


def with_fields_inside(schema: Schema, names: Sequence[str]) -> frozenset[int]:
    """The ids of columns, and of all fields inside of them."""
    tops = {column.id for column in schema.fields if column.name in names}
    return (
        frozenset(field.id for field in schema.all_fields() if schema.path_ids(field.id)[0] in tops)
        if tops
        else frozenset()
    )


def _of_relation(relation: Relation, filters: str, *, columns: bool) -> Statistics:
    """The statistics of what filters leave of a relation."""
    schema = relation.schema if columns else Schema(())
    _, parts = relation.plan(relation.filter(filters), frozenset(column.id for column in schema.fields))
    distinct = distinct_values(relation.metadata, relation.snapshot) if columns else {}
    return of_files([part.entries for part in parts], schema, distinct)


def jvm_reads(bridge: Bridge, jsession: Any, source: Source) -> bool:
    """Whether the JVM has a file system for the table's location."""
    try:
        place = jvm_path(source.store, source.metadata.location)
    except Unsupported:
        return False
    scheme = locations.parse(place).scheme
    return scheme == "file" or bool(bridge.classes.FrazilPlan.hasFileSystem(jsession, scheme))
