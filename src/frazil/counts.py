"""Results that are counts by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Counts:
    """A dataclass of counts, which may have other members too."""

    __slots__ = ()

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        this: Any = self
        found = ((field.name, getattr(this, field.name)) for field in fields(this))
        return {name: value for name, value in found if isinstance(value, int)}

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{count:,}</td></tr>" for name, count in self.counts().items())
        return f"<table>{cells}</table>"
