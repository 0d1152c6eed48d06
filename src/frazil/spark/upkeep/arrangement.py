"""In which order the rows of rewritten files stand: as they come, sorted, or by a curve through several columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import InvalidArgument
from frazil.iceberg.compaction_options import CompactionOptions, Strategy
from frazil.iceberg.metadata import TableMetadata
from frazil.model.schema import Schema
from frazil.model.sorting import UNSORTED
from frazil.optimize import arrangement
from frazil.spark.scan.relations import quoted_name
from frazil.spark.write.layout import sort_keys
from frazil.spark.write.partitions import Transforms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY = "_frazil_zorder"
_MANY = 64


@dataclass(frozen=True)
class Arrangement(arrangement.Arrangement):
    """The same on Spark."""

    @classmethod
    def of(cls, strategy: str, text: str | None, metadata: TableMetadata) -> Arrangement:
        """From the procedure's arguments: a strategy, and `id DESC, ts` or `zorder(a, b)`."""
        if strategy not in ("binpack", "sort"):
            raise InvalidArgument(f"strategy {strategy!r}", hint="use binpack or sort")
        if strategy == "binpack":
            if text is not None:
                raise InvalidArgument("binpack takes no sort_order", hint="use strategy => 'sort'")
            return cls()
        if text is None and metadata.default_sort_order.is_unsorted:
            raise InvalidArgument("the table has no sort order", hint="give sort_order => 'column, ...'")
        return cls.of_table(text, metadata)

    @property
    def strategy(self) -> Strategy:
        """The strategy whose options hold."""
        return "zorder" if self.curve else "binpack" if self.order.is_unsorted else "sort"

    def known_id(self, metadata: TableMetadata) -> int:
        """The id of the order, if it is one of the table's."""
        return self.order.order_id if self.order in metadata.sort_orders else UNSORTED.order_id

    def arranged(
        self,
        rows: DataFrame,
        parts: int,
        schema: Schema,
        transforms: Transforms,
        options: CompactionOptions,
        files: int = 1,
    ) -> DataFrame:
        """Rows of so many files in so many parts, each one arranged."""
        from pyspark.sql import functions

        if self.curve:
            columns = [functions.col(quoted_name(name)) for name in self.curve]
            limits = (functions.lit(options.var_length_contribution), functions.lit(options.max_output_size))
            keyed = rows.withColumn(_KEY, transforms.call("zorder", *limits, *columns))
            return _by_range(keyed, parts, [functions.col(_KEY)]).drop(_KEY)
        if self.order.is_unsorted:
            # to open many files takes longer than to move what is in them: all cores do it
            return rows.repartition(1) if parts == 1 and files >= _MANY else rows.coalesce(parts)
        keys = sort_keys(schema, self.order, transforms)
        if keys is None:
            raise InvalidArgument(f"Spark cannot sort by {self.order}", hint="use other columns or transforms")
        return _by_range(rows, parts, keys)


def _by_range(rows: DataFrame, parts: int, keys: Sequence[Column]) -> DataFrame:
    return rows.repartitionByRange(parts, *keys).sortWithinPartitions(*keys)
