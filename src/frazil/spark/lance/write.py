"""Rows of a DataFrame to data files: a worker writes the rows of one task, and answers with its fragments.

Only the answers of tasks that succeeded reach the driver. Names of files tell the job, so that what a failed one left
can be removed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.io.store import Store
from frazil.lance.proto.messages import DataFragment
from frazil.lance.values import from_model
from frazil.lance.write import FileTarget, FragmentWriter, remove_job
from frazil.model.conform import conform
from frazil.model.schema import Schema
from frazil.spark.changes.delta import with_lineage
from frazil.spark.write.from_spark import by_places, from_spark
from frazil.spark.write.rows import by_position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LINEAGE_COLUMNS = 2

Ids = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Written:
    """A fragment that no version has yet, and the stable ids of its rows, if they keep those."""

    fragment: bytes
    ids: Ids | None = None

    def message(self) -> DataFragment:
        """The fragment."""
        found: DataFragment = DataFragment.FromString(self.fragment)
        return found


@dataclass(frozen=True)
class WriteFragments:
    """Writes the rows of a task, wherever it is sent. Rows with an id (in the column after the table's) keep it."""

    store: Store
    target: FileTarget
    schema: Schema
    keeps_ids: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What was written, pickled: what `mapInArrow` calls."""
        made = [pickle.dumps(one) for one in self.write(batches)]
        yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["written"])

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Written]:
        """Write the rows of batches as Spark gives them; nothing is left if it fails."""
        new, kept = FragmentWriter(self.store, self.target), FragmentWriter(self.store, self.target)
        ids: list[Ids] = []
        plain = (from_spark(batch, self.schema) for batch in batches)
        try:
            for batch in conform(plain, self.schema):
                if not self.keeps_ids:
                    new.write(self._as_stored(batch))
                    continue
                has_id = batch.column(batch.num_columns - _LINEAGE_COLUMNS).is_valid()
                moved = batch.filter(has_id)
                ids.append(moved.column(batch.num_columns - _LINEAGE_COLUMNS).to_numpy().astype(np.uint64))
                kept.write(self._as_stored(moved))
                new.write(self._as_stored(batch.filter(pa.compute.invert(has_id))))
            fragments, moved_to = new.close(), kept.close()
        except BaseException:
            new.abandon()
            kept.abandon()
            raise
        return [*(Written(one.SerializeToString()) for one in fragments), *_with_ids(moved_to, ids)]

    def _as_stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        schema = self.target.arrow_schema
        arrays = [from_model(batch.column(number), field) for number, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_ids(fragments: Sequence[DataFragment], ids: Sequence[Ids]) -> Iterator[Written]:
    every = np.concatenate(ids) if ids else np.empty(0, np.uint64)
    start = 0
    for fragment in fragments:
        end = start + int(fragment.physical_rows)
        yield Written(fragment.SerializeToString(), every[start:end])
        start = end


@dataclass(frozen=True)
class Job:
    """One write on its way."""

    store: Store
    target: FileTarget
    schema: Schema

    @classmethod
    def start(cls, store: Store, target: FileTarget, schema: Schema) -> Job:
        """A write of rows with the table's schema."""
        return cls(store, target.of_job(), schema)

    def write(self, rows: DataFrame, classes: Any, *, keeps_ids: bool = False) -> list[Written]:
        """Write rows that Spark fitted to the table; with `keeps_ids` they have the columns of `with_lineage`."""
        schema = with_lineage(self.schema) if keeps_ids else self.schema
        fitted = by_places(by_position(rows, schema, classes))
        writer = WriteFragments(self.store, self.target, schema, keeps_ids)
        try:
            found = fitted.mapInArrow(writer, "written binary").toArrow().column(0).to_pylist()
        except BaseException:
            self.abandon()
            raise
        return [pickle.loads(data) for data in found]  # noqa: S301 - pickled by our own workers

    def abandon(self) -> None:
        """Remove everything: it was definitely not committed."""
        remove_job(self.store, self.target)
