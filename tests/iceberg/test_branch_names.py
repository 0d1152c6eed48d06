"""A mistyped branch makes no branch: methods of a table write to branches that exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frazil.errors import InvalidArgument, NotFound
from frazil.iceberg.table import IcebergTable
from tests.iceberg.small_tables import ids_of, new_table, rows, write_files

Write = Callable[[Any, str], Any]
WRITES: dict[str, Write] = {
    "append": lambda table, branch: table.append(rows(9), branch=branch),
    "overwrite": lambda table, branch: table.overwrite(rows(9), "id = 1", branch=branch),
    "delete": lambda table, branch: table.delete("id = 1", branch=branch),
}
UPKEEP: dict[str, Write] = {
    "upsert": lambda table, branch: table.upsert(rows(1), ["id"], branch=branch),
    "convert": lambda table, branch: table.convert_equality_deletes(branch=branch),
    "rewrite": lambda table, branch: table.rewrite_position_delete_files(branch=branch),
}


def made() -> IcebergTable:
    table = new_table(2, **{"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2))
    table.manage_refs().create_tag("done").create_branch("dev").commit()
    return table


@pytest.mark.parametrize("write", [*WRITES.values(), *UPKEEP.values()], ids=[*WRITES, *UPKEEP])
def test_a_branch_that_does_not_exist_is_refused(write: Write):
    table = made()
    before = {file.location for file in table.store.list(table.location)}
    with pytest.raises(NotFound, match="no branch 'dve'"):
        write(table, "dve")
    with pytest.raises(InvalidArgument, match="is a tag"):
        write(table, "done")
    assert {file.location for file in table.store.list(table.location)} == before
    assert set(table.refresh().refs) == {"main", "done", "dev"}
    write(table, "dev")


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_in_a_transaction(write: Write):
    table = made()
    with pytest.raises(NotFound, match="no branch 'new'"), table.transaction() as changes:
        write(changes, "new")
    with table.transaction() as changes:
        changes.manage_refs().create_branch("new").commit()
        write(changes, "new")
    assert (ids_of(table), set(table.refs)) == ([1, 2], {"main", "done", "dev", "new"})


def test_an_action_begins_a_branch_as_iceberg_does():
    table = made()
    table.new_append().append_files(write_files(table, rows(3))).to_branch("new").commit()
    assert (ids_of(table), ids_of(table, ref="new")) == ([1, 2], [1, 2, 3])
