"""Names of namespaces and tables, and which are refused.

A name is a text with dots or a sequence of parts. What a store, a policy or another engine could take for more than a
name is refused, so a name can stand in a path as it is.

>>> table_name("db.sales.events")
TableName(namespace=('db', 'sales'), name='events')
>>> str(table_name(("db", "t")))
'db.t'
>>> namespace_name("a/b")
Traceback (most recent call last):
...
frazil.errors.InvalidName: [INVALID_NAME] 'a/b' cannot be a name: it contains '/' Hint: ...
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.errors import InvalidName

Namespace = tuple[str, ...]
"""The levels of a namespace, from the outermost; the empty one is the catalog itself."""

MAX_PART_BYTES = 200
"""Of one level in UTF-8: file systems allow 255 bytes to a name, and ours get prefixes and suffixes."""

MAX_LENGTH = 255
"""Of a namespace or table name as text: what the columns of a SQL catalog hold."""

_FORBIDDEN = frozenset('/\\:*?"<>|#+`')


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name, and the namespace it is in."""

    namespace: Namespace
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        return ".".join(self.parts)


def table_name(given: str | Sequence[str] | TableName) -> TableName:
    """The name of a table, which has a namespace; InvalidName otherwise."""
    if isinstance(given, TableName):
        return given
    parts = _parts(given)
    if len(parts) < 2:
        raise InvalidName(
            f"{given!r} names no table: a table is in a namespace", hint=f'write "namespace.{".".join(parts)}"'
        )
    _check_length(parts[:-1])
    return TableName(parts[:-1], parts[-1])


def namespace_name(given: str | Sequence[str]) -> Namespace:
    """The name of a namespace; InvalidName otherwise."""
    parts = _parts(given)
    if not parts:
        raise InvalidName("a namespace needs a name", hint='write it as "db" or "db.schema"')
    _check_length(parts)
    return parts


def _parts(given: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(given, Sequence):
        raise InvalidName(f"{given!r} cannot be a name: it is no text", hint='write a name as "db.t" or ("db", "t")')
    parts = given.split(".") if isinstance(given, str) else list(given)
    return tuple(_checked(part) for part in parts)


def _checked(part: object) -> str:
    if not isinstance(part, str):
        raise InvalidName(f"{part!r} cannot be a name: it is no text", hint='write a name as "db.t" or ("db", "t")')
    text = unicodedata.normalize("NFC", part)
    problem = _problem(text)
    if problem is not None:
        raise InvalidName(
            f"{text[:80]!r} cannot be a name: {problem}",
            hint="use letters, digits, underscores and hyphens; dots part the levels of a name",
        )
    return text


def _problem(text: str) -> str | None:
    if not text:
        return "it is empty"
    found = next((character for character in text if character in _FORBIDDEN), None)
    if found is not None:
        return f"it contains {found!r}"
    if "." in text:
        return "one level of it contains a dot"
    if text != text.strip():
        return "it begins or ends with a space"
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
        return "it contains a control character"
    if len(text.encode("utf-8")) > MAX_PART_BYTES:
        return f"it is longer than {MAX_PART_BYTES} bytes"
    return None


def _check_length(namespace: Namespace) -> None:
    if len(".".join(namespace)) > MAX_LENGTH:
        raise InvalidName(f"a namespace has more than {MAX_LENGTH} characters", hint="use fewer or shorter levels")
