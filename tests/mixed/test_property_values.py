"""What users give as names, properties and comments, and what is no text: it must not get into metadata."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

import frazil
from frazil.catalog.mixed_folder import open_mixed_folder
from frazil.errors import FrazilError, InvalidArgument, InvalidSchema
from frazil.mixed.table import MixedTable
from tests.mixed.tables import ids_of, new_table, row

DAY = date(2026, 11, 16)


def opened(table: MixedTable) -> MixedTable:
    """The table as another program would open it."""
    return open_mixed_folder(table.store, table.location, "t")


def test_a_batch_named_by_a_number_is_written_once_under_its_text() -> None:
    table = new_table()
    table.append([row(1)], batch_id=5)  # type: ignore[arg-type]
    table.append([row(1)], batch_id="5")
    assert ids_of(opened(table)) == [1]


@pytest.mark.parametrize("batch", [DAY, b"a", ("a",), "", " \t"])
def test_a_batch_without_a_name_that_is_text_is_refused_and_nothing_is_written(batch: Any) -> None:
    """A blank name, say of a variable that is not set, would make all batches one."""
    table = new_table()
    for write in (
        lambda: table.append([row(1)], batch_id=batch),
        lambda: table.upsert([row(1)], batch_id=batch),
        lambda: table.delete_keys([{"id": 1}], batch_id=batch),
        lambda: table.ingest([{"op": "i", **row(1)}], batch_id=batch),
    ):
        with pytest.raises(InvalidArgument, match="batch_id is"):
            write()
    assert opened(table).snapshots == ()
    unkeyed = new_table(primary_key=())
    with pytest.raises(InvalidArgument, match="batch_id is"):
        unkeyed.append([row(1)], batch_id=batch)
    assert opened(unkeyed).snapshots == ()


@pytest.mark.parametrize("key", [("id",), ()])
def test_properties_of_snapshots_are_text(key: tuple[str, ...]) -> None:
    table = new_table(primary_key=key)
    table.append([row(1)], snapshot_properties={"run": 7, "again": False})  # type: ignore[dict-item]
    found = opened(table)
    store = found.base_store if found.change_store is None else found.change_store
    assert store.current_snapshot is not None
    assert (store.current_snapshot.summary["run"], store.current_snapshot.summary["again"]) == ("7", "false")
    before = len(found.snapshots)
    with pytest.raises(InvalidArgument, match="run is"):
        table.append([row(2)], snapshot_properties={"run": DAY})  # type: ignore[dict-item]
    assert len(opened(table).snapshots) == before


def test_a_signature_is_text() -> None:
    table = new_table()
    table.begin_transaction(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        table.begin_transaction(DAY)  # type: ignore[arg-type]
    assert len(opened(table).snapshots) == 1


@pytest.mark.parametrize("key", [("id",), ()])
@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("nope", "names a column 'nope' that the table does not have"),
        ("AT", "names a column 'AT' that the table does not have"),
        ("", "names a column '' that"),
        ("day", "names 'day' of type date, which tells no time"),
        ("s", "names 's'"),
        ("all.element", "names 'all.element'"),
    ],
)
def test_an_event_time_that_tells_no_watermark_is_refused(column: str, words: str, key: tuple[str, ...]) -> None:
    schema = "id BIGINT NOT NULL, at TIMESTAMP, day DATE, s STRUCT<at: BIGINT>, all ARRAY<TIMESTAMP>"
    with pytest.raises(InvalidArgument, match=words):
        new_table(schema, primary_key=key, properties={"table.event-time-field": column})
    table = new_table(schema, primary_key=key)
    with pytest.raises(InvalidArgument, match=words):
        table.update_properties().set("table.event-time-field", column).commit()
    assert "table.event-time-field" not in opened(table).properties


@pytest.mark.parametrize("column", ["at", "s.at", "id", "_ingest_time"])
def test_an_event_time_is_a_column_or_the_time_of_writing(column: str) -> None:
    schema = "id BIGINT NOT NULL, at TIMESTAMP, s STRUCT<at: BIGINT>"
    new_table(schema, properties={"table.event-time-field": column})
    table = new_table(schema)
    table.update_properties().set("table.event-time-field", column).commit()
    table.append([{"id": 1, "at": datetime(2026, 11, 16), "s": {"at": 1}}])
    assert opened(table).watermark > 0


def test_how_event_times_are_told_is_checked_before_rows_are_written() -> None:
    table = new_table()
    for name, text in (
        ("table.event-time-field.datetime-number-format", "days"),
        ("table.watermark-allowed-lateness-second", "-1"),
    ):
        with pytest.raises(InvalidArgument, match=name):
            new_table(properties={name: text})
        with pytest.raises(InvalidArgument, match=name):
            table.update_properties().set(name, text).commit()


def test_properties_that_only_one_store_has_reach_the_other_when_they_are_set_again() -> None:
    table = new_table()
    table.base_store.update_properties().set("mine", "1").commit()
    assert table.change_store is not None
    assert "mine" not in table.change_store.properties
    opened(table).update_properties().set("mine", "1").commit()
    assert opened(table).change_store.properties["mine"] == "1"  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["iceberg", "mixed", "lance"])
def test_properties_of_tables_and_their_writes_are_text_in_every_format(kind: str, tmp_path: Any) -> None:
    lake = frazil.connect(tmp_path)
    given: Any = {"a.number": 7, "a.flag": True}
    table: Any = lake.create_table("db.t", "id BIGINT, name STRING", format=kind, properties=given)
    table.append([{"id": 1, "name": "a"}], snapshot_properties={"run": 7})
    with pytest.raises(InvalidArgument):
        table.append([{"id": 2, "name": "a"}], snapshot_properties={"run": DAY})
    with pytest.raises(InvalidArgument):
        lake.create_table("db.other", "id BIGINT", format=kind, properties={"day": DAY})  # type: ignore[dict-item]
    if kind == "lance":
        table.update_properties({"b.number": 8})
        with pytest.raises(InvalidArgument):
            table.update_properties({"day": DAY})
    else:
        table.update_properties().set("b.number", 8).commit()
        with pytest.raises(InvalidArgument):
            table.update_properties().set("day", DAY)
    found: Any = frazil.connect(tmp_path).table("db.t")
    assert [found.properties[name] for name in ("a.number", "a.flag", "b.number")] == ["7", "true", "8"]
    assert found.scan().count() == 1


def test_comments_of_columns_and_retention_of_refs_are_checked(tmp_path: Any) -> None:
    table: Any = frazil.connect(tmp_path).create_table("db.t", "id BIGINT")
    table.append([{"id": 1}])
    with pytest.raises(InvalidSchema, match="comment"):
        table.update_schema().add_column("other", "long", doc=5).commit()
    for keep in (True, 1.5, "2", 0):
        with pytest.raises(InvalidArgument, match="retention"):
            table.manage_refs().create_branch("b", min_snapshots_to_keep=keep)
    assert frazil.connect(tmp_path).table("db.t").scan().count() == 1


def test_metadata_that_could_not_be_read_is_never_published(tmp_path: Any) -> None:
    """Whatever gets past the checks: a summary that is no text, and one that no JSON can hold."""
    table: Any = frazil.connect(tmp_path).create_table("db.t", "id BIGINT")
    table.append([{"id": 1}])
    for value in (5, float("nan"), object()):
        action = table.new_append()
        action._summary["x"] = value
        with pytest.raises(InvalidArgument, match="cannot be read"):
            action.commit()
    found: Any = frazil.connect(tmp_path).table("db.t")
    assert (found.scan().count(), len(found.snapshots)) == (1, 1)
    with pytest.raises(FrazilError):
        found.snapshot(5)
