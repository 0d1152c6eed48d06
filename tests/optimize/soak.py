"""Two optimizers and two writers on one keyed table for a while, each a process of its own: nothing is lost or doubled.

`python -m tests.optimize.soak --seconds 300 [--spark]`. One optimizer is killed now and then, and another takes its
place; with `--spark` the other one runs on Spark, and some that are killed. A reader looks on: no
key is ever there twice. One writer upserts and deletes by key; the other one, of keys of its own, runs commands that
read the table. At the end the table has what both wrote, and is at rest.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import frazil
from frazil.errors import CommitConflict, CommitFailed, FileMissing
from tests.mixed.tables import new_table, row, rows_of

KEYS = 200
PROPERTIES = {
    "commit.retry.num-retries": "50",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "50",
    "self-optimizing.minor.trigger.interval": "0",
    "change.data.ttl.minutes": "0",
    "snapshot.keep.duration": "5s",
    "frazil.transaction.timeout-ms": "60000",
}

_SMALL = {"master": "local[2]", "spark.driver.memory": "1g", "spark.ui.enabled": "false"}
_SPARK_SECONDS = 20


def write(folder: str, until: float, seed: int, told: str) -> None:
    """Change rows of all kinds until a time, then say what they should be."""
    table: Any = frazil.open(folder)
    dice = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    commits = refused = 0
    while time.time() < until:
        keys = dice.sample(range(KEYS), dice.randint(1, 20))
        new = {key: row(key, f"{commits}", dice.choice(["eu", "us"])) for key in keys}
        try:
            if dice.random() < 0.2:
                table.delete_keys([{"id": key} for key in keys])
                new = {}
            else:
                batch = f"soak/{commits}"
                for _ in range(dice.choice([1, 1, 2])):  # a stream that repeats a batch
                    table.upsert(list(new.values()), batch_id=batch)
        except (CommitConflict, CommitFailed):
            refused += 1
            continue  # definitely not written
        for key in keys:
            rows.pop(key, None)
        rows.update(new)
        commits += 1
    Path(told).write_text(json.dumps({"commits": commits, "refused": refused, "rows": list(rows.values())}))


def command(folder: str, until: float, seed: int, told: str) -> None:
    """Run commands that read rows, of keys above the other writer's, until a time; then say what the rows should be."""
    table: Any = frazil.open(folder)
    dice = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    commits = refused = 0
    while time.time() < until:
        keys = dice.sample(range(KEYS, KEYS + 40), dice.randint(1, 10))
        limit = dice.choice(keys)
        new = {key: row(key, f"{commits}", dice.choice(["eu", "us"])) for key in keys}
        what = dice.choice(["merge", "merge", "update", "delete", "overwrite"])
        try:
            if what == "merge":
                merge = table.merge(list(new.values())).when_matched_update_all().when_not_matched_insert_all()
                merge.execute()
                after = {**rows, **new}
            elif what == "update":
                table.update({"name": "name || '!'"}, f"id >= {limit}")
                after = {key: {**one, "name": one["name"] + "!" * (key >= limit)} for key, one in rows.items()}
            elif what == "delete":
                table.delete(f"id >= {limit}")
                after = {key: one for key, one in rows.items() if key < limit}
            else:
                table.overwrite(list(new.values()), f"id >= {KEYS}")
                after = new
        except (CommitConflict, CommitFailed):
            refused += 1
            continue  # definitely not written
        rows = after
        commits += 1
    Path(told).write_text(json.dumps({"commits": commits, "refused": refused, "rows": list(rows.values())}))


def optimize(folder: str, until: float, on_spark: bool = False) -> None:
    table: Any = frazil.open(folder)
    spark = frazil.connect("memory:").spark(**_SMALL) if on_spark else None
    runs = 0
    while time.time() < until:
        result = table.optimize(spark=spark)
        runs += len(result.runs)
        problems = [one.problem for one in result.upkeep if one.problem]
        assert not any("left for" not in problem for problem in problems), problems
        assert not any("given up" not in problem for problem in result.problems), result.problems
    if spark is not None:
        Path(f"{folder}.spark.txt").write_text(str(runs))
        spark.stop()


def read(folder: str, until: float) -> None:
    while time.time() < until:
        try:
            table: Any = frazil.open(folder)
            ids = table.scan(columns=["id"]).to_arrow()["id"].to_pylist()
        except FileMissing:
            continue  # so slow that its snapshot expired
        assert len(ids) == len(set(ids)), "a key is there twice"


def soak(
    folder: str, seconds: float, partition_by: tuple[str, ...] = (), seed: int = 1, *, on_spark: bool = False
) -> str:
    """Run all of it; what happened, in words."""
    new_table(folder=folder, properties=PROPERTIES, partition_by=partition_by)
    context = multiprocessing.get_context("spawn")
    until = time.time() + seconds
    told = [f"{folder}.{writer}.json" for writer in ("write", "command")]
    dice = random.Random(seed)

    def start(target: Any, *args: Any) -> Any:
        process = context.Process(target=target, args=(folder, until, *args))
        process.start()
        return process

    lasting = [start(write, seed, told[0]), start(command, seed, told[1]), start(read), start(optimize, on_spark)]
    mortal, killed = start(optimize), 0
    while time.time() < until:
        time.sleep(min(dice.uniform(1, 6), max(0.0, until - time.time())))
        if mortal.is_alive() and time.time() < until:
            mortal.kill()
            mortal.join()
            killed += 1
            longer = on_spark and killed % 3 == 0  # Spark takes a while to start
            mortal = start(optimize, longer)
            time.sleep(min(_SPARK_SECONDS * longer, max(0.0, until - time.time())))
    for process in (*lasting, mortal):
        process.join()
        assert process.exitcode == 0, f"{process.name} ended with {process.exitcode}"
    wanted = [json.loads(Path(place).read_text()) for place in told]
    table: Any = frazil.open(folder)
    rows = sorted((one for writer in wanted for one in writer["rows"]), key=repr)
    assert rows_of(table) == rows, "rows were lost or doubled"
    table.optimize("minor")
    assert not table.optimize("minor").runs, "the table is not at rest"
    assert rows_of(table) == rows, "rows were lost or doubled by the last optimizing"
    runs = sum(one.summary.get("snapshot.producer") == "OPTIMIZE" for one in table.base_store.snapshots)
    written = " and ".join(f"{one['commits']} commits, {one['refused']} refused" for one in wanted)
    told_by = Path(f"{folder}.spark.txt")
    spark = f", {told_by.read_text()} runs on Spark" if on_spark and told_by.exists() else ""
    return f"{written}, {len(rows)} rows, {killed} kills, {runs} runs still in the history{spark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--folder", help="where to make the table; a temporary folder if not told")
    parser.add_argument("--partition-by", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="one optimizer, and some that are killed, run on Spark")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = str(Path(given.folder or temporary) / "db/t")
        told = soak(place, given.seconds, tuple(given.partition_by), given.seed, on_spark=given.spark)
        sys.stdout.write(told + "\n")


if __name__ == "__main__":
    main()
