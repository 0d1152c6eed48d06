"""What Spark's rows tell of changes, as workers get them: batches in, rows of the table with their operations out.

Columns come by their places: their names may be any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.iceberg.scan_columns import leaf
from frazil.iceberg.upsert import several_rows
from frazil.mixed.change_data import OneOrder, ToldChanges, replacing
from frazil.mixed.operations import Actions, Operation, actions_of, all_of
from frazil.mixed.unique_keys import repeated_key
from frazil.mixed.writer import Changes, refuse_null_keys
from frazil.model.conform import conform
from frazil.model.schema import Schema
from frazil.model.types import NestedField
from frazil.spark.write.from_spark import from_spark

DELETE, UPDATE, INSERT = 1, 2, 3
"""What Spark's rules number the operations of a statement by."""


@dataclass(frozen=True)
class Told(ABC):
    """How rows tell changes of a table with a schema and a key."""

    schema: Schema
    keys: tuple[NestedField, ...]

    @property
    def arrivals_last(self) -> bool:
        """Whether all rows that come do so after those that go: then it does not matter which task has a row."""
        return False

    @abstractmethod
    def changes(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        """The changes of one task."""

    def _rows(self, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of the table, checked."""
        batch = pa.RecordBatch.from_arrays(list(arrays), names=list(self.schema.columns))
        [rows] = conform([from_spark(batch, self.schema)], self.schema)
        refuse_null_keys(rows, self.schema, self.keys)
        return rows

    def _keys_of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [leaf(rows, self.schema, key.id) for key in self.keys]


@dataclass(frozen=True)
class NewRows(Told):
    """Rows of the table, which come."""

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        for batch in batches:
            if batch.num_rows:
                yield self._rows(batch.columns), all_of(Operation.INSERT, batch.num_rows)


@dataclass(frozen=True)
class Replacements(Told):
    """Rows of the table, which take the place of those with their keys. Rows of one key come to one task."""

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        seen: list[list[pa.Array]] = []
        for batch in batches:
            if batch.num_rows:
                rows = self._rows(batch.columns)
                seen.append(self._keys_of(rows))
                yield replacing(rows, np.ones(rows.num_rows, dtype=bool))
        if seen:
            columns = [pa.concat_arrays(parts) for parts in zip(*seen, strict=True)]
            found = repeated_key([key.name for key in self.keys], columns)
            if found is not None:
                raise several_rows(found)


@dataclass(frozen=True)
class GoingAndComing(Told):
    """An operation (of a statement) and a row of the table, which goes or comes."""

    @property
    def arrivals_last(self) -> bool:
        return True

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        for batch in batches:
            if batch.num_rows:
                goes = np.asarray(batch.column(0)) == DELETE
                yield self._rows(batch.columns[1:]), np.where(goes, Operation.DELETE, Operation.INSERT).astype(np.int8)


@dataclass(frozen=True)
class OldAndNew(Told):
    """An operation (of a statement), a row as it becomes, and as a struct the row as it was."""

    @property
    def arrivals_last(self) -> bool:
        return True

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        for batch in batches:
            told = np.asarray(batch.column(0))
            goes, comes = told != INSERT, told != DELETE
            if goes.any():
                old = batch.column(batch.num_columns - 1).filter(pa.array(goes)).flatten()
                yield self._rows(old), _which(told[goes], Operation.UPDATE_BEFORE, Operation.DELETE)
            if comes.any():
                new = [column.filter(pa.array(comes)) for column in batch.columns[1:-1]]
                yield self._rows(new), _which(told[comes], Operation.UPDATE_AFTER, Operation.INSERT)


def _which(told: np.ndarray, update: Operation, otherwise: Operation) -> Actions:
    return np.where(told == UPDATE, update, otherwise).astype(np.int8)


@dataclass(frozen=True)
class ChangeData(Told):
    """The word for what happened, columns that say when, and a row of the table; sorted by key and time."""

    order: tuple[str, ...]
    upsert: bool
    knows_partition: bool

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Actions]]:
        told = ToldChanges(upsert=self.upsert, knows_partition=self.knows_partition)
        one_order = OneOrder(tuple(key.name for key in self.keys), self.order)
        first = 1 + len(self.order)
        for batch in batches:
            if batch.num_rows:
                actions = actions_of(batch.column(0))
                rows = self._rows(batch.columns[first:])
                keys = self._keys_of(rows)
                one_order.check(actions, keys, batch.columns[1:first])
                yield told.complete(rows, actions, keys)
