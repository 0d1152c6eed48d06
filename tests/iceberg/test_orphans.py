"""Orphan files: found by the listing, kept by whatever reaches them, and deleted only when they are old."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil import ambient
from frazil.errors import InvalidArgument, StoreError, Unsupported
from frazil.iceberg import orphans
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from frazil.iceberg.table import IcebergTable
from tests.faults import Fault
from tests.incidents.lakes import (
    Place,
    data_files,
    equality_deletes,
    ids_in,
    new_table,
    place,
    position_deletes,
    rows_of,
    vector,
    write_rows,
)

DAY = 24 * 3600
START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def clock() -> Iterator[ambient.Ambient]:
    """Time passes when a test says so; files in memory have its times."""
    with ambient.replaced(ambient.Ambient(seed=5, start_ms=START_MS)) as made:
        yield made


MOMENT = pa.timestamp("ms", "UTC")


def plant(table: IcebergTable, name: str) -> str:
    """A file that nobody knows of."""
    location = f"{table.location}/{name}"
    table.store.write(location, b"stray")
    return location


def old(table: IcebergTable, **options: Any) -> list[str]:
    """What a removal takes when all files there are now have become old."""
    ambient.sleep(4 * DAY)
    return sorted(table.remove_orphan_files(**options).orphan_file_locations)


def at_of(table: IcebergTable) -> set[str]:
    return {file.location for file in table.store.list(table.location)}


def test_only_files_that_no_metadata_tells_of_are_deleted():
    table = new_table(version=3)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
    table.append(rows_of(4))
    planted = sorted(plant(table, name) for name in ("data/x.parquet", "metadata/y.avro", "z", "data/deep/er/w"))
    kept = at_of(table) - set(planted)
    result = table.remove_orphan_files(dry_run=True)
    assert (len(result), result.dry_run) == (0, True)
    ambient.sleep(4 * DAY)
    dry = table.remove_orphan_files(dry_run=True)
    assert sorted(dry.orphan_file_locations) == planted
    assert dry.total_bytes == 20
    assert at_of(table) == kept | set(planted)
    done = table.remove_orphan_files()
    assert sorted(done.orphan_file_locations) == planted
    assert (done.failed_files, done.problems) == ((), ())
    assert at_of(table) == kept
    assert ids_in(table) == [2, 3, 4]
    assert "4 deleted, 20 bytes" in repr(done)
    assert all(name in dry._repr_html_() for name in planted)


def test_every_kind_of_reachable_file_is_kept():
    """Of all snapshots, branches and tags, on a branch or staged; statistics; the metadata log; the version hint."""
    at = place("folder")
    table = new_table(at, version=2)
    table.append(rows_of(1, 2, 3))
    (file,) = data_files(table)
    table.new_row_delta().add_deletes(position_deletes(table, file, [0])).commit()
    table.new_row_delta().add_deletes(equality_deletes(table, "id", 2)).commit()
    table.manage_refs().create_tag("old").create_branch("dev").commit()
    table.append(rows_of(7), branch="dev")
    table.overwrite(rows_of(4))
    table.new_append().append_files(write_rows(table, rows_of(9))).stage_only().commit()
    current = table.current_snapshot.snapshot_id
    statistics = [plant(table, f"metadata/{name}.stats") for name in "ab"]
    table.update_statistics().set_statistics(StatisticsFile(current, statistics[0], 5, 4)).set_partition_statistics(
        PartitionStatisticsFile(current, statistics[1], 5)
    ).commit()
    before = at_of(table)
    assert any(location.endswith("version-hint.text") for location in before)
    stray = plant(table, "data/stray")
    assert old(table) == [stray]
    assert at_of(table) == before
    fresh = at.table()
    rows = {one.snapshot_id: ids_in(fresh, version=one.snapshot_id) for one in fresh.snapshots}
    assert sorted(rows.values()) == [[1, 2, 3], [2, 3], [3], [3, 7], [4], [4, 9]]


def test_files_that_are_not_old_enough_stay():
    table = new_table()
    table.append(rows_of(1))
    first = plant(table, "first")
    ambient.sleep(2 * DAY)
    between_ms = ambient.now_ms()
    second = plant(table, "second")
    ambient.sleep(2 * DAY)
    assert table.remove_orphan_files(dry_run=True).orphan_file_locations == [first]
    between = datetime.fromtimestamp(between_ms / 1000, UTC)
    for limit in (between_ms, between, between.isoformat()):
        assert table.remove_orphan_files(older_than=limit, dry_run=True).orphan_file_locations == [first]
    just_ms = ambient.now_ms() - DAY * 1000 - 10
    assert table.remove_orphan_files(older_than=just_ms).orphan_file_locations == [first, second]


def test_an_age_of_less_than_a_day_is_refused():
    """Only its age protects what a running writer has written and not committed."""
    table = new_table()
    stray = plant(table, "stray")
    ambient.sleep(3600)
    for limit in (ambient.now_ms(), ambient.now_ms() - DAY * 1000 + 60_000, 2**62):
        with pytest.raises(InvalidArgument, match="24 hours") as raised:
            table.remove_orphan_files(older_than=limit)
        assert raised.value.hint
    assert stray in at_of(table)


def test_tables_whose_files_may_be_shared_are_refused():
    table = new_table(gc__enabled="false")
    stray = plant(table, "stray")
    ambient.sleep(4 * DAY)
    with pytest.raises(InvalidArgument, match=r"gc\.enabled"):
        table.remove_orphan_files()
    assert stray in at_of(table)


def test_a_table_opened_by_one_metadata_file_is_refused(tmp_path: Path):
    """What newer metadata needs would look like orphans."""
    lake = frazil.connect(tmp_path)
    table = lake.create_table("db.t", "id BIGINT")
    table.append([{"id": 1}])
    first = table.metadata_location
    table.append([{"id": 2}])
    with pytest.raises(Unsupported, match="one metadata file"):
        frazil.open(first).remove_orphan_files()
    staged = lake.stage_table("db.new", "id BIGINT")
    with pytest.raises(Unsupported):
        staged.remove_orphan_files()


def test_a_table_handle_that_is_behind_does_not_matter():
    at = place()
    table = new_table(at)
    behind = at.table()
    table.append(rows_of(1))
    assert old(behind) == []
    assert ids_in(at.table()) == [1]


def test_what_is_committed_while_orphans_are_looked_for_is_kept():
    """A slow job's old files, committed after the metadata was read and before anything is deleted."""
    at = place()
    table = new_table(at)
    table.append(rows_of(1))
    slow = write_rows(table, rows_of(2))
    stray = plant(table, "stray")
    ambient.sleep(4 * DAY)

    class Meanwhile(orphans.Committer):
        loads = 0

        def load(self) -> Any:
            self.loads += 1
            if self.loads == 3:
                at.table().new_append().append_files(slow).commit()
            return table._committer.load()

        def commit(self, *_: Any) -> Any:
            raise AssertionError

    search = orphans.OrphanSearch.of()
    result = orphans.remove_orphan_files(table.store, Meanwhile(), search)
    assert result.orphan_file_locations == [stray]
    assert ids_in(at.table()) == [1, 2]


def test_metadata_that_cannot_be_read_keeps_every_file():
    at = place()
    table = new_table(at)
    table.append(rows_of(1))
    stray = plant(table, "stray")
    ambient.sleep(4 * DAY)
    for part in ("snap-", "-m0.avro"):
        at.plan(Fault("read", "before", StoreError("no"), match=part, times=99))
        with pytest.raises(StoreError):
            at.table().remove_orphan_files()
    at.plan()
    assert stray in at_of(table)


def test_a_location_narrows_the_search_and_must_lie_in_the_table():
    table = new_table()
    table.append(rows_of(1))
    inside, outside = plant(table, "data/stray"), plant(table, "metadata/stray")
    beside = f"{table.location}2/stray"
    table.store.write(beside, b"another table's")
    assert old(table, location=f"{table.location}/data/") == [inside]
    for bad in (f"{table.location}2", table.location.rpartition("/")[0], "memory://other/w", "data"):
        with pytest.raises(InvalidArgument):
            table.remove_orphan_files(location=bad)
    assert old(table) == [outside]
    assert table.store.exists(beside)


def test_hidden_files_stay_but_not_those_of_partitions_with_such_names():
    table = new_table(schema="id BIGINT, name STRING, `_p` INT, `.q` INT", partition_by=("_p", "`.q`"))
    table.append([{"id": 1, "name": "a", "_p": 1, ".q": 2}])
    hidden = [plant(table, name) for name in ("_SUCCESS", ".x.crc", "data/_temporary/0/a", "data/_px=1/a", "data/.q/a")]
    found = [plant(table, name) for name in ("data/_p=1/.q=2/a", "data/_p=1/b", "data/a_b/.q=1/c")]
    assert old(table) == sorted(found)
    assert set(hidden) <= at_of(table)


def test_a_table_inside_the_tables_folder_is_left_alone():
    at = place("sqlite")
    table = new_table(at)
    table.append(rows_of(1))
    inner = at.lake.create_table("db.inner", "id BIGINT, name STRING", location=f"{table.location}/data/inner")
    inner.append(rows_of(5))
    stray = plant(table, "data/stray")
    plant(inner, "data/stray")
    ambient.sleep(4 * DAY)
    inner.append(rows_of(6))
    result = table.remove_orphan_files()
    assert result.orphan_file_locations == [stray]
    assert len(result.problems) == 1
    assert "/data/inner" in result.problems[0]
    assert "data/inner" in result._repr_html_()
    assert ids_in(at.table("db.inner")) == [5, 6]


def test_a_registered_copy_does_not_remove_what_the_original_needs():
    """Its location is the original's folder, and it does not know what the original has done since."""
    at = place("folder")
    table = new_table(at)
    table.append(rows_of(1))
    copy = at.lake.register_table("db.copy", table.metadata_location)
    table.append(rows_of(2))
    ambient.sleep(4 * DAY)
    result = copy.remove_orphan_files()
    assert (len(result), len(result.problems)) == (0, 1)
    assert ids_in(at.table()) == [1, 2]


# Schemes and authorities.


def referring(table: IcebergTable, prefix: str, name: str = "f.parquet") -> str:
    """Let the table refer to a file in its folder by another scheme or authority; where it is listed."""
    listed = plant(table, f"data/{name}")
    table.append(rows_of(1))
    (file,) = data_files(table)[-1:]
    path = listed.partition("://")[2].partition("/")[2]
    table.new_fast_append().append_file(replace(file, file_path=f"{prefix}/{path}")).commit()
    return listed


def test_another_authority_is_an_error_unless_told_otherwise():
    """C4 #8 (iceberg#4346): one file by two names must not be taken for an orphan."""
    table = new_table()
    listed = referring(table, "memory://elsewhere")
    stray = plant(table, "stray")
    ambient.sleep(4 * DAY)
    here = table.location.split("/")[2]
    with pytest.raises(InvalidArgument, match=f"memory://elsewhere in metadata, memory://{here} in the listing"):
        table.remove_orphan_files()
    assert {listed, stray} <= at_of(table)
    dry = {"dry_run": True}
    assert table.remove_orphan_files(prefix_mismatch_mode="ignore", **dry).orphan_file_locations == [stray]
    same = {"equal_authorities": {f"elsewhere, {here}": "both"}}
    assert table.remove_orphan_files(**same, **dry).orphan_file_locations == [stray]
    deleted = table.remove_orphan_files(prefix_mismatch_mode="DELETE").orphan_file_locations
    assert sorted(deleted) == sorted([listed, stray])


def test_a_given_list_may_hold_files_of_other_stores():
    """The same path in another bucket is another file, of which this table knows nothing."""
    table = new_table()
    table.append(rows_of(1))
    ambient.sleep(4 * DAY)
    path = table.location.partition("://")[2].partition("/")[2]
    here, there = f"{table.location}/data/stray", f"memory://elsewhere/{path}/data/theirs"
    listed = pa.table(
        {"file_path": [here, there, f"hdfs://n/{path}/data/x"], "last_modified": pa.array([0] * 3, MOMENT)}
    )
    for mode in ("ERROR", "IGNORE", "DELETE"):
        found = table.remove_orphan_files(files=listed, dry_run=True, prefix_mismatch_mode=mode)
        assert found.orphan_file_locations == [here]


def test_another_scheme_is_an_error_unless_told_otherwise():
    table = new_table()
    here = table.location.split("/")[2]
    listed = referring(table, f"cache://{here}")
    ambient.sleep(4 * DAY)
    with pytest.raises(InvalidArgument, match="equal_schemes"):
        table.remove_orphan_files()
    assert table.remove_orphan_files(equal_schemes={"cache": "memory"}).orphan_file_locations == []
    assert listed in at_of(table)
    with pytest.raises(InvalidArgument, match="prefix_mismatch_mode"):
        table.remove_orphan_files(prefix_mismatch_mode="NONE")


def test_metadata_without_a_scheme_means_any():
    table = new_table()
    listed = referring(table, "")
    assert old(table) == []
    assert listed in at_of(table)


def test_a_file_known_by_its_own_prefix_is_never_in_doubt():
    """Even where DELETE is asked for: another spelling beside the true one makes no orphan of it."""
    table = new_table()
    table.append(rows_of(1))
    (file,) = data_files(table)
    path = file.file_path.partition("://")[2].partition("/")[2]
    table.new_fast_append().append_file(replace(file, file_path=f"memory://elsewhere/{path}")).commit()
    assert old(table) == []
    assert old(table, prefix_mismatch_mode="DELETE") == []
    assert table.store.exists(file.file_path)


@pytest.mark.parametrize(
    ("listed", "told", "orphan"),
    [
        ("s3://b/t/data/f", "s3a://b/t/data/f", False),
        ("s3://b/t/data/f", "S3N://b/t//data/./f", False),
        ("s3a://b/t/data/f", "s3://b/t/data/f", False),
        ("file:///t/data/f", "/t/data/f", False),
        ("/t/data/f", "file://localhost/t/data/f", False),
        ("/t/data/f", "file:/t/data/f", False),
        ("s3://b/t/data/f", "s3://b/t/data/g", True),
        ("s3://b/t/data/f%20", "s3://b/t/data/f ", True),
    ],
)
def test_spellings_of_one_location_are_one_file(listed: str, told: str, orphan: bool):
    """C4 #8: metadata says s3a, the listing s3."""
    given = pa.table({"file_path": [listed], "last_modified": pa.array([0], pa.timestamp("us", "UTC"))})
    table = new_table()
    root = listed.partition("/data/")[0]
    metadata = replace(table.metadata, location=root)
    search = orphans.OrphanSearch.of(files=given)
    listing = orphans._Listing.of(table.store, metadata, search)
    listing.subtract(pa.array([told]))
    listing.settle_doubts("ERROR")
    assert listing.files()["location"].to_pylist() == ([listed] if orphan else [])


def test_a_listing_may_be_given():
    table = new_table()
    table.append(rows_of(1))
    (file,) = data_files(table)
    stray, unlisted = plant(table, "data/stray"), plant(table, "data/unlisted")
    young = plant(table, "data/young")
    ambient.sleep(4 * DAY)
    times = [START_MS, START_MS, ambient.now_ms(), START_MS]
    paths = [file.file_path, stray, young, "memory://elsewhere/x"]
    given = pa.table({"file_path": paths, "last_modified": pa.array(times, pa.timestamp("ms"))})
    assert table.remove_orphan_files(files=given).orphan_file_locations == [stray]
    assert {file.file_path, unlisted, young} <= at_of(table)
    for bad in (
        given.drop_columns("file_path"),
        given.set_column(1, "last_modified", pa.array(times)),
        given.set_column(0, "file_path", pa.array([None] * 4, pa.string())),
        given.set_column(0, "file_path", pa.array([1] * 4)),
    ):
        with pytest.raises(InvalidArgument):
            table.remove_orphan_files(files=bad)


# Deleting.


def test_failures_are_told_and_do_not_stop_the_rest():
    at = place()
    table = new_table(at)
    strays = [plant(table, f"data/s{number}") for number in range(5)]
    ambient.sleep(4 * DAY)
    for threads in (None, 3):
        at.plan(Fault("delete", "before", StoreError("no"), match="data/s2", times=99))
        result = table.remove_orphan_files(max_concurrent_deletes=threads)
        at.plan()
        assert result.failed_files == (strays[2],)
        assert at_of(table) & set(strays) == {strays[2]}
        assert "1 could not be deleted" in repr(result)
        for stray in strays:
            table.store.write(stray, b"again")
        ambient.sleep(4 * DAY)
    with pytest.raises(InvalidArgument, match="max_concurrent_deletes"):
        table.remove_orphan_files(max_concurrent_deletes=0)


def test_old_versions_of_a_folders_table_go_oldest_first_and_none_after_one_that_stays():
    """A stalled writer may create the version that follows one which is there: it must never have been used."""
    at: Place = place("folder")
    table = new_table(at, write__metadata__previous_versions_max="2")
    for number in range(12):
        table.append(rows_of(number))
    ambient.sleep(4 * DAY)
    at.plan(Fault("delete", "before", StoreError("no"), match="/v10.metadata.json", times=99))
    before = {name for name in at_of(table) if "/v" in name}
    result = table.remove_orphan_files()
    at.plan()
    names = [name.rpartition("/")[2] for name in result.orphan_file_locations]
    assert sorted(names, key=lambda name: int(name[1:].split(".")[0])) == [f"v{n}.metadata.json" for n in range(1, 11)]
    assert [name.rpartition("/")[2] for name in result.failed_files] == ["v10.metadata.json"]
    assert {name.rpartition("/")[2] for name in before & at_of(table) if name.endswith(".json")} == {
        f"v{number}.metadata.json" for number in range(10, 14)
    }
    assert ids_in(at.table()) == list(range(12))


# Folders that properties name.

FOLDER_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def elsewhere(table: IcebergTable, name: str = "elsewhere") -> str:
    """A folder of the table's store that is not in its location."""
    return f"{table.location.partition('/w/')[0]}/{name}"


def with_folder(table: IcebergTable, folder: str, name: str = "write.data.path") -> str:
    table.update_properties().set(name, folder).commit()
    return folder


@pytest.mark.parametrize("name", FOLDER_PROPERTIES)
def test_a_folder_that_a_property_names_is_cleaned_only_if_it_is_given(name: str):
    table = new_table()
    folder = with_folder(table, f"{elsewhere(table)}/", name)
    table.append(rows_of(1))
    stray, young = f"{folder}deep/stray", f"{folder}young"
    table.store.write(stray, b"stray")
    inside = plant(table, "stray")
    assert old(table) == [inside]
    table.store.write(young, b"young")
    (found,) = table.remove_orphan_files(location=f"{folder}deep", dry_run=True).orphan_file_locations
    assert found == stray
    assert table.remove_orphan_files(location=folder.rstrip("/")).orphan_file_locations == [stray]
    assert table.store.exists(young)
    assert ids_in(table.refresh()) == [1]


def test_what_no_property_names_stays_refused():
    table = new_table()
    folder = with_folder(table, elsewhere(table))
    with_folder(table, "no location", "write.folder-storage.path")
    for bad in (f"{folder}2", elsewhere(table, ""), "memory://other/elsewhere", "/elsewhere", "elsewhere"):
        with pytest.raises(InvalidArgument):
            table.remove_orphan_files(location=bad)


def test_a_named_folder_is_as_safe_as_the_tables_own():
    """Every ref counts, gc.enabled, and files that metadata names under another authority."""
    table = new_table()
    folder = with_folder(table, elsewhere(table))
    table.append(rows_of(1))
    table.manage_refs().create_branch("dev").create_tag("first").commit()
    table.append(rows_of(2), branch="dev")
    table.overwrite(rows_of(3))
    assert old(table, location=folder) == []
    other = folder.replace("memory://", "memory://other-")
    (file,) = write_rows(table, rows_of(4))
    table.new_append().append_file(replace(file, file_path=file.file_path.replace(folder, other))).commit()
    with pytest.raises(InvalidArgument, match="scheme or authority"):
        old(table, location=folder)
    assert old(table, location=folder, prefix_mismatch_mode="IGNORE") == []
    table.update_properties().set("gc.enabled", "false").commit()
    with pytest.raises(InvalidArgument, match=r"gc\.enabled"):
        table.remove_orphan_files(location=folder)


@pytest.mark.parametrize("inner", ["", "/inner"])
def test_a_folder_that_tables_share_is_left_alone_unless_it_is_given(inner: str):
    """Only that it must be asked for protects the data of others there; see the documentation."""
    at = place("sqlite")
    table = new_table(at)
    folder = with_folder(table, elsewhere(table))
    other = at.lake.create_table("db.other", "id BIGINT, name STRING", properties={"write.data.path": folder + inner})
    for one in (table, other):
        one.append(rows_of(1))
    assert old(table) == old(other) == []
    assert ids_in(at.table("db.other")) == ids_in(at.table()) == [1]
    told = table.remove_orphan_files(location=folder, dry_run=True).orphan_file_locations
    assert told == [file.file_path for file in data_files(other)]


@pytest.mark.parametrize("asked", ["", "/other", "/other/data"])
def test_tables_with_their_metadata_in_or_above_a_named_folder_are_left_alone(asked: str):
    at = place("sqlite")
    table = new_table(at)
    folder = with_folder(table, elsewhere(table))
    other = at.lake.create_table("db.other", "id BIGINT, name STRING", location=f"{folder}/other")
    other.append(rows_of(5))
    plant(other, "data/stray")
    ambient.sleep(4 * DAY)
    result = table.remove_orphan_files(location=folder + asked)
    assert len(result) == 0
    assert any("/elsewhere/other" in problem for problem in result.problems)
    assert ids_in(at.table("db.other")) == [5]


def test_the_data_folder_of_another_table_is_left_alone():
    at = place("sqlite")
    table = new_table(at)
    other = at.lake.create_table("db.other", "id BIGINT, name STRING")
    other.append(rows_of(5))
    folder = with_folder(table, f"{other.location}/data")
    assert old(table, location=folder) == []
    assert ids_in(at.table("db.other")) == [5]


def test_metadata_of_other_tables_in_a_common_folder_is_left_alone():
    at = place("sqlite")
    table = new_table(at)
    folder = with_folder(table, elsewhere(table), "write.metadata.path")
    other = at.lake.create_table("db.other", "id BIGINT, name STRING", properties={"write.metadata.path": folder})
    for one in (table, other):
        one.append(rows_of(1))
        one.append(rows_of(2))
    table.store.write(f"{folder}/stray.avro", b"stray")
    ambient.sleep(4 * DAY)
    result = table.remove_orphan_files(location=folder)
    assert (len(result), len(result.problems)) == (0, 1)
    assert "another table" in result.problems[0]
    assert ids_in(at.table("db.other")) == ids_in(at.table()) == [1, 2]


def test_a_folder_in_a_table_inside_the_tables_is_left_alone():
    at = place("sqlite")
    table = new_table(at)
    inner = at.lake.create_table("db.inner", "id BIGINT, name STRING", location=f"{table.location}/data/inner")
    inner.append(rows_of(5))
    assert old(table, location=f"{inner.location}/data") == []
    assert ids_in(at.table("db.inner")) == [5]
