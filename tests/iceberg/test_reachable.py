"""Reachability: which files only some snapshots need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidName
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.data_file import Content
from frazil.iceberg.reachable import Reachability, location_keys
from frazil.io import location as locations
from tests.iceberg.memory_committer import Table

PARTS = st.lists(st.sampled_from(["a", "b", ".", "", "localhost", "a b", "%20"]), max_size=4).map("/".join)
SPELLINGS = st.builds(
    "{}{}".format,
    st.sampled_from(
        ["/", "file:/", "file:///", "FILE:/", "file://localhost/", "s3://b/", "s3a://b/", "S3N://b/", "memory://b/"]
    ),
    PARTS,
)


@given(SPELLINGS, SPELLINGS)
def test_two_spellings_of_one_location_have_one_key(left: str, right: str):
    try:
        same = locations.same(left, right, one_s3=True)
    except InvalidName:
        same = False
    keys = location_keys([left, right])
    assert keys[0] == keys[1] or not same


def test_files_of_different_names_have_different_keys():
    names = [
        "s3://b/a",
        "s3://b/A",
        "s3://c/a",
        "gs://b/a",
        "/b/a",
        "s3://b/a%2Fb",
        "s3://b/a/b",
        "s3://b/.a",
        "s3://b/a.",
    ]
    assert len(set(location_keys(names))) == len(names)


def test_only_files_that_no_retained_snapshot_has_are_told():
    table = Table()
    first = table.append("a", "b")
    second = DeleteFiles(table.transaction()).delete_file(f"{table.location}/data/a").commit().snapshot_id
    reachability = Reachability(table.store, table.metadata)
    old, new = table.metadata.snapshot(first), table.metadata.snapshot(second)
    files = reachability.only_expired([old], [new])
    assert files.paths(Content.DATA).to_pylist() == [f"{table.location}/data/a"]
    assert len(files.manifests) == len(files.manifest_lists) == 1
    assert reachability.only_expired([old], [old, new]).manifests == ()
    everything = reachability.only_expired([old, new], [])
    assert sorted(everything.paths(Content.DATA).to_pylist()) == [f"{table.location}/data/{name}" for name in "ab"]
    assert len(everything.manifests) == 2
