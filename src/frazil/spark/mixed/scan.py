"""The plan that stands for a keyed table in a query: rows of both stores, less those whose key was deleted later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.model.types import NestedField
from frazil.spark.handles import Asked
from frazil.spark.mixed.arrow import merged_frame
from frazil.spark.mixed.source import MixedSource, source_of
from frazil.spark.scan.filters import pushed_filter
from frazil.spark.scan.native import output_struct
from frazil.spark.scan.plan import column_named
from frazil.spark.scan.scans import ScanRelation, arrow_document
from frazil.spark.scan.statistics import Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.spark.bridge import Bridge
    from frazil.spark.mixed.handle import MixedHandle


def describe_merge(bridge: Bridge, handle: MixedHandle, asked: Asked, jsession: Any) -> Any:
    """The JSON that FrazilPlan makes the plan of."""
    source = source_of(handle, asked.session["scan"], asked.filtered)
    wanted = tuple(column_named(source.base.metadata, source.schema, name) for name in asked.columns)
    struct = output_struct(wanted, bridge.dialect)
    key = json.dumps([source.key, "merged", *asked.columns])
    document = arrow_document(key, source.name, Statistics(), struct)
    return bridge.scans.describe([MergedRelation(source, wanted, document)], struct)


@dataclass(frozen=True)
class MergedRelation(ScanRelation):
    """Rows that workers merge."""

    source: MixedSource
    wanted: tuple[NestedField, ...]
    document: dict[str, Any]

    def rows(self, columns: Sequence[str], filters: str, session: SparkSession) -> DataFrame:
        fields = {field.name: field for field in self.wanted}
        kinds = {field["name"]: field for field in self.document["data"]["fields"]}
        plan = self.source.plan(pushed_filter(filters, self.source.schema))
        wanted = tuple(fields[name] for name in columns)
        parallelism = session.sparkContext.defaultParallelism
        return merged_frame(plan, self.source.keys, wanted, [kinds[name] for name in columns], session, parallelism)

    def statistics(self, filters: str, *, columns: bool) -> Statistics:
        plan = self.source.plan(pushed_filter(filters, self.source.schema))
        return Statistics(plan.total_bytes, plan.record_count)
