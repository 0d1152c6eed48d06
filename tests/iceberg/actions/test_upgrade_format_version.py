"""Format upgrades."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidArgument, InvalidEvolution
from frazil.iceberg.actions.upgrade_format_version import UpgradeFormat
from tests.iceberg.memory_committer import Table


def test_a_table_moves_up_and_goes_on():
    table = Table(1)
    table.append("a")
    for version in (2, 3):
        UpgradeFormat(table.transaction()).to(version).commit()
        assert table.metadata.format_version == version
        table.append(f"b{version}")
    assert [snapshot.sequence_number for snapshot in table.metadata.snapshots] == [0, 1, 2]
    # rows from before the upgrade get ids together with those of the first snapshot after it
    assert table.metadata.next_row_id == 30


def test_the_version_it_has_commits_nothing():
    table = Table(2)
    UpgradeFormat(table.transaction()).to(2).commit()
    assert table.committer.commits == 0


@pytest.mark.parametrize("version", [1, 4])
def test_there_is_no_way_back_and_none_beyond_what_is_known(version: int):
    with pytest.raises(InvalidEvolution):
        UpgradeFormat(Table(2).transaction()).to(version).commit()


def test_a_version_must_be_given():
    with pytest.raises(InvalidArgument):
        UpgradeFormat(Table(2).transaction()).commit()
