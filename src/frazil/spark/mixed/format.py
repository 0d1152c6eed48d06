"""Mixed tables, as the engine makes and finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.catalog.mixed_folder import create_mixed_table
from frazil.catalog.names import table_name
from frazil.catalog.next_metadata import read_state
from frazil.errors import NotFound, TableNotFound
from frazil.iceberg.committer import ReadOnly
from frazil.iceberg.table import IcebergTable
from frazil.mixed.definition import PRIMARY_KEY
from frazil.mixed.table import MixedTable
from frazil.spark.formats import Format
from frazil.spark.handles import TableHandle
from frazil.spark.iceberg.shown import partitioning
from frazil.spark.mixed.definition import mixed_definition
from frazil.spark.mixed.handle import BASE, CHANGE, again, current
from frazil.spark.paths import is_path, location_of, open_path, refuse_taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.lake import Lake
    from frazil.spark.definition import Definition


class MixedFormat(Format):
    """Tables of a base store and, if they have a key, a change store."""

    def current(self, table: Any) -> TableHandle:
        return current(table)

    def again(self, lake: Lake, key: Mapping[str, Any]) -> TableHandle:
        return again(current(_as_it_was(lake, key)), key)

    def create(self, lake: Lake, parts: Sequence[str], new: Definition) -> TableHandle:
        made = mixed_definition(new)
        plan = made.definition
        if is_path(parts[0]):
            place = location_of(parts[0])
            refuse_taken(lake.catalog.store, place)
            return current(
                create_mixed_table(
                    lake.catalog.store, place, plan, primary_key=made.primary_key, layout=made.layout, name=place
                )
            )
        return current(lake._create_mixed(table_name(parts), plan, made.primary_key, made.layout, new.location))

    def stage(self, lake: Lake, parts: Sequence[str], new: Definition, token: str) -> TableHandle:
        from frazil.spark.mixed.staged import stage

        if new.how == "replace" and not lake.table_exists(parts):
            raise TableNotFound(f"no table {'.'.join(parts)}", hint="create it")
        return stage(lake, parts, new, token)

    def like(self, table: Any, new: Definition) -> Definition:
        """With the key and the partitions that the table has, unless others are given."""
        given = {name: text for name, text in new.properties.items() if name not in new.implied}
        key = {PRIMARY_KEY: ",".join(table.primary_key)} if table.primary_key else {}
        parts = new.partition_by or tuple(map(_term, partitioning(table.base_store)))
        return replace(super().like(table, new), partition_by=parts, properties={**key, **given})

    def connect_frame(self, scan: Any, spark: Any) -> DataFrame:
        from frazil.spark.mixed.connect import connect_frame

        return connect_frame(scan, spark)


def _term(part: list[Any]) -> str:
    name, column, *size = part
    return column if name == "identity" else f"{name}({', '.join([*map(str, size), column])})"


def _as_it_was(lake: Lake, key: Mapping[str, Any]) -> MixedTable:
    """The table with the metadata of both stores as the key names it; it can be written to if it is still there."""
    name, store, places = key["name"], lake.catalog.store, key["stores"]
    try:
        now: Any = open_path(store, name) if is_path(name) else lake.table(name)
    except NotFound:
        now = None
    if not isinstance(now, MixedTable):
        now = None

    def table(kind: str) -> IcebergTable:
        state = read_state(store, places[kind])
        known = None if now is None else now.base_store if kind == BASE else now.change_store
        return IcebergTable(name, store, ReadOnly(state) if known is None else known._committer, state)

    return MixedTable(name, table(BASE), table(CHANGE) if CHANGE in places else None, key["primary_key"])


FORMAT = MixedFormat()
