"""What a writer process of `test_concurrency` does. A module of its own, so that a new process loads no test."""

from __future__ import annotations

import pyarrow as pa

import frazil


def append_rows(uri: str, warehouse: str | None, writer: int, appends: int) -> None:
    """Append rows one by one, each with a number that no other row has."""
    lake = frazil.connect(uri) if warehouse is None else frazil.connect(uri, warehouse=warehouse)
    table = lake.table("db.t")
    for number in range(appends):
        table.append(pa.table({"id": [writer * 1000 + number]}))
    lake.close()
