"""Jobs that rewrite files of Iceberg tables and of those that consist of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from frazil import ambient
from frazil.errors import FrazilError
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.portable import bare
from frazil.iceberg.write import remove_files
from frazil.io.store import Store
from frazil.mixed.file_names import task_of
from frazil.mixed.writer import new_file_location
from frazil.optimize.inputs import DataInput
from frazil.optimize.plan import OptimizingPlan, RewriteTask
from frazil.optimize.tasks import Done, Job

_NUMBERS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What tasks wrote; nothing refers to it yet."""

    data: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()

    @property
    def all(self) -> tuple[DataFile, ...]:
        return (*self.data, *self.deletes)


class RewriteJob(Job[RewriteTask, TaskFiles]):
    """A job on files of an Iceberg table."""

    store: Store
    metadata: TableMetadata

    @property
    def place(self) -> tuple[Store, str]:
        return self.store, self.metadata.location

    def size(self, task: RewriteTask) -> int:
        return task.bytes

    def take_back(self, written: Iterable[TaskFiles]) -> None:
        files = [file for one in written for file in one.all]
        if files:
            remove_files(self.store, files)

    def light(self, task: RewriteTask) -> RewriteTask:
        """Without the other files of the partition, and without metrics."""
        return RewriteTask(
            replace(task.partition, files=[], sequences=set()),
            tuple(map(_light, task.rewrite)),
            tuple(map(_light, task.convert)),
            (),
        )


def _light(file: DataInput) -> DataInput:
    deletes = tuple(replace(delete, file=bare(delete.file)) for delete in file.deletes)
    return replace(file, file=bare(file.file), deletes=deletes)


def settle(
    job: RewriteJob, plan: OptimizingPlan, done: Sequence[Done[TaskFiles]], overtaken: Collection[int] = ()
) -> tuple[OptimizingPlan, TaskFiles]:
    """What of a plan can be committed, and the files for it. What cannot is taken back; nothing left is an error.

    `overtaken` are the numbers of tasks whose files others changed meanwhile.
    """
    errors = {one.number: one.error for one in done if one.error is not None}
    lost = plan.lost_with({*errors, *overtaken})
    job.take_back([one.written for one in done if one.number in lost and one.written is not None])
    left = plan.without(lost)
    if errors and not (left.tasks or left.to_sequence):
        raise errors[min(errors)]
    written = [one.written for one in done if one.number not in lost and one.written is not None]
    return left, TaskFiles(
        tuple(file for one in written for file in one.data), tuple(file for one in written for file in one.deletes)
    )


def new_job_number() -> int:
    """What stands for the task in names of a mixed table's files, so that those of one job can be told from others."""
    return 1 + ambient.new_snapshot_id() % _NUMBERS


def clear_named(
    store: Store, metadata: TableMetadata, number: int, tasks: Iterable[RewriteTask], kept: Iterable[TaskFiles]
) -> None:
    """Remove files of a mixed table that a job wrote, but for those to keep, from the partitions of its tasks."""
    stay = {file.file_path for one in kept for file in one.all}
    with suppress(FrazilError):
        for path in {task.partition.path for task in tasks}:
            folder = new_file_location(metadata, path, "").rstrip("/")
            listed = [file.location for file in store.list(folder)]
            store.delete_many([place for place in listed if task_of(place) == number and place not in stay])
