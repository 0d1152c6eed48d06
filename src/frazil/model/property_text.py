"""Properties as metadata keeps them: names and values are text.

>>> property_text("retries", 7), property_text("enabled", True)
('7', 'true')
>>> property_text("day", None)
Traceback (most recent call last):
...
frazil.errors.InvalidArgument: [INVALID_ARGUMENT] day is None, which is no text Hint: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

from frazil.errors import InvalidArgument


def property_text(name: Any, value: Any) -> str:
    """The text of a value: itself, or that of a number or a boolean as Iceberg writes them. All else is refused.

    What is not text makes metadata that no reader takes.
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"a property is named {name!r}", hint="names of properties are texts")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Real | Decimal):
        return str(value)
    raise InvalidArgument(f"{name} is {value!r}, which is no text", hint="give text, a number, True or False")


def property_texts(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """All of them, as text."""
    return {name: property_text(name, value) for name, value in (properties or {}).items()}


def text_or_none(name: str, value: Any) -> str | None:
    """The text of a value that need not be there."""
    return None if value is None else property_text(name, value)
