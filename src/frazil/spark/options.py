"""Options of reads and writes, whose names mean the same in capitals and small letters."""

from __future__ import annotations

from collections.abc import Mapping


def folded(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in small letters."""
    return {name.lower(): text for name, text in options.items()}
