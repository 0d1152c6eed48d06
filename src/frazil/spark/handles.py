"""Tables as Spark holds them: a key that says which rows, and what is known about it on this side.

Two handles with one key have the same rows, so Spark's caches and its reuse of exchanges may go by the key. A
DataFrame can be older than anything kept here: a handle that was let go is made again from what its key names, so its
rows stay the same.

`TableHandle` is all that the engine asks of a table. What a format has no way to do it leaves as it is here, where it
is refused; see `frazil.spark.formats` for how a format plugs in.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

from frazil import ambient
from frazil.errors import InvalidArgument, NotFound, Unsupported
from frazil.model.schema import Schema
from frazil.recent import Recent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.lake import Lake
    from frazil.spark import grammar
    from frazil.spark.bridge import Bridge
    from frazil.spark.changes.command import Command
    from frazil.spark.scan.contents import OnlyFiles
    from frazil.spark.types import Dialect

MAIN = "main"
"""The branch that is the table itself, in every format."""

_KEPT = 64
_INTEGER = re.compile(r"-?\d{1,19}")
Kind = Literal["table", "metadata", "staged"]
CommandKind = Literal["delete", "update", "merge"]
Conf = Callable[[str], str | None]
"""Settings of a session by name."""

Change = Mapping[str, Any]
"""One change of ALTER TABLE, as FrazilChange tells it."""


@dataclass(frozen=True)
class Asked:
    """What a query wants of a table: columns, and those that it will probably compare.

    `session` is what the session says: `scan`, how to read; `byName`, whether Spark's reader goes by names; `columns`,
    whether its optimizer looks at statistics of columns.
    """

    columns: Sequence[str]
    session: Mapping[str, Any]
    filtered: Sequence[str] = ()


@dataclass(frozen=True)
class TableHandle(ABC):
    """A table at a state of its history. `schema` is what Spark was told."""

    format: ClassVar[str]

    table: Any
    schema: Schema
    _: KW_ONLY
    kind: Kind = "table"
    branch: str | None = MAIN
    """Where rows are written, None if nowhere."""
    metadata_name: str | None = None
    """Which metadata table, of a handle of that kind."""
    pinned: bool = False
    """Whether a state was asked for, by whatever spelling: options must not choose another."""
    options: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    """Tells staged tables apart: they are not there yet."""

    @property
    def name(self) -> str:
        found: str = self.table.identifier
        return found

    @property
    def parts(self) -> list[str]:
        """The name in the lake: the parts of a catalog's name, or a location."""
        return [self.name] if "/" in self.name else self.name.split(".")

    # Which rows.

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What decides the rows, beside what every handle has; values of JSON."""

    @abstractmethod
    def origin(self) -> dict[str, Any]:
        """What more `Format.again` needs to make the handle again from its key; values of JSON."""

    @property
    def rows(self) -> str:
        """What decides the rows: equal for tables that differ only in properties and the like."""
        return json.dumps(self._rows(), separators=(",", ":"))

    @property
    def key(self) -> str:
        """What decides the rows, and where to find them again."""
        return json.dumps({**self._rows(), **self.origin()}, separators=(",", ":"))

    def _rows(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "name": self.name,
            **self.identity(),
            "kind": self.kind,
            "branch": self.branch,
            "of": self.metadata_name,
            "pinned": self.pinned,
            "token": self.token,
        }

    def with_options(self, options: Mapping[str, str]) -> Self:
        """The handle for one read or write."""
        return replace(self, options=dict(options))

    def with_columns_of(self, other: Self) -> Self:
        """This state with the columns of another: those it lacks are null."""
        return replace(self, schema=other.schema)

    # What Spark is told.

    @property
    @abstractmethod
    def id(self) -> str | None:
        """What the table is known by wherever it goes."""

    @property
    @abstractmethod
    def version(self) -> str | None:
        """The state of the table; None if it never had rows."""

    @abstractmethod
    def properties(self) -> dict[str, str]:
        """The table's properties, with what is shown among them."""

    def partitioning(self) -> list[list[Any]]:
        """Transforms as FrazilTable reads them, such as `["bucket", "id", 16]`."""
        return []

    def hidden(self, dialect: Dialect) -> list[tuple[str, str]]:
        """Metadata columns: names and Spark's types as JSON. Rows are changed by `_file` and `_pos`."""
        return []

    def capabilities(self, dialect: Dialect) -> Sequence[str]:
        """Names of Spark's TableCapability; see `frazil.spark.describe`."""
        return ("BATCH_READ",)

    @property
    def metadata_columns(self) -> Collection[str]:
        """Names that are read on request."""
        return ()

    @property
    def row_count(self) -> int:
        """About how many rows there are; 0 if nobody knows."""
        return 0

    # Time travel, each without a way to write but where a branch is asked for.

    def at(self, version: int | None, ref: str | None, as_of: int | str | datetime | None) -> Self:
        """As the arguments of `table.scan` say; at most one is given."""
        self._refuse("has no earlier states to read")

    def at_version(self, version: str) -> Self:
        """VERSION AS OF: a number, or else a branch or tag of that name."""
        self._refuse("has no versions to read")

    def at_number(self, number: int) -> Self:
        """A state by its number."""
        return self.at_version(str(number))

    def at_millis(self, millis: int) -> Self:
        """TIMESTAMP AS OF, in milliseconds since 1970."""
        self._refuse("has no earlier states to read")

    def at_ref(self, name: str) -> Self:
        """A branch, which can be written to, or a tag."""
        self._refuse("has no branches and tags")

    def at_branch(self, name: str) -> Self:
        """A branch; a tag of that name is refused."""
        found = self.at_ref(name)
        if found.branch is None:
            raise InvalidArgument(
                f"{name!r} is a tag of {self.name}, not a branch", hint=f"write to a branch, or read the tag {name}"
            )
        return found

    def at_tag(self, name: str) -> Self:
        """A tag; a branch of that name is refused."""
        found = self.at_ref(name)
        if found.branch is not None:
            raise InvalidArgument(f"{name!r} is a branch of {self.name}, not a tag", hint=f"ask for branch {name}")
        return found

    def audited(self, conf: Conf) -> Self:
        """At the branch that the session audits, if there is one, in the place of the main one."""
        return self

    def metadata_table(self, name: str) -> Self | None:
        """A table about the table; None if there is none of that name (in small letters)."""
        return None

    # Rows.

    @abstractmethod
    def scan(self, bridge: Bridge, asked: Asked, jsession: Any) -> Any:
        """The plan that stands for the table in a query: the JSON that FrazilPlan makes it of, or a LogicalPlan."""

    def aggregate(self, aggregates: Sequence[Sequence[Any]], filters: str) -> bytes | None:
        """COUNT, MIN and MAX from metadata, as pairs of function and column; None if the rows must be read."""
        return None

    def insert(self, bridge: Bridge, mode: str, conditions: str, options: Mapping[str, str], rows: DataFrame) -> None:
        """Append, or overwrite: all (`truncate`), what matches (`overwrite`), or partitions rows go to (`dynamic`)."""
        self._refuse("cannot be written to from Spark")

    def check_partitions(self, given: Sequence[str]) -> None:
        """Refuse a partitionBy() that is not the table's."""
        if given:
            raise InvalidArgument(f"{self.name} is not partitioned by {', '.join(given)}", hint="leave partitionBy out")

    def truncate(self, spark: SparkSession) -> None:
        """Delete all rows; those too that others add meanwhile."""
        self._refuse("cannot be truncated from Spark")

    def drop_partitions(self, wanted: Sequence[Mapping[str, str | None]], *, if_exists: bool) -> None:
        """ALTER TABLE ... DROP PARTITION: each is a value, as text, for some partition columns."""
        self._refuse("drops no partitions: DELETE their rows")

    def copies(self, kind: CommandKind) -> bool:
        """Whether a command writes files with changed rows anew."""
        return False

    @property
    def changes_by_key(self) -> bool:
        """Whether a command says which rows go by their keys, not by where they are."""
        return False

    def change_rows(self, command: Command) -> Any:
        """DELETE, UPDATE or MERGE; what changed."""
        self._refuse(f"has no {command.kind.upper()}")

    @property
    def replaces_by_key(self) -> bool:
        """Whether rows that are appended take the place of those with their keys."""
        return False

    def ingest(self, bridge: Bridge, options: Mapping[str, str], rows: DataFrame) -> None:
        """Apply change data: the option `operation` names the column that says what happened to each row."""
        self._refuse("takes no change data")

    def last_batch(self, options: Mapping[str, str], query: str) -> int:
        """The newest batch of a streaming query that is in the table, -1 if there is none."""
        self._refuse("takes no streams")

    # Streams from the table: rows that were appended to a store, an Iceberg table, file by file.

    def stream_store(self) -> tuple[Any, frozenset[str]]:
        """The store, and the operations whose snapshots are passed over."""
        self._refuse("gives no streams")

    def stream_part(self, store: Any, snapshot: Any, files: OnlyFiles | None, options: Mapping[str, str]) -> Self:
        """Some files of a snapshot of the store; without a snapshot there are no rows."""
        self._refuse("gives no streams")

    def describe_parts(self, bridge: Bridge, parts: Sequence[Self], asked: Asked, jsession: Any) -> Any:
        """The plan that has the rows of parts."""
        self._refuse("gives no streams")

    # The table itself.

    def alter(self, bridge: Bridge, changes: Sequence[Change]) -> TableHandle:
        """ALTER TABLE, all changes of a statement at once; the table as it is then."""
        self._refuse("cannot be altered")

    def evolved(self, bridge: Bridge, changes: Sequence[Change]) -> TableHandle:
        """The table with columns that a command WITH SCHEMA EVOLUTION needs."""
        self._refuse("takes no columns from a command")

    def execute(self, bridge: Bridge, change: grammar.Change | grammar.AlterColumn) -> None:
        """A statement of our own grammar."""
        self._refuse(f"has no {type(change).__name__}")

    def publish(self, origin: Mapping[str, Any]) -> None:
        """Make a staged table visible, if the commit of its rows has not done so; `origin` is as it was staged."""
        self._refuse("cannot be staged")

    def abandon(self) -> None:  # noqa: B027 - most leave nothing behind
        """Forget a staged table: it was never there."""

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(f"{self.name} is a {self.format} table, which {what}", hint="see the table's own methods")


def number_of(text: str) -> int | None:
    """The number that a text is; None if it is none.

    >>> number_of("12"), number_of("v1.2")
    (12, None)
    """
    return int(text) if _INTEGER.fullmatch(text) else None


class Held:
    """A table that somebody brings along, with every handle that was given out for it, by key."""

    def __init__(self, make: Callable[[], TableHandle]) -> None:
        self._make = make
        self.given: dict[str, TableHandle] = {}

    def now(self) -> TableHandle:
        """The table as it is now."""
        handle = self._make()
        self.given[handle.key] = handle
        return handle


class Tables:
    """The handles of one lake in one session, by key; safe to share between threads."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._recent: Recent[str, TableHandle] = Recent(_KEPT)
        self._staged: dict[str, TableHandle] = {}
        self._held: dict[str, Held] = {}

    @contextmanager
    def held(self, make: Callable[[], TableHandle]) -> Iterator[str]:
        """A name for a table that need not be in the lake, for as long as it is used; `make` gives it as it is now."""
        name = str(ambient.new_uuid())
        self._held[name] = Held(make)
        try:
            yield name
        finally:
            del self._held[name]

    def named(self, name: str) -> TableHandle | None:
        """The table that is held under a name, as it is now."""
        held = self._held.get(name)
        return None if held is None else held.now()

    def keep(self, name: str, handle: TableHandle) -> None:
        """Keep a handle for as long as the table is held that it was made from."""
        self._held[name].given[handle.key] = handle

    def put(self, handle: TableHandle) -> str:
        """Keep a handle; its key."""
        key = handle.key
        if handle.kind == "staged":
            self._staged[key] = handle
        else:
            self._recent.put(key, handle)
        return key

    def get(self, key: str) -> TableHandle:
        """The handle of that key."""
        held = (held.given.get(key) for held in list(self._held.values()))
        found = self._staged.get(key) or next(filter(None, held), None) or self._recent.get(key)
        if found is None:
            found = self._again(key)
            self.put(found)
        return found

    def forget(self, key: str) -> TableHandle | None:
        """Let go of a staged table."""
        return self._staged.pop(key, None)

    def _again(self, key: str) -> TableHandle:
        from frazil.spark.formats import format_named

        parts: dict[str, Any] = json.loads(key)
        if parts["kind"] == "staged":
            raise NotFound(f"table {parts['name']} is staged no more", hint="run the statement again")
        return format_named(parts["format"]).again(self._lake, parts)
