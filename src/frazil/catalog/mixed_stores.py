"""Stores of mixed tables that a catalog has as tables: whose they are."""

from __future__ import annotations

from frazil.catalog.catalog import MIXED_STORE, Catalog, Name, change_store_base, change_store_of
from frazil.catalog.names import TableName, table_name
from frazil.errors import FrazilError, Unsupported


def change_store_beside(catalog: Catalog, name: Name) -> TableName | None:
    """The table beside this one that is a part of it."""
    try:
        properties = catalog.load_table(name).metadata.properties
    except FrazilError:  # what cannot be read can be dropped
        return None
    return None if MIXED_STORE not in properties else change_store_of(table_name(name), properties)


def is_in_table(catalog: Catalog, name: TableName) -> bool:
    """Whether what would be the namespace of a name is a table."""
    return len(name.namespace) > 1 and catalog.table_exists(name.namespace)


def refuse_store(catalog: Catalog, name: Name, done: str) -> None:
    """Unsupported for a store of a mixed table that is there: that table would be lost with it."""
    wanted = table_name(name)
    base = change_store_base(wanted)
    of: object = base if base is not None and change_store_beside(catalog, base.parts) == wanted else None
    if is_in_table(catalog, wanted):
        of = ".".join(wanted.namespace)
    if of is not None:
        raise Unsupported(f"{wanted} cannot be {done}: it is a store of {of}", hint=f"name {of} itself")
