"""CALL lake.system.optimize and evaluate: named arguments, for a table, a namespace or the lake, with reasons."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidArgument, Unsupported
from tests.mixed.tables import row
from tests.spark.optimize.conftest import NAMES, SCHEMA, rows_of

OPTIMIZED = (
    *("table", "kind", "runs", "health_before", "data_files_added", "data_files_removed"),
    *("delete_files_added", "delete_files_removed", "reasons", "upkeep", "problems"),
)
EVALUATED = (
    *("table", "health", "kind", "tasks", "input_files", "input_bytes", "small_files_score"),
    *("equality_deletes_score", "position_deletes_score", "reasons", "upkeep", "problems"),
)


@pytest.fixture
def call(spark, lake):
    def run(name, arguments, columns):
        found = spark.sql(f"CALL lake.system.{name}({arguments})")
        assert tuple(found.columns) == columns
        return [one.asDict() for one in found.collect()]

    return run


@pytest.mark.parametrize("name_of", NAMES)
def test_a_table_is_evaluated_and_optimized(call, made, name_of):
    table = made(name_of)
    before, name = rows_of(table), table.identifier
    (told,) = call("evaluate", f"table => '{name}', kind => 'minor'", EVALUATED)
    wanted = table.optimize("minor", dry_run=True)
    assert (told["table"], told["kind"], told["tasks"]) == (name, wanted.kind.name.lower(), wanted.planned_tasks)
    assert (told["health"], told["input_files"]) == (wanted.health.score, wanted.planned_files)
    assert told["reasons"][: len(wanted.reasons)] == list(wanted.reasons)
    dry = call("optimize", f"table => '{name}', kind => 'minor', dry_run => true", OPTIMIZED)
    assert (dry[0]["kind"], dry[0]["runs"]) == (told["kind"], 0)
    (done,) = call("optimize", f"table => 'lake.{name}', kind => 'MINOR'", OPTIMIZED)
    assert (done["kind"], done["problems"]) == (told["kind"], [])
    assert done["runs"] >= 1
    assert done["data_files_removed"] + done["data_files_added"] > 0
    assert rows_of(table) == before
    (rest,) = call("evaluate", f"'{name}', kind => 'minor'", EVALUATED)
    assert (rest["kind"], rest["tasks"]) == (None, 0)
    assert rest["reasons"]


def test_spark_sees_the_files_and_the_order(call, made, sql):
    table = made("v2")
    name = f"lake.{table.identifier}"
    rows = sorted(sql(f"SELECT * FROM {name}"))
    call("optimize", f"table => '{table.identifier}', sort_order => 'region DESC, id'", OPTIMIZED)
    assert sorted(sql(f"SELECT * FROM {name}")) == rows
    assert sql(f"SELECT count(*), max(sort_order_id) FROM {name}.data_files") == [(1, 1)]
    found = sql(f"SELECT region, id FROM {name} ORDER BY _file, _pos")
    assert found == sorted(sorted(found, key=lambda one: one[1]), key=lambda one: one[0], reverse=True)
    assert not call("optimize", f"'{table.identifier}', sort_order => 'region DESC, id'", OPTIMIZED)[0]["runs"]


@pytest.mark.parametrize("way", ["workers", "native"], indirect=True)
def test_rows_along_a_curve(call, made, sql, way):
    table = made("v3")
    before = rows_of(table)
    call("optimize", f"table => '{table.identifier}', sort_order => 'zorder(region, id)'", OPTIMIZED)
    assert rows_of(table) == before
    assert len(table.scan().plan().file_paths) == 1
    ids = [one[0] for one in sql(f"SELECT id FROM lake.{table.identifier} ORDER BY _file, _pos")]
    assert ids != sorted(ids)


def test_rows_of_lance_tables_get_an_order(call, made):
    table = made("lance")
    before = rows_of(table)
    (told,) = call("optimize", f"table => '{table.identifier}', sort_order => 'region DESC, id'", OPTIMIZED)
    assert (told["kind"], told["runs"]) == ("full", 1)
    assert rows_of(table.refresh()) == before
    found = [(one["region"] or "", one["id"]) for one in table.scan().to_arrow().to_pylist()]
    assert found == sorted(sorted(found, key=lambda one: one[1]), key=lambda one: one[0], reverse=True)


def test_the_property_asks_for_an_order_too(call, made, sql):
    table = made("v2")
    sql(f"ALTER TABLE lake.{table.identifier} SET TBLPROPERTIES ('self-optimizing.sort-order' = 'id DESC')")
    call("optimize", f"table => '{table.identifier}', kind => 'full'", OPTIMIZED)
    ids = [one[0] for one in sql(f"SELECT id FROM lake.{table.identifier} ORDER BY _file, _pos")]
    assert ids == sorted(ids, reverse=True)


def test_only_partitions_that_a_filter_chooses(call, made, sql):
    table = made("v2 by region")
    name = f"lake.{table.identifier}"
    before = rows_of(table)
    files = sql(f"SELECT file_path FROM {name}.data_files WHERE partition.region = 'us'")
    call("optimize", f"table => '{table.identifier}', kind => 'full', where => \"region = 'eu'\"", OPTIMIZED)
    assert sql(f"SELECT file_path FROM {name}.data_files WHERE partition.region = 'us'") == files
    assert sql(f"SELECT count(*) FROM {name}.data_files WHERE partition.region = 'eu'") == [(1,)]
    assert rows_of(table) == before


def test_a_namespace_and_the_lake(call, lake, spark):
    for space in ("one", "two"):
        lake.create_namespace(space)
        for number, told in enumerate([{}, {"format": "mixed", "primary_key": ["id"]}, {"format": "lance"}]):
            table = lake.create_table(f"{space}.t{number}", SCHEMA, **told)
            for one in range(13):
                table.append([row(one)])
    lake.create_table("two.broken", SCHEMA, properties={"self-optimizing.target-size": "much"}).append([row(1)])
    told = {one["table"]: one for one in call("evaluate", "namespace => 'two'", EVALUATED)}
    assert set(told) == {"two.t0", "two.t1", "two.t2", "two.broken"}
    assert (told["two.t0"]["kind"], told["two.t0"]["input_files"]) == ("minor", 13)
    assert told["two.t0"]["health"] <= 100
    assert "target-size" in told["two.broken"]["problems"][0]
    assert told["two.broken"]["kind"] is None
    done = {one["table"]: one for one in call("optimize", "namespace => 'lake.two'", OPTIMIZED)}
    assert [done[f"two.t{number}"]["kind"] for number in range(3)] == ["minor"] * 3
    assert "target-size" in done["two.broken"]["problems"][0]
    everything = {one["table"]: one for one in call("optimize", "", OPTIMIZED)}
    assert [everything[f"{space}.t0"]["runs"] for space in ("one", "two")] == [1, 0]
    assert everything["two.broken"]["runs"] is None
    again = lake.optimize(spark=spark)
    assert not any(one.runs for one in again if one.table.startswith(("one.", "two.")))


def test_what_cannot_be_meant_is_refused(call, made):
    name = made("v2").identifier
    for arguments, told in (
        (f"table => '{name}', kind => 'tiny'", "'tiny' is unknown"),
        (f"table => '{name}', namespace => 'db'", "a table and a namespace"),
        ("namespace => 'db', where => 'id = 1'", "of one table"),
        ("sort_order => 'id'", "of one table"),
        (f"table => '{name}', where => 'nope = 1'", "nope"),
        (f"table => '{name}', sort_order => 'nope'", "nope"),
    ):
        with pytest.raises(InvalidArgument, match=told):
            call("optimize", arguments, OPTIMIZED)
    with pytest.raises(Exception, match="nope"):
        call("optimize", "table => 'db.nope'", OPTIMIZED)


@pytest.mark.parametrize(
    "procedure", ["expire_snapshots", "remove_orphan_files", "rewrite_data_files", "rewrite_position_delete_files"]
)
def test_procedures_that_a_mixed_table_does_not_have_point_to_the_one_that_does_it(spark, made, procedure):
    table = made("keyed")
    with pytest.raises(Unsupported, match=r"is not for mixed tables.*system\.optimize"):
        spark.sql(f"CALL lake.system.{procedure}(table => '{table.identifier}')")
