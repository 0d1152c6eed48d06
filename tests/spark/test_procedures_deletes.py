"""CALL lake.system.rewrite_position_delete_files and convert_equality_deletes: names, results, and the same rows."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from urllib.parse import urlparse

import pytest
from py4j.protocol import Py4JJavaError

from frazil.errors import CommitConflict, InvalidArgument
from frazil.iceberg.rewritten import ConvertedDeleteFiles
from frazil.spark.upkeep import convert_equality_deletes as conversion
from frazil.spark.upkeep import rewrite_position_delete_files as delete_rewrite
from tests.iceberg.delete_kinds import again, kinds_of, rows_at, rows_at_all, same_rows
from tests.iceberg.test_delete_conversion import delete_keys

BOTH = pytest.mark.parametrize("version", [2, 3])
COLUMNS = "id BIGINT, name STRING, part INT"


@pytest.fixture
def short(name):
    return name.removeprefix("lake.")


@pytest.fixture
def made(lake, short):
    """A new table."""

    def make(version, **arguments):
        arguments.setdefault("properties", {"write.delete.mode": "merge-on-read"})
        return lake.create_table(short, COLUMNS, format_version=version, **arguments)

    return make


def rows(*ids, part=0):
    return [{"id": number, "name": f"n{number}", "part": part} for number in ids]


def spark_rows(spark, name):
    return sorted((row.asDict() for row in spark.table(name).collect()), key=repr)


def told(spark, text):
    """Columns, types and rows of a result."""
    frame = spark.sql(text)
    return [(field.name, field.dataType.simpleString()) for field in frame.schema], [tuple(r) for r in frame.collect()]


# rewrite_position_delete_files


def test_positions_become_vectors(spark, sql, name, short, made):
    table = made(2, partition_by=["part"])
    for part in (0, 1):
        table.append(rows(*range(10), part=part))
    sql(f"DELETE FROM {name} WHERE id IN (1, 2)")
    table.refresh().upgrade_format_version().to(3).commit()
    before = spark_rows(spark, name)
    call = f"CALL lake.system.rewrite_position_delete_files(table => '{short}'"
    columns, [found] = told(spark, f"{call}, where => 'part = 1')")
    assert columns == [
        ("rewritten_delete_files_count", "int"),
        ("added_delete_files_count", "int"),
        ("rewritten_bytes_count", "bigint"),
        ("added_bytes_count", "bigint"),
    ]
    assert found[:2] == (1, 1)
    assert min(found[2:]) > 0
    assert kinds_of(table) == ["positions", "vector"]
    assert sql(f"{call}, options => map('rewrite-all', 'true'))")[0][:2] == (1, 1)
    assert sql(f"{call})") == [(0, 0, 0, 0)]
    assert kinds_of(table) == ["vector", "vector"]
    assert spark_rows(spark, name) == before
    with pytest.raises(InvalidArgument, match="rewrite-some"):
        sql(f"{call}, options => map('rewrite-some', 'true'))")


@BOTH
@pytest.mark.parametrize("how", ["procedure", "method"])
def test_deletes_of_many_partitions_are_rewritten_by_workers(spark, sql, name, short, made, monkeypatch, version, how):
    modes = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = made(2, partition_by=["part"], properties=modes)
    table.append([row for part in range(6) for row in rows(*range(20), part=part)])
    for number in (1, 2, 3):
        sql(f"DELETE FROM {name} WHERE id = {number}")
    if version == 3:
        table.refresh().upgrade_format_version().to(3).commit()
    before = spark_rows(spark, name)
    monkeypatch.setattr(delete_rewrite, "in_process", None)  # whoever calls it fails
    if how == "method":
        done = astuple(table.refresh().rewrite_position_delete_files(options={"min-input-files": "2"}, spark=spark))
    else:
        [done] = sql(
            f"CALL lake.system.rewrite_position_delete_files("
            f"table => '{short}', options => map('min-input-files', '2'))"
        )
    assert tuple(done)[:2] == (18, 6)
    assert kinds_of(table) == ["vector" if version == 3 else "positions"] * 6
    assert spark_rows(spark, name) == before
    assert sorted(table.refresh().scan().to_arrow().to_pylist(), key=repr) == before
    assert len(before) == 6 * 17


def test_positions_are_joined(spark, sql, name, short, made):
    table = made(2, properties={"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"})
    table.append(rows(*range(10)))
    for number in (1, 3, 5):
        sql(f"DELETE FROM {name} WHERE id = {number}")
    before = spark_rows(spark, name)
    call = f"CALL lake.system.rewrite_position_delete_files('{short}'"
    assert sql(f"{call})") == [(0, 0, 0, 0)]
    assert sql(f"{call}, map('min-input-files', '3'))")[0][:2] == (3, 1)
    assert spark_rows(spark, name) == before
    assert kinds_of(table) == ["positions"]


# convert_equality_deletes


@BOTH
def test_keys_become_positions(spark, sql, name, short, made, version):
    table = made(version)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    sql(f"DELETE FROM {name} WHERE id IN (4, 14)")
    table.refresh().upsert([{"id": 3, "name": "new", "part": 1}, {"id": 4, "name": "again", "part": 1}], ["id"])
    delete_keys(table, [{"id": n} for n in range(10, 20)], "id")
    before, now, shown = rows_at_all(table), rows_at(table), spark_rows(spark, name)
    columns, found = told(spark, f"CALL lake.system.convert_equality_deletes('{short}')")
    assert columns == [("converted_delete_files_count", "int"), ("added_delete_files_count", "int")]
    assert found == [(2, 1)]
    same_rows(table, before, now)
    assert spark_rows(spark, name) == shown
    assert kinds_of(table) == ["vector" if version == 3 else "positions"]
    assert len(again(table).scan().plan().file_paths) == 2  # of the file without rows nothing is left
    summary = again(table).current_snapshot.summary
    assert (summary["operation"], summary["engine-name"]) == ("delete", "spark")
    assert sql(f"CALL lake.system.convert_equality_deletes('{short}')") == [(0, 0)]


@BOTH
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_keys_of_every_kind(spark, sql, name, made, version, granularity):
    """Nulls, several columns, a column that was dropped, other specs, files in other formats, later rows."""
    table = made(version, properties={"write.delete.granularity": granularity})
    names = [None, "a", "b"]
    many = [{"id": n, "name": text, "part": part} for n in range(6) for text in names for part in (None, 1)]
    table.append(many)
    table.update_properties().set("write.format.default", "avro").commit()
    table.append(many)
    table.update_properties().set("write.format.default", "parquet").commit()
    everywhere = table.spec
    table.update_spec().add_field("part").commit()
    table.append(many)
    delete_keys(table, [{"name": None, "part": 1}, {"name": "a", "part": None}], "name", "part", spec=everywhere)
    delete_keys(table, [{"id": 2, "part": 1}, {"id": 3, "part": None}], "id", spec=table.spec)
    delete_keys(table, [{"name": "b", "id": 5}], "name", "id", spec=everywhere)
    table.update_schema().drop_column("name").commit()
    table.append([{"id": 2, "part": 1}])
    before, now = rows_at_all(table), rows_at(table)
    assert len(now) < 3 * len(many)
    assert table.convert_equality_deletes(spark=spark).converted_delete_files_count == 4
    same_rows(table, before, now)
    assert "keys" not in kinds_of(table)
    assert table.convert_equality_deletes(spark=spark) == ConvertedDeleteFiles()


@BOTH
def test_both_ways_write_the_same(spark, lake, short, made, version):
    table = made(version)
    table.append(rows(*range(100)))
    table.append(rows(*range(50, 150)))
    delete_keys(table, [{"id": n} for n in range(0, 150, 7)], "id")
    table.manage_refs().create_branch("dev").commit()
    assert table.convert_equality_deletes() == table.convert_equality_deletes(spark=spark, branch="dev")
    counted = [
        sorted((file.target_path, file.record_count) for file in table.scan(ref=ref).plan().delete_files)
        for ref in ("main", "dev")
    ]
    assert counted[0] == counted[1]
    assert rows_at(table, ref="main") == rows_at(table, ref="dev")


@BOTH
def test_a_part_of_the_files(spark, sql, short, made, version):
    table = made(version, partition_by=["part"])
    table.append([*rows(1, 2, part=0), *rows(1, 2, part=1)])
    delete_keys(table, [{"id": 1, "part": 0}, {"id": 1, "part": 1}], "id")
    call = f"CALL lake.system.convert_equality_deletes(table => '{short}'"
    assert sql(f"{call}, where => 'part = 0')") == [(1, 1)]
    assert kinds_of(table).count("keys") == 1
    assert sql(f"{call}, options => map('target-file-size-bytes', '1000'))") == [(1, 1)]
    assert "keys" not in kinds_of(table)
    with pytest.raises(InvalidArgument, match="'where'"):
        sql(f"{call}, options => map('where', '1'))")


@BOTH
def test_keys_that_nothing_has_go_without_a_job(spark, sql, short, made, version):
    table = made(version)
    table.append(rows(1, 2))
    delete_keys(table, [{"id": 500}], "id")
    assert sql(f"CALL lake.system.convert_equality_deletes('{short}')") == [(1, 0)]
    assert kinds_of(table) == []


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
@BOTH
def test_a_file_that_cannot_be_read_is_not_taken_for_empty(spark, short, made, version, setting):
    table = made(version)
    table.append(rows(1, 2, 3))
    delete_keys(table, [{"id": 2}], "id")
    [path] = table.scan().plan().file_paths
    file = Path(urlparse(path).path)
    if setting == "ignoreMissingFiles":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[4:-8] = bytes(len(data) - 12)
        file.write_bytes(data)
    for crc in file.parent.glob(f".{file.name}.crc"):
        crc.unlink()
    before = table.current_snapshot
    spark.conf.set(f"spark.sql.files.{setting}", "true")
    try:
        with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
            table.convert_equality_deletes(spark=spark)
    finally:
        spark.conf.unset(f"spark.sql.files.{setting}")
    assert again(table).current_snapshot == before


@BOTH
def test_what_others_do_meanwhile(spark, sql, name, short, made, version, monkeypatch):
    table = made(version)
    table.append(rows(*range(10)))
    delete_keys(table, [{"id": 2}], "id")
    read = conversion._deleted

    def between(change):
        def deleted(*given):
            found = list(read(*given))
            monkeypatch.setattr(conversion, "_deleted", read)
            change(again(table))
            return iter(found)

        monkeypatch.setattr(conversion, "_deleted", deleted)

    between(lambda other: other.delete("id = 5"))
    with pytest.raises(CommitConflict):
        sql(f"CALL lake.system.convert_equality_deletes('{short}')")
    assert kinds_of(table).count("keys") == 1
    between(lambda other: other.upsert(rows(2, 3), ["id"]))
    assert sql(f"CALL lake.system.convert_equality_deletes('{short}')") == [(1, 1)]
    assert sorted(sql(f"SELECT id FROM {name}")) == [(n,) for n in (0, 1, 2, 3, 4, 6, 7, 8, 9)]
    assert kinds_of(table).count("keys") == 1
