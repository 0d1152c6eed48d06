"""CREATE TABLE with a primary key, as Spark's grammar takes it: the key becomes a property.

Spark 4.0 has no such clause, and later ones take it for a constraint. The clause is the last part of the list of
columns, or stands before USING, as Amoro has it for tables that are created from a query.

>>> keyed("CREATE TABLE lake.db.t (id INT, PRIMARY KEY (id)) USING mixed PARTITIONED BY (d)").text
"CREATE TABLE lake.db.t (id INT) USING mixed TBLPROPERTIES ('primary-key' = 'id') PARTITIONED BY (d)"
>>> keyed("CREATE TABLE t PRIMARY KEY (a, b) USING mixed TBLPROPERTIES ('x' = 'y') AS SELECT 1 AS a, 2 AS b").text
"CREATE TABLE t  USING mixed TBLPROPERTIES ('primary-key' = 'a,b', 'x' = 'y') AS SELECT 1 AS a, 2 AS b"
>>> keyed("CREATE TABLE lake.db.t (id INT) USING mixed") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.mixed.definition import PRIMARY_KEY

_TOKEN = re.compile(
    r"""\s+ | --[^\n]*(?:\n|$) | /\*.*?\*/
    | (?P<name>`(?:[^`]|``)*`) | (?P<word>\w+) | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*") | (?P<mark>.)""",
    re.DOTALL | re.VERBOSE,
)

_CHARACTERISTICS = ("NOT", "ENFORCED", "RELY", "NORELY")


@dataclass(frozen=True, slots=True)
class Keyed:
    """A statement without the clause, and the table that it makes, by the parts of its name as it is written."""

    table: tuple[str, ...]
    provider: str
    text: str


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind in ("word", "mark") else ""

    @property
    def name(self) -> str | None:
        if self.kind == "name":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None


def keyed(text: str) -> Keyed | None:
    """The statement in Spark's own words; None if it creates no table with a primary key and a provider."""
    tokens = _tokens(text)
    words = [token.word for token in tokens]
    at = _after_head(words)
    table, at = _names(tokens, at)
    clause = _clause(words, at)
    using = _find(words, "USING", at)
    if not table or clause is None or using is None or using + 1 >= len(tokens):
        return None
    start, first, last = clause
    names = [token.name for token in tokens[first:last] if token.word != ","]
    if not names or None in names or any("," in (name or "") or "'" in (name or "") for name in names):
        return None
    provider = tokens[using + 1]
    written = f"'{PRIMARY_KEY}' = '{','.join(map(str, names))}'"
    changes = [(tokens[start].start, tokens[_end(words, last)].end, ""), _place(tokens, words, using, written)]
    return Keyed(table, provider.name or "", _changed(text, changes))


def _tokens(text: str) -> list[_Token]:
    found = (match for match in _TOKEN.finditer(text) if match.lastgroup is not None)
    return [_Token(match.lastgroup or "", match[0], match.start(), match.end()) for match in found]


def _after_head(words: Sequence[str]) -> int:
    """Where the table's name begins; the end if it is another statement."""
    at = 0
    for heads in (("CREATE", "OR", "REPLACE", "TABLE"), ("CREATE", "TABLE"), ("REPLACE", "TABLE")):
        if tuple(words[: len(heads)]) == heads:
            at = len(heads)
            break
    else:
        return len(words)
    return at + 3 if tuple(words[at : at + 3]) == ("IF", "NOT", "EXISTS") else at


def _names(tokens: Sequence[_Token], at: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    while at < len(tokens) and tokens[at].name is not None:
        names.append(tokens[at].name or "")
        at += 1
        if at >= len(tokens) or tokens[at].text != ".":
            break
        at += 1
    return tuple(names), at


def _clause(words: Sequence[str], at: int) -> tuple[int, int, int] | None:
    """Where the clause begins, with the comma before it; where its first name is; where its last bracket is."""
    depth = 0
    for place in range(at, len(words) - 2):
        if words[place] == "(":
            depth += 1
        elif words[place] == ")":
            depth -= 1
        elif depth == 0 and words[place] in ("USING", "AS", "SELECT"):
            return None
        elif words[place : place + 3] == ["PRIMARY", "KEY", "("] and depth <= 1:
            start = place - 2 if words[place - 2] == "CONSTRAINT" else place
            if depth == 1:
                start -= 1
                if words[start] != ",":
                    return None
            last = _find(words, ")", place)
            return None if last is None else (start, place + 3, last)
    return None


def _end(words: Sequence[str], at: int) -> int:
    """The last word of the clause: what it may say besides means nothing here."""
    while at + 1 < len(words) and words[at + 1] in _CHARACTERISTICS:
        at += 1
    return at


def _find(words: Sequence[str], word: str, at: int) -> int | None:
    return next((place for place in range(at, len(words)) if words[place] == word), None)


def _place(tokens: Sequence[_Token], words: Sequence[str], using: int, written: str) -> tuple[int, int, str]:
    """Where the property goes: into the list of properties, or behind the provider."""
    stop = next((place for place in range(using, len(words)) if words[place] in ("AS", "SELECT", "WITH")), len(words))
    listed = next((place for place in range(using, stop) if words[place : place + 2] == ["TBLPROPERTIES", "("]), None)
    if listed is not None:
        spot = tokens[listed + 1].end
        return spot, spot, f"{written}, "
    spot = tokens[using + 1].end
    return spot, spot, f" TBLPROPERTIES ({written})"


def _changed(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text
