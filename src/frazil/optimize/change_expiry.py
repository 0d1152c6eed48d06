"""Expiry of the change store: files whose rows are in the base store are removed from it after a while.

Which those are is told by their sequence number, as visibility is. By the transaction id, as Amoro does it, changes
that were committed late would be lost.
"""

from __future__ import annotations

from frazil import ambient
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.properties import Property, integer
from frazil.mixed.file_names import parse_change
from frazil.mixed.optimized import read_optimized
from frazil.mixed.pair import BASE_SNAPSHOT, recorded
from frazil.mixed.table import MixedTable
from frazil.mixed.transactions import DATA_EXPIRATION, ENDED, PRODUCER, ended_by_files
from frazil.mixed.visible import PartitionPaths, check_paths, is_visible

TTL_MINUTES = Property("change.data.ttl.minutes", 10_080, integer(0, 2**40))


def expire_changes(
    table: MixedTable, *, older_than_ms: int | None = None, now_ms: int | None = None, dry_run: bool = False
) -> int:
    """Remove change files from before a time that are in the base store; how many. By default the table's TTL counts.

    The files themselves stay until the snapshots that have them expire.
    """
    table.refresh()
    base, change = table.base_store, table._change_store
    ttl_ms = change.metadata.property_reader.get(TTL_MINUTES) * 60_000
    now = ambient.now_ms() if now_ms is None else now_ms
    before = now - ttl_ms if older_than_ms is None else older_than_ms
    optimized = read_optimized(base.metadata, base.store, base.current_snapshot)
    paths = PartitionPaths(base.metadata)
    times = {one.sequence_number: one.timestamp_ms for one in change.snapshots}
    files = [task.file for task in change.scan().plan().tasks()]
    check_paths(files, paths, optimized)
    gone = [
        file
        for file in files
        if not is_visible(file, paths.of(file), optimized) and times.get(file.data_sequence_number or 0, 0) < before
    ]
    if gone and not dry_run:
        action = DeleteFiles(change._transaction())
        for file in gone:
            action.delete_file(file)
        names = (parse_change(file.file_path, file.data_sequence_number or 0) for file in gone)
        ended = ended_by_files(base.metadata, change.metadata, (name.transaction_id for name in names))
        if ended:
            action.set(ENDED, ended)
        action.set(PRODUCER, DATA_EXPIRATION).set(BASE_SNAPSHOT, recorded(base.metadata)).commit()
        table.refresh()
    return len(gone)
