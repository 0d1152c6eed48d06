"""How a table format plugs into the engine.

The engine holds every table as a `TableHandle` (`frazil.spark.handles`) and asks it for all it needs. A format is a
folder here, `frazil/spark/<format>/`, with

- `handle.py`: a `TableHandle` of its own. It must tell what decides its rows (`identity`), how to find them again
  (`origin`), what Spark shows (`properties`, `hidden`, `capabilities`), and how it is read (`scan`). What else it
  can do it overrides: time travel, `metadata_table`, `insert`, `change_rows`, `alter`, `execute`, `publish`.
- `format.py`: a `Format`, which makes handles: of tables that were opened, created or staged, or from a key.

A scan is a description in JSON of relations (`frazil.spark.scan.scans`): files for Spark's own reader, or rows that
Python workers read. Whoever makes one registers an object by its key that answers what Spark asks later: files, rows,
statistics, with the filters it has by then.

A format that is not there is added to `_FORMATS`, to `catalog/formats.py` and to `PROVIDERS` of
`frazil.spark.definition` (for CREATE TABLE ... USING).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from frazil.catalog.formats import ICEBERG, LANCE, MIXED
from frazil.errors import Unsupported
from frazil.spark.handles import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake
    from frazil.spark.definition import Definition
    from frazil.spark.procedures.procedure import Run

_FORMATS = {
    ICEBERG: "frazil.spark.iceberg.format",
    LANCE: "frazil.spark.lance.format",
    MIXED: "frazil.spark.mixed.format",
}
"""The modules whose `FORMAT` is the format; imported when a table of it is met."""


class Format(ABC):
    """What the engine asks of a format where it has no table yet."""

    @abstractmethod
    def current(self, table: Any) -> TableHandle:
        """An opened table as it is now."""

    @abstractmethod
    def again(self, lake: Lake, key: Mapping[str, Any]) -> TableHandle:
        """The handle that a key was made of: the same rows, whatever happened since."""

    @abstractmethod
    def create(self, lake: Lake, parts: Sequence[str], new: Definition) -> TableHandle:
        """Make a table, by name in a namespace that is there, or by path (one part)."""

    @abstractmethod
    def stage(self, lake: Lake, parts: Sequence[str], new: Definition, token: str) -> TableHandle:
        """A table that is not there before its first rows are; `new.how` says if it replaces one."""

    def like(self, table: Any, new: Definition) -> Definition:
        """What replaces a table of the format, where nobody said of which format it is to be."""
        return replace(new, format=table.format)

    def connect_frame(self, scan: Any, spark: Any) -> DataFrame:
        """A scan (`table.scan(...)`) as a DataFrame of a session without a JVM in reach."""
        raise Unsupported(f"{scan!r} is not for Spark Connect", hint="send rows: createDataFrame(scan.to_arrow())")

    @property
    def procedures(self) -> Mapping[str, Run]:
        """What CALL does for its tables, by name; the parameters and results are those of `frazil.spark.procedures`."""
        return {}


def format_named(name: str) -> Format:
    """The format of that name."""
    module = _FORMATS.get(name)
    if module is None:
        raise Unsupported(f"{name} tables are not for Spark yet", hint="read them by table.scan().to_arrow()")
    found: Format = import_module(module).FORMAT
    return found


def handle_of(table: Any) -> TableHandle:
    """A table of any format, as it is now."""
    return format_named(table.format).current(table)


def handle_on(table: Any, branch: str, spark: SparkSession) -> TableHandle:
    """A table at its branch; one that the session audits stands for the main one."""
    handle = handle_of(table)
    if branch != handle.branch:
        return handle.at_branch(branch)
    return handle.audited(lambda name: spark.conf.get(name, None))
