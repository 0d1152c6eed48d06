"""Overwrites of whole partitions: new base files in the place of old ones, and older changes hidden.

The partitions that are overwritten get the overwriting transaction as their optimized sequence: what was committed to
the change store before it is hidden, what comes after counts on top. If that would not be in order, the overwrite is
done again under a new id (`frazil.mixed.order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from frazil import ambient
from frazil.errors import CommitConflict, InvalidArgument
from frazil.iceberg.actions.action import Context, Staged
from frazil.iceberg.actions.overwrite import OverwriteFiles
from frazil.iceberg.actions.replace_partitions import ReplacePartitions
from frazil.iceberg.actions.snapshot_action import SnapshotAction
from frazil.iceberg.data_file import DataFile, partition_key
from frazil.iceberg.properties import COMMIT_NUM_RETRIES
from frazil.iceberg.row_changes import RowChanges
from frazil.iceberg.scan_columns import leaf
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable, TableTransaction
from frazil.iceberg.upsert import several_rows
from frazil.mixed.closing import CloseOverwrite, check_closed
from frazil.mixed.evolution import sync_schema
from frazil.mixed.keys import key_fields
from frazil.mixed.optimized import SEQUENCE, TIME, MoveOptimized, flag
from frazil.mixed.order import Scope
from frazil.mixed.pair import CHANGE_SNAPSHOT, recorded
from frazil.mixed.properties import UPSERT_ENABLED
from frazil.mixed.renewal import Renewal
from frazil.mixed.transactions import TRANSACTION, abandon_transaction, abandoning_unwritten, begin_transaction
from frazil.mixed.unique_keys import repeated_key
from frazil.mixed.visible import PartitionPaths
from frazil.mixed.watermark import MoveWatermark, watermark_of
from frazil.mixed.writer import BaseWriter, refuse_null_keys
from frazil.model.arrow import array_from_canonical
from frazil.model.conform import conform
from frazil.model.expressions import AlwaysFalse, AlwaysTrue, Expression
from frazil.model.residuals import residuals

if TYPE_CHECKING:
    from frazil.mixed.table import MixedTable


class _InOrder(SnapshotAction):
    """A commit to the base store that is in order with changes, and says which snapshot the change store was at."""

    def after(self, change: IcebergTable, check: Callable[[Context], None]) -> Self:
        """Commit only if a check of the base store does not refuse it."""
        self._change, self._check = change, check
        return self

    def stage(self, context: Context) -> Staged:
        self._check(context)
        self.set(CHANGE_SNAPSHOT, recorded(self._change.newest_state().metadata))
        return super().stage(context)


class _OverwriteFiles(_InOrder, OverwriteFiles):
    """An overwrite of what matches."""


class _ReplacePartitions(_InOrder, ReplacePartitions):
    """An overwrite of the partitions of files."""


@dataclass(frozen=True)
class _Replacement:
    """What an overwrite replaces, and how."""

    scope: Scope
    action: Callable[[TableTransaction, int, list[DataFile]], _OverwriteFiles | _ReplacePartitions]
    moved: Callable[[], set[str]]
    """The paths of the partitions that are replaced."""
    kinds: tuple[str, ...] = (SEQUENCE,)
    """Which maps of them the commit has, as Amoro's has them."""


class Overwrite:
    """One overwrite of partitions of a keyed table."""

    def __init__(self, table: MixedTable) -> None:
        self._table = table
        self._base, self._change = table.base_store, table._change_store
        table.refresh()
        sync_schema(self._base, self._change)
        self._paths = PartitionPaths(self._base.metadata)
        self._keys = key_fields(self._base.schema, table.primary_key)

    def matching(self, where: Expression) -> dict[tuple[Any, ...], str] | None:
        """The partitions whose rows all match, by their paths; None if some partition has rows of both kinds."""
        found = self._partitions()
        filters = self._filters(where, list(found.values()))
        if not all(isinstance(one, AlwaysTrue | AlwaysFalse) for one in filters):
            return None
        return {
            key: self._paths.of(file)
            for one, (key, file) in zip(filters, found.items(), strict=True)
            if isinstance(one, AlwaysTrue)
        }

    def _partitions(self) -> dict[tuple[Any, ...], DataFile]:
        """The partitions that there are, with a file of each."""
        files = [*self._files(self._base), *self._files(self._change)]
        return {partition_key(file.partition): file for file in files}

    def _filters(self, where: Expression, files: Sequence[DataFile]) -> list[Expression]:
        """What a filter says of the rows in the partition of each file."""
        values = [[file.partition[place] for file in files] for place in range(len(self._paths.types))]
        columns = [array_from_canonical(*pair) for pair in zip(self._paths.types, values, strict=True)]
        which, filters = residuals(self._base.schema, self._paths.spec, where, columns, len(files))
        return [filters[number] for number in which]

    def _files(self, store: IcebergTable) -> Iterable[DataFile]:
        return (task.file for task in store.scan().plan().tasks())

    def by_filter(self, rows: Any, where: Expression, partitions: Mapping[tuple[Any, ...], str]) -> RowChanges:
        """Replace these partitions, which the filter means, by rows; `rows` may be None."""
        if rows is None and not partitions:
            return RowChanges()
        batches = [] if rows is None else self._checked(rows)
        transaction = self.begin("truncate" if rows is None else "overwrite")
        return self.replace_matching(transaction, self._write(batches, transaction), where, partitions)

    def dynamic(self, rows: Any) -> RowChanges:
        """Replace the partitions that the rows belong to."""
        batches = self._checked(rows)
        transaction = self.begin("overwrite")
        return self.replace_partitions(transaction, self._write(batches, transaction))

    # In steps, for whoever writes the files elsewhere.

    def begin(self, signature: str = "overwrite") -> int:
        """Begin the transaction that files of the base store are named by."""
        return begin_transaction(self._base, self._change, signature, overwrites=True)

    def replace_matching(
        self,
        transaction: int,
        files: list[DataFile],
        where: Expression,
        partitions: Mapping[tuple[Any, ...], str],
        properties: Mapping[str, str] | None = None,
    ) -> RowChanges:
        """Put files in the place of the partitions that the filter means: of these, and others that there are since."""

        def has(file: DataFile) -> bool:
            return not isinstance(self._filters(where, [file])[0], AlwaysFalse)

        def examples() -> list[DataFile]:
            found = list(self._partitions().values())
            told = zip(found, self._filters(where, found), strict=True)
            return [*files, *(file for file, one in told if not isinstance(one, AlwaysFalse))]

        def overwrite(tx: TableTransaction, number: int, these: list[DataFile]) -> _OverwriteFiles:
            return _OverwriteFiles(tx).add_files(these).overwrite_where(where).set("txId", str(number))

        def moved() -> set[str]:
            found = self.matching(where)
            if found is None:
                raise CommitConflict(
                    f"there are partitions now of which ({where}) means only some rows", hint="repeat the overwrite"
                )
            # other partitions that rows come to keep their changes
            return {*partitions.values(), *found.values()}

        kinds = (SEQUENCE, TIME)
        how = _Replacement(Scope(has, examples), overwrite, moved, kinds)
        return self._commit(how, transaction, files, properties)

    def replace_partitions(
        self, transaction: int, files: list[DataFile], properties: Mapping[str, str] | None = None
    ) -> RowChanges:
        """Put files in the place of the partitions that they belong to."""
        if not files:
            self.abandon(transaction)
            return RowChanges()
        paths = {self._paths.of(file) for file in files}

        def has(file: DataFile) -> bool:
            return self._paths.of(file) in paths

        def overwrite(tx: TableTransaction, number: int, these: list[DataFile]) -> _ReplacePartitions:
            return _ReplacePartitions(tx).add_files(these)

        how = _Replacement(Scope(has, lambda: files), overwrite, lambda: paths)
        return self._commit(how, transaction, files, properties)

    def abandon(self, transaction: int) -> None:
        """Say that nothing comes of a transaction."""
        abandon_transaction(self._base, self._change, transaction)

    def _write(self, batches: Iterable[pa.RecordBatch], transaction: int) -> list[DataFile]:
        writer = BaseWriter(self._base.metadata, self._base.store, self._keys, transaction)
        with abandoning_unwritten(self._base, self._change, transaction):
            return writer.write(batches)

    def _checked(self, rows: Any) -> list[pa.RecordBatch]:
        batches = list(conform(rows, self._base.schema))
        for batch in batches:
            refuse_null_keys(batch, self._base.schema, self._keys)
        upserts = self._base.metadata.property_reader.get(UPSERT_ENABLED)
        if upserts and batches:
            columns = [pa.concat_arrays(leaf(one, self._base.schema, key.id) for one in batches) for key in self._keys]
            found = repeated_key([key.name for key in self._keys], columns)
            if found is not None:
                raise several_rows(found)
        return batches

    def _commit(
        self, how: _Replacement, transaction: int, files: list[DataFile], properties: Mapping[str, str] | None
    ) -> RowChanges:
        """Replace partitions; under a new id, if others changed rows that it did not see."""

        def attempt(number: int, these: list[DataFile]) -> Snapshot:
            self._table.refresh()
            CloseOverwrite(self._change._transaction(), self._base, number, how.scope).commit()
            self._table.refresh()
            return self._replace(how, number, these, properties)

        most = self._base.metadata.property_reader.get(COMMIT_NUM_RETRIES)
        snapshot = Renewal(self._base.store, self.begin, self.abandon, most).committed(transaction, files, attempt)
        self._table.refresh()
        return RowChanges(
            rows_inserted=sum(file.record_count for file in files),
            data_files_added=len(files),
            data_files_removed=int(snapshot.summary.get("deleted-data-files", "0")),
            snapshot=snapshot,
        )

    def _replace(
        self, how: _Replacement, number: int, files: list[DataFile], properties: Mapping[str, str] | None
    ) -> Snapshot:
        base, change = self._base, self._change
        values = {SEQUENCE: number, TIME: ambient.now_ms()}
        moved = sorted(how.moved())
        maps = {kind: dict.fromkeys(moved, values[kind]) for kind in how.kinds}
        with base.transaction() as tx:
            action = how.action(tx, number, files)
            action.after(change, lambda now: check_closed(now, change.metadata, number, how.scope))
            for key, text in (properties or {}).items():
                action.set(key, text)
            action.set(TRANSACTION, str(number))
            for kind in maps:
                action.set(flag(kind), "true")
            action.commit()
            MoveOptimized(tx, maps).commit()
            MoveWatermark(tx, watermark_of(files, base.schema, base.properties)).commit()
        return base.snapshot(action.snapshot_id)


def refuse_parts(where: Expression) -> InvalidArgument:
    """The error for a filter that does not mean whole partitions."""
    return InvalidArgument(f"({where}) does not mean whole partitions", hint="use delete(where) to delete single rows")
