"""Dangling deletes: delete files and vectors that no data file has anything to do with any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from frazil.errors import CommitConflict, CommitFailed
from frazil.iceberg.actions.convert_deletes import ConvertDeletes
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.delete_writer import WrittenDeletes
from frazil.iceberg.refs import MAIN
from frazil.iceberg.rewrite import branch_head
from frazil.iceberg.scan import Scan
from frazil.iceberg.snapshot import Snapshot

if TYPE_CHECKING:
    from frazil.iceberg.table import IcebergTable


def dangling_deletes(table: IcebergTable, base: Snapshot) -> list[DataFile]:
    """The delete files of a snapshot that apply to nothing."""
    plan = Scan(table.metadata, table.store, base, table.schema).plan()
    used = plan.used_deletes
    return [file for number, file in enumerate(plan.delete_files) if number not in used]


def remove_dangling_deletes(
    table: IcebergTable, branch: str = MAIN, *, told: Callable[[ConvertDeletes], object] = lambda _: None
) -> int:
    """Remove dangling deletes from a branch: how many. If others are in the way, they stay for the next time.

    `told` may say more about the commit before it is made.
    """
    base = branch_head(table.metadata, branch)
    dangling = [] if base is None else dangling_deletes(table, base)
    if base is None or not dangling:
        return 0
    action = table.convert_deletes().to_branch(branch).validate_from(base.snapshot_id)
    told(action.convert(dangling, WrittenDeletes()))
    try:
        action.commit()
    except (CommitConflict, CommitFailed):
        return 0
    return len(dangling)
