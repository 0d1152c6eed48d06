"""Files of the stores that Spark's own reader reads, with what was deleted from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import Unsupported
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries
from frazil.iceberg.planning import PlannedFiles, ScanPlan
from frazil.mixed.columns import FILE_OFFSET
from frazil.mixed.file_names import FileType
from frazil.mixed.plan import PlannedFile, StoreState
from frazil.model.expressions import Expression
from frazil.model.schema import Schema
from frazil.spark.mixed.applied import KeySets, deleted_inserts
from frazil.spark.mixed.source import MixedSource
from frazil.spark.scan.contents import Contents, contents_of, is_native
from frazil.spark.scan.deletes import deleted_rows, pack_applied
from frazil.spark.scan.files import Constant, Relation, packed_files
from frazil.spark.scan.filters import numbered
from frazil.spark.scan.plan import Described, Layout, Source, with_fields_inside
from frazil.spark.scan.relations import identity_columns
from frazil.spark.scan.statistics import Statistics, distinct_values, of_files
from frazil.spark.types import Dialect

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class Listed:
    """Files that a query reads; if they have deletes, those of each file."""

    parts: Sequence[PlannedFiles]
    positions: Sequence[bytes | None] = ()
    """Deletion vectors."""
    transactions: Sequence[int] = ()
    numbers: Sequence[bytes | None] = ()
    """Of the sets of keys that take rows from a file."""
    sets: Sequence[bytes] = ()

    def packed(self, relation: Relation, others: Sequence[Listed] = ()) -> bytes:
        """These files and others, which have no sets, as the JVM takes them."""
        every = (self, *others)
        parts = [part for one in every for part in one.parts]
        if not relation.deletes:
            return packed_files(relation, parts, None)
        deletes = pack_applied(
            [blob for one in every for blob in one.positions],
            np.array([number for one in every for number in one.transactions], np.int64),
            [numbers for one in every for numbers in one.numbers],
            self.sets,
        )
        return packed_files(relation, parts, deletes)


@dataclass(frozen=True)
class StoreFiles(Described):
    """Files of one store, of one kind: base rows, inserted ones, or such that delete."""

    source: MixedSource
    kind: FileType

    def list_files(self, filters: str) -> bytes:
        return self.listed(filters).packed(self.relation)

    def listed(self, filters: str) -> Listed:
        """The files that may have rows which pass filters."""
        relation = self.relation
        where = relation.filter(filters)
        plan, parts = self._plan(where)
        if not relation.deletes:
            return Listed(parts)
        return self._base(where, plan, parts) if self.kind is FileType.BASE else self._inserted(where, parts)

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        relation = self.relation
        schema = relation.schema if columns else Schema(())
        distinct = distinct_values(relation.metadata, relation.snapshot) if columns else {}
        return of_files(self.entries(filters, schema), schema, distinct)

    def entries(self, filters: str, schema: Schema) -> list[Entries]:
        """The files, with the metrics of some columns."""
        _, parts = self._plan(self.relation.filter(filters), frozenset(column.id for column in schema.fields))
        return [part.entries for part in parts]

    def _plan(self, where: Expression, metrics_of: frozenset[int] = frozenset()) -> tuple[ScanPlan, list[PlannedFiles]]:
        plan, parts = self.relation.plan(where, metrics_of)
        if self.kind is FileType.BASE:
            check_spec(self.source, [part.entries for part in parts])
            return plan, parts
        kept = (part.filter(self._visible(part.entries)) for part in parts)
        return plan, [part for part in kept if len(part.entries)]

    def _visible(self, entries: Entries) -> npt.NDArray[np.bool_]:
        return among(entries, self._files)

    @property
    def _files(self) -> dict[str, PlannedFile]:
        changes = self.source.changes
        return dict(changes.deletes if self.kind is FileType.EQ_DELETE else changes.inserts)

    def _base(self, where: Expression, plan: ScanPlan, parts: Sequence[PlannedFiles]) -> Listed:
        relation = self.relation
        sets = KeySets(self.source, relation.keys)
        told: list[tuple[int, bytes | None]] = [(0, None) for part in parts for _ in range(len(part.entries))]
        if relation.keys:  # else they are joined, or there are none
            deletes = self.source.deletes(numbered(relation.schema), where)
            told = [one for part in parts for one in sets.of_files(part, deletes)]
        return Listed(
            parts,
            list(deleted_rows(relation.metadata, relation.store, plan, parts, {})),
            [transaction for transaction, _ in told],
            [numbers for _, numbers in told],
            sets.packed(),
        )

    def _inserted(self, where: Expression, parts: Sequence[PlannedFiles]) -> Listed:
        known = self._files
        files = [known[path] for part in parts for path in part.entries.column(ids.FILE_PATH).to_pylist()]
        deletes = self.source.deletes(numbered(self.relation.schema), where)
        gone = deleted_inserts(self.source, files, deletes)
        return Listed(parts, gone, [0] * len(files), [None] * len(files))


@dataclass(frozen=True)
class BothStores(Described):
    """Base rows and inserted ones as one relation: Spark has a shorter plan of it than of their union."""

    base: StoreFiles
    inserts: StoreFiles

    @classmethod
    def of(cls, base: StoreFiles, inserts: StoreFiles) -> BothStores | None:
        """Both, if the JVM reads them in the same way."""
        told = ("kind", "settings", "data", "constants", "select")
        if [base.document[name] for name in told] != [inserts.document[name] for name in told]:
            return None
        if base.relation.deletes != inserts.relation.deletes or base.relation.store is not inserts.relation.store:
            return None
        key = json.dumps([base.relation.key, inserts.relation.key])
        made = cls(replace(base.relation, key=key), {**base.document, "key": key}, base, inserts)
        made.document["statistics"] = made.statistics("[]", columns=False).document()
        return made

    def list_files(self, filters: str) -> bytes:
        return self.base.listed(filters).packed(self.relation, [self.inserts.listed(filters)])

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        relation = self.relation
        schema = relation.schema if columns else Schema(())
        distinct = distinct_values(relation.metadata, relation.snapshot) if columns else {}
        parts = [part for one in (self.base, self.inserts) for part in one.entries(filters, schema)]
        return of_files(parts, schema, distinct)


def among(entries: Entries, files: dict[str, PlannedFile]) -> npt.NDArray[np.bool_]:
    """Where entries are of these files."""
    found = pc.is_in(entries.column(ids.FILE_PATH), value_set=pa.array(list(files), pa.string()))
    result: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return result


def check_spec(source: MixedSource, parts: Sequence[Entries]) -> None:
    """Refuse files of another partitioning: change deletes go by partitions of the one that a table has."""
    only = source.base.metadata.default_spec.spec_id
    other = next((entries for entries in parts if entries.spec.spec_id != only and len(entries)), None)
    if other is not None:
        raise Unsupported(
            f"{other.column(ids.FILE_PATH)[0]} is of partition spec {other.spec.spec_id}, and the table's is {only}",
            hint="mixed tables keep the partitioning they were made with; rewrite the file",
        )


@dataclass(frozen=True)
class Stores:
    """What makes relations of the files of a source's stores. `own_reader` as for Iceberg tables."""

    source: MixedSource
    columns: tuple[str, ...]
    dialect: Dialect
    own_reader: bool

    def base_source(self) -> Source:
        """The base store alone, as an Iceberg table."""
        return self._store(self.source.base, self.source.schema)

    def change_source(self, *, offsets: bool) -> Source:
        """The change store alone, if asked with the column that its files have besides."""
        schema = self.source.schema
        if offsets:
            schema = Schema((*schema.fields, FILE_OFFSET), schema.schema_id)
        return self._store(self.source.change, schema)

    def _store(self, state: StoreState, schema: Schema) -> Source:
        source = self.source
        return Source(
            state.metadata,
            state.store,
            state.snapshot,
            schema,
            source.mode,
            source.name,
            settings=source.settings,
            filtered=with_fields_inside(source.schema, source.filtered),
        )

    def base(self, contents: Contents, constants: Sequence[Constant] = (), *, keyed: bool) -> StoreFiles | None:
        """The Parquet files of the base store; with `keyed` less what change deletes took."""
        parts = [entries.filter(is_native(entries, contents.newest_equality_delete)) for entries in contents]
        if not any(map(len, parts)):
            return None
        compared = frozenset(self.source.keys) if keyed else frozenset[int]()
        told = replace(contents, newest_equality_delete=0, equality_ids=compared)
        made = self._native(self.base_source(), parts, told, constants, FileType.BASE)
        relation = replace(made.relation, newest_equality_delete=contents.newest_equality_delete)
        return replace(made, relation=relation)

    def changes(
        self, kind: FileType, constants: Sequence[Constant] = (), *, columns: Sequence[str], applied: bool
    ) -> StoreFiles | None:
        """Visible Parquet files of the change store; `applied` says that what is deleted from them is left out."""
        source = self.change_source(offsets=FILE_OFFSET.name in columns)
        contents = contents_of(source.metadata, source.store, source.snapshot)
        found = self.source.changes
        files = dict(found.deletes if kind is FileType.EQ_DELETE else found.inserts)
        parts = [entries.filter(is_native(entries, 0) & among(entries, files)) for entries in contents]
        if not any(map(len, parts)):
            return None
        told = replace(contents, has_position_deletes=applied)
        return replace(self, columns=tuple(columns))._native(source, parts, told, constants, kind)

    def _native(
        self, source: Source, parts: Sequence[Entries], told: Contents, constants: Sequence[Constant], kind: FileType
    ) -> StoreFiles:
        spec = source.metadata.default_spec
        made = Layout(source, self.columns, self.dialect).native(
            identity_columns(spec, self.source.schema),
            frozenset({part.spec.spec_id for part in parts}),
            of_files([part for part in parts if len(part)]),
            told,
            own_reader=self.own_reader,
            constants=constants,
        )
        key = json.dumps([self.source.key, kind.value, made.relation.key])
        return StoreFiles(replace(made.relation, key=key), {**made.document, "key": key}, self.source, kind)
