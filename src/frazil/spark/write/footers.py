"""Files that Spark wrote, as the manifest will track them: metrics and partition from the footer, read once.

All rows of a file have the same partition values, and a transform gives the same for the same value. So the transform
of any value of the source column is the partition's value, and the footer has one: its least. Where it has none, the
first row is read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from frazil.errors import MalformedData
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.entries import canonical_list
from frazil.iceberg.scan_columns import leaf
from frazil.iceberg.write import as_data_file
from frazil.io.data_files import WrittenFile, read_data_file
from frazil.io.metrics import MetricsMode, MetricsModes, lower_bound, upper_bound
from frazil.io.parquet_stats import describe_parquet_file
from frazil.io.store import Store
from frazil.model.partition import PartitionField, PartitionSpec
from frazil.model.schema import Schema
from frazil.model.transforms import VoidTransform
from frazil.model.types import DoubleType, FloatType, Type
from frazil.model.values import from_bytes

_WHOLE = MetricsMode.parse("full")


@dataclass(frozen=True)
class Footers:
    """Describes files of one write; can be sent to workers."""

    store: Store
    schema: Schema
    spec: PartitionSpec
    properties: Mapping[str, str]
    sort_order_id: int
    root: str
    """The table's folder: those between it and a file may be as new as the file."""

    def describe(self, location: str) -> DataFile:
        """A file by its location, on the disk for good: its manifest will be."""
        self.store.sync(location, self.root)
        modes = MetricsModes.of(self.schema, self.properties)
        sources = {part.source_id for part in self._parts()}
        exact = MetricsModes({**modes.modes, **dict.fromkeys(sources, _WHOLE)})
        written = describe_parquet_file(self.store, location, self.schema, self.properties, modes=exact)
        partition = tuple(self._value(part, written) for part in self.spec.fields)
        kept = replace(written, metrics=_as_asked(written, sources, self.schema, modes))
        return as_data_file(kept, self.spec.spec_id, partition, self.sort_order_id)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of batches of locations, pickled: what `mapInArrow` calls."""
        for batch in batches:
            made = [pickle.dumps(self.describe(location)) for location in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["file"])

    def _parts(self) -> list[PartitionField]:
        return [part for part in self.spec.fields if not isinstance(part.transform, VoidTransform)]

    def _value(self, part: PartitionField, written: WrittenFile) -> Any:
        if isinstance(part.transform, VoidTransform):
            return None
        source = self.schema.field_by_id(part.source_id)
        assert source is not None, part
        metrics = written.metrics
        nulls = metrics.null_value_counts.get(source.id)
        if nulls == written.record_count:
            return None
        low, high = metrics.lower_bounds.get(source.id), metrics.upper_bounds.get(source.id)
        # zeros have lost their sign in a footer, and NaN is not in it
        if isinstance(source.type, FloatType | DoubleType) or low is None or high is None or nulls is None:
            return self._of_first_row(part, source.type, written.location)
        value = part.transform.apply(source.type, from_bytes(source.type, low))
        last = part.transform.apply(source.type, from_bytes(source.type, high))
        if nulls or (part.transform.preserves_order and value != last):
            raise MalformedData(
                f"{written.location} has rows of several partitions by {part.name!r}",
                hint="this is an error of Frazil: report it",
            )
        return value

    def _of_first_row(self, part: PartitionField, type_: Type, location: str) -> Any:
        top = self.schema.path_ids(part.source_id)[0]
        column = Schema(tuple(field for field in self.schema.fields if field.id == top))
        for _, batch in read_data_file(self.store, location, "parquet", column, batch_rows=1):
            values = leaf(batch, column, part.source_id).slice(0, 1)
            return canonical_list(part.transform.apply_array(type_, values))[0]
        raise MalformedData(f"{location} has no rows", hint="this is an error of Frazil: report it")


def _as_asked(written: WrittenFile, sources: set[int], schema: Schema, modes: MetricsModes) -> Any:
    """The metrics that the table's properties ask for: bounds of partition columns were needed whole, and are cut."""
    metrics = written.metrics
    changed: dict[str, Any] = {
        name: dict(getattr(metrics, name))
        for name in ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    for number in sources:
        mode, column = modes[number], schema.field_by_id(number)
        assert column is not None
        if not mode.counts:
            for kept in changed.values():
                kept.pop(number, None)
        for name, cut in (("lower_bounds", lower_bound), ("upper_bounds", upper_bound)):
            data = changed[name].pop(number, None)
            bound = None if data is None or not mode.bounds else cut(column.type, from_bytes(column.type, data), mode)
            if bound is not None:
                changed[name][number] = bound
    return replace(metrics, **changed)
