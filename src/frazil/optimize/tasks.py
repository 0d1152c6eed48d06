"""Tasks of optimizing, and who carries them out: files are written anywhere, and committed in one place."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from frazil.io.store import Store

Task = TypeVar("Task")
Written = TypeVar("Written")


class Job(ABC, Generic[Task, Written]):
    """What all tasks of one run have in common: a table as it was planned, and how its files are written.

    It can be sent to other processes: `elsewhere` is what is sent, `light` a task that goes with it.
    """

    @property
    @abstractmethod
    def place(self) -> tuple[Store, str]:
        """Where files are written: a store, and the location of the table in it."""

    @abstractmethod
    def run(self, task: Task) -> Written:
        """Write what a task's files become; if anything fails, no file is left behind."""

    @abstractmethod
    def size(self, task: Task) -> int:
        """About how many bytes a task reads."""

    @abstractmethod
    def take_back(self, written: Iterable[Written]) -> None:
        """Remove what tasks wrote, which was never committed."""

    @abstractmethod
    def elsewhere(self) -> Self:
        """The job for other processes: small, and what it writes can be told from what others write."""

    @abstractmethod
    def light(self, task: Task) -> Task:
        """A task with no more than is needed to carry it out."""

    @abstractmethod
    def clear(self, tasks: Iterable[Task], kept: Iterable[Written] = ()) -> None:
        """Remove what processes that died wrote for tasks of this job, which is one of `elsewhere`."""


@dataclass(frozen=True)
class Done(Generic[Written]):
    """A task that ended: its number, and what it wrote, or why it failed."""

    number: int
    written: Written | None = None
    error: Exception | None = None


class Executor(Protocol):
    """Carries out the tasks of a run, here or elsewhere."""

    def execute(self, job: Job[Task, Written], tasks: Sequence[Task]) -> Generator[Done[Written], None, None]:
        """Tasks as they end, in any order. Closed before all have, it takes back what it did not tell of."""


class InProcess:
    """Carries out tasks in this process, as many at a time as there are cores."""

    def execute(self, job: Job[Task, Written], tasks: Sequence[Task]) -> Generator[Done[Written], None, None]:
        pool = ThreadPoolExecutor(max(1, min(len(tasks), os.cpu_count() or 1)), "frazil-optimize")
        running = {pool.submit(job.run, task): number for number, task in enumerate(tasks)}
        untold = set(running)
        try:
            for outcome in as_completed(running):
                untold.remove(outcome)
                yield _done(running[outcome], outcome)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            ended = [one for one in untold if not one.cancelled() and one.exception() is None]
            job.take_back([one.result() for one in ended])


def _done(number: int, outcome: Future[Written]) -> Done[Written]:
    error = outcome.exception()
    if error is None or not isinstance(error, Exception):  # Ctrl-C is nothing that a task may fail by
        return Done(number, outcome.result())
    return Done(number, error=error)


def carry_out(executor: Executor, job: Job[Task, Written], tasks: Sequence[Task]) -> list[Done[Written]]:
    """What became of each task, in their order. If all failed, the first error is raised, and nothing is left."""
    done: list[Done[Written]] = []
    try:
        with closing(executor.execute(job, tasks)) as ended:
            done.extend(ended)
    except BaseException:
        job.take_back([one.written for one in done if one.written is not None])
        raise
    done.sort(key=lambda one: one.number)
    errors = [one.error for one in done if one.error is not None]
    if errors and len(errors) == len(tasks):
        raise errors[0]
    return done


def problems(done: Iterable[Done[Any]]) -> tuple[str, ...]:
    """What failed, in words."""
    return tuple(
        f"a task failed, and its files stay as they are: {_said(one.error)}" for one in done if one.error is not None
    )


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
