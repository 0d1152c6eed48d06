"""Bad input: every kind of it is an error with a stable code and a hint, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil import ambient
from frazil.errors import CommitStateUnknown, FrazilError, StoreError
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.file_changes import FileChanges
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.manifest_reader import SHARED_CACHE
from frazil.iceberg.table import IcebergTable
from tests.faults import Fault
from tests.incidents.lakes import data_files, equality_deletes, new_table, place, position_deletes, rows_of, vector


@pytest.fixture(autouse=True)
def _from_one_seed() -> Iterator[None]:
    with ambient.replaced(ambient.Ambient(seed=11, start_ms=1_700_000_000_000)):
        yield


class Scene:
    """A lake on the local disk with one table, and what is in its files."""

    def __init__(self, folder: Path, version: int = 2) -> None:
        self.folder = folder
        self.lake = frazil.connect(folder)
        self.table: IcebergTable = self.lake.create_table(
            "db.t", "id BIGINT NOT NULL, name STRING, p INT", partition_by=["p"], format_version=version
        )
        self.table.append([{"id": number, "name": f"n{number}", "p": number % 2} for number in range(6)])

    def contents(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}

    def reload(self) -> None:
        SHARED_CACHE.clear()
        self.table = self.lake.table("db.t")

    @contextmanager
    def refuses(self, code: str) -> Iterator[None]:
        """The block raises a FrazilError of that code, with a hint, and changes no file."""
        before = self.contents()
        with pytest.raises(FrazilError) as caught:
            yield
        error = caught.value
        assert error.code == code, error
        assert isinstance(error.hint, str)
        assert error.hint.strip()
        assert str(error).startswith(f"[{code}] ")
        assert self.contents() == before

    def reads_refuse(self, code: str) -> None:
        """Scans, and the jobs that must read first, all fail the same way."""
        jobs: list[Callable[[], Any]] = [
            lambda: self.table.scan().to_arrow(),
            lambda: list(self.table.scan("id >= 0").to_batches()),
            lambda: self.table.delete("name = 'n2'"),
            lambda: self.table.overwrite([{"id": 9, "name": "x", "p": 0}], "name = 'n2'"),
        ]
        for job in jobs:
            with self.refuses(code):
                job()

    @property
    def manifest_list(self) -> Path:
        assert self.table.current_snapshot is not None
        return Path(str(self.table.current_snapshot.manifest_list))

    def manifests(self, content: int = 0) -> list[Path]:
        found = Context(self.table.metadata, self.table.store).manifests(self.table.current_snapshot)
        return [Path(one.manifest_path) for one in found if one.content == content]

    @property
    def metadata_file(self) -> Path:
        return Path(self.table.metadata_location)

    def file_of(self, partition: int) -> DataFile:
        return next(one for one in data_files(self.table) if one.partition == (partition,))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "lake")


@pytest.fixture
def scene3(tmp_path: Path) -> Scene:
    made = Scene(tmp_path / "lake", version=3)
    made.table.new_row_delta().add_deletes(vector(made.table, made.file_of(0), [1])).commit()
    return made


# Metadata.


@pytest.mark.parametrize("version", ["4", "0", "-1", "99"])
def test_an_unknown_format_version(scene: Scene, version: str):
    text = scene.metadata_file.read_text().replace('"format-version":2', f'"format-version":{version}')
    scene.metadata_file.write_text(text)
    for job in (
        lambda: scene.lake.table("db.t"),
        lambda: frazil.open(scene.table.location),
        lambda: frazil.open(scene.metadata_file),
        lambda: scene.lake.register_table("db.copy", scene.metadata_file),
        scene.table.refresh,
    ):
        with scene.refuses("UNSUPPORTED_VERSION"):
            job()


BROKEN_JSON: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "no JSON": lambda _: b"<html>404</html>",
    "not an object": lambda _: b"[1, 2]",
    "not UTF-8": lambda data: data.replace(b'"location"', b'"\xff\xfe"'),
    "half a gzip": lambda _: b"\x1f\x8b\x08\x00" + bytes(20),
    "a member twice": lambda data: data.replace(b"{", b'{"format-version":2,', 1),
    "NaN": lambda data: data.replace(b'"last-sequence-number":1', b'"last-sequence-number":NaN'),
    "an integer of 30 digits": lambda data: data.replace(b'"last-column-id":', b'"last-column-id":' + b"9" * 30),
    "text for a number": lambda data: data.replace(b'"format-version":2', b'"format-version":"2"'),
    "no schema": lambda data: data.replace(b'"schemas":', b'"schemata":'),
    "a current schema that is not there": lambda data: data.replace(b'"current-schema-id":0', b'"current-schema-id":7'),
    "a current snapshot that is not there": lambda data: (
        data.replace(b'"current-snapshot-id":', b'"current-snapshot-id":1')[: -len(b"}")] + b"}"
    ),
    "100 thousand levels": lambda data: data.replace(b"{", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b",", 1),
    "an unknown type": lambda data: data.replace(b'"long"', b'"quaternion"'),
}


@pytest.mark.parametrize("how", BROKEN_JSON)
def test_broken_json(scene: Scene, how: str):
    whole = scene.metadata_file.read_bytes()
    broken = BROKEN_JSON[how](whole)
    assert broken != whole
    scene.metadata_file.write_bytes(broken)
    for job in (
        lambda: scene.lake.table("db.t"),
        lambda: frazil.open(scene.table.location),
        lambda: scene.lake.register_table("db.copy", scene.metadata_file),
    ):
        with scene.refuses("MALFORMED_METADATA"):
            job()


@pytest.mark.parametrize("keep", [0, 3, 50, 300])
def test_a_truncated_manifest_list(scene: Scene, keep: int):
    scene.manifest_list.write_bytes(scene.manifest_list.read_bytes()[:keep])
    scene.reload()
    scene.reads_refuse("MALFORMED_METADATA")
    with scene.refuses("MALFORMED_METADATA"):
        scene.table.append([{"id": 7, "name": "x", "p": 0}])
    with scene.refuses("MALFORMED_METADATA"):
        scene.table.rewrite_manifests().commit()


@pytest.mark.parametrize("keep", [0, 3, 50, 800])
def test_a_truncated_manifest(scene: Scene, keep: int):
    (manifest,) = scene.manifests()
    manifest.write_bytes(manifest.read_bytes()[:keep])
    scene.reload()
    scene.reads_refuse("MALFORMED_METADATA")
    with scene.refuses("MALFORMED_METADATA"):
        scene.table.new_delete().delete_file("/no/such/file").commit()


def test_a_hostile_manifest_list(scene: Scene):
    from tests.incidents.test_parsers import BOMBS

    for name in ("a record inside itself", "30 million nulls in 100 bytes", "2^60 rows without bytes"):
        scene.manifest_list.write_bytes(BOMBS[name])
        scene.reload()
        scene.reads_refuse("MALFORMED_METADATA")


# Data.


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(bytes(data))


def test_a_vector_whose_checksum_does_not_match(scene3: Scene):
    (delete,) = scene3.table.scan().plan().delete_files
    assert delete.content_offset is not None
    assert delete.content_size_in_bytes is not None
    flip(Path(delete.file_path), delete.content_offset + delete.content_size_in_bytes - 1)
    scene3.reads_refuse("CHECKSUM_MISMATCH")


def test_a_vector_that_is_none(scene3: Scene):
    (delete,) = scene3.table.scan().plan().delete_files
    Path(delete.file_path).write_bytes(bytes(delete.file_size_in_bytes))
    scene3.reads_refuse("MALFORMED_DATA")
    Path(delete.file_path).write_bytes(b"")
    scene3.reads_refuse("MALFORMED_DATA")


@pytest.mark.parametrize("how", ["cut", "empty", "garbage", "footer"])
def test_a_damaged_data_file(scene: Scene, how: str):
    path = Path(scene.file_of(0).file_path)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    changed = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "garbage": b"x" * len(whole),
        "footer": whole[: -8 - footer] + bytes(footer) + whole[-8:],
    }
    path.write_bytes(changed[how])
    scene.reads_refuse("MALFORMED_DATA")


# What is missing.


def test_a_missing_manifest_list(scene: Scene):
    scene.manifest_list.unlink()
    scene.reload()
    scene.reads_refuse("FILE_MISSING")
    with scene.refuses("FILE_MISSING"):
        scene.table.append([{"id": 7, "name": "x", "p": 0}])


def test_a_missing_manifest(scene: Scene):
    scene.manifests()[0].unlink()
    scene.reload()
    scene.reads_refuse("FILE_MISSING")


def test_a_missing_data_file(scene: Scene):
    Path(scene.file_of(0).file_path).unlink()
    scene.reads_refuse("FILE_MISSING")


def test_a_missing_vector(scene3: Scene):
    (delete,) = scene3.table.scan().plan().delete_files
    Path(delete.file_path).unlink()
    scene3.reads_refuse("FILE_MISSING")


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_a_missing_delete_file(scene: Scene, kind: str):
    file = scene.file_of(0)
    delete = (
        position_deletes(scene.table, file, [1])
        if kind == "position"
        else equality_deletes(scene.table, "id", 2, spec_id=file.spec_id, partition=file.partition)
    )
    scene.table.new_row_delta().add_deletes(delete).commit()
    Path(delete.file_path).unlink()
    scene.reads_refuse("FILE_MISSING")


def test_a_missing_table_and_metadata_file(scene: Scene):
    with scene.refuses("TABLE_NOT_FOUND"):
        scene.lake.table("db.none")
    with scene.refuses("TABLE_NOT_FOUND"):
        frazil.open(scene.folder / "db" / "none")
    with scene.refuses("TABLE_NOT_FOUND"):
        frazil.open(scene.folder / "db" / "t" / "metadata" / "v99.metadata.json")
    with scene.refuses("SNAPSHOT_NOT_FOUND"):
        scene.table.scan(version=1)
    with scene.refuses("SNAPSHOT_NOT_FOUND"):
        scene.table.scan(as_of=0)
    with scene.refuses("REF_NOT_FOUND"):
        scene.table.scan(ref="none")


def test_two_live_vectors_for_one_file(scene3: Scene, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as careless:
        careless.setattr(FileChanges, "_check_vectors", lambda *_: None)
        scene3.table.new_row_delta().add_deletes(vector(scene3.table, scene3.file_of(0), [2])).commit()
    scene3.reads_refuse("MALFORMED_METADATA")


# What is asked for.

EVOLUTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "narrower": ("INVALID_EVOLUTION", lambda change: change.update_column("id", "int")),
    "another type": ("INVALID_EVOLUTION", lambda change: change.update_column("name", "long")),
    "a name twice": ("INVALID_EVOLUTION", lambda change: change.add_column("name", "string")),
    "renamed over another": ("INVALID_EVOLUTION", lambda change: change.rename_column("name", "id")),
    "required without a default": ("INVALID_EVOLUTION", lambda change: change.require_column("name")),
    "no such column": ("COLUMN_NOT_FOUND", lambda change: change.drop_column("nope")),
    "no such parent": ("COLUMN_NOT_FOUND", lambda change: change.add_column("a.b", "string")),
}


@pytest.mark.parametrize("how", EVOLUTIONS)
def test_an_invalid_evolution(scene: Scene, how: str):
    code, change = EVOLUTIONS[how]
    with scene.refuses(code):
        change(scene.table.update_schema()).commit()
    with scene.refuses(code), scene.table.transaction() as transaction:
        transaction.update_properties().set("a", "b").commit()
        change(transaction.update_schema()).commit()


def test_an_expression_on_an_unknown_column(scene: Scene):
    for where in ("nope = 1", "id = 1 AND nope IS NULL", "NOT (nope IN (1, 2))"):
        with scene.refuses("COLUMN_NOT_FOUND"):
            scene.table.scan(where).to_arrow()
        with scene.refuses("COLUMN_NOT_FOUND"):
            scene.table.delete(where)
        with scene.refuses("COLUMN_NOT_FOUND"):
            scene.table.overwrite([{"id": 1, "name": "x", "p": 0}], where)
    with scene.refuses("COLUMN_NOT_FOUND"):
        scene.table.scan(columns=["nope"]).to_arrow()


def test_an_expression_that_is_none(scene: Scene):
    for where in ("id =", "id = 1 OR", "(id = 1", "id = 'x'", "SELECT 1", "id = 1; DROP TABLE t", "\0"):
        with scene.refuses("INVALID_EXPRESSION"):
            scene.table.scan(where).to_arrow()
        with scene.refuses("INVALID_EXPRESSION"):
            scene.table.delete(where)


@pytest.mark.parametrize("name", ["..", "../t", "a/../b", ".", "", "a/b", "a\\..\\b"])
def test_a_name_that_leaves_its_folder(scene: Scene, name: str):
    for job in (
        lambda: scene.lake.create_table(("db", name), "id BIGINT"),
        lambda: scene.lake.create_table((name, "t"), "id BIGINT"),
        lambda: scene.lake.create_namespace((name,)),
        lambda: scene.lake.drop_table(("db", name), purge=True),
        lambda: scene.lake.table((name, "t")),
    ):
        with scene.refuses("INVALID_NAME"):
            job()
    assert not (scene.folder.parent / "t").exists()


def test_rows_that_do_not_fit(scene: Scene):
    for rows in (
        [{"id": None, "name": "x", "p": 0}],
        [{"id": "x", "name": "x", "p": 0}],
        [{"id": 1, "name": "x", "p": 2**40}],
        [{"id": 1, "name": "x", "p": 0, "more": 1}],
    ):
        before = scene.contents()
        with pytest.raises(FrazilError) as error:
            scene.table.append(rows)
        assert error.value.hint
        assert error.value.code in ("INVALID_VALUE", "INVALID_SCHEMA", "INVALID_ARGUMENT", "COLUMN_NOT_FOUND")
        assert scene.contents() == before


# An answer that is lost.


def test_a_lost_answer_during_commit_is_told_and_deletes_nothing():
    at = place("folder")
    table = new_table(at)
    table.append(rows_of(1))
    before = at.contents()
    at.plan(
        Fault("put_if_absent", "after", StoreError("time-out", hint="-"), match="/v"),
        Fault("put_if_absent", "before", StoreError("no route", hint="-"), match="/v", first=2, times=999),
    )
    with pytest.raises(CommitStateUnknown) as error:
        table.append(rows_of(2))
    assert (error.value.code, bool(error.value.hint)) == ("COMMIT_STATE_UNKNOWN", True)
    assert at.deleted() == []
    assert before.items() <= at.contents().items()
    at.plan()
    assert at.table().scan().count() == 2
