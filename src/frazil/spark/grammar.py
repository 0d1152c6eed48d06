"""The statements of Iceberg that Spark's grammar lacks. They are read only after Spark's own parser refused the text.

>>> parse("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(16, id) AS shard")
Statement(table=('lake', 'db', 't'), change=AddPartitionField(term='bucket(16, id)', name='shard'))
>>> parse("ALTER TABLE t CREATE TAG IF NOT EXISTS `v 1` AS OF VERSION 7 RETAIN 2 DAYS").change.max_ref_age_ms
172800000
>>> parse("SELEC 1") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from frazil.errors import InvalidName
from frazil.spark.describe import quoted_name

_TOKEN = re.compile(
    r"""\s*(?:--[^\n]*(?:\n|$)|/\*.*?\*/|(?P<name>`(?:[^`]|``)*`)|(?P<word>\w+)|(?P<mark>[(),.;:<>\-])
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))""",
    re.DOTALL | re.VERBOSE,
)
_UNIT_MS = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000}
RefKind = Literal["branch", "tag"]


class NotOurs(Exception):
    """The text is no statement of this grammar."""


class BadStatement(Exception):
    """The text begins like a statement of this grammar about a table, and goes on otherwise."""

    table: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """ADD PARTITION FIELD."""

    term: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """DROP PARTITION FIELD, by name or term."""

    term: str


@dataclass(frozen=True, slots=True)
class ReplacePartitionField:
    """REPLACE PARTITION FIELD ... WITH."""

    old: str
    term: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """WRITE ... ORDERED BY, DISTRIBUTED BY PARTITION, UNORDERED. `distribution` None leaves it as it is."""

    distribution: str | None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetIdentifierFields:
    """SET IDENTIFIER FIELDS."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropIdentifierFields:
    """DROP IDENTIFIER FIELDS."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutRef:
    """CREATE, REPLACE, or CREATE OR REPLACE a branch or tag."""

    kind: RefKind
    name: str
    create: bool
    replace: bool
    if_not_exists: bool = False
    snapshot_id: int | None = None
    max_ref_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DropRef:
    """DROP BRANCH or TAG."""

    kind: RefKind
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumn:
    """ALTER COLUMN ... TYPE ... COMMENT ...: Spark's grammar takes one of both. Type and comment are SQL texts."""

    path: tuple[str, ...]
    type: str
    comment: str


Change = (
    AddPartitionField
    | DropPartitionField
    | ReplacePartitionField
    | WriteOrder
    | SetIdentifierFields
    | DropIdentifierFields
    | PutRef
    | DropRef
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A change of a table, by the parts of its name as it is written."""

    table: tuple[str, ...]
    change: Change | AlterColumn


def parse(text: str) -> Statement | None:
    """The statement, None if it is not of this grammar; BadStatement if it is one gone wrong."""
    try:
        return _Parser(text).statement()
    except NotOurs:
        return None


def table_parts(text: str) -> tuple[str, ...]:
    """The parts of a name written as SQL: `db`.`odd name`.

    >>> table_parts("db.`odd.name`")
    ('db', 'odd.name')
    """
    try:
        parser = _Parser(text)
        names = parser._names()
    except (BadStatement, NotOurs):
        raise InvalidName(f"{text!r} is not the name of a table", hint="write it as db.t") from None
    if parser._next < len(parser._tokens):
        raise InvalidName(f"{text!r} is not the name of a table", hint="write it as db.t")
    return names


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None:
                raise NotOurs
            if found.lastgroup is not None:
                self._tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()

    # Tokens.

    def _peek(self, ahead: int = 0) -> str:
        at = self._next + ahead
        kind, text = self._tokens[at] if at < len(self._tokens) else ("end", "")
        return text if kind == "name" else text.upper()

    def _accept(self, *words: str) -> bool:
        if any(self._peek(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._next += len(words)
        return True

    def _expect(self, *words: str) -> None:
        if not self._accept(*words):
            raise self._wrong(" ".join(words))

    def _wrong(self, expected: str) -> BadStatement:
        seen = f"'{self._tokens[self._next][1]}'" if self._next < len(self._tokens) else "end of input"
        return BadStatement(f"Syntax error at or near {seen}: expected {expected}")

    def _name(self, what: str = "a name") -> str:
        kind, text = self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")
        if kind not in ("name", "word"):
            raise self._wrong(what)
        self._next += 1
        return text[1:-1].replace("``", "`") if kind == "name" else text

    def _names(self) -> tuple[str, ...]:
        parts = [self._name()]
        while self._accept("."):
            parts.append(self._name())
        return tuple(parts)

    def _number(self) -> int:
        text = self._peek()
        if not (text.isascii() and text.isdecimal()):
            raise self._wrong("a number")
        self._next += 1
        return int(text)

    # Rules.

    def statement(self) -> Statement:
        if not self._accept("ALTER", "TABLE"):
            raise NotOurs
        try:
            table = self._names()
        except BadStatement:
            raise NotOurs from None
        rule = self._rule()
        if rule is None:
            raise NotOurs
        try:
            change = rule()
            self._accept(";")
            if self._next < len(self._tokens):
                raise self._wrong("the end")
        except BadStatement as error:
            error.table = table
            raise
        return Statement(table, change)

    def _rule(self) -> Callable[[], Change | AlterColumn] | None:
        for words, rule in (
            (("ADD", "PARTITION", "FIELD"), self._add_field),
            (("DROP", "PARTITION", "FIELD"), self._drop_field),
            (("REPLACE", "PARTITION", "FIELD"), self._replace_field),
            (("WRITE",), self._write),
            (("SET", "IDENTIFIER", "FIELDS"), self._set_identifiers),
            (("DROP", "IDENTIFIER", "FIELDS"), self._drop_identifiers),
            (("DROP", "BRANCH"), lambda: self._drop_ref("branch")),
            (("DROP", "TAG"), lambda: self._drop_ref("tag")),
            (("ALTER", "COLUMN"), self._alter_column),
            (("CHANGE", "COLUMN"), self._alter_column),
        ):
            if self._accept(*words):
                return rule
        create = self._accept("CREATE")
        replace = self._accept("OR", "REPLACE") if create else self._accept("REPLACE")
        kind: RefKind | None = "branch" if self._accept("BRANCH") else "tag" if self._accept("TAG") else None
        if kind is None or not (create or replace):
            return None
        found: RefKind = kind
        return lambda: self._put_ref(found, create, replace)

    def _add_field(self) -> AddPartitionField:
        return AddPartitionField(self._term(), self._alias())

    def _drop_field(self) -> DropPartitionField:
        return DropPartitionField(self._term())

    def _replace_field(self) -> ReplacePartitionField:
        old = self._term()
        self._expect("WITH")
        return ReplacePartitionField(old, self._term(), self._alias())

    def _alias(self) -> str | None:
        return self._name() if self._accept("AS") else None

    def _term(self) -> str:
        """A column, or a transform with its arguments, as `frazil.model.terms` reads it."""
        names = self._names()
        if len(names) > 1 or not self._accept("("):
            return ".".join(map(quoted_name, names))
        arguments = [self._argument()]
        while self._accept(","):
            arguments.append(self._argument())
        self._expect(")")
        return f"{names[0]}({', '.join(arguments)})"

    def _argument(self) -> str:
        if self._peek().isdecimal():
            return str(self._number())
        return ".".join(map(quoted_name, self._names()))

    def _write(self) -> WriteOrder:
        distribution: str | None = None
        keys: tuple[str, ...] = ()
        ordered = distributed = False
        while self._next < len(self._tokens) and self._peek() != ";":
            if not distributed and self._accept("DISTRIBUTED", "BY", "PARTITION"):
                distributed = True
                distribution = "hash"
            elif not ordered and self._accept("UNORDERED"):
                ordered = True
                distribution = "hash" if distributed else "none"
            elif not ordered and self._accept("LOCALLY", "ORDERED", "BY"):
                ordered = True
                keys = self._keys()
            elif not ordered and self._accept("ORDERED", "BY"):
                ordered = True
                keys = self._keys()
                distribution = "hash" if distributed else "range"
            else:
                raise self._wrong("[LOCALLY] ORDERED BY, DISTRIBUTED BY PARTITION or UNORDERED")
        if not (ordered or distributed):
            raise self._wrong("[LOCALLY] ORDERED BY, DISTRIBUTED BY PARTITION or UNORDERED")
        return WriteOrder("hash" if distributed else distribution, keys)

    def _keys(self) -> tuple[str, ...]:
        inside = self._accept("(")
        keys = [self._key()]
        while self._accept(","):
            keys.append(self._key())
        if inside:
            self._expect(")")
        return tuple(keys)

    def _key(self) -> str:
        text = self._term()
        for word in ("ASC", "DESC"):
            if self._accept(word):
                text += f" {word}"
        for words in (("NULLS", "FIRST"), ("NULLS", "LAST")):
            if self._accept(*words):
                text += f" {' '.join(words)}"
        return text

    def _set_identifiers(self) -> SetIdentifierFields:
        return SetIdentifierFields(self._fields())

    def _drop_identifiers(self) -> DropIdentifierFields:
        return DropIdentifierFields(self._fields())

    def _fields(self) -> tuple[str, ...]:
        names = [".".join(self._names())]
        while self._accept(","):
            names.append(".".join(self._names()))
        return tuple(names)

    def _drop_ref(self, kind: RefKind) -> DropRef:
        if_exists = self._accept("IF", "EXISTS")
        return DropRef(kind, self._name(f"the name of a {kind}"), if_exists)

    def _put_ref(self, kind: RefKind, create: bool, replace: bool) -> PutRef:
        if_not_exists = not replace and self._accept("IF", "NOT", "EXISTS")
        name = self._name(f"the name of a {kind}")
        snapshot_id = self._number() if self._accept("AS", "OF", "VERSION") else None
        max_ref_age = self._age() if self._accept("RETAIN") else None
        count = snapshot_age = None
        if kind == "branch" and self._accept("WITH", "SNAPSHOT", "RETENTION"):
            if self._peek(1) == "SNAPSHOTS":
                count = self._number()
                self._expect("SNAPSHOTS")
            if count is None or self._peek().isdecimal():
                snapshot_age = self._age()
        return PutRef(kind, name, create, replace, if_not_exists, snapshot_id, max_ref_age, count, snapshot_age)

    def _alter_column(self) -> AlterColumn:
        try:
            path = self._names()
            self._expect("TYPE")
        except BadStatement:
            raise NotOurs from None
        start, depth = self._next, 0
        while self._next < len(self._tokens) and self._peek() != "COMMENT":
            text = self._tokens[self._next][1]
            depth += sum(map(text.count, "(<")) - sum(map(text.count, ")>"))
            if text == "," and not depth:  # several columns
                raise NotOurs
            self._next += 1
        type_ = " ".join(text for _, text in self._tokens[start : self._next])
        if not (type_ and self._accept("COMMENT") and self._next < len(self._tokens)):
            raise NotOurs
        kind, comment = self._tokens[self._next]
        if kind != "text":
            raise self._wrong("a text")
        self._next += 1
        return AlterColumn(path, type_, comment)

    def _age(self) -> int:
        number = self._number()
        unit = _UNIT_MS.get(self._peek()) or _UNIT_MS.get(f"{self._peek()}S")
        if unit is None:
            raise self._wrong("DAYS, HOURS or MINUTES")
        self._next += 1
        return number * unit
