"""The procedure that makes a table of one format one of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.catalog.names import table_name
from frazil.conversion.convert import convert
from frazil.conversion.place import in_catalog, in_folder
from frazil.spark.conversion import OnSpark
from frazil.spark.paths import is_path, location_of, open_path
from frazil.spark.procedures.procedure import TABLE, Arguments, Parameter, Procedure, Row, table_name_argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge


def _convert(bridge: Bridge, spark: SparkSession, _table: Any, given: Arguments) -> Sequence[Row]:
    lake = bridge.lake
    if is_path(given["table"]):
        folder = location_of(given["table"].strip("`"))
        place = in_folder(lake.catalog.store, folder, lambda: open_path(lake.catalog.store, folder))
    else:
        name = table_name(table_name_argument(bridge, spark, given["table"]))
        place = in_catalog(lake.catalog, name, lambda: lake.table(name.parts))
    done = convert(place, given["to"], OnSpark(spark))
    bridge.refresh(place.name)
    return [(done.format, done.location, done.previous, done.rows, done.tags)]


PROCEDURES = (
    Procedure(
        "convert",
        (TABLE, Parameter("to", "STRING", required=True)),
        "format STRING, location STRING, previous_location STRING, rows_count BIGINT, tags_count INT",
        _convert,
        on_table=False,
    ),
)
