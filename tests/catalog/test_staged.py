"""Tables created or replaced together with their first rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.catalog.catalog import Catalog
from frazil.errors import CommitConflict, InvalidArgument, TableAlreadyExists, TableNotFound
from frazil.iceberg.table import IcebergTable
from frazil.lake import Lake

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    return Lake(catalog)


def ids(table: IcebergTable) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_a_staged_table_appears_with_its_rows(lake: Lake) -> None:
    staged = lake.stage_table("db.t", "id BIGINT")
    assert lake.tables() == []
    staged.append(ROWS)
    assert ids(lake.table("db.t")) == [1, 2]
    staged.append(ROWS)
    assert ids(lake.table("db.t")) == [1, 1, 2, 2]


def test_of_two_staged_tables_of_one_name_the_second_is_refused(lake: Lake) -> None:
    first, second = lake.stage_table("db.t", "id BIGINT"), lake.stage_table("db.t", "id BIGINT")
    first.append(ROWS)
    with pytest.raises(TableAlreadyExists):
        second.append(pa.table({"id": [3]}))
    assert ids(lake.table("db.t")) == [1, 2]


def test_a_replacement_shows_its_rows_and_keeps_the_history(lake: Lake) -> None:
    table = lake.create_table("db.t", "id BIGINT, name STRING")
    table.append(pa.table({"id": [7], "name": ["x"]}))
    before = table.current_snapshot
    assert before is not None
    staged = lake.stage_table("db.t", "id BIGINT, day DATE", partition_by="day", replace=True)
    assert ids(lake.table("db.t")) == [7]
    staged.append(ROWS.append_column("day", pa.nulls(2, pa.date32())))
    now = lake.table("db.t")
    assert ids(now) == [1, 2]
    assert now.schema.find("id").id == 1
    assert now.schema.find("day").id == 3
    assert len(now.snapshots) == 2
    assert now.scan(version=before.snapshot_id).to_arrow().num_rows == 1


def test_two_racing_replacements_are_both_in_the_history(lake: Lake) -> None:
    lake.create_table("db.t", "id BIGINT").append(pa.table({"id": [7]}))
    first = lake.stage_table("db.t", "id BIGINT", replace=True)
    second = lake.stage_table("db.t", "id BIGINT", replace=True)
    one = first.append(pa.table({"id": [1]}))
    two = second.append(pa.table({"id": [2]}))
    now = lake.table("db.t")
    assert ids(now) == [2]
    assert {one.snapshot_id, two.snapshot_id} <= {snapshot.snapshot_id for snapshot in now.snapshots}
    assert len(now.snapshots) == 3
    assert now.scan(version=one.snapshot_id).to_arrow()["id"].to_pylist() == [1]


def test_a_replacement_written_for_other_column_ids_is_refused(lake: Lake) -> None:
    lake.create_table("db.t", "id BIGINT")
    first = lake.stage_table("db.t", "id BIGINT, a STRING", replace=True)
    second = lake.stage_table("db.t", "id BIGINT, b STRING", replace=True)
    first.append(pa.table({"id": [1], "a": ["a"]}))
    with pytest.raises(CommitConflict):
        second.append(pa.table({"id": [2], "b": ["b"]}))
    assert lake.table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "a": "a"}]


def test_create_or_replace_works_whether_or_not_the_table_is_there(lake: Lake) -> None:
    for number in (1, 2):
        lake.stage_table("db.t", "id BIGINT", replace=True).append(pa.table({"id": [number]}))
        assert ids(lake.table("db.t")) == [number]
    assert len(lake.table("db.t").snapshots) == 2


def test_create_or_replace_replaces_a_table_that_was_created_meanwhile(lake: Lake) -> None:
    staged = lake.stage_table("db.t", "id BIGINT", replace=True)
    lake.create_table("db.t", "id BIGINT").append(pa.table({"id": [7]}))
    staged.append(ROWS)
    assert ids(lake.table("db.t")) == [1, 2]
    assert len(lake.table("db.t").snapshots) == 2


def test_replacing_without_rows_empties_the_table(lake: Lake) -> None:
    lake.create_table("db.t", "id BIGINT", properties={"kept": "yes"}).append(ROWS)
    table = lake.replace_table("db.t", "id BIGINT NOT NULL, x INT", sort_by="id DESC", properties={"new": "1"})
    assert ids(table) == []
    assert len(table.snapshots) == 1
    assert table.properties["kept"] == "yes"
    assert table.properties["new"] == "1"
    assert not table.sort_order.is_unsorted
    assert lake.replace_table("db.new", "id BIGINT", or_create=True).schema.find("id").id == 1


def test_what_must_exist_is_looked_for_at_once(lake: Lake) -> None:
    with pytest.raises(TableNotFound):
        lake.stage_table("db.t", "id BIGINT", create=False, replace=True)
    with pytest.raises(TableNotFound):
        lake.replace_table("db.t", "id BIGINT")
    lake.create_table("db.t", "id BIGINT")
    with pytest.raises(TableAlreadyExists):
        lake.stage_table("db.t", "id BIGINT")
    with pytest.raises(InvalidArgument):
        lake.stage_table("db.t", "id BIGINT", create=False)


def test_a_version_1_table_keeps_former_partition_fields_as_void_ones(lake: Lake) -> None:
    lake.create_table("db.t", "id BIGINT, a INT, b INT", partition_by=["a", "b"], format_version=1)
    table = lake.replace_table("db.t", "id BIGINT, a INT, b INT", partition_by=["b", "id"])
    found = [(part.field_id, str(part.transform)) for part in table.spec.fields]
    assert found == [(1000, "void"), (1001, "identity"), (1002, "identity")]
    table.append(
        pa.table({"id": [1], "a": [1], "b": [2]}, schema=pa.schema({"id": "int64", "a": "int32", "b": "int32"}))
    )
    assert ids(lake.table("db.t")) == [1]
