"""CALL convert: tables that become tables of another format, moved by workers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import frazil
from frazil.conversion.work import InProcess
from frazil.errors import FrazilError, InvalidSchema
from tests.conversion.test_convert import FULL, NOTHING, SCHEMA, by_pyiceberg, by_pylance, rows_of

lance = pytest.importorskip("lance")


@pytest.fixture
def not_here(monkeypatch):
    """No rows are moved in this process."""

    def refuse(*_args):
        raise AssertionError("rows came to the driver")

    monkeypatch.setattr(InProcess, "run", refuse)


@pytest.mark.smoke
def test_there_and_back(spark, lake, name, sql, not_here):
    sql(f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'the key', word STRING) COMMENT 'mine' PARTITIONED BY (word)")
    for start in (0, 50):
        sql(f"INSERT INTO {name} SELECT id, concat('w', id % 3) FROM range({start}, {start + 50}, 1, 2)")
        sql(f"ALTER TABLE {name} CREATE TAG after{start}")
    sql(f"DELETE FROM {name} WHERE id % 10 = 0")
    expected = sql(f"SELECT * FROM {name} ORDER BY id")
    cached = spark.table(name).cache()
    assert cached.count() == 90
    [(kind, location, previous, rows, tags)] = sql(f"CALL lake.system.convert(table => '{name[5:]}', to => 'lance')")
    assert (kind, rows, tags) == ("lance", 90, 2)
    assert location == lake.table(name[5:]).location
    assert sql(f"SELECT * FROM {name} ORDER BY id") == expected
    assert [tuple(row.values()) for row in rows_of(by_pylance(lake, name[5:]))] == expected
    assert by_pylance(lake, name[5:], version="after0").num_rows == 50
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF 'after50'") == [(100,)]
    assert frazil.open(previous).scan().count() == 90
    assert sql(f"DESCRIBE TABLE {name}")[0] == ("id", "bigint", "the key")
    sql(f"INSERT INTO {name} VALUES (1000, 'new')")
    sql(f"UPDATE {name} SET word = 'changed' WHERE id = 1")

    [(kind, _, previous, rows, tags)] = sql(f"CALL lake.system.convert('{name[5:]}', 'iceberg')")
    assert (kind, rows, tags) == ("iceberg", 91, 2)
    now = [tuple(row.values()) for row in rows_of(by_pyiceberg(lake, name[5:]))]
    assert now == sql(f"SELECT * FROM {name} ORDER BY id")
    assert (now[-1], now[0]) == ((1000, "new"), (1, "changed"))
    assert sql(f"SELECT count(*) FROM {name} VERSION AS OF 'after0'") == [(50,)]
    assert lance.dataset(previous).count_rows() == 91
    sql(f"MERGE INTO {name} t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert sql(f"SELECT count(*) FROM {name}") == [(90,)]


def test_types_that_spark_has_no_place_for(lake, name, sql, not_here):
    """Rows do not go through the JVM: all types of both formats are moved, whatever the session's Spark has."""
    lake.create_table(name[5:], SCHEMA).append([FULL, NOTHING])
    sql(f"CALL lake.system.convert('{name[5:]}', 'lance')")
    assert rows_of(by_pylance(lake, name[5:])) == [FULL, NOTHING]
    sql(f"CALL lake.system.convert('{name[5:]}', 'iceberg')")
    assert rows_of(lake.table(name[5:]).scan().to_arrow()) == [FULL, NOTHING]


def test_tables_by_path(spark, lake, sql, tmp_path, not_here):
    place = str(tmp_path / "t")
    sql(f"CREATE TABLE lake.`{place}` AS SELECT id FROM range(10)")
    [(kind, location, *_)] = sql(f"CALL lake.system.convert('{place}', 'lance')")
    assert kind == "lance"
    assert location.startswith(f"{place}/lance-")
    assert sorted(lance.dataset(location).to_table()["id"].to_pylist()) == list(range(10))
    sql(f"INSERT INTO lake.`{place}` VALUES (10)")
    assert frazil.open(place).format == "lance"
    sql(f"CALL lake.system.convert('{place}', 'iceberg')")
    assert frazil.open(place).format == "iceberg"
    assert sql(f"SELECT count(*) FROM lake.`{place}`") == [(11,)]


def test_what_cannot_be_converted(spark, lake, name, sql):
    sql(f"CREATE TABLE {name} (id BIGINT, v VARIANT) TBLPROPERTIES ('format-version' = '3')")
    with pytest.raises(InvalidSchema, match="variant, which Lance cannot hold"):
        sql(f"CALL lake.system.convert('{name[5:]}', 'lance')")
    other = f"{name[5:]}_durations"
    lake.create_table(other, pa.schema([("d", pa.duration("s"))]), format="lance")
    with pytest.raises(InvalidSchema, match="Iceberg cannot hold"):
        sql(f"CALL lake.system.convert('{other}', 'iceberg')")
    with pytest.raises(FrazilError, match="unknown table format"):
        sql(f"CALL lake.system.convert('{name[5:]}', 'orc')")
