"""JSON read strictly: limits on what is parsed, and members asked for by name and kind.

>>> document = JsonObject(parse_json(b'{"a": 1}'), "the document")
>>> document.integer("a")
1
>>> document.integer("b")
Traceback (most recent call last):
...
frazil.errors.MalformedMetadata: [MALFORMED_METADATA] the document has no 'b' Hint: ...
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from frazil.errors import MalformedMetadata
from frazil.model.types import MAX_TYPE_DEPTH

MAX_JSON_DEPTH = 3 * MAX_TYPE_DEPTH + 16
"""A struct in a schema takes three levels of JSON; everything else in metadata is flat."""

_DAMAGED = "the file is damaged, truncated or not Iceberg metadata; restore an earlier one"
_LONG_DIGITS = 20  # of the longest int64, with its sign


def parse_json(data: bytes) -> Any:
    """Parse UTF-8 JSON; refuses duplicate keys, NaN, integers beyond 64 bits and deep nesting."""
    try:
        document = _DECODER.decode(data.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MalformedMetadata(f"not JSON: {error}", hint=_DAMAGED) from error
    except RecursionError as error:
        raise MalformedMetadata(f"JSON nests deeper than {MAX_JSON_DEPTH}", hint=_DAMAGED) from error
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MAX_JSON_DEPTH):
        parts = [part for outer in level for part in (outer.values() if isinstance(outer, dict) else outer)]
        level = [part for part in parts if isinstance(part, dict | list)]
        if not level:
            return document
    raise MalformedMetadata(f"JSON nests deeper than {MAX_JSON_DEPTH}", hint=_DAMAGED)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise MalformedMetadata(f"JSON key {twice!r} appears twice in one object", hint=_DAMAGED)
    return result


def _long(text: str) -> int:
    number = int(text) if len(text) <= _LONG_DIGITS else None
    if number is None or not -(2**63) <= number < 2**63:
        raise MalformedMetadata(f"integer {text[:40]} does not fit 64 bits", hint=_DAMAGED)
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _constant(text[:40])
    return number


def _constant(text: str) -> NoReturn:
    raise MalformedMetadata(f"{text} is not a JSON number", hint=_DAMAGED)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_long, parse_float=_finite, parse_constant=_constant)


class JsonObject:
    """One object of a document. A null member counts as absent, as every Iceberg writer means it."""

    __slots__ = ("members", "where")

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, dict):
            raise MalformedMetadata(f"{where} is not a JSON object", hint=_DAMAGED)
        self.members: dict[str, Any] = document
        self.where = where

    def has(self, key: str) -> bool:
        return self.members.get(key) is not None

    def get(self, key: str) -> Any:
        """A member of any kind that must be there."""
        value = self.members.get(key)
        if value is None:
            raise MalformedMetadata(f"{self.where} has no {key!r}", hint=_DAMAGED)
        return value

    def integer(self, key: str) -> int:
        return self._checked_integer(key, self.get(key))

    def integer_or_none(self, key: str) -> int | None:
        return self.integer(key) if self.has(key) else None

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            self._refuse(key, "text")
        return value

    def text_or_none(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def array(self, key: str) -> list[Any]:
        """A list; an absent one is empty."""
        value = self.get(key) if self.has(key) else []
        if not isinstance(value, list):
            self._refuse(key, "a list")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        return tuple(self._checked_integer(key, item) for item in self.array(key))

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.array(key)
        if not all(isinstance(item, str) for item in items):
            self._refuse(key, "a list of texts")
        return tuple(items)

    def object(self, key: str) -> JsonObject:
        return JsonObject(self.get(key), f"{key!r} of {self.where}")

    def objects(self, key: str) -> list[JsonObject]:
        """The objects of a list; an absent one is empty."""
        return [JsonObject(item, f"{key}[{place}]") for place, item in enumerate(self.array(key))]

    def text_map(self, key: str) -> dict[str, str]:
        """An object whose members are all texts; an absent one is empty."""
        members = self.object(key).members if self.has(key) else {}
        for name, value in members.items():
            if not isinstance(value, str):
                raise MalformedMetadata(f"{name!r} in {key!r} of {self.where} is not text", hint=_DAMAGED)
        return members

    def rest(self, known: Collection[str]) -> dict[str, Any]:
        """The members this library does not know."""
        return {key: value for key, value in self.members.items() if key not in known}

    def _checked_integer(self, key: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self._refuse(key, "an integer")
        return value

    def _refuse(self, key: str, expected: str) -> NoReturn:
        raise MalformedMetadata(f"{key!r} of {self.where} is not {expected}", hint=_DAMAGED)


def without_none(members: dict[str, Any]) -> dict[str, Any]:
    """The members that have a value: absent is how JSON metadata says null."""
    return {key: value for key, value in members.items() if value is not None}
