"""Lance's tables, as the engine makes and finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from frazil.catalog.formats import create_lance
from frazil.errors import NotFound, TableNotFound
from frazil.lance.history import History
from frazil.lance.same_table import made_by
from frazil.lance.table import LanceTable
from frazil.spark.formats import Format
from frazil.spark.handles import TableHandle
from frazil.spark.lance.definition import arrow_schema, refuse_layout
from frazil.spark.lance.handle import LanceHandle, current
from frazil.spark.paths import is_path, location_of, refuse_taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.lake import Lake
    from frazil.spark.definition import Definition
    from frazil.spark.procedures.procedure import Run


class LanceFormat(Format):
    """Tables of Lance. Rows are read and written by Python workers."""

    def current(self, table: Any) -> TableHandle:
        return current(table)

    def again(self, lake: Lake, key: Mapping[str, Any]) -> TableHandle:
        store = lake.catalog.store
        version = History(store, key["root"], key["line"]).load(key["number"])
        if made_by(version) != key["made"]:
            raise NotFound(f"table {key['name']} was made anew meanwhile", hint="make the DataFrame again")
        handle: LanceHandle | None = current(LanceTable(key["name"], store, key["root"], version))
        if handle is not None and key["of"] is not None:
            handle = handle.metadata_table(key["of"])
        assert handle is not None
        shape = None if key["shape"] is None else History(store, key["root"], key["line"]).load(key["shape"])
        schema = handle.schema if shape is None else shape.schema
        return replace(handle, schema=schema, shape=shape, branch=key["branch"], pinned=key["pinned"])

    def create(self, lake: Lake, parts: Sequence[str], new: Definition) -> TableHandle:
        refuse_layout(new)
        schema, properties = arrow_schema(new)
        if is_path(parts[0]):
            place = location_of(parts[0])
            refuse_taken(lake.catalog.store, place)
            return current(create_lance(lake.catalog.store, place, place, schema, properties, new.format_version))
        return current(
            lake.create_table(
                parts,
                schema,
                format="lance",
                format_version=new.format_version,
                properties=properties,
                location=new.location,
            )
        )

    def stage(self, lake: Lake, parts: Sequence[str], new: Definition, token: str) -> TableHandle:
        from frazil.spark.lance.staged import stage

        refuse_layout(new)
        if new.how == "replace" and not lake.table_exists(parts):
            raise TableNotFound(f"no table {'.'.join(parts)}", hint="create it")
        return stage(lake, parts, new, token)

    def connect_frame(self, scan: Any, spark: Any) -> DataFrame:
        from frazil.spark.lance.connect import connect_frame

        return connect_frame(scan, spark)

    @cached_property
    def procedures(self) -> Mapping[str, Run]:
        from frazil.spark.lance.procedures import PROCEDURES

        return PROCEDURES


FORMAT = LanceFormat()
