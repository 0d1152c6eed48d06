"""The plan that stands for a table in a query: relations of Spark's own reader, or rows from Python workers.

The relations are chosen before the query's filters are known, so by what holds for a file whatever is asked:

- Parquet files are read by Spark. One relation per set of identity partition columns: those are constants of each file,
  so Spark prunes by them, also dynamically. If the snapshot has position deletes, a reader that applies them.
- Files that equality deletes may hit, and other formats, are read by Python workers (`frazil.spark.scan.arrow`).
- The option `frazil.scan` says `native` or `arrow` for all files.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.errors import InvalidArgument, NotFound, Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.read import METADATA_COLUMNS
from frazil.io import location as locations
from frazil.io.store import Store
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, PARTITION_ID, Schema
from frazil.model.types import NestedField, UnknownType
from frazil.spark.scan.columns import to_spark
from frazil.spark.scan.contents import Contents, contents_of, is_native
from frazil.spark.scan.files import Constant, Relation, jvm_path, list_files
from frazil.spark.scan.relations import (
    as_told,
    identity_columns,
    obstacle,
    partition_struct,
    quoted_name,
    relation_schema,
    rows_by_schema,
    without_defaults,
)
from frazil.spark.types import Dialect, spark_struct, spark_type

if TYPE_CHECKING:
    from frazil.iceberg.snapshot import Snapshot

NATIVE, ARROW, AUTO = "native", "arrow", "auto"
OPTION = "frazil.scan"
_REMEMBERED = 1024
_POSITION = "`_metadata`.`row_index`"
_PREFIX = "_frazil_"


@dataclass(frozen=True)
class Source:
    """What is read: a snapshot of a table with one of its schemas."""

    metadata: TableMetadata
    store: Store
    snapshot: Snapshot | None
    schema: Schema
    mode: str = AUTO

    def __post_init__(self) -> None:
        if self.mode not in (NATIVE, ARROW, AUTO):
            raise InvalidArgument(f"{OPTION} is {self.mode!r}", hint=f"use {NATIVE}, {ARROW} or {AUTO}")

    @property
    def key(self) -> str:
        table = self.metadata.table_uuid or self.metadata.location
        snapshot = "none" if self.snapshot is None else self.snapshot.snapshot_id
        return f"{table}@{snapshot}.{self.schema.schema_id}"


@dataclass(frozen=True)
class Described:
    """A relation and what the JVM must know to make it."""

    relation: Relation
    document: dict[str, Any]


def scan_mode(options: Mapping[str, str], session: Mapping[str, str]) -> str:
    """How to read: by option, else by the session's setting."""
    lowered = {key.lower(): value for key, value in options.items()}
    return lowered.get(OPTION, session.get(f"spark.{OPTION}", AUTO)).lower()


def describe(source: Source, columns: Sequence[str], dialect: Dialect, *, jvm_reads: bool) -> list[Described]:
    """The relations whose union has the rows of a source; none for a table without files.

    `jvm_reads` tells whether the JVM has a file system for the table's location.
    """
    contents = contents_of(source.metadata, source.store, source.snapshot)
    reason = obstacle(source.metadata, source.schema)
    if not jvm_reads:
        reason = f"the JVM has no file system for {source.metadata.location}"
    elif "_metadata" in {field.name.lower() for field in source.schema.fields}:
        reason = "a column is named _metadata, as Spark's own"
    if source.mode == NATIVE:
        _check_native(contents, reason)
    native = source.mode != ARROW and reason is None
    groups: dict[tuple[int, ...], set[int]] = {}
    sizes: dict[tuple[int, ...] | None, int] = {}
    for entries in contents:
        mask = is_native(entries, contents.newest_equality_delete) & native
        size = entries.numpy(ids.FILE_SIZE)
        if mask.any():
            key = identity_columns(entries.spec, source.schema)
            groups.setdefault(key, set()).add(entries.spec.spec_id)
            sizes[key] = sizes.get(key, 0) + int(size[mask].sum())
        if not mask.all():
            sizes[None] = sizes.get(None, 0) + int(size[~mask].sum())
    layout = Layout(source, tuple(columns), dialect)
    result = [
        layout.native(identity, frozenset(specs), sizes[identity], contents)
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

    def schema_json(self) -> dict[str, Any]:
        """The output as Spark's schema, all nullable."""
        fields = [without_defaults(field) for field in self._wanted]
        return _nullable(spark_struct(Schema(tuple(fields)), dialect=self.dialect))

    def native(
        self, identity: tuple[int, ...], specs: frozenset[int], size: int, contents: Contents
    ) -> Described:
        """Parquet files of some specs, all with the same identity columns."""
        source = self.source
        stored = relation_schema(source.schema, source.metadata.schemas, rows_by_schema(source.metadata))
        by_id = {field.id: field for field in stored.fields}
        extra: dict[int, NestedField] = {}
        constants: dict[str, Constant] = {}
        select: list[list[str | None]] = []

        def constant(name: str, type_: Any, values: Any) -> str:
            constants.setdefault(name, Constant(name, type_, values))
            return name

        for field in self._wanted:
            if field.id in identity:
                name = by_id[field.id].name
                kind = spark_type(field.type, path=field.name, dialect=self.dialect)
                select.append([field.name, constant(name, kind, partial(_identity, field))])
            elif field.id in by_id:
                told = as_told(by_id[field.id].name, by_id[field.id].type, field.type)
                select.append([field.name, by_id[field.id].name] if told is None else [field.name, None, told])
            elif isinstance(field.type, UnknownType):
                select.append([field.name, None, "NULL"])
            elif field.name == "_file":
                select.append([field.name, constant(f"{_PREFIX}file", "string", _column(ids.FILE_PATH))])
            elif field.name == "_pos":
                select.append([field.name, None, _POSITION])
            elif field.name == "_spec_id":
                select.append([field.name, constant(f"{_PREFIX}spec_id", "integer", _spec_id)])
            elif field.name == "_partition":
                kind = spark_type(field.type, path=field.name, dialect=self.dialect)
                select.append([field.name, constant(f"{_PREFIX}partition", kind, partial(_partition, field))])
            else:
                first = constant(f"{_PREFIX}first_row_id", "long", _column(ids.FIRST_ROW_ID))
                inherited = f"{first} + {_POSITION}"
                if field.id == LAST_UPDATED_SEQUENCE_NUMBER.id:
                    inherited = constant(f"{_PREFIX}sequence", "long", _column(ids.SEQUENCE_NUMBER))
                extra[field.id] = field
                kept = f"coalesce({quoted_name(field.name)}, {inherited})"
                select.append([field.name, None, f"if({first} IS NULL, NULL, {kept})"])
        data = [field for field in stored.fields if field.id not in identity] + list(extra.values())
        told_types = {field.id: field for field in source.schema.fields}
        known = [replace(told_types[n], name=by_id[n].name) for n in identity]
        struct = _nullable(spark_struct(Schema(tuple(data)), field_ids=True, dialect=self.dialect))
        kinds = [
            {"name": item.name, "type": item.spark_type, "nullable": True, "metadata": {}}
            for item in constants.values()
        ]
        kind = "deletes" if contents.has_position_deletes else "parquet"
        key = _key(source, kind, [*map(str, sorted(specs)), *constants])
        relation = Relation(
            key,
            source.metadata,
            source.store,
            source.snapshot,
            Schema((*data, *known), source.schema.schema_id),
            tuple(constants.values()),
            specs,
            native=True,
            newest_equality_delete=contents.newest_equality_delete,
            deletes=contents.has_position_deletes,
        )
        document = {
            "kind": kind,
            "key": key,
            "root": jvm_path(source.store, source.metadata.location),
            "size": size,
            "data": struct,
            "constants": {"type": "struct", "fields": kinds},
            "select": select,
        }
        return Described(relation, document)

    def arrow(self, size: int, contents: Contents, *, everything: bool) -> Described:
        """Files that Python workers read."""
        source = self.source
        key = _key(source, ARROW, ["all" if everything else "rest", *self.columns])
        wanted = Schema(tuple(self._wanted), source.schema.schema_id)
        relation = Relation(
            key,
            source.metadata,
            source.store,
            source.snapshot,
            source.schema,
            native=None if everything else False,
            newest_equality_delete=contents.newest_equality_delete,
            wanted=wanted,
        )
        return Described(relation, {"kind": ARROW, "key": key, "size": size, "data": self.schema_json()})


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


def _nullable(struct: dict[str, Any]) -> dict[str, Any]:
    """The same struct, in which everything may be null, as Spark takes files to be."""

    def inside(kind: Any) -> Any:
        if not isinstance(kind, dict):
            return kind
        if kind["type"] == "struct":
            return _nullable(kind)
        if kind["type"] == "array":
            return {**kind, "elementType": inside(kind["elementType"]), "containsNull": True}
        if kind["type"] == "map":
            return {
                **kind,
                "keyType": inside(kind["keyType"]),
                "valueType": inside(kind["valueType"]),
                "valueContainsNull": True,
            }
        return kind

    return {
        **struct,
        "fields": [{**field, "type": inside(field["type"]), "nullable": True} for field in struct["fields"]],
    }


def _key(source: Source, kind: str, parts: Sequence[str]) -> str:
    return f"{source.key}/{kind}/{zlib.crc32(json.dumps(list(parts)).encode()):08x}"


def _column(number: int) -> Any:
    return lambda entries: entries.column(number)


def _spec_id(entries: Entries) -> pa.Array:
    return pa.array(np.full(len(entries), entries.spec.spec_id, dtype=np.int32))


def _identity(field: NestedField, entries: Entries) -> pa.Array:
    for part, values in zip(entries.spec.fields, entries.partition_columns(), strict=True):
        if part.source_id == field.id and str(part.transform) == "identity":
            return to_spark(values, field.type)
    raise AssertionError(f"spec {entries.spec.spec_id} has no identity of {field.name}")  # pragma: no cover


def _partition(field: NestedField, entries: Entries) -> pa.Array:
    known = dict(zip((part.field_id for part in entries.spec.fields), entries.partition_columns(), strict=True))
    inner = field.type.fields  # type: ignore[attr-defined]
    if not inner:
        return pa.Array.from_buffers(pa.struct([]), len(entries), [None])
    arrays = [
        to_spark(known[part.id] if part.id in known else pa.nulls(len(entries)), part.type) for part in inner
    ]
    return pa.StructArray.from_arrays(arrays, names=[part.name for part in inner])


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
        table, classes = handle.table, self._bridge.classes
        mode = scan_mode(handle.options, _settings(jsession))
        source = Source(table.metadata, table.store, handle.snapshot, handle.schema, mode)
        reads = mode != ARROW and _jvm_reads(classes, jsession, source)
        described = describe(source, columns, self._bridge.dialect, jvm_reads=reads)
        document: dict[str, Any] = {"relations": [item.document for item in described]}
        if not described:
            document["schema"] = Layout(source, tuple(columns), self._bridge.dialect).schema_json()
        self._remember(described)
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
