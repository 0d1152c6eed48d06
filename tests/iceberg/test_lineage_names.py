"""Columns named as those of row lineage, which format version 3 keeps in data files under these names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.errors import InvalidSchema
from frazil.iceberg.committer import ReadOnly, TableState
from frazil.iceberg.table import IcebergTable
from tests.iceberg.small_tables import new_table

NAMES = pytest.mark.parametrize("name", ["_row_id", "_last_updated_sequence_number", "_ROW_ID"])


@NAMES
def test_they_are_refused_where_a_schema_is_made(name: str):
    with pytest.raises(InvalidSchema, match=name):
        new_table(3, f"id BIGINT, {name} BIGINT")
    table = new_table(3, "id BIGINT, st STRUCT<_row_id: INT>")  # within a struct it is a name like others
    with pytest.raises(InvalidSchema, match=name):
        table.update_schema().add_column(name, "int").commit()
    with pytest.raises(InvalidSchema, match=name):
        table.update_schema().rename_column("id", name).commit()
    assert table.refresh().schema.columns == ["id", "st"]


@NAMES
def test_a_table_that_has_them_must_rename_them_to_be_upgraded(name: str):
    table = new_table(2, f"id BIGINT, {name} BIGINT")
    table.append([{"id": 1, name: 5}])
    with pytest.raises(InvalidSchema, match=name):
        table.upgrade_format_version().to(3).commit()
    table.refresh().update_schema().rename_column(name, "was_taken").commit()
    table.upgrade_format_version().to(3).commit()
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "was_taken": 5}]


def test_tables_that_others_made_so_can_be_read_but_rows_cannot_be_moved():
    made = new_table(2, "id BIGINT, _row_id BIGINT")
    made.append([{"id": 1, "_row_id": 5}, {"id": 2, "_row_id": 6}])
    state = TableState(replace(made.metadata, format_version=3), made.metadata_location)
    table = IcebergTable(made.identifier, made.store, ReadOnly(state), state)
    assert table.scan(columns=["id"]).to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]
    with pytest.raises(InvalidSchema, match="_row_id") as refused:
        table.delete("id = 1")
    assert "name" in (refused.value.hint or "")
