"""Whatever is done to a keyed table, Spark reads the rows that the kernel reads, and a dictionary has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark.mixed.conftest import WAYS
from tests.spark.scan.golden_rows import rows_in_process, rows_of

NUMBERS = range(12)
KEYS: dict[str, tuple[str, Any]] = {
    "int": ("k INT NOT NULL", lambda n: {"k": n - 4}),
    "long": ("k BIGINT NOT NULL", lambda n: {"k": n * 10**15}),
    "text": ("k STRING NOT NULL", lambda n: {"k": ["", "ä", "key"][n % 3] + str(n)}),
    "date": ("k DATE NOT NULL", lambda n: {"k": dt.date(1969, 12, 28) + dt.timedelta(n)}),
    "time": ("k TIMESTAMP NOT NULL", lambda n: {"k": dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=n)}),
    "decimal": ("k DECIMAL(20, 2) NOT NULL", lambda n: {"k": Decimal(n - 5) / 4}),
    "binary": ("k BINARY NOT NULL", lambda n: {"k": bytes([n, 255 - n])}),
    "uuid": ("k UUID NOT NULL", lambda n: {"k": UUID(int=n << 64 | 7)}),
    "double": ("k DOUBLE NOT NULL", lambda n: {"k": n / 2}),
    "two": ("k INT NOT NULL, part STRING NOT NULL", lambda n: {"k": n // 3, "part": "abc"[n % 3]}),
}

changes = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "delete", "optimize"]), st.sets(st.sampled_from(NUMBERS), min_size=1)
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("partition_by", [(), ("bucket(2, k)",), ("region",)], ids=["whole", "by key", "by region"])
@pytest.mark.parametrize("kind", KEYS)
def test_all_ways_agree(spark: Any, lake: Any, kind: str, partition_by: tuple[str, ...]) -> None:
    if kind == "double" and "bucket(2, k)" in partition_by:
        pytest.skip("floating numbers have no buckets")
    schema, key = KEYS[kind]

    @settings(max_examples=2)
    @given(steps=changes, looked_for=st.sampled_from(NUMBERS))
    def check(steps: list[tuple[str, set[int]]], looked_for: int) -> None:
        from frazil import ambient

        name = f"db.p{ambient.new_uuid().hex}"
        names = list(key(0))
        table = lake.create_table(
            name, f"{schema}, region STRING, v INT", format="mixed", primary_key=names, partition_by=list(partition_by)
        )
        rows: dict[int, dict[str, Any]] = {}
        for step, (what, numbers) in enumerate(steps):
            if what == "upsert":
                new = {n: {**key(n), "region": ["eu", "us", None][(n + step) % 3], "v": step} for n in sorted(numbers)}
                table.upsert(list(new.values()))
                rows.update(new)
            elif what == "delete":
                table.delete_keys([key(n) for n in sorted(numbers)])
                rows = {n: row for n, row in rows.items() if n not in numbers}
            else:
                table.optimize("minor", upkeep=False)
        wanted = rows_in_process(table.refresh().scan())
        assert sorted((row["region"] or "", row["v"]) for row in table.scan().to_arrow().to_pylist()) == sorted(
            (row["region"] or "", row["v"]) for row in rows.values()
        )
        for way, options in WAYS.items():
            frame = spark.read.options(**options).table(f"lake.{name}")
            assert rows_of(frame) == wanted, way
            where = f"v >= {looked_for % 3} AND region = 'eu'"
            assert rows_of(frame.where(where)) == rows_in_process(table.scan(where)), way
        lake.drop_table(name, purge=True)

    check()
