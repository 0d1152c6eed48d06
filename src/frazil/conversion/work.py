"""Rows from files of one format to files of another: tasks that can be sent anywhere, and answer with what they wrote.

Values go from reader to writer in Arrow's form. Whoever runs the tasks (`Workers`) decides where that is.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.write import RowWriter
from frazil.io.store import Store
from frazil.lance.plan import FragmentTask, ScanPlan
from frazil.lance.proto.messages import DataFragment
from frazil.lance.read import FragmentReader
from frazil.lance.values import from_model, to_model
from frazil.lance.write import FileTarget, write_fragments
from frazil.model.conform import conform
from frazil.model.schema import Schema

BATCH_ROWS = 16_384


class Work(Protocol):
    """What is done to tasks: pickled with them, and called where they are read."""

    def __call__(self, tasks: Sequence[Any]) -> list[bytes]:
        """Write the rows of some tasks; what was written, as bytes."""


class Workers(Protocol):
    """Who runs tasks. An error of one ends all, and is raised here."""

    def run(self, work: Work, tasks: Sequence[Any], size: Callable[[Any], int]) -> list[bytes]:
        """Run all tasks, some together; `size` says how many bytes one reads."""


class InProcess:
    """Runs tasks here, one after the other."""

    def run(self, work: Work, tasks: Sequence[Any], size: Callable[[Any], int]) -> list[bytes]:
        return work(tasks)


@dataclass(frozen=True)
class ToLance:
    """Iceberg's files to fragments."""

    store: Store
    metadata: TableMetadata
    schema: Schema
    target: FileTarget

    def __call__(self, tasks: Sequence[FileScanTask]) -> list[bytes]:
        return [one.SerializeToString() for one in write_fragments(self.store, self.target, self._batches(tasks))]

    def _batches(self, tasks: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
        deletes = DeleteReader(self.store, self.metadata)
        reader = TaskReader(self.store, self.metadata, self.schema, self.schema, deletes, BATCH_ROWS)
        columns = self.target.arrow_schema
        for task in tasks:
            for batch in reader.read(task):
                arrays = [from_model(batch.column(number), field) for number, field in enumerate(columns)]
                yield pa.RecordBatch.from_arrays(arrays, schema=columns)


@dataclass(frozen=True)
class ToIceberg:
    """Fragments to Iceberg's files."""

    store: Store
    plan: ScanPlan
    schema: Schema
    """The columns that are read, in Frazil's types."""
    metadata: TableMetadata
    """The table that is written to."""

    def __call__(self, tasks: Sequence[FragmentTask]) -> list[bytes]:
        writer = RowWriter(self.metadata, self.store)
        return [
            pickle.dumps(file) for file in writer.write(conform(self._batches(tasks), self.metadata.current_schema))
        ]

    def _batches(self, tasks: Sequence[FragmentTask]) -> Iterator[pa.RecordBatch]:
        reader = FragmentReader(self.store, self.plan)
        for task in tasks:
            for batch in reader.read(task):
                arrays = [to_model(batch.column(number), field.type) for number, field in enumerate(self.schema.fields)]
                yield pa.RecordBatch.from_arrays(arrays, names=self.schema.columns)


def fragments(answers: Sequence[bytes]) -> list[DataFragment]:
    """What `ToLance` answered."""
    return [DataFragment.FromString(data) for data in answers]


def data_files(answers: Sequence[bytes]) -> list[DataFile]:
    """What `ToIceberg` answered."""
    return [pickle.loads(data) for data in answers]  # noqa: S301 - pickled by our own workers
