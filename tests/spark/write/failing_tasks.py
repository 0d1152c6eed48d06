"""A cluster of its own, whose tasks fail or run twice: `failing_tasks.py FOLDER`, answered as JSON.

The first attempt of one task fails after its last row, when a writer has seen all of them. The first attempt of another
waits until Spark has started a second one beside it; then both go on and want to commit.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROWS = 4_000
FAILING, SLOW = 1, 2
PATIENCE = 60.0
MASTER, OTHER = "127.0.0.1", "127.0.0.2"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master, and a worker on each of two addresses: Spark does not run a task twice on one host."""
    import pyspark

    from frazil.spark.session import find_java

    find_java()
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.socket() as free:
        free.bind((MASTER, 0))
        port = free.getsockname()[1]
    url, small = f"spark://{MASTER}:{port}", ("--cores", "1", "--memory", "700m", "--webui-port", "0")
    with ExitStack() as stack:

        def start(kind: str, host: str, *arguments: str) -> None:
            command = [str(program), f"org.apache.spark.deploy.{kind}", "--host", host, *arguments]
            with Path(folder, f"{kind}-{host}.log").open("wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("master.Master", MASTER, "--port", str(port), "--webui-port", "0")
        _wait_for(lambda: _answers(port), "the master does not answer")
        for host in (MASTER, OTHER):
            start("worker.Worker", host, *small, "--work-dir", str(folder / host), url)
        yield url


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((MASTER, port)) == 0


def _wait_for(condition: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(otherwise)
        time.sleep(0.05)


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
        if task == SLOW:
            _wait_for(Path(marks, f"{SLOW}-1").exists, "there is no second attempt")

    return run


def main(folder: Path, master: str) -> dict[str, Any]:
    """What each writer made of it."""
    import frazil

    lake = frazil.connect(folder / "lake")
    lake.create_namespace("db")
    spark = lake.spark(
        **{
            "master": master,
            "spark.driver.host": MASTER,
            "spark.executor.memory": "600m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.cores.max": "2",
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
    for writer in ("native", "arrow", "mixed"):
        marks = folder / f"marks-{writer}"
        marks.mkdir()
        kind = " USING mixed TBLPROPERTIES ('primary-key' = 'id', 'write.distribution-mode' = 'none')"
        spark.sql(
            f"CREATE TABLE lake.db.{writer} (id BIGINT, p INT){kind if writer == 'mixed' else ''} PARTITIONED BY (p)"
        )
        rows = spark.range(0, ROWS, 1, 4).mapInArrow(troubled(str(marks)), "id bigint")
        rows = rows.selectExpr("id", "cast(id % 3 as int) AS p")
        options = {} if writer == "mixed" else {"frazil.write": writer, "distribution-mode": "none"}
        rows.writeTo(f"lake.db.{writer}").options(**options).append()
        table = lake.table(f"db.{writer}")
        files = table.change_store if writer == "mixed" else table
        data = Path(files.location.removeprefix("file://")) / "data"
        answer[writer] = {
            "attempts": sorted(mark.name for mark in marks.iterdir()),
            "ids": table.scan().to_arrow()["id"].to_pylist(),
            "referenced": sorted(Path(task.file.file_path).name for task in files.scan().plan().tasks()),
            "on disk": sorted(file.name for file in data.rglob("*") if file.is_file()),
        }
    spark.stop()
    return answer


if __name__ == "__main__":
    here = Path(sys.argv[1])
    with cluster(here) as address:
        json.dump(main(here, address), sys.stdout)
