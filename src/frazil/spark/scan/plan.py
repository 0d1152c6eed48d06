"""The plan that stands for a table in a query: relations of Spark's own reader, or rows from Python workers.

The relations are chosen before the query's filters are known, so by what holds for a file whatever is asked:

- Parquet files are read by Spark. One relation per set of identity partition columns: those are constants of each file,
  so Spark prunes by them, also dynamically. If the snapshot has deletes, its reader is one that applies them.
- Other formats, and files that equality deletes of nested or floating columns may hit, are read by Python workers
  (`frazil.spark.scan.arrow`).
- The option `frazil.scan` says `native` or `arrow` for all files.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, NotFound, Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries, Mask
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.read import METADATA_COLUMNS
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.model.schema import PARTITION_ID, Schema
from frazil.model.types import NestedField
from frazil.spark.scan.contents import Contents, OnlyFiles, contents_of, is_native
from frazil.spark.scan.executors import ship_classes
from frazil.spark.scan.files import Relation, jvm_path, list_files
from frazil.spark.scan.native import NativeColumns, output_struct
from frazil.spark.scan.relations import identity_columns, key_fields, obstacle, partition_struct
from frazil.spark.types import Dialect

if TYPE_CHECKING:
    from frazil.iceberg.snapshot import Snapshot

NATIVE, ARROW, AUTO = "native", "arrow", "auto"
OPTION = "frazil.scan"
OWN = "deletes"
"""The kind of relation that our subclass of Spark's reader reads: it applies deletes."""

_REMEMBERED = 1024


@dataclass(frozen=True)
class Source:
    """What is read: a snapshot of a table with one of its schemas."""

    metadata: TableMetadata
    store: Store
    snapshot: Snapshot | None
    schema: Schema
    mode: str = AUTO
    name: str = "table"
    only: OnlyFiles | None = None

    def __post_init__(self) -> None:
        if self.mode not in (NATIVE, ARROW, AUTO):
            raise InvalidArgument(f"{OPTION} is {self.mode!r}", hint=f"use {NATIVE}, {ARROW} or {AUTO}")

    @property
    def key(self) -> str:
        table = self.metadata.table_uuid or self.metadata.location
        snapshot = "none" if self.snapshot is None else self.snapshot.snapshot_id
        part = "" if self.only is None else f"[{self.only.key}]"
        return f"{table}@{snapshot}{part}.{self.schema.schema_id}"


@dataclass(frozen=True, slots=True)
class Size:
    """How much some files are, before deletes."""

    bytes: int = 0
    rows: int = 0

    def plus(self, entries: Entries, mask: Mask) -> Size:
        """With the files where the mask is true."""
        size, rows = (int(entries.numpy(column)[mask].sum()) for column in (ids.FILE_SIZE, ids.RECORD_COUNT))
        return Size(self.bytes + size, self.rows + rows)


@dataclass(frozen=True)
class Described:
    """A relation and what the JVM must know to make it."""

    relation: Relation
    document: dict[str, Any]


def scan_mode(options: Mapping[str, str], session: Mapping[str, str]) -> str:
    """How to read: by option, else by the session's setting."""
    lowered = {key.lower(): value for key, value in options.items()}
    return lowered.get(OPTION, session.get(f"spark.{OPTION}", AUTO)).lower()


def describe(
    source: Source, columns: Sequence[str], dialect: Dialect, *, jvm_reads: bool, own_reader: bool = False
) -> list[Described]:
    """The relations whose union has the rows of a source; none for a table without files.

    `jvm_reads` tells whether the JVM has a file system for the table's location; with `own_reader` it reads by our
    kind of Spark's reader also where nothing was deleted.
    """
    contents = contents_of(source.metadata, source.store, source.snapshot)
    if source.only is not None:
        contents = contents.only(source.only)
    if key_fields(source.metadata, contents.equality_ids) is not None:
        contents = replace(contents, newest_equality_delete=0)  # no file is out of the reader's reach for its deletes
    reason = obstacle(source.metadata, source.schema)
    if not jvm_reads:
        reason = f"the JVM has no file system for {source.metadata.location}"
    elif "_metadata" in {field.name.lower() for field in source.schema.fields}:
        reason = "a column is named _metadata, as Spark's own"
    if source.mode == NATIVE:
        _check_native(contents, reason)
    native = source.mode != ARROW and reason is None
    groups: dict[tuple[int, ...], set[int]] = {}
    sizes: dict[tuple[int, ...] | None, Size] = {}
    for entries in contents:
        mask = is_native(entries, contents.newest_equality_delete) & native
        if mask.any():
            key = identity_columns(entries.spec, source.schema)
            groups.setdefault(key, set()).add(entries.spec.spec_id)
            sizes[key] = sizes.get(key, Size()).plus(entries, mask)
        if not mask.all():
            sizes[None] = sizes.get(None, Size()).plus(entries, ~mask)
    layout = Layout(source, tuple(columns), dialect)
    result = [
        layout.native(identity, frozenset(specs), sizes[identity], contents, own_reader=own_reader)
        for identity, specs in sorted(groups.items())
    ]
    if None in sizes:
        result.append(layout.arrow(sizes[None], contents, everything=not groups))
    return result


def _check_native(contents: Contents, reason: str | None) -> None:
    foreign = any(not is_native(entries, contents.newest_equality_delete).all() for entries in contents)
    if reason is None and foreign:
        reason = "it has files of another format than Parquet, or with equality deletes"
    if reason is not None:
        raise Unsupported(f"Spark's reader cannot read this table: {reason}", hint=f"leave out {OPTION}={NATIVE}")


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
        self, identity: tuple[int, ...], specs: frozenset[int], size: Size, contents: Contents, *, own_reader: bool
    ) -> Described:
        """Parquet files of some specs, all with the same identity columns."""
        source = self.source
        columns = NativeColumns(source.metadata, source.schema, self.dialect, identity)
        for field in self._wanted:
            columns.add(field)
        compared = key_fields(source.metadata, contents.equality_ids) if not contents.newest_equality_delete else None
        keys, key_struct = columns.keys(compared or {})
        deletes = contents.has_position_deletes or bool(keys)
        kind = OWN if deletes or own_reader else "parquet"
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
            only=source.only,
        )
        document = {
            "kind": kind,
            "key": relation.key,
            "root": jvm_path(source.store, source.metadata.location),
            "name": source.name,
            "size": size.bytes,
            "rows": size.rows,
            "data": columns.data_struct(),
            "constants": columns.constants_struct(),
            "keys": key_struct,
            "select": columns.select,
        }
        return Described(relation, document)

    def arrow(self, size: Size, contents: Contents, *, everything: bool) -> Described:
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
            only=source.only,
        )
        return Described(relation, {"kind": ARROW, "key": relation.key, "size": size.bytes, "data": self.output()})


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


def logical_plan(bridge: Any, handle: Any, jsession: Any, columns: Sequence[str]) -> Any:
    """The Java LogicalPlan that the optimizer rule puts in the place of a table."""
    if getattr(bridge, "scans", None) is None:
        bridge.scans = Scans(bridge)
    return bridge.scans.plan(handle, columns, jsession)


class Scans:
    """Answers what the JVM asks while it plans and runs scans of one bridge."""

    def __init__(self, bridge: Any) -> None:
        self._bridge = bridge
        self._relations: OrderedDict[str, Described] = OrderedDict()
        self._lock = Lock()
        bridge.on("listFiles", self._list_files)
        bridge.on("readRows", self._read_rows)

    def plan(self, handle: Any, columns: Sequence[str], jsession: Any) -> Any:
        """The Java LogicalPlan with these columns of a table."""
        return self.union([handle], columns, jsession)

    def union(self, handles: Sequence[Any], columns: Sequence[str], jsession: Any) -> Any:
        """The Java LogicalPlan with the rows of one or more handles, which have the same columns."""
        classes = self._bridge.classes
        sources = [_source(handle, _settings(jsession)) for handle in handles]
        described: list[Described] = []
        for source in sources:
            reads = source.mode != ARROW and _jvm_reads(classes, jsession, source)
            by_name = reads and bool(classes.FrazilPlan.readsByName(jsession))
            described += describe(source, columns, self._bridge.dialect, jvm_reads=reads, own_reader=by_name)
        document: dict[str, Any] = {"relations": [item.document for item in described]}
        if not described:
            document["schema"] = Layout(sources[0], tuple(columns), self._bridge.dialect).output()
        self._remember(described)
        if any(item.document["kind"] == OWN for item in described):
            ship_classes(self._bridge.spark)
        return classes.FrazilPlan.plan(self._bridge.key, jsession, json.dumps(document))

    def _remember(self, described: Sequence[Described]) -> None:
        with self._lock:
            for item in described:
                self._relations[item.relation.key] = item
                self._relations.move_to_end(item.relation.key)
            while len(self._relations) > _REMEMBERED:
                self._relations.popitem(last=False)

    def _get(self, key: str) -> Described:
        with self._lock:
            found = self._relations.get(key)
        if found is None:
            raise NotFound(f"the scan {key} was planned too long ago", hint="make the DataFrame again")
        return found

    def _list_files(self, key: str, filters: str, _: Any) -> bytes:
        return list_files(self._get(key).relation, filters)

    def _read_rows(self, key: str, asked: str, jsession: Any) -> Any:
        from frazil.spark.scan.arrow import read_rows

        found, what = self._get(key), json.loads(asked)
        session = self._bridge.session(jsession)
        return read_rows(found.relation, what["columns"], what["filters"], session, found.document["data"])


def _source(handle: Any, settings: Mapping[str, str]) -> Source:
    table, mode = handle.table, scan_mode(handle.options, settings)
    return Source(table.metadata, table.store, handle.snapshot, handle.schema, mode, handle.name, handle.files)


def _settings(jsession: Any) -> dict[str, str]:
    found = jsession.conf().getOption(f"spark.{OPTION}")
    return {f"spark.{OPTION}": found.get()} if found.isDefined() else {}


def _jvm_reads(classes: Any, jsession: Any, source: Source) -> bool:
    try:
        place = jvm_path(source.store, source.metadata.location)
    except Unsupported:
        return False
    scheme = locations.parse(place).scheme
    return scheme == "file" or bool(classes.FrazilPlan.hasFileSystem(jsession, scheme))
