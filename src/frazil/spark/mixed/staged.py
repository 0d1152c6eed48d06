"""CREATE and REPLACE TABLE [AS SELECT] of mixed tables.

Rows of a new table are in the first snapshot of its base store, and that store makes the table: nobody sees it without
them. A table is replaced by one with the same columns, partitions and key: its rows are, in one commit, which sets the
properties that are given. Others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from frazil.catalog.folders import remove_empty_folder
from frazil.catalog.formats import MIXED
from frazil.catalog.mixed_folder import NewStores
from frazil.catalog.names import TableName, table_name
from frazil.catalog.staged import StagedTable
from frazil.errors import InvalidArgument, TableAlreadyExists, Unsupported
from frazil.iceberg.actions.append import MergeAppend
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import removing
from frazil.mixed.definition import LAYOUT, PRIMARY_KEY
from frazil.mixed.layout import NESTED
from frazil.mixed.new_properties import with_properties
from frazil.mixed.pair import CHANGE_SNAPSHOT, NONE
from frazil.mixed.table import MixedTable
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.model.schema import Schema
from frazil.spark.describe import READ, WRITE
from frazil.spark.handles import Asked, TableHandle
from frazil.spark.mixed.base_files import write_base_files
from frazil.spark.mixed.definition import MixedDefinition, mixed_definition
from frazil.spark.paths import is_path, location_of, refuse_taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.lake import Lake
    from frazil.spark.bridge import Bridge
    from frazil.spark.definition import Definition
    from frazil.spark.types import Dialect

_BEFORE_ALL = 0
"""The transaction of files that are older than every change."""


@dataclass(frozen=True)
class StagedMixed(TableHandle):
    """A table that is to be. `replaced` is the one whose rows it takes the place of, None if it is new."""

    format: ClassVar[str] = MIXED

    lake: Lake
    name_parts: tuple[str, ...]
    stores: NewStores
    layout: str
    replaced: MixedTable | None
    published: list[MixedTable] = field(default_factory=list)

    @property
    def name(self) -> str:
        return ".".join(self.name_parts)

    def identity(self) -> dict[str, Any]:
        return {"at": self.stores.folder}

    def origin(self) -> dict[str, Any]:
        return {}

    @property
    def id(self) -> str | None:
        return self.stores.base.table_uuid

    @property
    def version(self) -> str | None:
        return None

    def properties(self) -> dict[str, str]:
        key = {PRIMARY_KEY: ",".join(self.stores.primary_key)} if self.stores.primary_key else {}
        return {"provider": MIXED, "location": self.stores.folder, **key}

    def capabilities(self, dialect: Dialect) -> Sequence[str]:
        return (*READ, *WRITE)

    def scan(self, bridge: Bridge, asked: Asked, jsession: Any) -> Any:
        self._refuse("is not there yet")

    def insert(self, bridge: Bridge, mode: str, conditions: str, options: Mapping[str, str], rows: DataFrame) -> None:
        if self.replaced is not None:
            from frazil.spark.mixed.handle import current

            staged = with_properties(self.replaced, self.stores.definition.properties)
            current(staged.refresh()).insert(bridge, "truncate", "[]", options, rows)
            self._share_properties(self.replaced)
            return
        stores = self.stores
        files = write_base_files(stores.store, stores.base, stores.primary_key, _BEFORE_ALL, rows, bridge.classes)
        with removing(stores.store, files):
            self._create(files)

    def publish(self, origin: Mapping[str, Any]) -> None:
        if self.published:
            return
        if self.replaced is not None:
            with_properties(self.replaced, self.stores.definition.properties).refresh().truncate()
            self._share_properties(self.replaced)
        else:
            self._create([])

    def abandon(self) -> None:
        remove_empty_folder(self.stores.store, self.stores.folder)

    def _share_properties(self, table: MixedTable) -> None:
        """Set the properties where the commit of the rows did not: on the change store, or of a table without rows."""
        self.published.append(table)
        table.refresh().update_properties().set_all(self.stores.definition.properties).commit()

    def _create(self, files: Sequence[DataFile]) -> None:
        def make(_place: str) -> MixedTable:
            return _with_rows(self.stores, files) if files else self.stores.create()

        if is_path(self.name_parts[0]):
            made = make(self.stores.folder)
        elif self.layout == NESTED:
            made = self.lake._placed(table_name(self.name_parts), MIXED, self.stores.folder, make)
        else:
            self.lake._check_free(table_name(self.name_parts))
            made = make(self.stores.folder)
        self.published.append(made)


def _with_rows(stores: NewStores, files: Sequence[DataFile]) -> MixedTable:
    """Make a table whose first snapshot has files."""
    maker = _Maker(stores)
    staged = StagedTable(maker, TableName((), stores.places.base), stores.definition, first=stores.base, replace=False)
    table = IcebergTable(stores.title, stores.store, staged, staged.load())
    with table.transaction() as tx:
        MergeAppend(tx).append_files(files).set(CHANGE_SNAPSHOT, NONE).commit()
        metadata = tx.metadata
        MoveWatermark(tx, watermark_of(files, metadata.current_schema, metadata.properties)).commit()
    assert maker.made is not None
    return maker.made


class _Maker:
    """What a staged base store becomes by its first commit: a mixed table."""

    def __init__(self, stores: NewStores) -> None:
        self._stores = stores
        self.made: MixedTable | None = None

    def load_table(self, name: Sequence[str]) -> TableState:
        return self.committer(name).load()

    def create_table(self, name: Sequence[str], metadata: TableMetadata) -> TableState:
        self.made = self._stores.create(metadata)
        return self.made.base_store._committer.load()

    def committer(self, name: Sequence[str]) -> Committer:
        assert self.made is not None
        return self.made.base_store._committer


def stage(lake: Lake, parts: Sequence[str], new: Definition, token: str) -> StagedMixed:
    """A table to write to, that is not there yet."""
    wanted = mixed_definition(new)
    place, present = _place(lake, parts, new)
    title = place if is_path(parts[0]) else ".".join(parts)
    stores = NewStores.of(
        lake.catalog.store,
        place,
        wanted.definition,
        primary_key=wanted.primary_key,
        layout=wanted.layout,
        name=title,
    )
    if present is not None:
        _check_same(present, stores, wanted, new.properties.get(LAYOUT))
    schema = stores.base.current_schema if present is None else present.schema
    return StagedMixed(None, schema, lake, tuple(parts), stores, wanted.layout, present, kind="staged", token=token)


def _place(lake: Lake, parts: Sequence[str], new: Definition) -> tuple[str, MixedTable | None]:
    """Where the table is to be, and what it replaces there."""
    if is_path(parts[0]):
        place = location_of(parts[0])
        if new.how == "replace" or new.location not in (None, place):
            raise InvalidArgument(f"{place} is a location already", hint="create the table there, without LOCATION")
        refuse_taken(lake.catalog.store, place)
        return place, None
    name = table_name(parts)
    if not lake.table_exists(parts):
        return lake._location(name, new.location), None
    if new.how == "create":
        raise TableAlreadyExists(f"table {name} exists already", hint="replace it, or drop it first")
    found: Any = lake.table(parts)
    if not isinstance(found, MixedTable):
        raise Unsupported(f"{name} is a table of format {found.format}", hint="drop it, and create it anew")
    return found.location, found


def _check_same(present: MixedTable, stores: NewStores, wanted: MixedDefinition, layout: str | None) -> None:
    same = (
        _shape(present.schema) == _shape(stores.base.current_schema)
        and present.primary_key == wanted.primary_key
        and [(part.transform, part.name) for part in present.spec.fields]
        == [(part.transform, part.name) for part in stores.base.default_spec.fields]
    )
    if not same:
        raise Unsupported(
            f"{present.identifier} cannot be replaced by a table with other columns, partitions or another key",
            hint="drop the table, and create it anew; or ALTER it, and overwrite its rows",
        )
    if layout is not None and present.layout != wanted.layout:
        raise Unsupported(
            f"{present.identifier} cannot be replaced by a table of layout {wanted.layout}",
            hint="leave the layout out; or drop the table, and create it anew",
        )


def _shape(schema: Schema) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in schema.fields]
