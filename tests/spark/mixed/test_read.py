"""Reading keyed tables: both stores as one, filters, projections, time travel, and what is told about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.errors import FrazilError, InvalidArgument, SnapshotNotFound
from frazil.mixed.plan import StoreState
from frazil.model.expressions import AlwaysTrue
from frazil.spark.catalog import resolve
from frazil.spark.formats import format_named
from frazil.spark.mixed import scan as mixed_scan
from frazil.spark.mixed.source import source_of
from frazil.spark.scan.filters import numbered, pushed_filter
from tests.spark.mixed.conftest import WAYS
from tests.spark.mixed.keyed import Keyed

REGIONS = ("eu", "us", None)


@pytest.fixture
def table(lake, name):
    """A table of 40 rows in three partitions, of which some were changed and some deleted since."""
    keyed = Keyed(lake, name, ["region"])
    rows = [{"id": n, "name": f"n{n % 5}", "region": REGIONS[n % 3]} for n in range(40)]
    keyed.table.append(rows)
    keyed.table.optimize("full", upkeep=False)
    keyed.table.upsert([{**row, "name": "new"} for row in rows[:12]])
    keyed.table.delete("id IN (3, 4, 20)")
    keyed.table.append([{"id": 100, "name": "late", "region": "eu"}])
    keyed.rows = {row["id"]: tuple(row.values()) for row in rows if row["id"] not in (3, 4, 20)}
    keyed.rows.update({row["id"]: (row["id"], "new", row["region"]) for row in rows[:12] if row["id"] not in (3, 4)})
    keyed.rows[100] = (100, "late", "eu")
    return keyed


def found(spark: Any, name: str, where: str = "TRUE", columns: str = "*", **options: str) -> list[tuple[Any, ...]]:
    frame = spark.read.options(**options).table(name).where(where).selectExpr(columns)
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def in_process(scan: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in scan.to_arrow().to_pylist()), key=repr)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("where", "test"),
    [
        ("TRUE", lambda row: True),
        ("id = 7", lambda row: row[0] == 7),
        ("id BETWEEN 2 AND 21", lambda row: 2 <= row[0] <= 21),
        ("name = 'n3'", lambda row: row[1] == "n3"),
        ("name = 'new' AND region = 'us'", lambda row: row[1:] == ("new", "us")),
        ("region IS NULL", lambda row: row[2] is None),
        ("region = 'eu' OR id > 30", lambda row: row[2] == "eu" or row[0] > 30),
        ("name LIKE '%e%'", lambda row: "e" in row[1]),
    ],
)
def test_filters_see_rows_as_they_are_now(spark, table, way, where, test):
    wanted = sorted((row for row in table.rows.values() if test(row)), key=repr)
    assert found(spark, table.name, where, **WAYS[way]) == wanted


@pytest.mark.parametrize("way", WAYS)
def test_a_delete_counts_whatever_else_its_row_says(spark, lake, name, way):
    """Of a key that is deleted by itself nothing else is known: filters on other columns must not miss it."""
    keyed = Keyed(lake, name, [])
    keyed.table.overwrite([{"id": 1, "name": "a", "region": "eu"}, {"id": 2, "name": "a", "region": "eu"}])
    keyed.table.delete_keys([{"id": 1}])
    assert found(spark, name, "name = 'a'", "id", **WAYS[way]) == [(2,)]
    assert found(spark, name, "region = 'eu' AND name > ''", "name", **WAYS[way]) == [("a",)]


@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_columns_are_read_without_the_key(spark, table, way):
    wanted = sorted((row[1:2] for row in table.rows.values()), key=repr)
    assert found(spark, table.name, columns="name", **WAYS[way]) == wanted
    assert spark.read.options(**WAYS[way]).table(table.name).count() == len(table.rows)
    files = spark.read.options(**WAYS[way]).table(table.name).select("_file", "_pos", "id", "_partition").collect()
    assert len({(row["_file"], row["_pos"]) for row in files}) == len(table.rows)
    assert {row["_partition"]["region"] for row in files} == set(REGIONS)
    assert {row["_file"].rpartition("/")[2].split("-")[1] for row in files} == {"B", "I"}


def test_only_partitions_and_keys_that_are_asked_for_are_merged(lake, table):
    source = source_of(resolve(lake, table.name.split(".")[1:]), None)
    schema = numbered(source.schema)

    def asked(*filters: Any) -> set[str]:
        where = pushed_filter(json.dumps(filters), source.schema)
        deletes = source.deletes(schema, where)
        return {one.partition_path for files in deletes._by_partition.values() for one in files}

    region = {"c": ["region"], "t": "string"}
    assert asked() == {"region=eu", "region=us", "region=null"}
    assert asked(["EqualTo", region, {"v": "us", "t": "string"}]) == {"region=us"}
    name = ["EqualTo", {"c": ["name"], "t": "string"}, {"v": "zzz", "t": "string"}]
    assert asked(name) == {"region=eu", "region=us", "region=null"}  # says nothing about what was deleted
    assert asked(["GreaterThan", {"c": ["id"], "t": "bigint"}, {"v": "15", "t": "bigint"}]) == {"region=null"}
    assert asked(["GreaterThan", {"c": ["id"], "t": "bigint"}, {"v": "50", "t": "bigint"}]) == set()
    assert isinstance(source.base, StoreState)
    assert source.plan(AlwaysTrue()).tasks


def test_too_many_deletes_are_joined(spark, lake, table, monkeypatch):
    plan = spark.table(table.name)._jdf.queryExecution().optimizedPlan().toString()
    assert "LeftAnti" not in plan
    assert mixed_scan.most_deletes(source_of(resolve(lake, table.name.split(".")[1:]), None), spark) > 100_000
    monkeypatch.setattr(mixed_scan, "most_deletes", lambda _source, _spark: 3)
    frame = spark.table(table.name)
    assert "LeftAnti" in frame._jdf.queryExecution().optimizedPlan().toString()
    assert found(spark, table.name) == sorted(table.rows.values(), key=repr)
    broadcast = spark.read.option("frazil.merge", "broadcast").table(table.name)
    assert "LeftAnti" not in broadcast._jdf.queryExecution().optimizedPlan().toString()
    with pytest.raises(InvalidArgument, match=r"frazil\.merge"):
        spark.read.option("frazil.merge", "maybe").table(table.name).collect()


@pytest.mark.parametrize("way", WAYS)
def test_every_snapshot_of_either_store_is_a_version(spark, table, way):
    for snapshot in table.table.refresh().snapshots:
        wanted = sorted(
            (tuple(row.values()) for row in table.table.scan(version=snapshot.snapshot_id).to_arrow().to_pylist()),
            key=repr,
        )
        assert found(spark, table.name, versionAsOf=str(snapshot.snapshot_id), **WAYS[way]) == wanted


def test_time_travel_in_all_spellings(spark, sql, table):
    first, *_, last = table.table.refresh().snapshots
    loaded = next(one for one in table.table.snapshots if one.summary.get("added-records") == "40")
    number, moment = loaded.snapshot_id, loaded.timestamp_ms
    name = table.name
    for query in (
        f"SELECT count(*) FROM {name} VERSION AS OF {number}",
        f"SELECT count(*) FROM {name} FOR SYSTEM_VERSION AS OF {number}",
        f"SELECT count(*) FROM {name}.snapshot_id_{number}",
        f"SELECT count(*) FROM {name}.at_timestamp_{moment}",
        f"SELECT count(*) FROM {name} TIMESTAMP AS OF timestamp_millis({moment})",
    ):
        assert sql(query) == [(40,)], query
    for option, text in (("snapshot-id", number), ("versionAsOf", number), ("as-of-timestamp", moment)):
        assert spark.read.option(option, str(text)).table(name).count() == 40, option
    assert sql(f"SELECT count(*) FROM {name} TIMESTAMP AS OF '2999-01-01'") == [(len(table.rows),)]
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF {first.snapshot_id}") == [(0,)]
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF {last.snapshot_id}") == [(len(table.rows),)]
    with pytest.raises(SnapshotNotFound, match="neither store"):
        sql(f"SELECT * FROM {name} VERSION AS OF 12345")
    with pytest.raises(FrazilError, match="branch or tag"):
        sql(f"SELECT * FROM {name} VERSION AS OF 'dev'")
    with pytest.raises(SnapshotNotFound):
        sql(f"SELECT * FROM {name} TIMESTAMP AS OF '2001-01-01'")


def test_a_frame_keeps_its_rows(spark, table):
    frame = spark.table(table.name)
    before = sorted(map(tuple, frame.collect()), key=repr)
    table.table.delete("id < 30")
    table.table.optimize("full", upkeep=False)
    assert sorted(map(tuple, frame.collect()), key=repr) == before
    assert spark.table(table.name).count() == len([one for one in table.rows if one >= 30])


def test_a_handle_that_was_let_go_is_made_again(lake, table):
    now = resolve(lake, table.name.split(".")[1:])
    number = table.table.refresh().snapshots[0].snapshot_id
    change = now.metadata_table("change")
    assert change is not None
    for handle in (now, now.at_number(number), change, now.metadata_table("change.files"), now.metadata_table("files")):
        again = format_named("mixed").again(lake, json.loads(handle.key))
        assert again.key == handle.key
        assert (again.schema, again.pair) == (handle.schema, handle.pair)
    table.table.delete("TRUE")
    again = format_named("mixed").again(lake, json.loads(now.key))
    assert again.table.scan().count() == len(table.rows)


def test_the_change_store_is_a_table(spark, sql, table):
    change = f"{table.name}.change"
    columns = ["id", "name", "region", "_transaction_id", "_file_offset", "_change_action"]
    assert spark.table(change).columns == columns
    wanted = sorted(
        (tuple(row.values()) for row in table.table.refresh().change.scan().to_arrow().to_pylist()), key=repr
    )
    assert found(spark, change) == wanted
    assert found(spark, change, **{"frazil.scan": "arrow"}) == wanted
    deleted = [row for row in wanted if row[5] == "DELETE"]
    for options in ({}, {"frazil.scan": "arrow"}):
        assert found(spark, change, "_change_action = 'DELETE'", **options) == deleted
        newest = max(row[3] for row in deleted)
        where = f"_transaction_id = {newest} AND _file_offset > 1 AND _change_action = 'DELETE'"
        assert found(spark, change, where, **options) == [row for row in deleted if row[3] == newest and row[4] > 1]
    assert sql(f"SELECT count(*) FROM {change}") == [(len(wanted),)]
    with pytest.raises(Exception, match="does not support"):
        sql(f"INSERT INTO {change} SELECT * FROM {change}")


def test_changes_tell_their_node_and_file_on_request(spark, table):
    change, names = f"{table.name}.change", ["id", "_tree_node", "_file", "_change_action"]
    told = table.table.refresh().change.scan(columns=names).to_arrow().to_pylist()
    wanted = sorted((tuple(row.values()) for row in told), key=repr)
    node = min(row[1] for row in wanted)
    assert node < max(row[1] for row in wanted)
    for options in ({}, {"frazil.scan": "arrow"}):
        frame = spark.read.options(**options).table(change)
        assert sorted(map(tuple, frame.select(*names).collect()), key=repr) == wanted
        some = frame.where(f"_tree_node = {node} AND _change_action = 'INSERT'").select(*names)
        assert sorted(map(tuple, some.collect()), key=repr) == [
            row for row in wanted if row[1] == node and row[3] == "INSERT"
        ]
        assert "_tree_node" not in frame.columns


def test_both_stores_have_metadata_tables(sql, table):
    name, base, change = table.name, table.table.refresh().base_store, table.table.change_store
    assert change is not None
    for shown, store in ((name, base), (f"{name}.base", base), (f"{name}.change", change)):
        numbers = sorted(one.snapshot_id for one in store.snapshots)
        assert sql(f"SELECT snapshot_id FROM {shown}.snapshots ORDER BY 1") == [(number,) for number in numbers]
        files = sorted(task.file.file_path for task in store.scan().plan().tasks())
        assert sql(f"SELECT file_path FROM {shown}.data_files ORDER BY file_path") == [(path,) for path in files]
    assert sql(f"SELECT count(*) FROM {name}.base") == [(base.scan().count(),)]
    for missing in (f"{name}.nothing", f"{name}.change.nothing", f"{name}.base.base", f"{name}.files.change"):
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(f"SELECT * FROM {missing}")


def test_counts_come_from_metadata_where_nothing_is_to_be_merged(spark, lake, name):
    keyed = Keyed(lake, name, []).filled()
    keyed.table.optimize("full", upkeep=False)
    plan = spark.sql(f"SELECT count(*) FROM {name}")._jdf.queryExecution().optimizedPlan().toString()
    assert "Frazil" not in plan
    assert "OneRowRelation" in plan or "LocalRelation" in plan
    keyed.table.delete("id = 1")
    assert spark.sql(f"SELECT count(*), max(id) FROM {name}").collect() == [(11, 11)]


def test_the_optimizer_is_told_how_much_there_is(spark, table):
    stats = spark.table(table.name).where("region = 'eu'")._jdf.queryExecution().optimizedPlan().stats()
    assert 0 < int(str(stats.sizeInBytes())) < 1 << 20
    small = spark.table(table.name).join(spark.range(5), "id")
    assert "Broadcast" in small._jdf.queryExecution().executedPlan().toString()
    assert small.count() == len([one for one in table.rows if one < 5])


@pytest.mark.parametrize("kind", ["base", "change"])
def test_files_of_other_formats_are_merged_by_workers(spark, lake, name, kind):
    keyed = Keyed(lake, name, ["bucket(2, id)"], **{f"{kind}.write.format": "orc"}).filled()
    keyed.table.upsert([{"id": n, "name": "new", "region": "us"} for n in (1, 7)])
    keyed.table.delete("id = 3")
    keyed.rows.update({n: (n, "new", "us") for n in (1, 7)})
    del keyed.rows[3]
    for options in WAYS.values():
        assert found(spark, name, **options) == sorted(keyed.rows.values(), key=repr)
        assert found(spark, name, "name = 'old'", "id", **options) == sorted(
            ((key,) for key, row in keyed.rows.items() if row[1] == "old"), key=repr
        )


def test_a_table_without_a_key_is_read_as_iceberg_is(spark, lake, name):
    table = lake.create_table(name.removeprefix("lake."), "id BIGINT, name STRING", format="mixed")
    table.append([{"id": n, "name": "a"} for n in range(10)])
    first = table.base_store.current_snapshot.snapshot_id
    table.delete("id < 3")
    for options in ({}, {"frazil.scan": "arrow"}):
        assert found(spark, name, "id < 5", **options) == [(3, "a"), (4, "a")]
    assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF {first}").collect() == [(10,)]
    assert spark.sql(f"SELECT count(*) FROM {name}.snapshots").collect() == [(2,)]
    assert "primary-key" not in {row[0] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    handle = resolve(lake, name.split(".")[1:])
    assert format_named("mixed").again(lake, json.loads(handle.key)).key == handle.key


@pytest.mark.parametrize("place", ["memory", "nested", "sibling"])
def test_tables_that_are_in_no_catalog_are_frames_too(spark, lake, tmp_path, place):
    from tests.mixed.tables import new_table, row

    folder, layout = (None, "nested") if place == "memory" else (str(tmp_path / "t"), place)
    made = new_table(partition_by=("region",), folder=folder, layout=layout)
    made.append([row(n) for n in range(10)])
    made.upsert([row(3, "b"), row(4, "c")])
    made.delete("id = 5")
    names = {one.id: one.name for one in made.to_spark(spark, where="id < 7", columns=["id", "name"]).collect()}
    assert names == {0: "a", 1: "a", 2: "a", 3: "b", 4: "c", 6: "a"}
    if folder is not None:
        assert spark.sql(f"SELECT count(*) FROM lake.`{folder}`").collect() == [(9,)]
        assert spark.read.format("frazil").load(str(tmp_path / "t")).count() == 9
        assert spark.read.format("frazil").option("frazil.scan", "arrow").load(str(tmp_path / "t")).count() == 9
