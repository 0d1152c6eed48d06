"""The statements of our own grammar, on Iceberg tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import ColumnNotFound
from frazil.iceberg.actions.manage_refs import ManageRefs
from frazil.iceberg.properties import WRITE_DISTRIBUTION_MODE
from frazil.iceberg.table import IcebergTable
from frazil.spark import grammar
from frazil.spark.statements import type_and_comment

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge


def execute(bridge: Bridge, table: IcebergTable, wanted: grammar.Change | grammar.AlterColumn) -> None:
    """Carry out a statement."""
    if isinstance(wanted, grammar.AlterColumn):
        type_, comment = type_and_comment(bridge, wanted)
        table.update_schema().update_column(wanted.path, type_, doc=comment).commit()
    else:
        change(table, wanted)


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
