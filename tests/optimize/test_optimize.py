"""`table.optimize()` and `lake.optimize()`: what is done, why, and that it says so."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from frazil.errors import FrazilError, InvalidArgument, Unsupported
from frazil.optimize.evaluate import Kind
from frazil.optimize.tasks import Done, InProcess
from tests.mixed.tables import new_table, row, rows_of
from tests.optimize.tables import SCHEMA, deletes_of, iceberg_table, live, new_lake, sorted_rows

LARGE = {"self-optimizing.target-size": "1000"}
"""Every file counts as large enough."""


@pytest.mark.parametrize("version", [1, 2, 3])
def test_small_files_become_one(version: int) -> None:
    table = iceberg_table(format_version=version)
    for number in range(5):
        table.append([row(number)])
    before = sorted_rows(table)
    result = table.optimize()
    assert (result.kind, result.count("data_files_added"), result.count("data_files_removed")) == (Kind.MINOR, 1, 5)
    assert len(live(table)) == 1
    assert sorted_rows(table) == before
    assert table.current_snapshot.summary["snapshot.producer"] == "OPTIMIZE"
    assert table.current_snapshot.operation == "replace"
    assert not table.optimize("full")


def test_rows_keep_their_ids() -> None:
    table = iceberg_table(format_version=3)
    for number in range(4):
        table.append([row(number)])
    table.delete("id = 2")
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    before = sorted_rows(table, columns=columns)
    table.optimize("full")
    assert len(live(table)) == 1
    assert sorted_rows(table, columns=columns) == before


def test_few_files_wait_for_their_time_unless_it_is_asked_for() -> None:
    table = iceberg_table()
    table.append([row(1)])
    table.append([row(2)])
    assert table.optimize().kind is Kind.MINOR  # for the first time
    table.append([row(3)])
    waiting = table.optimize()
    assert not waiting.runs
    assert any("wait" in reason for reason in waiting.reasons)
    assert table.optimize("minor").kind is Kind.MINOR
    assert len(live(table)) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_large_files_become_positions_and_equality_deletes_go(version: int) -> None:
    table = iceberg_table(format_version=version, properties=LARGE)
    table.append([row(n) for n in range(40)])
    table.upsert([row(1, "b"), row(2, "b")], ["id"])
    table.upsert([row(3, "b")], ["id"])
    before = sorted_rows(table)
    kept = live(table)
    result = table.optimize("minor")
    assert result.count("delete_files_removed") == 2
    assert sorted_rows(table) == before
    assert set(live(table)) <= set(kept)
    assert len(deletes_of(table)) == 1
    assert table.current_snapshot.summary["total-equality-deletes"] == "0"
    assert not table.optimize("minor")


def test_a_large_file_that_lost_many_rows_is_rewritten() -> None:
    table = iceberg_table(properties=LARGE)
    table.append([row(n) for n in range(40)])
    table.delete("id < 20")
    result = table.optimize()
    assert (result.kind, result.count("delete_files_removed")) == (Kind.MAJOR, 1)
    assert "large file" in result.reasons[0]
    assert deletes_of(table) == set()
    assert len(sorted_rows(table)) == 20


def test_equality_deletes_of_several_partitions_go_only_with_all_of_their_files() -> None:
    """Deletes written before a table was partitioned apply to all of its partitions."""
    table = iceberg_table()
    for region in ("eu", "us"):
        table.append([row(1, region=region), row(2, region=region)])
    table.delete("id = 1")
    table.upsert([{**row(2, "new", "eu")}], ["id"])
    table.update_spec().add_field("region").commit()
    table.append([row(7, region="eu")])
    before = sorted_rows(table)
    table.optimize("minor", where="region = 'eu'")
    assert sorted_rows(table) == before
    table.optimize("full")
    assert sorted_rows(table) == before
    assert deletes_of(table) == set()


def test_a_filter_means_whole_partitions_and_leaves_shared_deletes() -> None:
    table = iceberg_table(partition_by=("region",), properties={"write.delete.granularity": "partition"})
    for number in range(6):
        table.append([row(number + more, region=("eu", "us")[more // 20 % 2]) for more in (0, 10, 20, 30)])
    table.delete("id IN (1, 13, 21)")
    before = sorted_rows(table)
    result = table.optimize("minor", where="region = 'eu' AND id = 0")
    assert [reason.partition(":")[0] for reason in result.reasons] == ["partition region=eu"]
    assert sorted_rows(table) == before
    assert sum("region=us" in path for path in live(table)) == 6
    assert sum("region=eu" in path for path in live(table)) == 1
    table.update_properties().set("self-optimizing.filter", "region = 'us'").commit()
    table.optimize("minor")
    assert len(live(table)) == 2
    assert sorted_rows(table) == before


def test_a_filter_on_a_keyed_table_loses_no_deletes() -> None:
    """A file that the filter leaves out waits for deletes as well; the partition goes as a whole, or not at all."""
    table = new_table(properties={"base.file-index.hash-bucket": "1", **LARGE}, partition_by=("region",))
    table.append([row(n) for n in range(10)])
    table.optimize("minor")
    table.append([row(n) for n in range(100, 110)])
    table.optimize("minor")
    table.upsert([row(3, "b"), row(105, "b")])
    before = rows_of(table)
    table.optimize("minor", where="id > 100")
    assert rows_of(table) == before


def test_a_dry_run_says_what_would_be_done_and_why() -> None:
    table = new_table()
    table.append([row(n) for n in range(8)])
    before = table.current_snapshot
    result = table.optimize(dry_run=True)
    assert (result.kind, result.dry_run, result.runs) == (Kind.MINOR, True, ())
    assert result.planned_files == 4
    assert "1 commit of changes to take in" in repr(result)
    assert "would be done" in result._repr_html_()
    assert table.refresh().current_snapshot == before
    assert "a minor optimizing was done" in repr(table.optimize())
    assert "nothing was done" in table.optimize()._repr_html_()


def test_rows_are_sorted_on_request_and_files_say_so() -> None:
    table = iceberg_table()
    table.append([row(n, f"{n * 7 % 10}") for n in range(10)])
    table.append([row(n, f"{n * 3 % 10}") for n in range(10, 20)])
    table.optimize(sort_by="name DESC, id")
    names = [one["name"] for one in table.scan().to_arrow().to_pylist()]
    assert names == sorted(names, reverse=True)
    assert [task.file.sort_order_id for task in table.scan().plan().tasks()] == [1]
    assert table.sort_order.is_unsorted
    assert not table.optimize(sort_by="name DESC, id")
    assert table.optimize(sort_by="id").kind is Kind.FULL
    assert [one["id"] for one in table.scan().to_arrow().to_pylist()] == list(range(20))


def test_a_table_whose_property_says_so_is_sorted_by_optimizing() -> None:
    properties = {"self-optimizing.sort-order": "name", "base.file-index.hash-bucket": "1"}
    table = new_table(properties={**properties, "change.file-index.hash-bucket": "1"})
    table.append([row(n, f"{n * 7 % 10}") for n in range(10)])
    table.optimize()
    names = [one["name"] for one in table.scan().to_arrow().to_pylist()]
    assert names == sorted(names)
    assert [task.file.sort_order_id for task in table.base_store.scan().plan().tasks()] == [1]
    assert table.base_store.sort_order.is_unsorted
    assert not table.optimize("full")


def test_a_curve_keeps_rows_together_that_are_near_in_all_columns() -> None:
    table = iceberg_table(schema="a INT, b INT")
    table.append(pa.table({"a": [n // 16 for n in range(256)], "b": [n % 16 for n in range(256)]}))
    result = table.optimize(sort_by="zorder(a, b)")
    assert len(result.runs) == 1
    rows = [(one["a"], one["b"]) for one in table.scan().to_arrow().to_pylist()]
    assert set(rows[:64]) == {(a, b) for a in range(8) for b in range(8)}
    with pytest.raises(InvalidArgument, match="zorder"):
        iceberg_table(schema="a INT, b ARRAY<INT>").optimize(sort_by="zorder(a, b)")
    for text in ("zorder()", "ZORDER( )", "zorder(a, )", "zorder(``)"):
        with pytest.raises(InvalidArgument, match="needs columns"):
            table.optimize(sort_by=text)


def test_an_unkeyed_mixed_table_keeps_the_names_of_its_files() -> None:
    table = new_table(primary_key=())
    for number in range(3):
        table.append([row(number)])
    table.optimize()
    (path,) = live(table)
    assert path.rpartition("/")[2].startswith("1-B-0-00000-0-")
    assert len(sorted_rows(table)) == 3


class Elsewhere(InProcess):
    """Carries tasks out as another process would: by what is sent. Those fail that a function chooses."""

    def __init__(self, fails: Callable[[Any], bool] = lambda task: False) -> None:
        self.done = 0
        self.fails = fails

    def execute(self, job: Any, tasks: Any) -> Any:
        far = pickle.loads(pickle.dumps(job.elsewhere()))
        light = [pickle.loads(pickle.dumps(job.light(task))) for task in tasks]
        for one in super().execute(far, light):
            self.done += 1
            if self.fails(tasks[one.number]):
                far.take_back([one.written])
                yield Done(one.number, error=MemoryError("no room"))
            else:
                yield one


def files_of(table: Any) -> set[str]:
    return {one.location for one in table.store.list(f"{table.location}/data")}


def test_tasks_can_be_carried_out_elsewhere(tmp_path: Path) -> None:
    lance = new_lake(tmp_path).create_table("db.t", SCHEMA, format="lance")
    regions = [iceberg_table(partition_by=("region",)), new_table(partition_by=("region",)), lance]
    for table in regions:
        for number in range(3):
            table.append([row(number, region="eu"), row(10 + number, region="us")])
        before = sorted_rows(table)
        executor = Elsewhere()
        result = table.optimize("minor", executor=executor)
        assert executor.done >= (1 if table is lance else 2)
        assert result.count("data_files_added") >= executor.done
        assert sorted_rows(table) == before
        assert not table.optimize("minor").runs


def test_a_task_that_fails_leaves_its_files_as_they_are() -> None:
    table = iceberg_table(partition_by=("region",))
    for number in range(3):
        table.append([row(number, region="eu"), row(10 + number, region="us")])
    before = sorted_rows(table)
    result = table.optimize(executor=Elsewhere(lambda task: task.partition.path == "region=us"))
    assert result.problems == ("a task failed, and its files stay as they are: no room",)
    assert [run.problems for run in result.runs] == [result.problems]
    assert len(live(table)) == 4
    assert sorted_rows(table) == before
    assert table.optimize("minor").kind is Kind.MINOR
    assert len(live(table)) == 2
    assert sorted_rows(table) == before


def test_deletes_that_a_failed_task_needs_stay() -> None:
    """A delete file of both partitions goes only with the second of them."""
    table = iceberg_table()
    for number in range(4):
        table.append([row(number, region="eu"), row(10 + number, region="us")])
    table.upsert([row(1, "new"), row(11, "new", "us")], ["id"])
    table.update_properties().set("self-optimizing.max-task-size-bytes", "1").set(
        "self-optimizing.target-size", "2500"
    ).commit()
    before = sorted_rows(table)
    tasks = table.optimize("full", dry_run=True).planned_tasks
    assert tasks > 1
    name = next(task.file.file_path for task in table.scan().plan().tasks() if task.deletes)
    for _ in range(3):
        executor = Elsewhere(lambda task: any(file.path == name for file in task.rewrite))
        assert table.optimize("full", executor=executor, upkeep=False).problems
        assert name in live(table)
        assert deletes_of(table)
        assert sorted_rows(table) == before
        table.append([row(100 + len(before))])
        before = sorted_rows(table)
    table.optimize("full")
    assert sorted_rows(table) == before
    assert not deletes_of(table)


class Overtaken(InProcess):
    """Something happens to the table when the tasks are done, for the first time."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile: Callable[[], object] | None = meanwhile
        self.tasks: list[int] = []

    def execute(self, job: Any, tasks: Any) -> Any:
        self.tasks.append(len(tasks))
        yield from super().execute(job, tasks)
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("large", [False, True])
def test_tasks_that_nobody_overtook_are_committed(version: int, large: bool) -> None:
    """A writer deletes rows of one partition, and adds to it: only this one is done again."""
    properties = LARGE if large else {}
    table = iceberg_table(format_version=version, partition_by=("region",), properties=properties)
    for number in range(3):
        rows = 40 if large else 1
        table.append([row(100 * number + n, region=region) for region in ("eu", "us", "ap") for n in range(rows)])
    table.delete("id = 0")
    table.upsert([row(100, "new", "us"), row(101, "new", "ap")], ["id", "region"])
    table.upsert([row(100, "new", region) for region in ("us", "ap", "eu")], ["id", "region"])
    other = type(table)("other", table.store, table._committer, table._committer.load())

    def meanwhile() -> None:
        other.delete("id = 200 AND region = 'eu'")
        other.append([row(7, region="eu")])
        other.upsert([row(201, "late", "us")], ["id", "region"])

    executor = Overtaken(meanwhile)
    result = table.optimize("minor", executor=executor, upkeep=False)
    assert result.problems == ()
    assert len(result.runs) == 2
    assert executor.tasks[0] > 1
    rows = sorted_rows(table)
    assert rows == sorted_rows(other.refresh())
    assert {(one["id"], one["region"]) for one in rows} >= {(7, "eu"), (201, "us"), (100, "us")}
    assert not {(0, "eu"), (0, "us"), (200, "eu")} & {(one["id"], one["region"]) for one in rows}
    assert not table.optimize("minor", upkeep=False).runs
    assert sorted_rows(table) == rows
    files = {one for one in files_of(table) if "-deletes" not in one and not one.endswith(".puffin")}
    known = {path for one in table.snapshots for path in table.scan(version=one.snapshot_id).plan().file_paths}
    assert files <= known, "what was written for tasks that were overtaken is gone"


def test_changes_of_a_partition_are_moved_as_a_whole() -> None:
    table = new_table(partition_by=("region",))
    for number in range(3):
        table.append([row(number + more, region=region) for region in ("eu", "us") for more in (0, 10, 20, 30)])
    table.upsert([row(1, "new")])
    before = rows_of(table)
    result = table.optimize(executor=Elsewhere(lambda task: task.partition.path == "region=eu" and bool(task.rewrite)))
    assert result.problems
    assert rows_of(table) == before
    assert {*table.optimized.sequence} == {"region=us"}
    written = {one for one in files_of(table.base_store) if one.endswith(".parquet")}
    assert {one.partition("/data/")[2].partition("/")[0] for one in written} == {"region=us"}
    table.optimize()
    assert rows_of(table) == before
    assert not table.optimize().runs


def test_if_all_tasks_fail_it_is_an_error_and_nothing_is_left() -> None:
    table = iceberg_table(partition_by=("region",))
    for number in range(3):
        table.append([row(number, region="eu"), row(10 + number, region="us")])
    with pytest.raises(MemoryError):
        table.optimize(executor=Elsewhere(lambda task: True))
    assert len(files_of(table)) == len(live(table)) == 6


def test_what_was_written_goes_if_it_is_interrupted() -> None:
    class Interrupted(InProcess):
        def execute(self, job: Any, tasks: Any) -> Any:
            yield next(super().execute(job, tasks))
            raise KeyboardInterrupt

    table = iceberg_table(partition_by=("region",))
    for number in range(3):
        table.append([row(number, region="eu"), row(10 + number, region="us")])
    with pytest.raises(KeyboardInterrupt):
        table.optimize(executor=Interrupted())
    assert len(files_of(table)) == len(live(table)) == 6


def test_lance_tables_have_the_same_face(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    table = lake.create_table("db.t", pa.schema({"id": pa.int64()}), format="lance")
    for number in range(4):
        table.append(pa.table({"id": [number]}))
    assert not table.optimize().runs  # too few to be worth it
    dry = table.optimize("minor", dry_run=True)
    assert (dry.kind, dry.planned_files) == (Kind.MINOR, 4)
    result = table.optimize("minor")
    assert (result.kind, result.count("data_files_removed")) == (Kind.MINOR, 4)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    assert not table.optimize("full")
    for number in range(12):
        table.append(pa.table({"id": [10 + number]}))
    ill = table.optimize(dry_run=True)
    assert ill.health.score < 100
    assert table.optimize().kind is Kind.MINOR
    table.delete("id > 5")
    assert table.optimize().kind is Kind.MAJOR
    assert table.current_snapshot.manifest.fragments[0].HasField("deletion_file") is False
    assert not table.optimize()
    with pytest.raises(InvalidArgument, match="kind"):
        table.optimize("tiny")
    with pytest.raises(InvalidArgument, match="no text"):
        table.optimize(sort_by=["id"])
    with pytest.raises(Unsupported, match="optimized as a whole"):
        table.optimize(where="id > 1")


@pytest.mark.parametrize("stable", [False, True])
def test_rows_of_lance_tables_get_an_order(tmp_path: Path, stable: bool) -> None:
    properties = {"enable_stable_row_ids": "true"} if stable else {}
    table = new_lake(tmp_path).create_table("db.t", SCHEMA, format="lance", properties=properties)
    for part in range(3):
        table.append([row(part + 3 * number, f"{number % 4}", None if number % 5 else "eu") for number in range(40)])
    table.delete("id < 10")
    columns = ["id", "name", "region", *(["_rowid"] if stable else [])]

    def known() -> list[dict[str, Any]]:
        return sorted_rows(table, columns=columns)

    def in_order() -> list[Any]:
        return list(lance.dataset(table.location).to_table().select(["id", "name"]).to_pylist())

    before = known()
    dry = table.optimize(sort_by="name DESC, id", dry_run=True)
    assert (dry.kind, dry.planned_files) == (Kind.FULL, 3)
    assert "an order was asked for" in dry.reasons
    result = table.optimize(sort_by="name DESC, id")
    assert [run.data_files_removed for run in result.runs] == [3]
    assert in_order() == sorted(in_order(), key=lambda one: (-int(one["name"]), one["id"]))
    assert known() == before
    lance.dataset(table.location).validate()
    assert not table.optimize("full").runs  # it is at rest
    assert len(table.optimize(sort_by="zorder(id, name)").runs) == 1
    along = [one["id"] for one in in_order()]
    assert along != sorted(along)
    assert known() == before
    for text in ("nope", "zorder()", "zorder(nope)"):
        with pytest.raises(FrazilError):
            table.optimize(sort_by=text)
    table.update_properties({"self-optimizing.sort-order": "id"})
    table.append([row(1000), row(999)])
    table.optimize("minor")
    assert [one["id"] for one in in_order()] == sorted(one["id"] for one in in_order())
    assert not table.optimize("full").runs


def test_a_whole_lake_is_optimized_and_says_what_failed(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    plain = lake.create_table("a.plain", "id BIGINT")
    keyed = lake.create_table("b.keyed", "id BIGINT NOT NULL", format="mixed", primary_key=["id"])
    broken = lake.create_table("b.broken", "id BIGINT", properties={"self-optimizing.target-size": "much"})
    lance = lake.create_table("c.lance", pa.schema({"id": pa.int64()}), format="lance")
    off = lake.create_table("c.off", "id BIGINT", properties={"self-optimizing.enabled": "false"})
    for table in (plain, keyed, broken, lance, off):
        for number in range(3):
            table.append(pa.table({"id": [number]}))
    dry = lake.optimize(dry_run=True)
    assert len(live(plain)) == 3
    result = lake.optimize()
    done = {one.table: one.kind for one in result}
    wanted = {"a.plain": Kind.MINOR, "b.keyed": Kind.MINOR, "c.lance": None, "c.off": None}
    assert done == {one.table: one.kind for one in dry} == wanted
    assert [name for name, _ in result.problems] == ["b.broken"]
    assert "self-optimizing.enabled is false" in repr(result["c.off"])
    assert "1 failed" in repr(result)
    assert "target-size" in result._repr_html_()
    assert len(lake.optimize("c")) == 2
    assert not lake.optimize()


def test_a_store_of_a_keyed_table_is_not_optimized_alone() -> None:
    table = new_table()
    with pytest.raises(Unsupported, match="store of a mixed table"):
        table.change_store.optimize()


@pytest.mark.parametrize("keyed", [True, False])
def test_who_comes_second_looks_again(monkeypatch: pytest.MonkeyPatch, keyed: bool) -> None:
    from frazil.optimize import run as module

    table: Any = new_table() if keyed else iceberg_table()
    for number in range(3):
        table.append([row(number)])
    name = "run_keyed" if keyed else "optimize_unkeyed"
    real = getattr(module, name)

    def late(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(module, name, real)
        if keyed:
            from tests.mixed.test_write import new_view

            new_view(table).optimize(upkeep=False)
        else:
            other = type(table)("other", table.store, table._committer, table._committer.load())
            other.optimize(upkeep=False)
        return real(*args, **options)

    monkeypatch.setattr(module, name, late)
    result = table.optimize()
    assert (result.runs, result.problems) == ((), ())
    assert len(sorted_rows(table)) == 3
