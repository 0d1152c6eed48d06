"""`spark.read.format("frazil")` and `df.write.format("frazil")`: tables by path or by name, with options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.errors import InvalidArgument, TableAlreadyExists, TableNotFound
from frazil.spark.catalog import AS_OF_TIMESTAMP, TIMESTAMP_AS_OF, at_option, chosen_by, resolve
from frazil.spark.describe import READ, describe, quoted_name
from frazil.spark.exceptions import table_errors
from frazil.spark.options import folded
from frazil.spark.paths import is_path, location_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.handles import TableHandle

_PARTITIONS = "__partition_columns"
_OWN = frozenset({"path", _PARTITIONS, "checkpointlocation", "queryname"})
"""Options that are not about how rows are written."""
_PROPERTY = re.compile(r"(write|read|commit|history|compatibility|gc)\..+|format-version")


class Sources:
    """Answers what FrazilSource asks, for all lakes of the session it is asked in."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("source", self.find)
        bridge.on("save", self.save)
        bridge.on("refuseSchema", self.refuse_schema)

    def find(self, options: str, schema: str | None, jsession: Any) -> str:
        """The table to read. With a schema it is asked for by something that knows one: then only if it is the same."""
        given = json.loads(options)
        spark = self._bridge.session(jsession)
        if schema is not None:
            return self._same(spark, given, json.loads(schema))
        bridge, parts = target(spark, given)
        with table_errors(bridge, parts):
            handle = _chosen(spark, resolve(bridge.lake, parts), given)
        return json.dumps({"bridge": bridge.key, "table": json.loads(describe(bridge, handle))})

    def _same(self, spark: SparkSession, options: Mapping[str, str], schema: Any) -> str:
        if "path" not in folded(options) or chosen_by(options) is not None:
            return "null"
        bridge, parts = target(spark, options)
        handle = existing(bridge, parts)
        told = None if handle is None else json.loads(describe(bridge, handle))
        if told is None or _shape(schema) != _shape(json.loads(told["schema"])):
            return "null"
        return json.dumps({"bridge": bridge.key, "table": {**told, "capabilities": READ}})

    def refuse_schema(self, options: str, schema: str, jsession: Any) -> None:
        """A schema that was given for reading, and is not the table's."""
        _bridge, parts = target(self._bridge.session(jsession), json.loads(options))
        raise InvalidArgument(
            f"a schema is given for {'.'.join(parts)}, and is not the table's",
            hint="leave it out: a table knows its own; select and cast columns after reading",
        )

    def save(self, what: str, jrows: Any, jsession: Any) -> None:
        """`df.write.save()`: append, overwrite, or create the table."""
        from pyspark.sql import DataFrame

        asked = json.loads(what)
        spark = self._bridge.session(jsession)
        options = asked["options"]
        bridge, parts = target(spark, options)
        partitions = json.loads(options.get(_PARTITIONS, "[]"))
        save(bridge, parts, DataFrame(jrows, spark), asked["mode"], options, partitions)


def save(
    bridge: Bridge,
    parts: Sequence[str],
    rows: DataFrame,
    mode: str,
    options: Mapping[str, str],
    partitions: Sequence[str] = (),
) -> None:
    """Rows into the table of that name, which is made if there is none. The mode is one of Spark's four."""
    from pyspark.sql import functions

    handle = existing(bridge, parts)
    writer = rows.writeTo(bridge.sql_name(parts))
    for key, text in options.items():
        if key.lower() not in _OWN:
            writer = writer.option(key, text)
    if handle is None:
        for key, text in options.items():
            if _PROPERTY.fullmatch(key):
                writer = writer.tableProperty(key, text)
        columns = [functions.col(quoted_name(name)) for name in partitions]
        (writer.partitionedBy(*columns) if columns else writer).create()
    elif mode == "errorifexists":
        with table_errors(bridge, parts):
            raise TableAlreadyExists(f"table {'.'.join(parts)} exists", hint='use mode("append") or mode("overwrite")')
    elif mode != "ignore":
        handle.check_partitions(partitions)
        writer.append() if mode == "append" else writer.overwrite(functions.lit(True))


def existing(bridge: Bridge, parts: Sequence[str]) -> TableHandle | None:
    """The table of that name, None if there is none."""
    try:
        return resolve(bridge.lake, parts)
    except TableNotFound:
        return None


# Which table.


def target(spark: SparkSession, options: Mapping[str, str]) -> tuple[Bridge, list[str]]:
    """The lake that is meant, and the name in it."""
    text = folded(options).get("path")
    if not text:
        raise InvalidArgument("there is no table", hint='load("db.t"), or load("/path/of/table")')
    lakes = lakes_of(spark)
    current = lakes.get(spark.catalog.currentCatalog())
    if is_path(text):
        place, _, inner = text.partition("#")
        return current or next(iter(lakes.values())), [location_of(place), *([inner] if inner else [])]
    names = spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(text)
    parts = [names.apply(at) for at in range(names.size())]
    if len(parts) > 1 and parts[0] in lakes:
        return lakes[parts[0]], parts[1:]
    if current is not None:
        return current, parts if len(parts) > 1 else [*spark.catalog.currentDatabase().split("."), *parts]
    if len(lakes) > 1:
        raise InvalidArgument(f"{text} may be of lake {' or '.join(lakes)}", hint=f"write {next(iter(lakes))}.{text}")
    return next(iter(lakes.values())), parts


def lakes_of(spark: SparkSession) -> dict[str, Bridge]:
    """The lakes that are attached to a session, by name; the one that is made where there is none is nobody's."""
    from frazil.spark.attach import OWN_CATALOG, bridges_of

    found = {bridge.name: bridge for bridge in bridges_of(spark)}
    if not found:
        raise InvalidArgument("no lake is attached to this session", hint="lake.attach(spark)")
    return {name: bridge for name, bridge in found.items() if name != OWN_CATALOG} or found


def _chosen(spark: SparkSession, handle: TableHandle, options: Mapping[str, str]) -> TableHandle:
    """At the snapshot that an option names, and with the columns it had."""
    chosen = chosen_by(options)
    if chosen is None:
        return handle
    option, text = chosen
    if option == TIMESTAMP_AS_OF:
        option, text = AS_OF_TIMESTAMP, str(_micros(spark, text) // 1000)
    return at_option(handle, option, text)


def _micros(spark: SparkSession, text: str) -> int:
    """A time as Spark understands it: in the session's time zone."""
    [[micros]] = spark.sql("SELECT unix_micros(try_cast(? AS TIMESTAMP))", args=[text]).collect()
    if micros is None:
        raise InvalidArgument(f"option timestampAsOf is {text!r}", hint="write it as 2024-01-31 12:00:00")
    return int(micros)


def _shape(struct: Any) -> Any:
    """Names and types of a schema, whatever may be null and whatever is known beside."""
    if isinstance(struct, list):
        return [_shape(item) for item in struct]
    if not isinstance(struct, dict):
        return struct
    ignored = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {key: _shape(item) for key, item in struct.items() if key not in ignored}
