"""Compaction on Spark: groups of files are read, written anew and replaced, several at a time.

Nothing is lost if it is interrupted: a group counts when it is committed, and what was written for others is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from frazil import ambient
from frazil.errors import CommitConflict, CommitFailed, FrazilError
from frazil.iceberg.compaction import CompactionPlan, FileGroup, plan_compaction
from frazil.iceberg.compaction_options import CompactionOptions
from frazil.iceberg.dangling import remove_dangling_deletes
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.rewritten import RewrittenDataFiles
from frazil.iceberg.scan import Scan
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import Expression
from frazil.model.schema import Schema
from frazil.spark.changes.delta import with_lineage
from frazil.spark.handles import MAIN
from frazil.spark.interrupt import interruptions
from frazil.spark.progress import progress_of
from frazil.spark.scan.some_files import rows_of_files
from frazil.spark.upkeep.arrangement import Arrangement
from frazil.spark.write.commit import as_told, was_refused
from frazil.spark.write.insert import write_files
from frazil.spark.write.job import Job
from frazil.spark.write.native import remove_folder
from frazil.spark.write.partitions import Transforms
from frazil.spark.write.rows import by_position
from frazil.spark.write.settings import ALL_AT_ONCE, NONE, WriteSettings, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.metadata import TableMetadata
    from frazil.spark.bridge import Bridge
    from frazil.spark.iceberg.handle import IcebergHandle


def rewrite_data_files(
    bridge: Bridge,
    spark: SparkSession,
    handle: IcebergHandle,
    strategy: str | None = None,
    sort_order: str | None = None,
    where: str | Expression | None = None,
    options: Mapping[str, str] | None = None,
) -> RewrittenDataFiles:
    """Rewrite files that are too small, too large or have too many deletes; Iceberg's arguments and options."""
    metadata = handle.table.metadata
    chosen = strategy or ("binpack" if sort_order is None else "sort")
    arrangement = Arrangement.of(chosen.lower(), sort_order, metadata)
    parsed = CompactionOptions.parse(options or {}, metadata, arrangement.strategy)
    return Compaction(bridge, spark, handle, arrangement, parsed, as_expression(where)).run()


@dataclass(frozen=True)
class Rewritten:
    """One group, and the files that hold its rows now; nothing refers to them yet."""

    group: FileGroup
    files: Sequence[DataFile]
    job: Job


@dataclass(frozen=True)
class Compaction:
    """A rewrite of data files of one table, as it was when the work began."""

    bridge: Bridge
    spark: SparkSession
    handle: IcebergHandle
    arrangement: Arrangement
    options: CompactionOptions
    where: Expression

    def plan(self) -> CompactionPlan:
        """The groups to rewrite."""
        table = self.handle.table
        scan = Scan(table.metadata, table.store, self.handle.snapshot, self.handle.schema, self.where)
        return plan_compaction(scan.plan(), self.options)

    def run(self) -> RewrittenDataFiles:
        """Rewrite and commit: all at once, or (partial progress) some groups at a time."""
        plan = self.plan()
        if not len(plan):
            return RewrittenDataFiles()
        done = RewrittenDataFiles()
        batch = _Batches(self, len(plan))
        tolerant, interrupted = self.options.partial_progress_enabled, interruptions()
        try:
            with self._rewriting(plan) as finished:
                for group, outcome in finished:
                    error = outcome.exception()
                    if error is None:
                        done += batch.add(outcome.result())
                    elif tolerant and isinstance(error, Exception) and interruptions() == interrupted:
                        done += _failed(group)
                    else:
                        raise error
                done += batch.finish()
        except BaseException:
            batch.abandon()
            raise
        return done + self._without_dangling() if self.options.remove_dangling_deletes else done

    @contextmanager
    def _rewriting(self, plan: CompactionPlan) -> Iterator[Iterator[tuple[FileGroup, Future[Rewritten]]]]:
        """Groups as they are done. If the work ends before, running jobs are cancelled, and what they wrote removed."""
        tag = f"frazil-rewrite-{ambient.new_uuid()}"
        threads = min(self.options.max_concurrent_file_group_rewrites, len(plan))
        pool = ThreadPoolExecutor(threads, thread_name_prefix="frazil-rewrite")
        running = {pool.submit(self._rewrite, group, tag): group for group in plan}
        taken: set[Future[Rewritten]] = set()

        def finished() -> Iterator[tuple[FileGroup, Future[Rewritten]]]:
            with progress_of(self.spark, "rewriting files", len(plan)) as progress:
                for outcome in as_completed(running):
                    taken.add(outcome)
                    progress.step()
                    yield running[outcome], outcome

        try:
            yield finished()
        except BaseException:
            self.spark.sparkContext.cancelJobsWithTag(tag)
            pool.shutdown(wait=True, cancel_futures=True)
            for outcome in set(running) - taken:
                if not outcome.cancelled() and outcome.exception() is None:
                    remove_folder(outcome.result().job)
            raise
        pool.shutdown()

    # One group.

    @cached_property
    def _schema(self) -> Schema:
        schema = self.handle.schema
        return with_lineage(schema) if self.handle.table.metadata.format_version >= 3 else schema

    @cached_property
    def settings(self) -> WriteSettings:
        """How the new files are written: rows come in the order in which they are to stand."""
        told = settings_of(self.handle, {}, self.spark)
        # the rows stay what they are: there is nothing to audit
        return replace(
            told,
            branch=self.handle.branch or MAIN,
            wap_id=None,
            distribution=NONE,
            target_bytes=self.options.write_max_file_size,
        )

    def _metadata(self, group: FileGroup) -> TableMetadata:
        metadata = self.handle.table.metadata
        orders = {order.order_id: order for order in (*metadata.sort_orders, self.arrangement.order)}
        return replace(
            metadata,
            default_spec_id=group.spec_id,
            sort_orders=tuple(orders.values()),
            default_sort_order_id=self.arrangement.order.order_id,
        )

    def _rewrite(self, group: FileGroup, tag: str) -> Rewritten:
        context = self.spark.sparkContext
        context.addJobTag(tag)
        try:
            return self._rewritten(group)
        finally:
            context.removeJobTag(tag)

    def _rewritten(self, group: FileGroup) -> Rewritten:
        paths = [task.file.file_path for task in group.tasks]
        transforms = Transforms(self.bridge.name)
        rows = rows_of_files(
            self.bridge, self.spark, self.handle, self._schema.columns, paths, split_bytes=group.input_split_size
        )
        parts = group.expected_output_files * self.options.shuffle_partitions_per_file
        arranged = self.arrangement.arranged(rows, parts, self._schema, transforms, self.options, len(paths))
        fitted = by_position(arranged, self._schema, self.bridge.classes)
        settings = self.settings
        if group.partition is not None and self.arrangement.order.is_unsorted:
            settings = replace(settings, open_files=ALL_AT_ONCE)  # all rows are of one partition
        table = self.handle.table
        job = Job.start(self.spark, table.store, self._metadata(group), self._schema, settings)
        try:
            files = write_files(self.bridge, job, fitted, transforms)
        except BaseException:
            remove_folder(job)
            raise
        order_id = self.arrangement.known_id(table.metadata)
        return Rewritten(group, [replace(file, sort_order_id=order_id) for file in files], job)

    def commit(self, done: Sequence[Rewritten]) -> RewrittenDataFiles:
        """Replace the files of some groups, in one commit."""
        action = self.handle.table.new_rewrite()
        base = self.handle.snapshot
        action.validate_from(None if base is None else base.snapshot_id)
        old = [task.file for one in done for task in one.group.tasks]
        new = [file for one in done for file in one.files]
        action.rewrite(old, new)
        if self.options.use_starting_sequence_number and base is not None:
            action.data_sequence_number(base.sequence_number)
        as_told(action, self.settings, self.spark)
        action.commit()
        summary = self.handle.table.snapshot(action.snapshot_id).summary
        return RewrittenDataFiles(
            rewritten_data_files_count=len(old),
            added_data_files_count=len(new),
            rewritten_bytes_count=sum(one.group.input_bytes for one in done),
            removed_delete_files_count=int(summary.get("removed-delete-files", "0")),
        )

    def _without_dangling(self) -> RewrittenDataFiles:
        """Remove delete files that apply to nothing any more. If others are in the way, they stay for the next time."""
        count = remove_dangling_deletes(
            self.handle.table, self.settings.branch, told=lambda action: as_told(action, self.settings, self.spark)
        )
        return RewrittenDataFiles(removed_delete_files_count=count)


def _failed(group: FileGroup) -> RewrittenDataFiles:
    return RewrittenDataFiles(failed_data_files_count=len(group))


class _Batches:
    """Groups on their way into the table: so many to a commit that there are no more commits than allowed."""

    def __init__(self, work: Compaction, groups: int) -> None:
        self._work = work
        self._waiting: list[Rewritten] = []
        options = work.options
        self._size = groups
        self._tolerated = 0
        if options.partial_progress_enabled:
            self._size = -(-groups // options.partial_progress_max_commits)
            self._tolerated = options.partial_progress_max_failed_commits

    def add(self, one: Rewritten) -> RewrittenDataFiles:
        """One more; what was committed."""
        self._waiting.append(one)
        return self._commit() if len(self._waiting) >= self._size else RewrittenDataFiles()

    def finish(self) -> RewrittenDataFiles:
        """Commit what is left."""
        return self._commit() if self._waiting else RewrittenDataFiles()

    def abandon(self) -> None:
        """Remove what waits: it was never committed."""
        for one in self._waiting:
            remove_folder(one.job)
        self._waiting = []

    def _commit(self) -> RewrittenDataFiles:
        done, self._waiting = self._waiting, []
        try:
            return self._work.commit(done)
        except FrazilError as error:
            if was_refused(error):
                for one in done:
                    remove_folder(one.job)
            if self._tolerated > 0 and isinstance(error, CommitConflict | CommitFailed):
                self._tolerated -= 1
                return sum((_failed(one.group) for one in done), RewrittenDataFiles())
            raise
