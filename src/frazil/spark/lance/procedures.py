"""CALL on Lance tables: compaction, clean-up, and going back to an earlier version, under Iceberg's names."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import CommitFailed, InvalidArgument, Unsupported
from frazil.io.store import Store
from frazil.lance.operations.compaction import CompactionGroup, commit_compaction, compact_group, plan_compaction
from frazil.lance.proto.messages import RewriteGroup
from frazil.lance.table import LanceTable
from frazil.lance.write import remove_job
from frazil.spark.handles import MAIN
from frazil.spark.procedures.procedure import Arguments, Row, Run, milliseconds, text_map
from frazil.spark.scan.arrow import frame_of_chunks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark.bridge import Bridge

_TARGET, _SHARE = "target-rows", "deleted-share"
_ATTEMPTS = 5


def _refuse(given: Arguments, *names: str) -> None:
    """Arguments that mean nothing here."""
    for name in names:
        if given[name]:
            raise Unsupported(f"lance tables have no {name}", hint=f"leave {name} out")


@dataclass(frozen=True)
class CompactGroups:
    """Rewrites groups of fragments, wherever it is sent."""

    store: Store

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls: a result for each pickled group."""
        for batch in batches:
            for chunk in batch.column(0).to_pylist():
                groups: list[CompactionGroup] = pickle.loads(chunk)  # noqa: S301 - pickled by the driver
                made = [compact_group(self.store, group) for group in groups]
                yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["result"])


def _rewrite_data_files(bridge: Bridge, spark: SparkSession, table: LanceTable, given: Arguments) -> Sequence[Row]:
    _refuse(given, "sort_order", "where")
    if (given["strategy"] or "binpack").lower() != "binpack":
        raise Unsupported(f"lance tables have no strategy {given['strategy']}", hint="leave it out")
    options = text_map("options", given["options"])
    chosen = _compaction_options(options)
    line = table if (given["branch"] or MAIN) == MAIN else table.branch(given["branch"])
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return [_compact(spark, line.refresh(), chosen)]
        except CommitFailed:
            if attempt == _ATTEMPTS:
                raise
        finally:
            bridge.refresh(table.identifier)
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover


def _compaction_options(options: Mapping[str, str]) -> dict[str, float]:
    unknown = options.keys() - {_TARGET, _SHARE}
    if unknown:
        raise InvalidArgument(f"no option {min(unknown)}", hint=f"there are {_TARGET} and {_SHARE}")
    try:
        rows = {"target_rows": int(options[_TARGET])} if _TARGET in options else {}
        share = {"deleted_share": float(options[_SHARE])} if _SHARE in options else {}
    except ValueError as error:
        raise InvalidArgument(f"an option of the compaction is no number: {error}", hint="give numbers") from error
    return {**rows, **share}


def _compact(spark: SparkSession, table: LanceTable, options: Mapping[str, float]) -> Row:
    """Planned here, rewritten by workers, committed with the version that was planned."""
    version, store = table.current_snapshot, table.store
    plan = plan_compaction(store, version, **options)  # type: ignore[arg-type]  # rows are whole numbers
    if not plan.groups:
        return (0, 0, 0, 0, 0)
    target = plan.groups[0].target.of_job()
    chunks = [[replace(group, target=target)] for group in plan.groups]
    try:
        results = frame_of_chunks(CompactGroups(store), chunks, spark, "result binary").toArrow().column(0).to_pylist()
    except BaseException:
        remove_job(store, target)
        raise
    history = table._history()
    done = commit_compaction(history, plan.version, results)
    table.refresh()
    old = [fragment for data in results for fragment in RewriteGroup.FromString(data).old_fragments]
    size = sum(int(file.file_size_bytes) for fragment in old for file in fragment.files)
    deletes = sum(fragment.HasField("deletion_file") for fragment in old)
    return (done.files_removed, done.files_added, size, 0, deletes)


def _expire_snapshots(bridge: Bridge, spark: SparkSession, table: LanceTable, given: Arguments) -> Sequence[Row]:
    _refuse(given, "snapshot_ids", "clean_expired_metadata")
    done = table.clean_up(
        older_than=milliseconds(given["older_than"]),
        retain_last=1 if given["retain_last"] is None else given["retain_last"],
        dry_run=bool(given["dry_run"]),
    )
    bridge.refresh(table.identifier)
    return [(done.files, 0, 0, done.versions, 0, 0)]


def _restored(bridge: Bridge, table: LanceTable, number: int) -> Sequence[Row]:
    before = table.version
    after = table.restore(number).version
    bridge.refresh(table.identifier)
    return [(before, after)]


def _rollback_to_snapshot(bridge: Bridge, spark: SparkSession, table: LanceTable, given: Arguments) -> Sequence[Row]:
    return _restored(bridge, table, given["snapshot_id"])


def _rollback_to_timestamp(bridge: Bridge, spark: SparkSession, table: LanceTable, given: Arguments) -> Sequence[Row]:
    return _restored(bridge, table, table.at(as_of=given["timestamp"] // 1000).version)


def _set_current_snapshot(bridge: Bridge, spark: SparkSession, table: LanceTable, given: Arguments) -> Sequence[Row]:
    if (given["snapshot_id"] is None) == (given["ref"] is None):
        raise InvalidArgument("either snapshot_id or ref must be given, not both", hint="name the version once")
    before = table.version
    after = table.restore(given["snapshot_id"], ref=given["ref"]).version
    bridge.refresh(table.identifier)
    return [(before, after)]


def _ancestors_of(bridge: Bridge, spark: SparkSession, table: LanceTable, given: Arguments) -> Sequence[Row]:
    last = table.version if given["snapshot_id"] is None else given["snapshot_id"]
    return [(one.version, one.timestamp_ms) for one in table.history if one.version <= last]


PROCEDURES: Mapping[str, Run] = {
    "rewrite_data_files": _rewrite_data_files,
    "expire_snapshots": _expire_snapshots,
    "rollback_to_snapshot": _rollback_to_snapshot,
    "rollback_to_timestamp": _rollback_to_timestamp,
    "set_current_snapshot": _set_current_snapshot,
    "ancestors_of": _ancestors_of,
}
