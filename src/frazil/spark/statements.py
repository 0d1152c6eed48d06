"""Carries out the statements of our own grammar."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from frazil.catalog.formats import MIXED
from frazil.errors import InvalidSchema
from frazil.model.types import Type
from frazil.spark import grammar
from frazil.spark.definition import PROVIDERS
from frazil.spark.exceptions import table_errors
from frazil.spark.formats import handle_of
from frazil.spark.types import type_from_spark

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class Statements:
    """Answers `statement` (whose is this text?) and `execute`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("statement", self.recognise)
        bridge.on("execute", self.execute)
        bridge.on("keyed", self.keyed)

    def recognise(self, text: str, jsession: Any, _c: None) -> str | None:
        """The table and the text, if it is a statement about a table of this lake."""
        from pyspark.errors import ParseException

        try:
            found = grammar.parse(text)
        except grammar.BadStatement as error:
            if self._own(error.table, jsession) is None:
                return None  # another extension may know more
            raise ParseException(f"[PARSE_SYNTAX_ERROR] {error}\n\n== SQL ==\n{text}") from None
        parts = None if found is None else self._own(found.table, jsession)
        return None if parts is None else json.dumps([parts, text])

    def keyed(self, text: str, jsession: Any, _c: None) -> str | None:
        """CREATE TABLE of a mixed table of this lake with its key as a property; None if the text is something else."""
        from frazil.spark.mixed.statement import keyed

        found = keyed(text)
        if found is None or PROVIDERS.get(found.provider.lower()) != MIXED:
            return None
        if self._own(found.table, jsession) is None:
            return None
        if found.is_keyed_twice:
            raise InvalidSchema(
                f"{'.'.join(found.table)} is to have two primary keys",
                hint="a key of several columns is written PRIMARY KEY (a, b), once",
            )
        return found.text

    def _own(self, names: tuple[str, ...], jsession: Any) -> list[str] | None:
        """The parts of a name in this lake, None if it is of another catalog. Spark's rules for names apply."""
        name = self._bridge.name
        if len(names) > 1 and names[0].lower() == name.lower():
            return list(names[1:])
        catalogs = jsession.sessionState().catalogManager()
        if catalogs.currentCatalog().name() != name:
            return None
        if len(names) > 1:
            return None if catalogs.isCatalogRegistered(names[0]) else list(names)
        return [*catalogs.currentNamespace(), *names]

    def execute(self, found: str, _b: None, _c: Any) -> str:
        """Carry it out, when Spark executes it."""
        parts, text = json.loads(found)
        statement = grammar.parse(text)
        assert statement is not None
        with table_errors(self._bridge, parts):
            handle = handle_of(self._bridge.lake.table(parts))
        handle.execute(self._bridge, statement.change)
        self._bridge.refresh(handle.name)
        return "[]"


def type_and_comment(bridge: Bridge, wanted: grammar.AlterColumn) -> tuple[Type, str]:
    """What ALTER COLUMN gives a column. Spark itself reads the type and the comment."""
    frame = bridge.spark.sql(f"SELECT CAST(NULL AS {wanted.type}) AS value, {wanted.comment} AS comment")
    type_ = type_from_spark(frame.schema["value"].dataType.jsonValue())
    return type_, frame.collect()[0]["comment"]
