"""Optimizing on Spark beside compaction: `python -m benchmarks.spark_optimize FILES ROUNDS [--json]`.

A table of many small files is made into few large ones, by `table.optimize(spark=...)`, by `rewrite_data_files` and by
optimizing in one process; a new table of the same files before each call, the sides taking turns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import frazil
from benchmarks import rows
from benchmarks.report import Line, tell
from benchmarks.spark_scan import cpu_of
from benchmarks.turns import compared, in_turns
from benchmarks.twins import Fresh, checksum, live_files, many_files, twin

AT_MOST = 1.2
ROWS_PER_FILE = 1_000
_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}


class Bench:
    """All questions, in one session over a warehouse in a folder."""

    def __init__(self, folder: Path, files: int, rounds: int) -> None:
        self.files, self.rounds = files, rounds
        self.warm = 1 if rounds > 1 else 0
        self.lake = frazil.connect(folder / "lake")
        self.spark = self.lake.spark(**_CONF)
        self.cpu = cpu_of(self.spark)
        self.lake.create_namespace("db")

    def lines(self) -> Iterator[Line]:
        made = rows.made(self.files * ROWS_PER_FILE)
        base = self.lake.create_table("db.base", made.schema, properties={"format-version": "3"})
        many_files(base, made, self.files)
        expected = checksum(self.spark.table("lake.db.base"))
        commands: dict[str, Callable[[Any], object]] = {
            "optimize": lambda table: table.optimize("minor", upkeep=False, spark=self.spark),
            "rewrite_data_files": lambda table: table.rewrite_data_files(spark=self.spark),
            "one process": lambda table: table.optimize("minor", upkeep=False),
        }
        sides = {name: Fresh(lambda: twin(self.lake, base), command) for name, command in commands.items()}
        best = in_turns({name: side.job(self.cpu) for name, side in sides.items()}, self.rounds, warm=self.warm)
        for name, side in sides.items():
            table = side.changed()
            found = checksum(self.spark.table(f"lake.{table.identifier}"))
            if found != expected:
                raise RuntimeError(f"{name}: {found} instead of {expected}")
            if len(live_files(table)) > max(1, self.files // 100):
                raise RuntimeError(f"{name}: {len(live_files(table))} files are left")
        question = f"Spark, {self.files:,} small files made into few: optimizing to"
        ours = best["optimize"]
        yield from compared(f"{question} rewrite_data_files", ours, best["rewrite_data_files"], AT_MOST)
        yield from compared(f"{question} optimizing in one process", ours, best["one process"], 10)


def main(files: str = "2000", rounds: str = "3", form: str = "") -> int:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        bench = Bench(Path(folder), int(files), int(rounds))
        code = tell(bench.lines(), form)
        bench.spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
