"""A session of its own, with two executors, whose tasks fail or run twice: `failing_tasks.py FOLDER`, answered as JSON.

The first attempt of one task fails after its last row, when a writer has seen all of them. The first attempt of another
waits until Spark has started a second one beside it; then both go on and want to commit.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROWS = 4_000
FAILING, SLOW = 1, 2
PATIENCE = 120.0


def troubled(marks: str) -> Any:
    """What rows pass through; in `marks` there is a file for each attempt at a task."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.attemptNumber()
        Path(marks, f"{task}-{attempt}").touch()
        yield from batches
        if task == FAILING and attempt == 0:
            raise RuntimeError("the first attempt fails")
        end = time.monotonic() + PATIENCE
        while task == SLOW and not Path(marks, f"{SLOW}-1").exists():
            if time.monotonic() > end:
                raise RuntimeError("there is no second attempt")
            time.sleep(0.05)

    return run


def main(folder: Path) -> dict[str, Any]:
    import frazil

    lake = frazil.connect(folder / "lake")
    lake.create_namespace("db")
    spark = lake.spark(
        **{
            "master": "local-cluster[2,1,640]",
            "spark.executor.memory": "640m",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.01",
            "spark.speculation.minTaskRuntime": "100ms",
        }
    )
    answer = {}
    for writer in ("native", "arrow"):
        marks = folder / f"marks-{writer}"
        marks.mkdir()
        spark.sql(f"CREATE TABLE lake.db.{writer} (id BIGINT, p INT) PARTITIONED BY (p)")
        rows = spark.range(0, ROWS, 1, 4).mapInArrow(troubled(str(marks)), "id bigint")
        rows = rows.selectExpr("id", "cast(id % 3 as int) AS p")
        options = {"frazil.write": writer, "distribution-mode": "none"}
        rows.writeTo(f"lake.db.{writer}").options(**options).append()
        table = lake.table(f"db.{writer}")
        data = Path(table.location.removeprefix("file://")) / "data"
        answer[writer] = {
            "attempts": sorted(mark.name for mark in marks.iterdir()),
            "ids": table.scan().to_arrow()["id"].to_pylist(),
            "referenced": sorted(Path(task.file.file_path).name for task in table.scan().plan().tasks()),
            "on disk": sorted(file.name for file in data.rglob("*") if file.is_file()),
        }
    spark.stop()
    return answer


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1])), sys.stdout)
