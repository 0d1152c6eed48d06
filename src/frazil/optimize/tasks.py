"""Tasks of optimizing, and who carries them out: files are written anywhere, and committed in one place."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.write import remove_files
from frazil.io.store import Store
from frazil.optimize.plan import RewriteTask


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What a task wrote; nothing refers to it yet."""

    data: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()


class Job(ABC):
    """What all tasks of one run have in common: a table as it was planned, and how its files are written."""

    @abstractmethod
    def run(self, task: RewriteTask) -> TaskFiles:
        """Write what a task's files become; if anything fails, no file is left behind."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task, with all that is needed to carry it out."""

    job: Job
    rewrite: RewriteTask

    def run(self) -> TaskFiles:
        """Carry it out here."""
        return self.job.run(self.rewrite)


class Executor(Protocol):
    """Carries out tasks, here or elsewhere; several threads may ask it at a time."""

    def execute(self, task: Task) -> TaskFiles:
        """Write the files of a task."""


class InProcess:
    """Carries out tasks in this process."""

    def execute(self, task: Task) -> TaskFiles:
        return task.run()


def carry_out(executor: Executor, store: Store, tasks: Sequence[Task]) -> TaskFiles:
    """What all tasks wrote, together. If one fails, the files of the others are removed."""
    done: list[TaskFiles] = []

    def one(task: Task) -> None:
        done.append(executor.execute(task))

    try:
        with ThreadPoolExecutor(max(1, min(len(tasks), os.cpu_count() or 1)), "frazil-optimize") as pool:
            waiting = [pool.submit(one, task) for task in tasks]
            try:
                for outcome in waiting:
                    outcome.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    except BaseException:
        remove_files(store, [file for files in done for file in (*files.data, *files.deletes)])
        raise
    return TaskFiles(
        tuple(file for files in done for file in files.data), tuple(file for files in done for file in files.deletes)
    )
