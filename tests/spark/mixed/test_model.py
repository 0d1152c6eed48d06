"""The model checker of tests/mixed with Spark among the writers and readers: all agree with a dictionary."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.mixed.test_model import Modelled
from tests.spark.mixed.conftest import WAYS
from tests.spark.mixed.keyed import SCHEMA


class OnSpark(Modelled):
    """A table of a lake. Half of the writes are Spark's, and all reads are done by it too."""

    def __init__(self, seed: int, partition_by: tuple[str, ...], lake: Any, spark: Any, name: str) -> None:
        self.random = random.Random(seed)
        self.spark, self.name = spark, name
        self.table = lake.create_table(
            name.removeprefix("lake."), SCHEMA, format="mixed", primary_key=["id"], partition_by=list(partition_by)
        )
        self.rows = {}
        self.past = []

    def frame(self, rows: list[dict[str, Any]], more: str = "") -> Any:
        schema = f"{more}{SCHEMA.replace(' NOT NULL', '')}"
        return self.spark.createDataFrame([tuple(row.values()) for row in rows], schema).repartition(2)

    def sql_upsert(self) -> None:
        given = [self.some_row(key) for key in self.some_keys()]
        self.table.upsert(self.frame(given))
        self.rows.update({one["id"]: one for one in given})

    def sql_insert(self) -> None:
        new = [self.some_row(key) for key in self.some_keys() if key not in self.rows]
        if new:
            self.frame(new).writeTo(self.name).append()
            self.rows.update({one["id"]: one for one in new})

    def sql_delete(self) -> None:
        name = self.random.choice("abcdef")
        self.spark.sql(f"DELETE FROM {self.name} WHERE name = '{name}' AND id % 2 = 1")
        self.rows = {key: one for key, one in self.rows.items() if not (one["name"] == name and key % 2)}

    def sql_update(self) -> None:
        key = self.random.randint(2, 12)
        self.spark.sql(f"UPDATE {self.name} SET name = 'u', region = 'us' WHERE id < {key}")
        self.rows.update({one: {"id": one, "name": "u", "region": "us"} for one in self.rows if one < key})

    def sql_exchange(self) -> None:
        """All rows change their keys at once."""
        self.spark.sql(f"UPDATE {self.name} SET id = 13 - id")
        self.rows = {13 - key: {**one, "id": 13 - key} for key, one in self.rows.items()}

    def sql_merge(self) -> None:
        given = [self.some_row(key) for key in self.some_keys()]
        self.frame(given).createOrReplaceTempView("model_source")
        self.spark.sql(
            f"MERGE INTO {self.name} t USING model_source s ON t.id = s.id"
            " WHEN MATCHED AND s.name < 'c' THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        for one in given:
            if one["id"] in self.rows and one["name"] < "c":
                del self.rows[one["id"]]
            else:
                self.rows[one["id"]] = one

    def sql_ingest(self) -> None:
        told: list[dict[str, Any]] = []
        for place in range(self.random.randint(1, 8)):
            key = self.random.choice(range(14))
            old, new = self.rows.get(key), self.some_row(key)
            if old is None:
                told.append({"op": "+I", "place": place, **new})
                self.rows[key] = new
            elif self.random.random() < 0.4:
                told.append({"op": "-D", "place": place, **self.as_told(old)})
                del self.rows[key]
            else:
                told += [{"op": "-U", "place": place, **old}, {"op": "+U", "place": place, **new}]
                self.rows[key] = new
        self.table.ingest(self.frame(told, "op STRING, place INT, "), order="place")

    def sql_overwrite(self) -> None:
        region = self.random.choice(["eu", "us"])
        stays = {key: one for key, one in self.rows.items() if one["region"] != region}
        new = [{"id": key, "name": "z", "region": region} for key in self.some_keys(2) if key not in stays]
        self.frame(new).createOrReplaceTempView("model_source")
        self.spark.sql(f"INSERT INTO {self.name} REPLACE WHERE region = '{region}' SELECT * FROM model_source")
        self.rows = {**stays, **{one["id"]: one for one in new}}

    def step(self) -> None:
        if self.random.random() < 0.4:
            super().step()
            return
        names = ("upsert", "insert", "delete", "update", "exchange", "merge", "ingest", "overwrite")
        getattr(self, f"sql_{self.random.choice(names)}")()
        self.table.refresh()

    def check(self) -> None:
        super().check()
        wanted = sorted(self.rows.values(), key=repr)
        name = self.random.choice("abc")
        for way, options in WAYS.items():
            frame = self.spark.read.options(**options).table(self.name)
            assert sorted((row.asDict() for row in frame.collect()), key=repr) == wanted, way
            some = sorted((row.asDict() for row in frame.where(f"name > '{name}' AND id < 9").collect()), key=repr)
            assert some == [one for one in wanted if one["name"] > name and one["id"] < 9], way

    def check_past(self) -> None:
        super().check_past()
        for snapshot, rows in self.random.sample(self.past, min(2, len(self.past))):
            for way, options in WAYS.items():
                frame = self.spark.read.options(**options, versionAsOf=str(snapshot)).table(self.name)
                assert sorted((row.asDict() for row in frame.collect()), key=repr) == rows, way


@pytest.mark.parametrize("partition_by", [(), ("region", "bucket(2, id)")], ids=["whole", "partitioned"])
def test_spark_and_a_dictionary_agree(partition_by, spark, lake, name):
    modelled = OnSpark(3, partition_by, lake, spark, name)
    for _ in range(8):
        modelled.step()
        modelled.check()
    modelled.check_past()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 8))
@pytest.mark.parametrize("partition_by", [(), ("bucket(3, id)",), ("region",)], ids=["whole", "by key", "by region"])
def test_spark_and_a_dictionary_agree_for_long(partition_by, seed, spark, lake, name):
    modelled = OnSpark(seed, partition_by, lake, spark, name)
    for _ in range(25):
        modelled.step()
        modelled.check()
    modelled.check_past()
