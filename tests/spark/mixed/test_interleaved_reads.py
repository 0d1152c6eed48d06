"""Writers that end in any order, beside optimizing on Spark and expiry: all ways of reading agree with a dictionary."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from tests.mixed.test_interleaved import PARTITIONINGS, PATIENT, Change, Scene, agrees, expire
from tests.spark.mixed.conftest import WAYS
from tests.spark.mixed.keyed import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake


class OnSpark(Scene):
    """A table of a lake, which Spark optimizes and reads."""

    def __init__(self, spark: SparkSession, lake: Lake, name: str, partition_by: tuple[str, ...], seed: int) -> None:
        self.spark, self.name, self.dice = spark, name, random.Random(seed)
        properties = {**PATIENT, "self-optimizing.minor.trigger.interval": "0"}
        table: Any = lake.create_table(
            name.removeprefix("lake."),
            SCHEMA,
            format="mixed",
            primary_key=["id"],
            partition_by=list(partition_by),
            properties=properties,
        )
        super().__init__(table)
        self.upkeep: Sequence[Change] = [Change("optimize", self.optimize), Change("expire", expire)]

    def optimize(self, table: Any) -> None:
        table.optimize(self.dice.choice(["minor", "major", "full"]), spark=self.spark, upkeep=False)

    def check(self) -> None:
        super().check()
        self.check_way(self.dice.choice(list(WAYS)))

    def check_way(self, way: str) -> None:
        frame = self.spark.read.options(**WAYS[way]).table(self.name)
        found = sorted((row.asDict() for row in frame.collect()), key=repr)
        assert found == self.wanted(), "\n".join([*self.told, way])


def _all_ways_agree(scene: OnSpark, seed: int, turns: int) -> None:
    dice = random.Random(seed)
    agrees(scene, [(dice.randint(0, 2), dice.randint(0, 419)) for _ in range(turns)])
    for way in WAYS:
        scene.check_way(way)


@pytest.mark.parametrize("partition_by", PARTITIONINGS)
def test_all_ways_of_reading_agree_about_writers_that_end_in_any_order(
    partition_by: tuple[str, ...], spark: SparkSession, lake: Lake, name: str
) -> None:
    _all_ways_agree(OnSpark(spark, lake, name, partition_by, 5), 5, 25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 14))
@pytest.mark.parametrize("partition_by", PARTITIONINGS)
def test_all_ways_of_reading_agree_about_writers_that_end_in_any_order_for_long(
    partition_by: tuple[str, ...], seed: int, spark: SparkSession, lake: Lake, name: str
) -> None:
    _all_ways_agree(OnSpark(spark, lake, name, partition_by, seed), seed, 80)
