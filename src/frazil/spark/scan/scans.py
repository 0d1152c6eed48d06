"""The plan that stands for a table in a query, whatever its format: relations, and what Spark asks of them later.

A relation is a document for FrazilPlan and an object that answers by the document's key. The document is made before
the query's filters are known; files, rows and statistics are asked for with the filters that Spark pushed down.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from frazil.errors import NotFound
from frazil.recent import Recent
from frazil.spark.handles import Asked
from frazil.spark.scan.executors import ship_classes
from frazil.spark.scan.statistics import Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.handles import TableHandle

OWN = "deletes"
"""The kind of relation that our subclass of Spark's reader reads: it applies deletes."""
ARROW_ROWS = "arrow"
"""The kind of relation that Python workers read."""

_REMEMBERED = 1024
_SENT = 256 << 10
"""Bytes that are sent as they are. More of them take less time by a file."""


class ScanRelation(ABC):
    """A part of a scan. Its key says all that its rows depend on."""

    document: Mapping[str, Any]
    """What the JVM must know to make it: `kind`, `key`, `name`, `statistics`, `data` and more, as FrazilPlan reads."""

    @property
    def key(self) -> str:
        found: str = self.document["key"]
        return found

    def list_files(self, filters: str) -> bytes:
        """The files that may hold rows Spark wants, in the byte string of `frazil.spark.scan.files`."""
        raise NotFound(f"the scan {self.key} has no files", hint="this is an error of Frazil: report it")

    @abstractmethod
    def rows(self, columns: Sequence[str], filters: str, session: SparkSession) -> DataFrame:
        """The rows that workers read, with these columns. Filters (JSON of Spark's) may be applied, or in part."""

    @abstractmethod
    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        """How much filters leave of it; with `columns` something of each column too."""


def arrow_document(key: str, name: str, statistics: Statistics, struct: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a relation whose rows workers read; `struct` is its schema as Spark's JSON."""
    return {"kind": ARROW_ROWS, "key": key, "name": name, "statistics": statistics.document(), "data": struct}


class Scans:
    """Answers what the JVM asks while it plans and runs scans of one bridge."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._relations: Recent[str, ScanRelation] = Recent(_REMEMBERED)
        bridge.on("listFiles", self._list_files)
        bridge.on("readRows", self._read_rows)
        bridge.on("statistics", self._statistics)

    def describe(self, relations: Sequence[ScanRelation], struct: Mapping[str, Any] | None = None) -> str:
        """The JSON that FrazilPlan makes a plan of: the relations' union, or no rows of the schema `struct`."""
        for relation in relations:
            self._relations.put(relation.key, relation)
        if any(relation.document["kind"] == OWN for relation in relations):
            ship_classes(self._bridge.spark)
        document: dict[str, Any] = {"relations": [relation.document for relation in relations]}
        return json.dumps(document if relations else {**document, "schema": struct})

    def _get(self, key: str) -> ScanRelation:
        found = self._relations.get(key)
        if found is None:
            raise NotFound(f"the scan {key} was planned too long ago", hint="make the DataFrame again")
        return found

    def _list_files(self, key: str, filters: str, _: Any) -> bytes | str:
        """The bytes, or if they are many the name of a file in Spark's own temporary folder: py4j sends text only."""
        found = self._get(key).list_files(filters)
        if len(found) <= _SENT:
            return found
        folder = self._bridge.spark.sparkContext._temp_dir
        with tempfile.NamedTemporaryFile(prefix="frazil-files-", dir=folder, delete=False) as file:
            file.write(found)
        return file.name

    def _statistics(self, key: str, filters: str, columns: bool) -> str:
        return json.dumps(self._get(key).statistics(filters, columns=columns).document())

    def _read_rows(self, key: str, asked: str, jsession: Any) -> Any:
        found, what = self._get(key), json.loads(asked)
        frame = found.rows(what["columns"], what["filters"], self._bridge.session(jsession))
        return frame._jdf.queryExecution().toRdd()


def logical_plan(bridge: Bridge, handle: TableHandle, jsession: Any, columns: Sequence[str]) -> Any:
    """The Java LogicalPlan of a table, for those who do not come by a query."""
    if getattr(bridge, "scans", None) is None:
        bridge.scans = Scans(bridge)
    plans = bridge.classes.FrazilPlan
    facts = json.loads(bridge.classes.Frazil.json(plans.facts(jsession)))
    made = handle.scan(bridge, Asked(columns, facts), jsession)
    return plans.plan(bridge.key, jsession, made) if isinstance(made, str) else made
