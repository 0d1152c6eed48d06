"""Opening a table where it lies: newest metadata in every naming, moved tables, and what is no table."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidArgument, MalformedMetadata, TableNotFound, Unsupported
from tests import golden_tables

ROWS = pa.table({"id": [1, 2, 3]})


def hadoop_table(folder: Path, appends: int = 2) -> frazil.IcebergTable:
    table = frazil.connect(folder).create_table("db.t", "id BIGINT")
    for _ in range(appends):
        table.append(ROWS)
    return table


def catalog_table(folder: Path, **properties: str) -> frazil.IcebergTable:
    lake = frazil.connect(f"sqlite:///{folder}/lake.db", warehouse=folder)
    table = lake.create_table("db.t", "id BIGINT", properties=properties)
    table.append(ROWS)
    table.append(ROWS)
    return table


def count(table: frazil.IcebergTable) -> int:
    return table.scan().to_arrow().num_rows


def test_a_folder_in_hadoops_naming_is_read_and_written(tmp_path: Path) -> None:
    made = hadoop_table(tmp_path)
    table = frazil.open(tmp_path / "db/t")
    assert table.metadata == made.metadata
    table.append(ROWS)
    assert count(frazil.open(str(tmp_path / "db/t"))) == 9
    assert count(made.refresh()) == 9


@pytest.mark.parametrize("hint", [None, "1", "77", "?"])
def test_the_newest_version_is_found_whatever_the_hint_says(tmp_path: Path, hint: str | None) -> None:
    hadoop_table(tmp_path)
    place = tmp_path / "db/t/metadata/version-hint.text"
    place.unlink()
    if hint is not None:
        place.write_text(hint)
    assert frazil.open(tmp_path / "db/t").metadata_location.endswith("v3.metadata.json")


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_catalogs_table_is_read_but_not_written(tmp_path: Path, codec: str) -> None:
    made = catalog_table(tmp_path, **{"write.metadata.compression-codec": codec})
    table = frazil.open(tmp_path / "db/t")
    assert table.metadata_location == made.metadata_location
    assert count(table) == 6
    with pytest.raises(Unsupported):
        table.append(ROWS)


def test_of_two_files_with_one_number_the_younger_is_the_newest(tmp_path: Path) -> None:
    import os

    made = catalog_table(tmp_path)
    newest = Path(made.metadata_location)
    other = newest.with_name("00002-00000000-ffff-ffff-ffff-ffffffffffff.metadata.json")
    shutil.copy(newest, other)
    os.utime(other, (1, 1))
    assert frazil.open(tmp_path / "db/t").metadata_location == str(newest)


def test_a_metadata_file_opens_exactly_that_state(tmp_path: Path) -> None:
    hadoop_table(tmp_path)
    old = frazil.open(tmp_path / "db/t/metadata/v2.metadata.json")
    assert count(old) == 3
    with pytest.raises(Unsupported):
        old.append(ROWS)
    newest = frazil.open(tmp_path / "db/t/metadata/v3.metadata.json")
    newest.append(ROWS)
    assert count(frazil.open(tmp_path / "db/t")) == 9


def test_a_moved_table_is_read_and_written_where_it_is_now(tmp_path: Path) -> None:
    hadoop_table(tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")
    table = frazil.open(tmp_path / "new/db/t", relocate=True)
    assert count(table) == 6
    table.append(ROWS)
    assert not (tmp_path / "old").exists()
    assert count(frazil.open(tmp_path / "new/db/t", relocate=True)) == 9
    shutil.move(tmp_path / "new", tmp_path / "old")
    assert count(frazil.open(tmp_path / "old/db/t")) == 9


def test_a_copy_opened_without_relocating_cannot_write_into_the_original(tmp_path: Path) -> None:
    hadoop_table(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    copy = frazil.open(tmp_path / "copy/db/t")
    with pytest.raises(Unsupported):
        copy.append(ROWS)
    assert count(frazil.open(tmp_path / "old/db/t")) == 6


def test_a_folder_that_is_reached_through_a_link_is_the_same_table(tmp_path: Path) -> None:
    hadoop_table(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    frazil.open(tmp_path / "link/db/t").append(ROWS)
    assert count(frazil.open(tmp_path / "real/db/t")) == 9


def test_relocating_by_a_folder_above_the_table_maps_all_that_was_in_it(tmp_path: Path) -> None:
    outside = {"write.data.path": str(tmp_path / "old/db/outside")}
    frazil.connect(tmp_path / "old").create_table("db.t", "id BIGINT", properties=outside).append(ROWS)
    shutil.move(tmp_path / "old", tmp_path / "new")
    for relocate in (str(tmp_path / "old"), f"file://{tmp_path}/old/db", True):
        assert count(frazil.open(tmp_path / "new/db/t", relocate=relocate)) == 3


@pytest.mark.parametrize("relocate", [5, 1, None, Path("/old")])
def test_what_is_no_folder_to_relocate_from_is_refused(tmp_path: Path, relocate: Any) -> None:
    hadoop_table(tmp_path / "old")
    with pytest.raises(InvalidArgument, match="relocate="):
        frazil.open(tmp_path / "old/db/t", relocate=relocate)


def test_a_prefix_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    hadoop_table(tmp_path / "old")
    with pytest.raises(InvalidArgument, match="is not under"):
        frazil.open(tmp_path / "old/db/t", relocate="/somewhere/else")
    shutil.move(tmp_path / "old/db/t", tmp_path / "renamed")
    with pytest.raises(InvalidArgument, match="relocate=True"):
        frazil.open(tmp_path / "renamed", relocate=str(tmp_path / "old"))


def test_what_is_not_there_is_not_found_and_the_error_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="there is nothing at") as caught:
        frazil.open(tmp_path / "nothing")
    assert "version-hint.text" in str(caught.value)
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(TableNotFound, match="is not a table"):
        frazil.open(tmp_path)
    with pytest.raises(TableNotFound, match="no metadata file"):
        frazil.open(tmp_path / "v1.metadata.json")


@pytest.mark.parametrize(("marker", "kind"), [("_delta_log", "Delta"), (".hoodie", "Hudi"), ("_versions", "Lance")])
def test_tables_of_other_formats_are_named(tmp_path: Path, marker: str, kind: str) -> None:
    (tmp_path / marker).mkdir()
    (tmp_path / marker / "x").write_text("x")
    with pytest.raises(Unsupported, match=kind):
        frazil.open(tmp_path)


def test_a_lance_table_is_known_by_its_manifests(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    lance.write_dataset(ROWS, tmp_path / "t")
    table = frazil.open(tmp_path / "t")
    assert (table.format, count(table)) == ("lance", 3)
    assert table.append(ROWS).version == 2
    assert lance.dataset(tmp_path / "t").count_rows() == 6
    with pytest.raises(InvalidArgument, match="relocated"):
        frazil.open(tmp_path / "t", relocate=True)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format-version": 2}', gzip.compress(b"{}", mtime=0)[:9], b"\xff" * 9]
)
def test_damaged_metadata_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/v1.metadata.json").write_bytes(content)
    with pytest.raises(MalformedMetadata, match=r"v1\.metadata\.json"):
        frazil.open(tmp_path)


@pytest.mark.parametrize("case", [name for name in golden_tables.cases() if name not in ("view", "dv_blobs")])
def test_every_table_of_the_java_library_opens(case: str) -> None:
    assert golden_tables.GOLDENS is not None
    expected = golden_tables.expected(case)
    table = frazil.open(golden_tables.GOLDENS / case / "t", relocate=golden_tables.WRITTEN_AT)
    assert table.metadata_location.rpartition("/")[2] == expected["metadata_file"].rpartition("/")[2]
    assert table.format_version == expected["format_version"]
    assert len(table.snapshots) == len(expected["snapshots"])


def test_a_relocated_copy_never_deletes_files_of_the_original(tmp_path: Path) -> None:
    outside = {"write.data.path": str(tmp_path / "outside/data")}
    lake = frazil.connect(tmp_path / "old")
    original = lake.create_table("db.t", "id INT", properties=outside)
    first = original.append([{"id": 1}]).snapshot_id
    original.overwrite([{"id": 2}])
    shutil.copytree(tmp_path / "old/db/t", tmp_path / "copy")
    copy = frazil.open(tmp_path / "copy", relocate=True)
    expired = copy.expire_snapshots().older_than(2**62).retain_last(1).commit().result
    assert len(expired.failed_files) == 1
    assert [snapshot.snapshot_id for snapshot in copy.snapshots] == [original.snapshots[-1].snapshot_id]
    assert original.scan(version=first).to_arrow().to_pylist() == [{"id": 1}]
