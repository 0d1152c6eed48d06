"""Carries out the statements of our own grammar."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from frazil.errors import ColumnNotFound
from frazil.iceberg.actions.manage_refs import ManageRefs
from frazil.iceberg.properties import WRITE_DISTRIBUTION_MODE
from frazil.iceberg.table import IcebergTable
from frazil.spark import grammar
from frazil.spark.exceptions import table_errors
from frazil.spark.types import type_from_spark

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


class Statements:
    """Answers `statement` (whose is this text?) and `execute`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        bridge.on("statement", self.recognise)
        bridge.on("execute", self.execute)

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
            table = self._bridge.lake.table(parts)
        if isinstance(statement.change, grammar.AlterColumn):
            self._alter_column(table, statement.change)
        else:
            change(table, statement.change)
        self._bridge.refresh(table.identifier)
        return "[]"

    def _alter_column(self, table: IcebergTable, wanted: grammar.AlterColumn) -> None:
        """Spark itself reads the type and the comment."""
        frame = self._bridge.spark.sql(f"SELECT CAST(NULL AS {wanted.type}) AS value, {wanted.comment} AS comment")
        type_ = type_from_spark(frame.schema["value"].dataType.jsonValue())
        comment = frame.collect()[0]["comment"]
        table.update_schema().update_column(wanted.path, type_, doc=comment).commit()


def change(table: IcebergTable, wanted: grammar.Change) -> None:
    """Carry out one change."""
    if isinstance(wanted, grammar.AddPartitionField):
        table.update_spec().add_field(wanted.term, wanted.name).commit()
    elif isinstance(wanted, grammar.DropPartitionField):
        table.update_spec().remove_field(wanted.term).commit()
    elif isinstance(wanted, grammar.ReplacePartitionField):
        table.update_spec().remove_field(wanted.old).add_field(wanted.term, wanted.name).commit()
    elif isinstance(wanted, grammar.WriteOrder):
        _write_order(table, wanted)
    elif isinstance(wanted, grammar.SetIdentifierFields):
        table.update_schema().set_identifier_fields(wanted.names).commit()
    elif isinstance(wanted, grammar.DropIdentifierFields):
        _drop_identifiers(table, wanted.names)
    elif isinstance(wanted, grammar.DropRef):
        _drop_ref(table, wanted)
    else:
        _put_ref(table, wanted)


def _write_order(table: IcebergTable, wanted: grammar.WriteOrder) -> None:
    with table.transaction() as transaction:
        transaction.update_sort_order().by(*wanted.keys).commit()
        if wanted.distribution is not None:
            transaction.update_properties().set(WRITE_DISTRIBUTION_MODE.name, wanted.distribution).commit()


def _drop_identifiers(table: IcebergTable, names: tuple[str, ...]) -> None:
    schema = table.schema
    left = {number: schema.name_of(number) or "" for number in schema.identifier_field_ids}
    for name in names:
        if left.pop(schema.find(name, case_sensitive=False).id, None) is None:
            raise ColumnNotFound(
                f"{name} is not an identifier field", hint=f"they are {', '.join(left.values()) or 'none'}"
            )
    table.update_schema().set_identifier_fields(left.values()).commit()


def _drop_ref(table: IcebergTable, wanted: grammar.DropRef) -> None:
    if wanted.if_exists and wanted.name not in table.refs:
        return
    refs = table.manage_refs()
    (refs.remove_branch if wanted.kind == "branch" else refs.remove_tag)(wanted.name).commit()


def _put_ref(table: IcebergTable, wanted: grammar.PutRef) -> None:
    exists = wanted.name in table.refs
    if exists and wanted.if_not_exists:
        return
    refs = table.manage_refs()
    if exists and wanted.replace:
        _replace_ref(table, refs, wanted)
    elif not wanted.create:
        table.metadata.ref(wanted.name)  # says that there is none
    elif wanted.kind == "tag":
        refs.create_tag(wanted.name, wanted.snapshot_id, max_ref_age_ms=wanted.max_ref_age_ms)
    else:
        refs.create_branch(
            wanted.name,
            wanted.snapshot_id,
            min_snapshots_to_keep=wanted.min_snapshots_to_keep,
            max_snapshot_age_ms=wanted.max_snapshot_age_ms,
            max_ref_age_ms=wanted.max_ref_age_ms,
        )
    refs.commit()


def _replace_ref(table: IcebergTable, refs: ManageRefs, wanted: grammar.PutRef) -> None:
    current = table.metadata.current_snapshot_id
    target = current if wanted.snapshot_id is None else wanted.snapshot_id
    assert target is not None  # a table with a ref has a snapshot
    (refs.replace_branch if wanted.kind == "branch" else refs.replace_tag)(wanted.name, target)
    if wanted.min_snapshots_to_keep is not None:
        refs.set_min_snapshots_to_keep(wanted.name, wanted.min_snapshots_to_keep)
    if wanted.max_snapshot_age_ms is not None:
        refs.set_max_snapshot_age_ms(wanted.name, wanted.max_snapshot_age_ms)
    if wanted.max_ref_age_ms is not None:
        refs.set_max_ref_age_ms(wanted.name, wanted.max_ref_age_ms)
