"""Schema changes of both stores, also half-done ones; properties; watermarks."""

from __future__ import annotations

import pytest

from frazil import ambient
from frazil.errors import InvalidArgument, InvalidEvolution, InvalidSchema
from tests.mixed.tables import new_table, row, rows_of


def test_both_stores_get_a_new_schema_and_old_rows_are_read_by_it() -> None:
    table = new_table()
    table.append([row(1), row(2)])
    table.update_schema().add_column("n", "int").rename_column("name", "title").commit()
    assert table.change_store is not None
    assert table.schema == table.change_store.schema
    table.upsert([{"id": 2, "title": "b", "region": "us", "n": 7}])
    assert rows_of(table) == [
        {"id": 1, "title": "a", "region": "eu", "n": None},
        {"id": 2, "title": "b", "region": "us", "n": 7},
    ]
    table.overwrite_partitions([{"id": 3, "title": "c", "region": "us", "n": 8}])
    table.update_schema().update_column("n", "long").drop_column("region").commit()
    assert rows_of(table) == [{"id": 3, "title": "c", "n": 8}]


@pytest.mark.parametrize("steps", [1, 3])
def test_a_change_that_only_the_base_store_has_is_read_at_once_and_finished_by_the_next_write(steps: int) -> None:
    table = new_table()
    table.append([row(1)])
    for step in range(steps):
        table.base_store.update_schema().add_column(f"n{step}", "int").commit()
    change = table.change_store
    assert change is not None
    assert table.schema != change.schema
    assert rows_of(table)[0]["n0"] is None
    table.append([{**row(2), "n0": 5}])
    assert table.schema == change.schema
    assert [one["n0"] for one in rows_of(table)] == [None, 5]
    table.base_store.update_schema().add_column("m", "int").commit()
    assert table.repair().schema == change.schema


def test_key_columns_keep_their_names_and_types() -> None:
    table = new_table("id INT NOT NULL, d DECIMAL(9,2) NOT NULL, name STRING", primary_key=("id", "d"))
    for change in (
        table.update_schema().rename_column("id", "key"),
        table.update_schema().drop_column("d"),
        table.update_schema().make_optional("id"),
        table.update_schema().update_column("id", "long"),
    ):
        with pytest.raises(InvalidEvolution, match="primary key"):
            change.commit()
    table.append([{"id": 1, "d": "1.50", "name": "a"}])
    table.update_schema().update_column("d", "decimal(12,2)").commit()
    table.upsert([{"id": 1, "d": "1.50", "name": "b"}])
    assert [one["name"] for one in rows_of(table)] == ["b"]


RESERVED = ["_file_offset", "_transaction_id", "_change_action", "_tree_node", "_Tree_NODE"]


@pytest.mark.parametrize("name", RESERVED)
def test_no_column_gets_the_name_of_what_tells_of_changes(name: str) -> None:
    table = new_table()
    table.append([row(1)])
    for change in (
        table.update_schema().add_column(name, "int"),
        table.update_schema().rename_column("name", name),
        table.update_schema().drop_column("name").add_column(name, "string"),
    ):
        with pytest.raises(InvalidSchema, match=f"column '{name}' has the name of a column"):
            change.commit()
    with pytest.raises(InvalidSchema, match=f"column '{name}' has the name of a column"):
        new_table(f"id BIGINT NOT NULL, {name} STRING")
    assert table.change.scan().count() == 1
    for schema, key in ((f"id BIGINT NOT NULL, st STRUCT<{name}: INT>", ("id",)), (f"id BIGINT, {name} INT", ())):
        other = new_table(schema, primary_key=key)
        other.append([{"id": 1}])
        assert other.scan().count() == 1


@pytest.mark.parametrize("name", RESERVED)
def test_a_column_that_somebody_else_gave_such_a_name_can_be_dropped_or_renamed(name: str) -> None:
    for drop in (True, False):
        table = new_table()
        table.append([row(1)])
        table.base_store.update_schema().add_column(name, "int").commit()
        table.update_schema().add_column("n", "int").commit()
        change = table.update_schema()
        (change.drop_column(name) if drop else change.rename_column(name, "m")).commit()
        assert rows_of(table) == [{**row(1), **({} if drop else {"m": None}), "n": None}]
        assert table.change.scan().count() == 1


def test_properties_are_set_on_both_stores_but_not_those_that_tie_them() -> None:
    table = new_table()
    table.update_properties().set("write.upsert.enabled", True).commit()
    assert table.change_store is not None
    assert table.base_store.properties["write.upsert.enabled"] == "true"
    assert table.change_store.properties["write.upsert.enabled"] == "true"
    for name in ("mixed-format.primary-key-fields", "table-format", "mixed-format.table-store"):
        with pytest.raises(InvalidArgument, match="cannot be changed"):
            table.update_properties().set(name, "x").commit()
        with pytest.raises(InvalidArgument, match="cannot be changed"):
            table.update_properties().remove(name).commit()
    for count in ("3", "0", "-4", "x"):
        with pytest.raises(InvalidArgument, match=r"file-index\.hash-bucket"):
            table.update_properties().set("change.file-index.hash-bucket", count).commit()


def test_buckets_may_change_and_rows_stay_right() -> None:
    table = new_table()
    for buckets in (8, 1, 16, 2):
        table.update_properties().set("change.file-index.hash-bucket", buckets).commit()
        table.upsert([row(n, str(buckets)) for n in range(40)])
        assert {one["name"] for one in rows_of(table)} == {str(buckets)}
        assert len(rows_of(table)) == 40


def test_the_watermark_is_the_time_of_writing_unless_a_column_tells() -> None:
    with ambient.replaced(ambient.Ambient(seed=1, start_ms=5_000_000)):
        table = new_table()
        assert (table.watermark, table.base_watermark) == (-1, -1)
        table.append([row(1)])
        first = table.watermark
        assert first >= 5_000_000
        assert table.base_watermark == -1
        table.append([row(2)])
        assert table.watermark > first
        table.overwrite_partitions([row(3)])
        assert table.base_watermark == table.watermark
        assert table.properties["watermark.table"] == str(table.watermark)


@pytest.mark.parametrize(
    ("type_", "value", "settings", "told"),
    [
        ("TIMESTAMP", "1970-01-01T00:01:40", {}, 100_000),
        ("BIGINT", 7, {"datetime-number-format": "TIMESTAMP_S"}, 7_000),
        ("BIGINT", 7_000, {}, 7_000),
        ("STRING", "1970-01-02 00:00:00", {}, 86_400_000),
        ("STRING", "1970/01/02", {"datetime-string-format": "yyyy/MM/dd"}, 86_400_000),
        ("STRING", "whenever", {}, -1),
    ],
)
def test_the_watermark_is_the_highest_event_time_less_the_lateness(
    type_: str, value: object, settings: dict[str, str], told: int
) -> None:
    from datetime import datetime

    properties = {f"table.event-time-field.{name}": text for name, text in settings.items()}
    properties |= {"table.event-time-field": "at", "table.watermark-allowed-lateness-second": "0"}
    table = new_table(f"id BIGINT NOT NULL, at {type_}", properties=properties)
    given = datetime.fromisoformat(str(value)) if type_ == "TIMESTAMP" else value
    table.append([{"id": 1, "at": given}, {"id": 2, "at": None}])
    assert table.watermark == told
    if told > 0:
        table.update_properties().set("table.watermark-allowed-lateness-second", 2).commit()
        table.append([{"id": 3, "at": given}])
        assert table.watermark == told  # it never falls
