"""Open lakehouse tables in Python: `connect` to a lake of tables, or `open` one table where it lies.

>>> import frazil
>>> frazil.connect("memory:").list_namespaces()
[]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from frazil.errors import FrazilError

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable as IcebergTable
    from frazil.lake import Lake as Lake
    from frazil.lake import connect as connect
    from frazil.mixed.table import MixedTable as MixedTable
    from frazil.model.expressions import col as col
    from frazil.model.schema import Schema as Schema
    from frazil.opening import open as open  # noqa: A004 - frazil.open reads as what it does

__version__ = "0.1.0"

# Imported when first asked for: `import frazil` stays fast, and what nobody uses is never loaded.
_LAZY = {
    "IcebergTable": "frazil.iceberg.table",
    "Lake": "frazil.lake",
    "MixedTable": "frazil.mixed.table",
    "Schema": "frazil.model.schema",
    "col": "frazil.model.expressions",
    "connect": "frazil.lake",
    "open": "frazil.opening",
}


__all__ = ["FrazilError", "IcebergTable", "Lake", "MixedTable", "Schema", "__version__", "col", "connect", "open"]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'frazil' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
