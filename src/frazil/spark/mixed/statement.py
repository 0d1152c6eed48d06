"""CREATE TABLE with a primary key, as Spark's grammar takes it: the key becomes a property.

Spark 4.0 has no such clause, and later ones take it for a constraint. The clause is a part of the list of columns, or
of one column, or stands before USING, as Amoro has it for tables that are created from a query.

>>> keyed("CREATE TABLE lake.db.t (id INT, PRIMARY KEY (id)) USING mixed PARTITIONED BY (d)").text
"CREATE TABLE lake.db.t (id INT) USING mixed TBLPROPERTIES ('primary-key' = 'id') PARTITIONED BY (d)"
>>> keyed("CREATE TABLE lake.db.t (id INT PRIMARY KEY, d DATE) USING mixed").text
"CREATE TABLE lake.db.t (id INT, d DATE) USING mixed TBLPROPERTIES ('primary-key' = 'id')"
>>> keyed("CREATE TABLE t PRIMARY KEY (a, b) USING mixed TBLPROPERTIES ('x' = 'y') AS SELECT 1 AS a, 2 AS b").text
"CREATE TABLE t  USING mixed TBLPROPERTIES ('primary-key' = 'a,b', 'x' = 'y') AS SELECT 1 AS a, 2 AS b"
>>> keyed("CREATE TABLE lake.db.t (id INT) USING mixed") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from frazil.mixed.definition import PRIMARY_KEY

_TOKEN = re.compile(
    r"""\s+ | --[^\n]*(?:\n|$) | /\*.*?\*/
    | (?P<name>`(?:[^`]|``)*`) | (?P<word>\w+) | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*") | (?P<mark>.)""",
    re.DOTALL | re.VERBOSE,
)

_CHARACTERISTICS = (("NOT", "ENFORCED"), ("ENFORCED",), ("RELY",), ("NORELY",))
_NESTING = ("STRUCT", "MAP", "ARRAY")


@dataclass(frozen=True, slots=True)
class Keyed:
    """A statement without the clause, and the table that it makes, by the parts of its name as it is written."""

    table: tuple[str, ...]
    provider: str
    text: str
    is_keyed_twice: bool = False
    """Whether there is another clause, which nobody can mean."""


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


@dataclass(frozen=True, slots=True)
class _Clause:
    names: tuple[str | None, ...]
    start: int
    end: int


def keyed(text: str) -> Keyed | None:
    """The statement in Spark's own words; None if it creates no table with a primary key and a provider."""
    tokens = _tokens(text)
    words = [token.word for token in tokens]
    table, at = _names(tokens, _after_head(words))
    levels = _levels(words)
    using = next((n for n in range(at, len(words)) if levels[n] == 0 and words[n] in ("USING", "AS", "SELECT")), None)
    if not table or using is None or words[using] != "USING" or using + 1 >= len(tokens):
        return None
    clauses = [*_in_list(tokens, words, levels, at, using), *_before(tokens, words, levels, at, using)]
    if not clauses:
        return None
    [clause, *more] = clauses
    names = [name for name in clause.names if name is not None and "," not in name and "'" not in name]
    if not names or len(names) < len(clause.names):
        return None
    written = f"'{PRIMARY_KEY}' = '{','.join(names)}'"
    changes = [(clause.start, clause.end, ""), _place(tokens, words, using, written)]
    return Keyed(table, tokens[using + 1].name or "", _changed(text, changes), bool(more))


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


def _levels(words: Sequence[str]) -> list[int]:
    """In how many brackets each word is; those of types count."""
    levels: list[int] = []
    opened: list[str] = []
    for place, word in enumerate(words):
        if word == ")":
            while opened and opened.pop() != "(":
                pass
        elif word == ">" and opened[-1:] == ["<"]:
            opened.pop()
        levels.append(len(opened))
        if word == "(" or (word == "<" and place > 0 and words[place - 1] in _NESTING):
            opened.append(word)
    return levels


def _in_list(
    tokens: Sequence[_Token], words: Sequence[str], levels: Sequence[int], at: int, using: int
) -> Iterator[_Clause]:
    """Clauses in the list of columns, if there is one: parts of their own, or of a column."""
    if words[at] != "(":
        return
    stop = next(n for n in range(at + 1, using + 1) if levels[n] == 0)
    marks = [at, *(n for n in range(at + 1, stop) if levels[n] == 1 and words[n] == ","), stop]
    for before, after in pairwise(marks):
        own = _named(words, before + 1)
        if words[own : own + 3] == ["PRIMARY", "KEY", "("]:
            last = _find(words, ")", own)
            if last is None or _end(words, last) + 1 != after:
                continue
            if words[before] == ",":
                start, end = tokens[before].start, tokens[after - 1].end
            elif words[after] == ",":
                start, end = tokens[before + 1].start, tokens[after + 1].start
            else:  # the columns are a query's
                start, end = tokens[before].start, tokens[after].end
            yield _Clause(_listed(tokens, own + 3, last), start, end)
            continue
        for place in range(before + 3, after - 1):  # behind a name and a type
            if levels[place] == 1 and words[place : place + 2] == ["PRIMARY", "KEY"] and words[place + 2] != "(":
                first = place - 2 if place - 2 > before + 2 and words[place - 2] == "CONSTRAINT" else place
                end = tokens[_end(words, place + 1)].end
                yield _Clause((tokens[before + 1].name,), tokens[first - 1].end, end)


def _before(
    tokens: Sequence[_Token], words: Sequence[str], levels: Sequence[int], at: int, using: int
) -> Iterator[_Clause]:
    """Clauses between the list of columns and USING."""
    for place in range(at, using):
        if levels[place] == 0 and words[place : place + 3] == ["PRIMARY", "KEY", "("]:
            last = _find(words, ")", place)
            if last is not None and last < using:
                first = place - 2 if place - 2 >= at and words[place - 2] == "CONSTRAINT" else place
                names = _listed(tokens, place + 3, last)
                yield _Clause(names, tokens[first].start, tokens[_end(words, last)].end)


def _named(words: Sequence[str], at: int) -> int:
    """Where a clause itself begins, behind the name that it may have."""
    return at + 2 if words[at] == "CONSTRAINT" else at


def _listed(tokens: Sequence[_Token], first: int, last: int) -> tuple[str | None, ...]:
    return tuple(token.name for token in tokens[first:last] if token.word != ",")


def _end(words: Sequence[str], at: int) -> int:
    """The last word of the clause: what it may say besides means nothing here."""
    while found := next((one for one in _CHARACTERISTICS if tuple(words[at + 1 : at + 1 + len(one)]) == one), None):
        at += len(found)
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
