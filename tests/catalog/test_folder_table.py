"""Tables that are a folder: finding the newest version, lost answers, and names that come back."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from frazil import ambient
from frazil.catalog.filesystem import FilesystemCatalog
from frazil.catalog.folder_table import FolderCommitter
from frazil.catalog.folder_versions import Moved
from frazil.errors import (
    CommitFailed,
    CommitStateUnknown,
    InvalidArgument,
    MalformedMetadata,
    StoreError,
    TableAlreadyExists,
    TableNotFound,
)
from frazil.iceberg.committer import TableState
from frazil.iceberg.updates import SetLocation, SetProperties
from frazil.io.store import Store, Stores
from frazil.lake import Lake
from tests.catalog.tables import first_metadata
from tests.faults import Fault, FaultyStore

pytestmark = pytest.mark.usefixtures("frozen_clock")

CLEANING = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


def a_table(store: Store | None = None, **properties: str) -> tuple[FolderCommitter, TableState]:
    catalog = FilesystemCatalog(Stores() if store is None else store, f"memory://{ambient.new_uuid()}/w")
    catalog.create_namespace("db")
    state = catalog.create_table("db.t", first_metadata(catalog, "db.t", **properties))
    return catalog.committer("db.t"), state


def commit(committer: FolderCommitter, base: TableState, **properties: str) -> TableState:
    return committer.commit(base, [SetProperties(properties)], [])


def grow(committer: FolderCommitter, state: TableState, commits: int) -> TableState:
    for number in range(commits):
        state = commit(committer, state, step=f"{state.metadata.last_updated_ms} {number}")
    return state


def file_of(committer: FolderCommitter, name: str) -> str:
    return f"{committer.folder}/metadata/{name}"


@pytest.mark.parametrize(
    "hint", [None, b"", b"7", b"1", b"2", b"99", b"-1", b"three", b"\xff\xfe", b"9" * 40, b"3\n"], ids=repr
)
def test_the_newest_version_is_found_whatever_the_hint_says(hint: bytes | None) -> None:
    store = Stores()
    committer, state = a_table(store)
    newest = grow(committer, state, 3)
    if hint is None:
        store.delete(file_of(committer, "version-hint.text"))
    else:
        store.write(file_of(committer, "version-hint.text"), hint)
    assert committer.load() == newest
    assert newest.metadata_location.endswith("/v4.metadata.json")


def test_versions_in_every_spelling_of_gzip_are_found() -> None:
    store = Stores()
    committer, state = a_table(store, **{"write.metadata.compression-codec": "gzip"})
    newest = grow(committer, state, 2)
    assert newest.metadata_location.endswith("/v3.gz.metadata.json")
    store.write(file_of(committer, "v3.metadata.json.gz"), store.read(newest.metadata_location))
    store.delete(newest.metadata_location)
    assert committer.load().metadata == newest.metadata


def test_files_that_only_look_like_versions_are_not_taken_for_one() -> None:
    store = Stores()
    committer, state = a_table(store)
    for name in ("v9.metadata.json.tmp", "v.metadata.json", "vx.metadata.json", "old/v9.metadata.json", "v9.avro"):
        store.write(file_of(committer, name), b"{}")
    store.delete(file_of(committer, "version-hint.text"))
    assert committer.load() == state


def test_a_damaged_version_is_an_error_that_names_it_not_a_step_back() -> None:
    store = Stores()
    committer, state = a_table(store)
    newest = grow(committer, state, 1)
    store.write(newest.metadata_location, b"{")
    with pytest.raises(MalformedMetadata, match=r"v2\.metadata\.json"):
        committer.load()


def test_writers_that_change_the_codec_and_writers_that_do_not_meet_on_one_name() -> None:
    committer, base = a_table()
    commit(committer, base, **{"write.metadata.compression-codec": "gzip"})
    with pytest.raises(CommitFailed):
        commit(committer, base, a="1")


def test_two_that_create_a_table_at_once_meet_on_one_name_whatever_their_codecs() -> None:
    store = Stores()
    catalog = FilesystemCatalog(store, f"memory://{ambient.new_uuid()}/w")
    catalog.create_namespace("db")
    first = catalog.create_table("db.t", first_metadata(catalog, "db.t"))
    late = FaultyStore(store, [Fault("exists", "before")])
    stale = FilesystemCatalog(_BlindStore(late), catalog.warehouse)
    other = first_metadata(stale, "db.t", **{"write.metadata.compression-codec": "gzip"})
    with pytest.raises(TableAlreadyExists):
        FolderCommitter(stale.store, stale.default_location("db.t")).create(other)
    assert catalog.load_table("db.t") == first


class _BlindStore(FaultyStore):
    """Sees no file: as for somebody who looked before the others wrote."""

    def exists(self, location: str) -> bool:
        return False

    def list(self, prefix: str):  # type: ignore[no-untyped-def]
        return iter(())


# Lost answers (incidents 1, 2, 3 and 5).


def test_a_lost_answer_is_found_out_to_be_a_success() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)
    store.plan = [Fault("put_if_absent", "after", StoreError("time-out"), match="/v2.")]
    after = commit(committer, base, a="1")
    assert committer.load() == after


def test_a_request_that_never_arrived_is_sent_again() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)
    store.plan = [Fault("put_if_absent", "before", StoreError("time-out"), match="/v2.", times=2)]
    assert committer.load() == base
    after = commit(committer, base, a="1")
    assert committer.load() == after


def test_a_lost_answer_that_stays_lost_is_unknown_and_nothing_is_deleted() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)
    store.plan = [
        Fault("put_if_absent", "after", StoreError("time-out"), match="/v2."),
        Fault("put_if_absent", "before", StoreError("time-out"), match="/v2.", first=2, times=100),
    ]
    with pytest.raises(CommitStateUnknown) as caught:
        commit(committer, base, a="1")
    assert not isinstance(caught.value, CommitFailed)
    assert not [call for call in store.calls if call[0] == "delete"]
    assert committer.load().metadata.properties["a"] == "1"


def test_another_writer_in_our_place_is_a_failure_even_after_a_lost_answer() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)

    def other(_location: str) -> None:
        store.plan = []
        commit(FolderCommitter(store.inner, committer.folder), base, other="1")

    store.plan = [Fault("put_if_absent", "before", StoreError("time-out"), match="/v2.", hook=other)]
    with pytest.raises(CommitFailed):
        commit(committer, base, a="1")
    assert committer.load().metadata.properties.get("a") is None


def test_a_store_that_reports_our_own_file_as_a_conflict_is_not_believed() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)

    def applied_before(location: str) -> None:
        # what a client library does that repeats a request whose first answer it lost
        store.inner.put_if_absent(location, pending[0])

    pending: list[bytes] = []
    original = store.put_if_absent

    def put(location: str, data: bytes) -> None:
        pending[:] = [data]
        original(location, data)

    store.put_if_absent = put  # type: ignore[method-assign]
    store.plan = [Fault("put_if_absent", "before", match="/v2.", hook=applied_before)]
    after = commit(committer, base, a="1")
    assert committer.load() == after


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_an_interruption_after_the_commit_deletes_nothing(kind: type[BaseException]) -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)
    store.plan = [Fault("put_if_absent", "after", kind(), match="/v2.")]
    with pytest.raises(kind):
        commit(committer, base, a="1")
    assert committer.load().metadata.properties["a"] == "1"


def test_a_hint_that_cannot_be_written_does_not_fail_the_commit_and_stops_the_cleaning() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store, **CLEANING)
    store.plan = [Fault("replace", "before", StoreError("disk full"), match="version-hint", times=100)]
    newest = grow(committer, base, 5)
    assert committer.load() == newest
    assert store.exists(file_of(committer, "v1.metadata.json"))


def test_a_row_is_appended_once_when_the_answer_to_its_commit_is_lost() -> None:
    store = FaultyStore(Stores())
    lake = Lake(FilesystemCatalog(store, f"memory://{ambient.new_uuid()}/w"))
    table = lake.create_table("db.t", "id BIGINT")
    store.plan = [Fault("put_if_absent", "after", StoreError("time-out"), match="/v2.")]
    table.append(pa.table({"id": [1]}))
    assert lake.table("db.t").scan().to_arrow().num_rows == 1


# Names that come back (incident 23).


def stall(committer: FolderCommitter, meanwhile: Callable[[], object]) -> FolderCommitter:
    """A writer of the same table that stops just before it creates its version, while others go on."""
    store = committer._store

    def wake(_location: str) -> None:
        meanwhile()

    plan = [Fault("put_if_absent", "before", match="/metadata/v", hook=wake)]
    return FolderCommitter(FaultyStore(store, plan), committer.folder)


@pytest.mark.parametrize("commits", [1, 2, 3, 4, 10])
def test_a_stalled_writer_cannot_take_a_version_that_was_used_and_deleted(commits: int) -> None:
    committer, base = a_table(**CLEANING)
    base = grow(committer, base, 3)

    def meanwhile() -> None:
        grow(committer, committer.load(), commits)
        ambient.sleep(3600)

    stalled = stall(committer, meanwhile)
    with pytest.raises(CommitFailed):
        commit(stalled, base, stalled="yes")
    now = committer.load()
    assert now.metadata.properties.get("stalled") is None
    assert now.metadata_location.endswith(f"/v{4 + commits}.metadata.json")
    left = [file.location for file in committer._store.list(f"{committer.folder}/metadata") if "/v" in file.location]
    assert sorted(left) == sorted(file_of(committer, name) for name in versions(3 + commits, 4 + commits))


def test_a_writer_stalled_for_too_short_to_tell_and_too_many_commits_is_unknown() -> None:
    committer, base = a_table(**CLEANING)
    newest = base

    def meanwhile() -> None:
        nonlocal newest
        newest = grow(committer, base, 9)

    with pytest.raises(CommitStateUnknown):
        commit(stall(committer, meanwhile), base, stalled="yes")
    assert committer.load() == newest


def versions(*numbers: int) -> list[str]:
    return [*(f"v{number}.metadata.json" for number in numbers), "version-hint.text"]


def test_a_stalled_writer_that_dies_after_creating_an_old_name_hides_nothing() -> None:
    committer, base = a_table(**CLEANING)
    base = grow(committer, base, 3)
    newest = grow(committer, base, 5)
    zombie = file_of(committer, "v5.metadata.json")
    committer._store.put_if_absent(zombie, committer._store.read(newest.metadata_location))
    for hint in (b"5", b"4", b"1", b"9", b"x"):
        committer._store.write(file_of(committer, "version-hint.text"), hint)
        assert committer.load() == newest


def test_a_commit_that_others_built_on_before_it_was_checked_is_a_success() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store, **CLEANING)
    others = FolderCommitter(store.inner, committer.folder)

    def build_on_it(_location: str) -> None:
        store.plan = []
        grow(others, others.load(), 2)  # these delete the version that ours follows

    store.plan = [Fault("put_if_absent", "after", match="/v2.", hook=build_on_it)]
    # with two more on top of it, version 1 is deleted and version 2 still in the log
    committer.commit(base, [SetProperties({"write.metadata.previous-versions-max": "2", "ours": "1"})], [])
    assert not store.exists(base.metadata_location)
    assert committer.load().metadata.properties["ours"] == "1"


def test_a_commit_that_the_log_has_lost_is_unknown_and_nothing_is_deleted() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store, **CLEANING)
    others = FolderCommitter(store.inner, committer.folder)

    def build_on_it(_location: str) -> None:
        store.plan = []
        grow(others, others.load(), 8)

    store.plan = [Fault("put_if_absent", "after", match="/v2.", hook=build_on_it)]
    with pytest.raises(CommitStateUnknown):
        commit(committer, base, ours="1")
    assert not [call for call in store.calls if call[0] == "delete" and call[1].endswith("json")]
    assert committer.load().metadata.properties["ours"] == "1"


def test_a_check_that_cannot_be_made_is_unknown_and_nothing_is_deleted() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)
    store.plan = [Fault("read", "before", StoreError("time-out"), match="/v1.", times=100)]
    with pytest.raises(CommitStateUnknown):
        commit(committer, base, ours="1")
    store.plan = []
    assert committer.load().metadata.properties["ours"] == "1"


# Dropping.


@pytest.mark.parametrize("purge", [False, True])
def test_a_writer_stalled_over_a_drop_fails_and_the_table_stays_dropped(purge: bool) -> None:
    committer, base = a_table()
    stalled = stall(committer, lambda: committer.drop(purge=purge))
    with pytest.raises(CommitFailed):
        commit(stalled, base, a="1")
    assert committer.load_or_none() is None


def test_a_writer_stalled_over_a_drop_and_a_new_table_of_equal_age_fails() -> None:
    committer, base = a_table()
    base = grow(committer, base, 2)

    def again() -> None:
        committer.drop(purge=False)
        created = committer.create(first_metadata_at(committer.folder))
        grow(committer, created, 3)

    stalled = stall(committer, again)
    with pytest.raises(CommitFailed):
        commit(stalled, base, stalled="1")
    assert "stalled" not in committer.load().metadata.properties


def first_metadata_at(folder: str):  # type: ignore[no-untyped-def]
    from frazil.iceberg.new_table import new_table_metadata
    from tests.catalog.tables import SCHEMA

    return new_table_metadata(SCHEMA, location=folder)


def test_a_drop_waits_its_turn_behind_a_commit() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)

    def other(_location: str) -> None:
        store.plan = []
        commit(FolderCommitter(store.inner, committer.folder), base, a="1")

    store.plan = [Fault("put_if_absent", "before", match="/v2.", hook=other)]
    committer.drop(purge=False)
    assert committer.load_or_none() is None
    left = [file.location for file in store.list(f"{committer.folder}/metadata")]
    assert len(left) == 1
    assert "/00002-" in left[0]


def test_a_drop_that_was_interrupted_is_a_drop_and_the_name_is_free() -> None:
    store = FaultyStore(Stores())
    committer, base = a_table(store)
    grow(committer, base, 2)
    store.plan = [Fault("delete", "before", KeyboardInterrupt(), match="version-hint")]
    with pytest.raises(KeyboardInterrupt):
        committer.drop(purge=False)
    assert not committer.exists()
    with pytest.raises(TableNotFound):
        committer.load()
    new = committer.create(first_metadata_at(committer.folder))
    assert committer.load() == new
    assert new.metadata_location.endswith("/v5.metadata.json")
    kept = [file.location for file in store.list(f"{committer.folder}/metadata") if "/00003-" in file.location]
    assert len(kept) == 1


def moved(committer: FolderCommitter, state: TableState) -> Moved:
    committer.move(state, "lance", f"{committer.folder}/lance-1")
    found = committer.moved()
    assert found is not None
    return found


def test_a_name_goes_to_a_table_of_another_format_and_comes_back() -> None:
    committer, state = a_table()
    state = grow(committer, state, 2)
    other = moved(committer, state)
    assert (other.format, other.location, other.version.number) == ("lance", f"{committer.folder}/lance-1", 4)
    assert not committer.exists()
    with pytest.raises(TableNotFound):
        committer.load()
    with pytest.raises(CommitFailed):  # of a writer who was there before
        commit(committer, state, late="yes")
    with pytest.raises(CommitFailed):
        committer.move(state, "lance", f"{committer.folder}/lance-2")
    with pytest.raises(TableAlreadyExists):
        committer.create(state.metadata)
    with pytest.raises(CommitFailed):
        committer.create_after(f"{committer.folder}/lance-2", state.metadata)
    again = committer.create_after(other.location, state.metadata)
    assert again.metadata_location.endswith("/v5.metadata.json")
    assert committer.load() == again
    with pytest.raises(CommitFailed):
        committer.forget_moved(other)
    with pytest.raises(CommitFailed):
        committer.create_after(other.location, state.metadata)
    assert committer.load() == again
    assert committer.moved() is None


def test_a_table_that_is_forgotten_elsewhere_does_not_come_back() -> None:
    committer, state = a_table()
    other = moved(committer, state)
    committer.forget_moved(other)
    assert committer.moved() is None
    assert not committer.exists()
    with pytest.raises(TableAlreadyExists):
        committer.create(state.metadata, after=other)
    assert not committer.exists()
    created = committer.create(state.metadata)
    assert committer.load() == created


def test_a_conversion_stalled_over_a_drop_brings_nothing_back() -> None:
    committer, state = a_table()
    stalled = stall(committer, lambda: committer.drop(purge=True))
    with pytest.raises(CommitFailed):
        stalled.move(state, "lance", f"{committer.folder}/lance-1")
    assert committer.moved() is None
    assert not committer.exists()


@pytest.mark.parametrize("folder", ["../other", "/etc", "s3://b/t", ""])
def test_a_version_that_names_no_folder_of_its_own_is_refused(folder: str) -> None:
    store = Stores()
    committer, _ = a_table(store)
    text = json.dumps({"frazil-table": "moved", "format": "lance", "folder": folder}).encode()
    store.write(file_of(committer, "v2.metadata.json"), text)
    with pytest.raises(MalformedMetadata, match="where the table is"):
        committer.moved()


def test_the_table_cannot_move_out_of_its_folder() -> None:
    committer, base = a_table()
    with pytest.raises(InvalidArgument):
        committer.commit(base, [SetLocation("memory://elsewhere/t")], [])
    with pytest.raises(InvalidArgument):
        commit(committer, base, **{"write.metadata.path": "memory://elsewhere/m"})
    with pytest.raises(InvalidArgument):
        committer.create(first_metadata_at("memory://elsewhere/t"))


def test_a_commit_that_the_log_has_lost_is_known_by_its_snapshot() -> None:
    store = FaultyStore(Stores())
    lake = Lake(FilesystemCatalog(store, f"memory://{ambient.new_uuid()}/w"))
    table = lake.create_table("db.t", "id BIGINT", properties=CLEANING)
    others = Lake(FilesystemCatalog(store.inner, lake.catalog.warehouse))

    def build_on_it(_location: str) -> None:
        store.plan = []
        for _ in range(6):
            others.table("db.t").append(pa.table({"id": [2]}))

    store.plan = [Fault("put_if_absent", "after", match="/v2.", hook=build_on_it)]
    table.append(pa.table({"id": [1]}))
    assert lake.table("db.t").scan().to_arrow()["id"].to_pylist().count(1) == 1


def test_a_stalled_append_is_known_to_have_failed_and_is_made_again() -> None:
    inner = Stores()
    lake = Lake(FilesystemCatalog(inner, f"memory://{ambient.new_uuid()}/w"))
    lake.create_table("db.t", "id BIGINT", properties=CLEANING)

    def meanwhile(_location: str) -> None:
        for number in range(6):
            lake.table("db.t").append(pa.table({"id": [number]}))

    store = FaultyStore(inner, [Fault("put_if_absent", "before", match="/v2.", hook=meanwhile)])
    Lake(FilesystemCatalog(store, lake.catalog.warehouse)).table("db.t").append(pa.table({"id": [100]}))
    table = lake.table("db.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 100]
    assert len(table.history) == 7
