"""``make demo``: a tour of Iceberg tables without a JVM, in a temporary warehouse."""

from __future__ import annotations

import datetime as dt
import tempfile
import time

import pyarrow as pa

import frazil

DAYS = 7
ROWS_PER_DAY = 20_000
KINDS = ["view", "click", "buy"]


def events(day: int) -> pa.Table:
    """One day of made-up events."""
    start = dt.datetime(2026, 11, 1, tzinfo=dt.UTC) + dt.timedelta(days=day)
    numbers = range(day * ROWS_PER_DAY, (day + 1) * ROWS_PER_DAY)
    times = [start + dt.timedelta(seconds=4 * (number % ROWS_PER_DAY)) for number in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": pa.array([KINDS[n % 3] for n in numbers]),
        }
    )


class Tour:
    """Numbered steps with the time each took."""

    def __init__(self) -> None:
        self._number = 0
        self._began = time.perf_counter()

    def step(self, what: str, result: object) -> None:
        """Say what was done and what came of it."""
        self._number += 1
        now = time.perf_counter()
        print(f"{self._number:2}. {what}\n      {result}   [{(now - self._began) * 1000:.0f} ms]")
        self._began = time.perf_counter()


def main() -> None:
    """Create, fill, query, change, travel back, branch and look inside one table."""
    tour = Tour()
    with tempfile.TemporaryDirectory() as warehouse:
        lake = frazil.connect(warehouse)
        table = lake.create_table(
            "shop.events",
            "id BIGINT NOT NULL, ts TIMESTAMP, kind STRING",
            partition_by=["days(ts)"],
            format_version=3,
        )
        tour.step("create a v3 table, partitioned by day", table)

        for day in range(DAYS):
            table.append(events(day))
        loaded = table.current_snapshot
        assert loaded is not None
        tour.step(f"append {DAYS} days in {DAYS} commits", f"{table.scan().count():,} rows")

        scan = table.scan("ts >= TIMESTAMP '2026-11-07 12:00:00+00:00' AND kind = 'buy'", columns=["id", "kind"])
        tour.step(f"plan a filter: {scan.plan()} of {len(table.scan().plan())} files", f"{scan.count():,} rows match")

        gone = table.delete("kind = 'view' AND ts < TIMESTAMP '2026-11-02 00:00:00+00:00'")
        assert gone is not None
        told = gone.summary
        tour.step(
            "delete the views of the first day",
            f"{told['deleted-data-files']} of {DAYS} files rewritten, {table.scan().count():,} rows left",
        )

        before = table.scan(version=loaded.snapshot_id).count()
        tour.step("travel back to before the delete", f"{before:,} rows")

        with table.transaction() as change:
            change.update_schema().add_column("amount", "decimal(9, 2)", default="0.00").commit()
            change.manage_refs().create_tag("with-amounts").commit()
        first = table.scan("id = 5", columns=["id", "kind", "amount"]).to_arrow().to_pylist()
        tour.step("add a column with a default and a tag, in one transaction", first)

        table.manage_refs().create_branch("trial").commit()
        table.append(events(DAYS), branch="trial")
        tour.step(
            "append on a branch",
            f"trial: {table.scan(ref='trial').count():,} rows, main: {table.scan().count():,} rows",
        )

        row = table.scan("id = 65000", columns=["id", "_row_id", "_last_updated_sequence_number", "_pos"]).to_arrow()
        tour.step("follow a row by its lineage", row.to_pylist()[0])

        again = frazil.open(table.location)
        tour.step("open the folder from anywhere", [snapshot.operation for snapshot in reversed(again.history)])
    print("\nNo JVM, no jar, no service. Next: README.md, docs/architecture.md")


if __name__ == "__main__":
    main()
