"""Location updates."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidArgument, InvalidName
from frazil.iceberg.actions.update_location import UpdateLocation
from tests.iceberg.memory_committer import Table


def test_new_files_go_to_the_new_location():
    table = Table()
    old = table.append("a")
    UpdateLocation(table.transaction()).set_location(f"memory://{table.name}/moved/").commit()
    assert table.metadata.location == f"memory://{table.name}/moved"
    new = table.append("b")
    assert (table.metadata.snapshot(old).manifest_list or "").startswith(f"memory://{table.name}/t/metadata/")
    assert (table.metadata.snapshot(new).manifest_list or "").startswith(f"memory://{table.name}/moved/metadata/")


def test_the_same_location_commits_nothing():
    table = Table()
    UpdateLocation(table.transaction()).set_location(table.location + "/").commit()
    assert table.committer.commits == 0


@pytest.mark.parametrize("location", ["", "relative/path", "s3://b/../c", "s3://user:secret@b/c"])
def test_what_is_no_location_is_refused(location: str):
    with pytest.raises(InvalidName):
        UpdateLocation(Table().transaction()).set_location(location)


def test_a_location_must_be_given():
    with pytest.raises(InvalidArgument, match="no location"):
        UpdateLocation(Table().transaction()).commit()
