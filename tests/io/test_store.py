import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.errors import (
    AlreadyExists,
    FileMissing,
    FrazilError,
    InvalidArgument,
    InvalidName,
    MalformedData,
    PermissionDenied,
    StoreError,
    Unsupported,
)
from frazil.io import object_store
from frazil.io.local_store import LocalStore
from frazil.io.location import join
from frazil.io.memory_store import MemoryStore
from frazil.io.object_store import ObjectStore, S3Options
from frazil.io.store import RelocatingStore, Store, Stores, may_have_applied, store_for
from tests.faults import Fault, FaultyStore
from tests.golden_tables import WRITTEN_AT, cases, expected, golden_store
from tests.s3_service import ACCESS_KEY, SECRET_KEY, S3Bucket

STRANGE = "d=2024-01-01 10:00/%20 x+ü'&~!$(),;@[]{}?#.parquet"


@pytest.fixture(params=["local", "local_uri", "memory", "s3", "router"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, str]]:
    """A store and an empty folder in it."""
    if request.param in ("s3", "router"):
        bucket: S3Bucket = request.getfixturevalue("s3_bucket")
        if request.param == "router":
            yield Stores(bucket.properties), bucket.location + "/w"
        else:
            yield store_for(bucket.location, bucket.properties), bucket.location + "/w"
    elif request.param == "memory":
        space = f"t{uuid.uuid4().hex}"
        yield store_for(f"memory://{space}/"), f"memory://{space}/w"
        MemoryStore.forget(space)
    else:
        prefix = "file:" if request.param == "local_uri" else ""
        yield store_for(f"{prefix}{tmp_path}"), f"{prefix}{tmp_path}/w"


def test_bytes_come_back_whole_and_in_ranges(place: tuple[Store, str]) -> None:
    store, folder = place
    file = join(folder, "a/b.bin")
    assert not store.exists(file)
    store.write(file, b"0123456789")
    store.write(file, b"abcdefghij")
    assert store.read(file) == b"abcdefghij"
    assert store.read_range(file, 2, 3) == b"cde"
    assert store.read_range(file, 0, 10) == b"abcdefghij"
    assert store.read_range(file, 10, 0) == b""
    assert store.size(file) == 10
    assert store.exists(file)
    for offset, length in ((8, 3), (11, 1), (50, 1)):
        with pytest.raises(MalformedData):
            store.read_range(file, offset, length)
    with pytest.raises(InvalidArgument):
        store.read_range(file, -1, 1)


def test_an_empty_file_is_a_file(place: tuple[Store, str]) -> None:
    store, folder = place
    store.put_if_absent(join(folder, "empty"), b"")
    assert store.exists(join(folder, "empty"))
    assert store.read(join(folder, "empty")) == b""
    assert store.size(join(folder, "empty")) == 0


def test_what_is_missing_is_said_to_be_missing(place: tuple[Store, str]) -> None:
    store, folder = place
    store.write(join(folder, "folder/x"), b"x")
    for missing in (join(folder, "no"), join(folder, "folder"), join(folder, "folder/x/y")):
        assert not store.exists(missing)
        for action in (store.read, store.size, store.open_input, lambda f: store.read_range(f, 0, 1)):
            with pytest.raises(FileMissing) as caught:
                action(missing)
            assert missing in str(caught.value)


def test_a_name_is_taken_once(place: tuple[Store, str]) -> None:
    store, folder = place
    file = join(folder, "v1.metadata.json")
    store.put_if_absent(file, b"first")
    with pytest.raises(AlreadyExists) as caught:
        store.put_if_absent(file, b"second")
    assert not may_have_applied(caught.value)
    with pytest.raises(AlreadyExists):
        store.put_if_absent(file, b"first")
    assert store.read(file) == b"first"
    store.replace(file, b"third")
    assert store.read(file) == b"third"


def test_of_eight_racing_writers_one_wins(place: tuple[Store, str]) -> None:
    store, folder = place
    file = join(folder, "race/v2.metadata.json")
    barrier, won, errors = threading.Barrier(8), [], []

    def race(number: int) -> None:
        barrier.wait()
        try:
            store.put_if_absent(file, b"writer %d" % number)
            won.append(number)
        except AlreadyExists:
            pass
        except FrazilError as error:
            errors.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(won) == 1
    assert store.read(file) == b"writer %d" % won[0]
    assert [info.location for info in store.list(folder)] == [file]


def test_a_listing_has_everything_below_the_folder_and_nothing_beside_it(place: tuple[Store, str]) -> None:
    store, folder = place
    assert list(store.list(folder)) == []
    names = ["t1/a", "t1/b/c", "t1/b/d e", "t1/.hidden.crc", "t10/x", "t1"[:1] + "/z"]
    for name in names:
        store.write(join(folder, name), name.encode())
    found = list(store.list(join(folder, "t1")))
    assert sorted(info.location for info in found) == sorted(join(folder, n) for n in names if n.startswith("t1/"))
    assert {info.size for info in found} == {4, 6, 8, 14}
    assert all(info.modified_ms > 1_600_000_000_000 for info in found)
    assert list(store.list(join(folder, "t1") + "/")) == found
    assert list(store.list(join(folder, "t1/a"))) == []


def test_deleting_is_idempotent(place: tuple[Store, str]) -> None:
    store, folder = place
    files = [join(folder, f"x/{number}") for number in range(5)]
    for file in files:
        store.write(file, b"x")
    store.delete(files[0])
    store.delete(files[0])
    store.delete(join(folder, "never/was"))
    store.delete_many(files)
    store.delete_many([])
    assert list(store.list(folder)) == []


def test_names_are_literal(place: tuple[Store, str]) -> None:
    store, folder = place
    file = join(folder, STRANGE)
    with store.open_output(file) as sink:
        sink.write(b"content")
    assert store.read(file) == b"content"
    assert [info.location for info in store.list(folder)] == [file]
    with store.open_input(file) as source:
        assert source.read() == b"content"
    filesystem, path = store.filesystem(file)
    with filesystem.open_input_file(path) as source:
        assert source.read() == b"content"
    store.delete(file)
    assert not store.exists(file)


def test_parquet_is_written_to_a_sink_and_read_back_by_every_door(place: tuple[Store, str]) -> None:
    store, folder = place
    table = pa.table({"id": list(range(1000)), "text": [f"row {n}" for n in range(1000)]})
    file = join(folder, "data/day=1/x.parquet")
    with store.open_output(file) as sink, pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        assert not store.exists(file)
    assert store.size(file) == sink.tell()
    assert pq.read_table(store.open_input(file)).equals(table)
    filesystem, path = store.filesystem(file)
    assert pq.ParquetFile(filesystem.open_input_file(path)).read().equals(table)
    assert pq.read_table(path, filesystem=filesystem, partitioning=None).equals(table)


def test_an_aborted_sink_leaves_nothing(place: tuple[Store, str]) -> None:
    store, folder = place

    class Crash(Exception):
        pass

    def crash() -> None:
        with store.open_output(join(folder, "a")) as sink:
            sink.write(b"half")
            raise Crash

    with pytest.raises(Crash):
        crash()
    given_up = store.open_output(join(folder, "b"))
    given_up.write(b"half")
    given_up.abort()
    given_up.abort()
    assert list(store.list(folder)) == []
    with pytest.raises(InvalidArgument):
        given_up.write(b"more")


def test_a_sink_does_not_write_over_a_file(place: tuple[Store, str]) -> None:
    store, folder = place
    file = join(folder, "a")
    store.write(file, b"old")
    sink = store.open_output(file)
    sink.write(b"new")
    with pytest.raises(AlreadyExists):
        sink.close()
    assert store.read(file) == b"old"
    assert [info.location for info in store.list(folder)] == [file]


def test_locations_that_climb_are_refused(place: tuple[Store, str]) -> None:
    store, folder = place
    for action in (store.read, store.delete, store.open_output, lambda f: store.put_if_absent(f, b"")):
        with pytest.raises(InvalidName):
            action(folder + "/../x")


def test_a_store_can_be_sent_to_another_process(place: tuple[Store, str]) -> None:
    store, folder = place
    store.write(join(folder, "a"), b"a")
    assert pickle.loads(pickle.dumps(store)).read(join(folder, "a")) == b"a"


# The local disk.


def test_temporary_files_are_gone_or_hidden(tmp_path: Path) -> None:
    store = LocalStore()
    store.put_if_absent(f"{tmp_path}/a", b"")
    with pytest.raises(AlreadyExists):
        store.put_if_absent(f"{tmp_path}/a", b"")
    store.write(f"{tmp_path}/b", b"")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    sink = store.open_output(f"{tmp_path}/c")
    assert len(list(tmp_path.iterdir())) == 3
    assert len(list(store.list(str(tmp_path)))) == 2
    del sink
    assert len(list(tmp_path.iterdir())) == 2


def test_a_confined_store_refuses_what_lies_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x").write_bytes(b"x")
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    store = store_for("/", {"file.root": f"{tmp_path}/in"})
    store.write(f"{tmp_path}/in/a", b"a")
    for outside in (f"{tmp_path}/out/x", f"{tmp_path}/in/link/x", f"{tmp_path}/in2"):
        with pytest.raises(PermissionDenied):
            store.read(outside)


def test_a_file_of_others_is_made_durable_with_the_folders_below_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "table" / "data" / "p=1"
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"x")
    synced: list[Path] = []
    monkeypatch.setattr("frazil.io.local_store._sync", lambda path: synced.append(path.relative_to(tmp_path)))
    file, root = f"file://{folder}/x", f"file:{tmp_path}/table/"
    Stores().sync(file, root)
    assert [str(path) for path in synced] == ["table/data/p=1/x", "table/data/p=1", "table/data", "table"]
    Stores({"file.fsync": "false"}).sync(file, root)
    assert len(synced) == 4


def test_put_if_absent_and_replace_wait_for_the_disk_and_write_does_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("frazil.io.local_store.os.fsync", synced.append)

    def syncs(action: Callable[[], None]) -> int:
        synced.clear()
        action()
        return len(synced)

    hasty, careful = store_for("/", {"file.fsync": "false"}), store_for("/")
    # The file and its folder; for a new folder, the folder above it as well.
    assert syncs(lambda: hasty.put_if_absent(f"{tmp_path}/a", b"")) == 2
    assert syncs(lambda: hasty.put_if_absent(f"{tmp_path}/new/folder/a", b"")) == 4
    assert syncs(lambda: hasty.replace(f"{tmp_path}/a", b"")) == 2
    assert syncs(lambda: hasty.write(f"{tmp_path}/a", b"")) == 0
    assert syncs(lambda: careful.write(f"{tmp_path}/a", b"")) == 2
    assert syncs(hasty.open_output(f"{tmp_path}/b").close) == 0
    assert syncs(careful.open_output(f"{tmp_path}/c").close) == 2


def test_a_listing_does_not_follow_links_to_folders(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/precious").write_bytes(b"x")
    (tmp_path / "table/out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "table/loop").symlink_to(tmp_path / "table")
    (tmp_path / "table/file").symlink_to(tmp_path / "elsewhere/precious")
    assert [info.location for info in LocalStore().list(f"{tmp_path}/table")] == [f"{tmp_path}/table/file"]


def test_a_failed_write_tells_that_nothing_happened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for action in (LocalStore().put_if_absent, LocalStore().write):
        with pytest.raises(StoreError) as caught:
            action(f"{tmp_path}/file/below", b"")
        assert not may_have_applied(caught.value)


def test_deleting_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder/x").mkdir(parents=True)
    with pytest.raises(StoreError):
        LocalStore().delete(f"{tmp_path}/folder")
    with pytest.raises(StoreError) as caught:
        LocalStore().delete_many([f"{tmp_path}/folder", f"{tmp_path}/x"])
    assert caught.value.context["failed"] == [f"{tmp_path}/folder"]


# S3.


def test_a_lost_answer_to_a_conditional_put_is_found_out(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_for(s3_bucket.location, s3_bucket.properties)
    monkeypatch.setattr(object_store.ambient, "sleep", lambda seconds: None)
    real_put, real_read = object_store.obstore.put, ObjectStore.read
    calls = []

    def lost(*args: object, **options: object) -> None:
        calls.append(args)
        real_put(*args, **options)  # type: ignore[call-overload]
        raise object_store.BaseError("time-out")

    monkeypatch.setattr(object_store.obstore, "put", lost)
    store.put_if_absent(f"{s3_bucket.location}/v1", b"mine")
    assert len(calls) == 1

    monkeypatch.setattr(ObjectStore, "read", lambda self, location: (_ for _ in ()).throw(StoreError("down")))
    with pytest.raises(StoreError) as caught:
        store.put_if_absent(f"{s3_bucket.location}/v2", b"mine")
    assert may_have_applied(caught.value)

    def refused(*args: object, **options: object) -> None:
        if not attempts:
            attempts.append(1)
            raise object_store.BaseError("time-out")
        real_put(*args, **options)  # type: ignore[call-overload]

    attempts: list[int] = []
    monkeypatch.setattr(object_store.obstore, "put", refused)
    monkeypatch.setattr(ObjectStore, "read", real_read)
    store.put_if_absent(f"{s3_bucket.location}/v3", b"mine")
    assert store.read(f"{s3_bucket.location}/v3") == b"mine"
    attempts.clear()
    with pytest.raises(AlreadyExists):
        store.put_if_absent(f"{s3_bucket.location}/v3", b"other")


def test_no_answer_at_all_is_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store.ambient, "sleep", lambda seconds: None)
    monkeypatch.setattr(ObjectStore, "read", lambda self, location: (_ for _ in ()).throw(StoreError("down")))
    store = ObjectStore("bucket", S3Options(endpoint="http://127.0.0.1:9", access_key_id="a", secret_access_key="b"))
    with pytest.raises(StoreError) as caught:
        store.put_if_absent("s3://bucket/v1", b"x")
    assert may_have_applied(caught.value)


def test_a_missing_bucket_is_named(s3_bucket: S3Bucket) -> None:
    store = store_for("s3://not-there-at-all/", s3_bucket.properties)
    with pytest.raises(StoreError, match="not-there-at-all") as caught:
        store.put_if_absent("s3://not-there-at-all/v1", b"x")
    assert not may_have_applied(caught.value)


def test_secrets_are_in_no_repr_and_no_error(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores(s3_bucket.properties)
    store = store_for(s3_bucket.location, s3_bucket.properties)

    def leak(*args: object, **options: object) -> None:
        raise object_store.PermissionDeniedError(f"SignatureDoesNotMatch {ACCESS_KEY} {SECRET_KEY}")

    monkeypatch.setattr(object_store.obstore, "get", leak)
    with pytest.raises(PermissionDenied) as caught:
        store.read(f"{s3_bucket.location}/x")
    assert caught.value.__cause__ is None
    texts = [repr(stores), repr(store), str(caught.value), repr(caught.value), str(caught.value.context)]
    assert not any(secret in text for text in texts for secret in (ACCESS_KEY, SECRET_KEY))


@pytest.mark.parametrize(
    "location", ["s3://bucket//x", "s3://bucket/a//b", "s3://bucket/./x", "s3://bucket", "s3://other/x"]
)
def test_keys_that_cannot_be_addressed_are_refused(location: str) -> None:
    with pytest.raises(InvalidName):
        ObjectStore("bucket").read(location)


# Routing and relocation.


def test_a_router_takes_each_location_to_its_store(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    stores = Stores(s3_bucket.properties)
    files = [f"{tmp_path}/a", "memory://router/a", f"{s3_bucket.location}/a", f"file://{tmp_path}/b"]
    for file in files:
        stores.write(file, file.encode())
    assert [stores.read(file) for file in files] == [file.encode() for file in files]
    stores.delete_many(files)
    assert not any(stores.exists(file) for file in files)
    with pytest.raises(Unsupported, match="hdfs"):
        stores.read("hdfs://name/x")
    with pytest.raises(StoreError) as caught:
        stores.delete_many(["hdfs://name/x"])
    assert caught.value.context["failed"] == ["hdfs://name/x"]


def test_every_spelling_of_the_old_prefix_is_relocated() -> None:
    inner = MemoryStore("moved")
    inner.write("memory://moved/t/data/x", b"x")
    inner.write("memory://moved/special/y", b"y")
    store = RelocatingStore(inner, [("file:/old/db", "memory://moved/t"), ("/old/db/sub", "memory://moved/special")])
    for old in ("/old/db/data/x", "file:/old/db/data/x", "file:///old/db/data/x", "memory://moved/t/data/x"):
        assert store.read(old) == b"x"
    assert store.read("/old/db/sub/y") == b"y"
    assert [info.location for info in store.list("file:///old/db/data/")] == ["file:///old/db/data/x"]
    with pytest.raises(InvalidName):
        store.read("/old/db2/data/x")
    MemoryStore.forget("moved")


@pytest.mark.parametrize("spelling", ["", "file:", "file://"])
def test_every_file_of_the_java_tables_is_found_by_the_location_it_was_written_at(spelling: str) -> None:
    store = golden_store()
    # Expiry has removed two files that are still listed as deleted.
    kept = [case for case in cases() if case != "expired_snapshots"]
    files = [f"{spelling}{WRITTEN_AT}/{file}" for case in kept for file in expected(case).get("file_list", [])]
    assert len(files) > 500
    assert [file for file in files if not store.exists(file)] == []


# Faults.


def test_a_fault_after_the_effect_loses_the_answer_and_before_it_the_effect() -> None:
    inner = MemoryStore("faulty")
    seen: list[str] = []
    store = FaultyStore(
        inner,
        [
            Fault("put_if_absent", "before", StoreError("a"), match="/a"),
            Fault("put_if_absent", "after", StoreError("b"), match="/b"),
            Fault("close", "after", StoreError("c")),
            Fault("delete", "before", StoreError("d"), first=2),
            Fault("read", "before", hook=seen.append, times=10),
        ],
    )
    for name in ("a", "b"):
        with pytest.raises(StoreError):
            store.put_if_absent(f"memory://faulty/{name}", b"")
    assert [inner.exists(f"memory://faulty/{name}") for name in "ab"] == [False, True]
    with pytest.raises(StoreError), store.open_output("memory://faulty/c") as sink:
        sink.write(b"c")
    assert store.read("memory://faulty/c") == b"c"
    with pytest.raises(StoreError):
        store.delete_many(["memory://faulty/b", "memory://faulty/c"])
    assert [info.location for info in store.list("memory://faulty/")] == ["memory://faulty/c"]
    assert seen == ["memory://faulty/c"]
    MemoryStore.forget("faulty")
