"""The files of a relation: planned when Spark asks, with the filters it pushed down, and sent in one byte string."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.errors import Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.planning import PlannedFiles, ScanPlan
from frazil.iceberg.scan import Scan
from frazil.io.store import ForwardingStore, Store, Stores
from frazil.model.expressions import Expression
from frazil.model.schema import Schema
from frazil.spark.scan.columns import pack
from frazil.spark.scan.contents import OnlyFiles, is_native
from frazil.spark.scan.deletes import KeyColumn, pack_deletes
from frazil.spark.scan.filters import numbered, pushed_filter

if TYPE_CHECKING:
    from frazil.iceberg.metadata import TableMetadata
    from frazil.iceberg.snapshot import Snapshot

Values = Callable[[Entries], pa.Array]
"""A constant of each file."""


@dataclass(frozen=True)
class Constant:
    """A column that has one value in each file: a hidden partition column of the relation."""

    name: str
    spark_type: Any
    values: Values


@dataclass(frozen=True)
class Relation:
    """A part of a scan: some kinds of files of one snapshot. Its key says all that its rows depend on."""

    key: str
    metadata: TableMetadata
    store: Store
    snapshot: Snapshot | None
    schema: Schema
    """The columns that filters may name, with the relation's names."""
    constants: tuple[Constant, ...] = ()
    specs: frozenset[int] | None = None
    """Files of these partition specs only; None for all."""
    native: bool | None = None
    """Files that Spark's reader can read, those it cannot, or (None) both."""
    newest_equality_delete: int = 0
    deletes: bool = False
    """Whether deletes travel with the files."""
    keys: Mapping[int, KeyColumn] = field(default_factory=dict)
    """The columns that equality deletes compare, by field id."""
    wanted: Schema = field(default_factory=lambda: Schema(()))
    """The columns of the table, with their own names (for the Arrow path)."""
    appends: tuple[Snapshot, ...] | None = None
    """Files that these snapshots added only; None for all of the snapshot."""
    only: OnlyFiles | None = None
    """Which of the snapshot's files, if not all."""

    def filter(self, text: str) -> Expression:
        """Filters that Spark pushed down, bound."""
        return pushed_filter(text, self.schema)

    def plan(self, where: Expression, metrics_of: frozenset[int] = frozenset()) -> tuple[ScanPlan, list[PlannedFiles]]:
        """The plan of the snapshot, and what of it belongs to this relation."""
        scan = Scan(self.metadata, self.store, self.snapshot, numbered(self.schema), where)
        plan = replace(scan, metrics_of=metrics_of, appends=self.appends).plan()
        return plan, [picked for part in plan.parts if len((picked := self._pick(part)).entries)]

    def _pick(self, part: PlannedFiles) -> PlannedFiles:
        entries = part.entries
        if self.specs is not None and entries.spec.spec_id not in self.specs:
            return PlannedFiles(entries.slice(0, 0), part.deletes)
        mask = np.ones(len(entries), dtype=np.bool_) if self.only is None else self.only.mask(entries)
        if self.native is not None:
            mask &= is_native(entries, self.newest_equality_delete) == self.native
        return part.filter(mask)


def list_files(relation: Relation, filters: str) -> bytes:
    """The files that may hold rows Spark wants, with the constants of each and its deletes."""
    plan, parts = relation.plan(relation.filter(filters))
    if not relation.deletes:
        return packed_files(relation, parts, None)
    gone = {} if relation.only is None else relation.only.without
    deletes = pack_deletes(relation.metadata, relation.store, plan, parts, relation.keys, gone)
    return packed_files(relation, parts, deletes)


def packed_files(relation: Relation, parts: Sequence[PlannedFiles], deletes: bytes | None) -> bytes:
    """Files in one byte string: paths, sizes, deletes (if the relation has them), constants."""
    count = sum(len(part.entries) for part in parts)
    chunks = [count.to_bytes(4, "little"), b"\0" if deletes is None else b"\1"]

    def add(values: Values, empty: pa.DataType) -> None:
        arrays = [values(part.entries) for part in parts]
        chunks.append(pack(pa.concat_arrays(arrays) if arrays else pa.array([], empty)))

    add(lambda entries: jvm_paths(relation.store, entries.column(ids.FILE_PATH)), pa.string())
    add(lambda entries: entries.column(ids.FILE_SIZE), pa.int64())
    if deletes is not None:
        chunks.append(deletes)
    for constant in relation.constants:
        add(constant.values, pa.string() if constant.spark_type in ("string", "binary") else pa.int64())
    return b"".join(chunks)


# Locations


def jvm_paths(store: Store, paths: pa.Array) -> pa.Array:
    """Where the JVM finds files that the store finds at these locations."""
    places = paths.to_pylist()
    if isinstance(store, Stores):
        return pa.array([_for_jvm(place) for place in places], pa.string())
    return pa.array([jvm_path(store, place) for place in places], pa.string())


def jvm_path(store: Store, location: str) -> str:
    """Where the JVM finds a file that the store finds at this location."""
    return _for_jvm(routed(store, location))


def routed(store: Store, location: str) -> str:
    """The location after all relocations."""
    while isinstance(store, ForwardingStore) and not isinstance(store, Stores):
        store, location = store.route(location)
    return location


def _for_jvm(place: str) -> str:
    if place.startswith("/"):
        return f"file:{place}"
    if place.startswith(("s3:", "s3n:")):
        return f"s3a:{place.partition(':')[2]}"
    if place.startswith("memory:"):
        raise Unsupported(f"{place} is in the memory of this process", hint="leave out frazil.scan=native")
    return place
