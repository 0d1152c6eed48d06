"""What a query reads of a keyed table: both stores, within one pair of snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from frazil.mixed.keys import key_fields
from frazil.mixed.optimized import Optimized, read_optimized
from frazil.mixed.plan import MixedPlan, StoreState, plan_merge
from frazil.model.expressions import Expression
from frazil.model.schema import Schema
from frazil.spark.scan.filters import numbered
from frazil.spark.scan.options import reader_settings, scan_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.spark.mixed.handle import MixedHandle


@dataclass(frozen=True)
class MixedSource:
    """A pair of snapshots with a schema of the table; `key` tells it from all others."""

    base: StoreState
    change: StoreState
    schema: Schema
    keys: tuple[int, ...]
    """The field ids of the primary key, in its order."""
    key: str
    name: str
    mode: str
    settings: Mapping[str, str] = field(default_factory=dict)
    filtered: Sequence[str] = ()

    @cached_property
    def optimized(self) -> Optimized:
        """Up to which change each partition is in the base store."""
        return read_optimized(self.base.metadata, self.base.store, self.base.snapshot)

    def plan(self, where: Expression) -> MixedPlan:
        """The tasks of the kernel's own merge, with a filter that is bound to the numbered schema."""
        return plan_merge(self.base, self.change, self.optimized, numbered(self.schema), where, keys=self.keys)


def source_of(handle: MixedHandle, mode: str | None, filtered: Sequence[str] = ()) -> MixedSource:
    """What a handle reads, with the options it was given; `mode` is the session's."""
    base, change = handle.base, handle.change
    return MixedSource(
        StoreState(base.metadata, base.store, handle.pair.base),
        StoreState(change.metadata, change.store, handle.pair.change),
        handle.schema,
        tuple(column.id for column in key_fields(handle.schema, handle.table.primary_key)),
        handle.rows,
        handle.name,
        scan_mode(handle.options, mode),
        reader_settings(handle.options, base.metadata.properties),
        filtered,
    )
