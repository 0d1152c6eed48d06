"""Commands beside a plain model of them: what each takes from the rows it sees, and what it adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

Values = tuple[Any, ...]
"""id, v, part."""
Rows = Mapping[int, Values]
"""Rows by a number that is theirs alone."""
_numbers = count()


@dataclass(frozen=True)
class Delta:
    """What a command does to the rows that it saw."""

    gone: frozenset[int]
    come: tuple[Values, ...]

    def on(self, rows: Rows) -> Rows:
        kept = {number: row for number, row in rows.items() if number not in self.gone}
        return {**kept, **numbered(self.come)}


@dataclass(frozen=True)
class Command:
    """A statement about `{t}`, and its model."""

    text: str
    delta: Callable[[Rows], Delta]

    def after(self, rows: Rows) -> Rows:
        return self.delta(rows).on(rows)


def numbered(rows: Iterable[Values]) -> Rows:
    return {next(_numbers): row for row in rows}


def counted(rows: Rows) -> Counter[Values]:
    return Counter(rows.values())


def append(*rows: Values) -> Command:
    values = ", ".join(f"({id_}L, {v}L, {part})" for id_, v, part in rows)
    return Command(f"INSERT INTO {{t}} VALUES {values}", lambda seen: Delta(frozenset(), rows))


def delete(where: str, matches: Callable[[Values], bool]) -> Command:
    def delta(rows: Rows) -> Delta:
        return Delta(frozenset(number for number, row in rows.items() if matches(row)), ())

    return Command(f"DELETE FROM {{t}} WHERE {where}", delta)


def update(change: str, where: str, matches: Callable[[Values], bool], made: Callable[[Values], Values]) -> Command:
    def delta(rows: Rows) -> Delta:
        found = {number: row for number, row in rows.items() if matches(row)}
        return Delta(frozenset(found), tuple(made(row) for row in found.values()))

    return Command(f"UPDATE {{t}} SET {change} WHERE {where}", delta)


def merge(*source: Values, on: str = "t.id = s.id", part: int | None = None) -> Command:
    """An upsert: a match adds the source's `v` to the row's. With `part`, only rows of that one match."""
    values = ", ".join(f"({id_}L, {v}L, {at})" for id_, v, at in source)
    text = (
        f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {values} AS s(id, v, part)) s ON {on}"
        " WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
    )

    def delta(rows: Rows) -> Delta:
        seen = {number: row for number, row in rows.items() if part is None or row[2] == part}
        changed = {
            number: (row[0], row[1] + given[1], row[2])
            for number, row in seen.items()
            for given in source
            if row[0] == given[0]
        }
        known = {row[0] for row in seen.values()}
        return Delta(frozenset(changed), (*changed.values(), *(row for row in source if row[0] not in known)))

    return Command(text, delta)


def replace_where(where: str, matches: Callable[[Values], bool], *rows: Values) -> Command:
    values = ", ".join(f"({id_}L, {v}L, {part})" for id_, v, part in rows)

    def delta(seen: Rows) -> Delta:
        return Delta(frozenset(number for number, row in seen.items() if matches(row)), rows)

    return Command(f"INSERT INTO {{t}} REPLACE WHERE {where} VALUES {values}", delta)


def truncate() -> Command:
    return Command("TRUNCATE TABLE {t}", lambda rows: Delta(frozenset(rows), ()))


def insert_missing(*source: Values) -> Command:
    """A MERGE that inserts rows of ids that there are none of. It changes no row, and looks at those it finds."""
    values = ", ".join(f"({id_}L, {v}L, {at})" for id_, v, at in source)
    text = (
        f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {values} AS s(id, v, part)) s ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT *"
    )

    def delta(rows: Rows) -> Delta:
        known = {row[0] for row in rows.values()}
        return Delta(frozenset(), tuple(row for row in source if row[0] not in known))

    return Command(text, delta)
