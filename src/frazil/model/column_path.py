"""Column paths: `a.b` as text, or a tuple of names where a name itself has a dot.

`list.x` is short for `list.element.x`, and `map.x` for `map.value.x`.
"""

from __future__ import annotations

from collections.abc import Iterable

from frazil.model.schema import Schema
from frazil.model.types import ListType, MapType, NestedField, children

Path = str | tuple[str, ...]


def path_text(path: Path) -> str:
    """The path as a person reads it.

    >>> path_text(("a", "b"))
    'a.b'
    """
    return path if isinstance(path, str) else ".".join(path)


def split_last(path: Path) -> tuple[Path, str]:
    """What holds the column (empty for the table), and the column's own name.

    >>> split_last("a.b.c"), split_last(("a.b",))
    (('a.b', 'c'), ((), 'a.b'))
    """
    if isinstance(path, tuple):
        return path[:-1], "".join(path[-1:])
    parent, _, name = path.rpartition(".")
    return parent, name


def fold(name: str, case_sensitive: bool) -> str:
    """The form in which names are compared."""
    return name if case_sensitive else name.lower()


def named(fields: Iterable[NestedField], name: str, case_sensitive: bool) -> NestedField | None:
    """The field of that name: the exact one, or else one that differs only in case if that is allowed."""
    nearest = None
    for column in fields:
        if column.name == name:
            return column
        if nearest is None and not case_sensitive and column.name.lower() == name.lower():
            nearest = column
    return nearest


def fields_below(schema: Schema, column: NestedField | None, name: str) -> tuple[NestedField, ...]:
    """The fields among which a path looks for its next name; `column` None is the table."""
    if column is None:
        return schema.fields
    inner = children(column.type)
    if isinstance(column.type, ListType | MapType) and named(inner, name, True) is None:
        return children(inner[-1].type)
    return inner


def find_path(schema: Schema, path: Path, case_sensitive: bool) -> NestedField | None:
    """The field that a path names, or None."""
    if isinstance(path, str):
        return schema.find_or_none(path, case_sensitive=case_sensitive)
    column: NestedField | None = None
    for name in path:
        column = named(fields_below(schema, column, name), name, case_sensitive)
        if column is None:
            return None
    return column
