"""Position delete files written anew: as vectors (version 3), or fewer of them (version 2). No row comes or goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import CommitConflict, CommitFailed
from frazil.iceberg import properties as props
from frazil.iceberg.compaction_options import CompactionOptions
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_groups import DeleteGroup, DeletePlan, plan_delete_rewrite, stored_bytes
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_settings import DeleteSettings, NewDeleteFiles
from frazil.iceberg.delete_writer import new_delete_files
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.rewrite import branch_head
from frazil.iceberg.rewritten import RewrittenDeleteFiles
from frazil.iceberg.scan import Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.write import removing
from frazil.io.deletion_vector import DeletionVector
from frazil.io.store import Store
from frazil.model.expressions import Expression

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable


@dataclass(frozen=True)
class Written:
    """New delete files, and the data files that they are about."""

    files: list[DataFile]
    data_files: list[str]


@dataclass(frozen=True)
class GroupWriter:
    """Writes what groups delete, in whatever process."""

    store: Store
    metadata: TableMetadata
    settings: DeleteSettings

    def write(self, groups: Sequence[DeleteGroup]) -> Written:
        """Write the deletes of some groups; if anything fails, no file is left behind."""
        places = NewDeleteFiles(self.metadata, self.store)
        files = new_delete_files(self.metadata, self.store, places, self.settings)
        paths: list[str] = []

        def deletes() -> Iterator[tuple[DataFile, DeletionVector]]:
            for group in groups:
                for file, positions in self._positions(group):
                    paths.append(file.file_path)
                    yield file, positions

        try:
            return Written(files.write(deletes()), paths)
        except BaseException:
            places.remove()
            raise

    def _positions(self, group: DeleteGroup) -> Iterator[tuple[DataFile, DeletionVector]]:
        """What the group deletes of each data file. In memory are the positions of one group."""
        reader = DeleteReader(self.store, self.metadata)
        mine = {delete.key for delete in group.deletes}
        for task in group.tasks:
            found = reader.positions(task.file, [delete for delete in task.deletes if delete.key in mine])
            if found is None:
                continue
            # what is not there cannot be deleted, and would count as a row that is
            within = found.positions[: np.searchsorted(found.positions, task.file.record_count)]
            if len(within):
                yield task.file, DeletionVector(within)


Execute = Callable[[GroupWriter, Sequence[DeleteGroup]], Sequence[Written]]
"""Carries out the writing of groups, here or elsewhere."""


def in_process(writer: GroupWriter, groups: Sequence[DeleteGroup]) -> Sequence[Written]:
    """Write all groups here, one after the other."""
    return [writer.write(groups)]


def rewrite_position_delete_files(
    table: IcebergTable, where: Expression, options: Mapping[str, str], branch: str, execute: Execute = in_process
) -> RewrittenDeleteFiles:
    """Rewrite the position delete files of partitions that may hold matching rows, where it mends something."""
    parsed = CompactionOptions.parse(options, table.metadata, "position deletes")
    base = branch_head(table.metadata, branch)
    if base is None or table.format_version < 2:
        return RewrittenDeleteFiles()
    return _Rewrite(table, base, where, parsed, branch, execute).run()


@dataclass(frozen=True)
class _Rewrite:
    table: IcebergTable
    base: Snapshot
    where: Expression
    options: CompactionOptions
    branch: str
    execute: Execute

    @cached_property
    def _settings(self) -> DeleteSettings:
        target = {props.DELETE_TARGET_FILE_SIZE_BYTES.name: str(self.options.target_file_size_bytes)}
        return DeleteSettings.of(self.table.metadata, target)

    def plan(self) -> DeletePlan:
        """What to rewrite."""
        metadata, schema = self.table.metadata, self.table.schema
        return plan_delete_rewrite(
            Scan(metadata, self.table.store, self.base, schema).plan(),
            FileFilter(metadata, schema, self.where),
            self.options,
            vectors=metadata.format_version >= 3,
            by_file=self._settings.by_file,
        )

    def run(self) -> RewrittenDeleteFiles:
        """All in one commit; with partial progress in several, of which some may be refused."""
        plan = self.plan()
        done = RewrittenDeleteFiles()
        tolerated = self.options.partial_progress_max_failed_commits if self.options.partial_progress_enabled else 0
        dangling: Sequence[DataFile] = plan.dangling
        for groups in self._batches(plan):
            try:
                done += self._rewrite(groups, dangling)
            except (CommitConflict, CommitFailed):
                tolerated -= 1
                if tolerated < 0:
                    raise
            dangling = ()
        return done

    def _batches(self, plan: DeletePlan) -> Iterator[Sequence[DeleteGroup]]:
        if not (plan.groups or plan.dangling):
            return
        commits = self.options.partial_progress_max_commits if self.options.partial_progress_enabled else 1
        size = max(1, -(-len(plan.groups) // commits))
        for start in range(0, max(1, len(plan.groups)), size):
            yield plan.groups[start : start + size]

    def _rewrite(self, groups: Sequence[DeleteGroup], dangling: Sequence[DataFile]) -> RewrittenDeleteFiles:
        old = [*dangling, *(delete for group in groups for delete in group.deletes)]
        new, paths = self._write(groups)
        action = self.table.new_rewrite().to_branch(self.branch).validate_from(self.base.snapshot_id)
        action.rewrite(old, new).validate_data_files_exist(paths)
        with removing(self.table.store, new):
            action.commit()
        return RewrittenDeleteFiles(len(old), len(new), sum(map(stored_bytes, old)), sum(map(stored_bytes, new)))

    def _write(self, groups: Sequence[DeleteGroup]) -> tuple[list[DataFile], list[str]]:
        """New delete files, as old as those whose place they take; and the data files that they are about."""
        writer = GroupWriter(self.table.store, self.table.metadata, self._settings)
        written = self.execute(writer, groups) if groups else ()
        sequences = (delete.data_sequence_number or 0 for group in groups for delete in group.deletes)
        newest = max(sequences, default=0)
        files = [replace(file, data_sequence_number=newest) for one in written for file in one.files]
        return files, [path for one in written for path in one.data_files]
