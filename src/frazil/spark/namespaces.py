"""Namespaces, as Spark asks for them: CREATE, DROP, ALTER, DESCRIBE and SHOW NAMESPACE."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frazil.catalog.names import namespace_name
from frazil.errors import InvalidName, NamespaceNotFound
from frazil.spark.exceptions import namespace_errors

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class Namespaces:
    """Answers what FrazilCatalog asks about namespaces; arguments and answers are JSON."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._lake = bridge.lake
        bridge.on("listNamespaces", self.list)
        bridge.on("loadNamespace", self.load)
        bridge.on("createNamespace", self.create)
        bridge.on("alterNamespace", self.alter)
        bridge.on("dropNamespace", self.drop)

    def list(self, namespace: str, _b: None, _c: None) -> str:
        """The namespaces directly in one, or the outermost ones."""
        parts = json.loads(namespace)
        with namespace_errors(self._bridge, parts):
            return json.dumps(self._lake.catalog.list_namespaces(parts or None))

    def load(self, namespace: str, _b: None, _c: None) -> str:
        """The properties of a namespace. Names that cannot be are names of nothing: Spark asks before it knows."""
        parts = json.loads(namespace)
        with namespace_errors(self._bridge, parts):
            if not parts:
                return "{}"
            try:
                namespace_name(parts)
            except InvalidName as error:
                raise NamespaceNotFound(error.message, hint=error.hint) from error
            return json.dumps(self._lake.namespace_properties(parts))

    def create(self, namespace: str, properties: str, _c: None) -> None:
        """Make a namespace."""
        parts = json.loads(namespace)
        with namespace_errors(self._bridge, parts):
            self._lake.create_namespace(parts, json.loads(properties))

    def alter(self, namespace: str, sets: str, removes: str) -> None:
        """Set and remove properties."""
        parts = json.loads(namespace)
        with namespace_errors(self._bridge, parts):
            self._lake.update_namespace_properties(parts, json.loads(sets), json.loads(removes))

    def drop(self, namespace: str, cascade: bool, _c: None) -> bool:
        """Remove a namespace; with `cascade` together with all that is in it."""
        parts = tuple(json.loads(namespace))
        with namespace_errors(self._bridge, parts):
            if cascade:
                self._empty(parts)
            self._lake.drop_namespace(parts)
        return True

    def _empty(self, parts: tuple[str, ...]) -> None:
        catalog = self._lake.catalog
        for table in catalog.list_tables(parts):
            catalog.drop_table(table.parts)
        for inner in catalog.list_namespaces(parts):
            self._empty(inner)
            catalog.drop_namespace(inner)
