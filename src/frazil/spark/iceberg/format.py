"""Iceberg's tables, as the engine makes and finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.catalog.next_metadata import read_state
from frazil.errors import TableNotFound
from frazil.iceberg.table import IcebergTable
from frazil.spark.formats import Format
from frazil.spark.handles import TableHandle
from frazil.spark.iceberg.handle import IcebergHandle, current, refuse_forgotten
from frazil.spark.paths import create_at, is_path, open_iceberg, stage_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.lake import Lake
    from frazil.spark.definition import Definition


class IcebergFormat(Format):
    """The format whose paths through the engine are the engine's own."""

    def current(self, table: Any) -> TableHandle:
        return current(table)

    def again(self, lake: Lake, key: Mapping[str, Any]) -> TableHandle:
        refuse_forgotten(key)
        catalog, name = lake.catalog, key["name"]
        state = read_state(catalog.store, key["metadata"])
        committer = open_iceberg(catalog.store, name)._committer if is_path(name) else catalog.committer(name)
        table = IcebergTable(name, catalog.store, committer, state)
        snapshot = state.metadata.snapshot_or_none(key["snapshot"])
        if key["kind"] == "metadata":
            from frazil.iceberg.metadata_tables import metadata_table_schema

            schema = metadata_table_schema(state.metadata, key["of"])
        else:
            schema = state.metadata.schema(key["schema"])
        return IcebergHandle(
            table,
            schema,
            snapshot,
            kind=key["kind"],
            branch=key["branch"],
            metadata_name=key["of"],
            pinned=key["pinned"],
        )

    def create(self, lake: Lake, parts: Sequence[str], new: Definition) -> TableHandle:
        if is_path(parts[0]):
            return current(create_at(lake.catalog.store, parts[0], new))
        return current(
            lake.create_table(
                parts,
                new.schema,
                partition_by=new.partition_by,
                format_version=new.version_number,
                properties=new.properties,
                location=new.location,
            )
        )

    def stage(self, lake: Lake, parts: Sequence[str], new: Definition, token: str) -> TableHandle:
        if is_path(parts[0]):
            table = stage_at(lake.catalog.store, parts[0], new)
        else:
            if new.how == "replace" and not lake.table_exists(parts):
                raise TableNotFound(f"no table {'.'.join(parts)}", hint="create it")
            table = lake.stage_table(
                parts,
                new.schema,
                partition_by=new.partition_by,
                format_version=new.version_number,
                properties=new.properties,
                location=new.location,
                create=new.how != "replace",
                replace=new.how != "create",
            )
        return IcebergHandle(table, table.schema, kind="staged", token=token)

    def connect_frame(self, scan: Any, spark: Any) -> DataFrame:
        from frazil.spark.frame import iceberg_on_connect

        return iceberg_on_connect(scan, spark)


FORMAT = IcebergFormat()
