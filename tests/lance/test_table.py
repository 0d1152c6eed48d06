"""What we write pylance opens, validates and reads; and it goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from frazil.errors import AlreadyExists, FrazilError, InvalidArgument, InvalidEvolution, InvalidValue, TableNotFound
from frazil.io.store import Stores
from frazil.lance.manifest_file import parse_manifest_file, render_manifest_file
from frazil.lance.table import LanceTable
from tests.lance.samples import FILE_VERSIONS, every_type

METADATA = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def opened(folder: Path) -> LanceTable:
    return LanceTable.open(Stores(), str(folder))


def made(folder: Path, rows: pa.Table, **options: Any) -> LanceTable:
    return LanceTable.create(Stores(), str(folder), rows.schema, rows, **options)


def check(folder: Path, columns: list[str] | None = None) -> pa.Table:
    """Both see the same rows, and pylance finds nothing wrong."""
    dataset = lance.dataset(folder)
    dataset.validate()
    expected = dataset.to_table(columns=columns)
    table = opened(folder)
    assert table.version == dataset.version
    found = table.scan(columns=columns).to_arrow()
    assert found.combine_chunks() == expected.combine_chunks()
    assert dataset.read_transaction(dataset.version) is not None
    return found


def numbers(count: int, start: int = 0) -> pa.Table:
    return pa.table({"a": pa.array(range(start, start + count)), "b": [str(n) for n in range(start, start + count)]})


@pytest.mark.parametrize("file_version", FILE_VERSIONS)
def test_every_type(tmp_path: Path, file_version: str) -> None:
    rows = every_type(file_version)
    table = made(tmp_path, rows, file_version=file_version)
    assert check(tmp_path).to_pylist() == rows.to_pylist()
    table.append(rows)
    assert check(tmp_path).num_rows == 6
    lance.write_dataset(rows, tmp_path, mode="append")
    assert check(tmp_path).to_pylist() == pa.concat_tables([rows] * 3).to_pylist()
    table = opened(tmp_path)
    table.delete("i32 = 1")
    assert check(tmp_path).num_rows == 6
    table.compact()
    assert check(tmp_path).num_rows == 6


def test_an_empty_table_grows(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())], metadata={"k": "v"})
    table = LanceTable.create(Stores(), str(tmp_path), schema, properties={"x": "y"})
    assert lance.dataset(tmp_path).schema == schema
    assert lance.dataset(tmp_path).schema.metadata == {b"k": b"v"}
    assert lance.dataset(tmp_path).config() == {"x": "y"}
    assert table.scan().to_arrow() == schema.empty_table()
    table.append([{"id": 1}, {"id": 2, "name": "b"}])
    assert check(tmp_path).to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]
    for bad in ([{"id": None}], [{"name": "x"}], pa.table({"id": ["x"]}), [{"other": 1}], 7, pa.table({"id": [1.5]})):
        with pytest.raises((InvalidValue, InvalidArgument)):
            table.append(bad)
    assert opened(tmp_path).version == 2
    with pytest.raises(AlreadyExists):
        LanceTable.create(Stores(), str(tmp_path), schema)
    with pytest.raises(TableNotFound):
        opened(tmp_path / "nothing")


@pytest.mark.parametrize("stable", [False, True])
def test_delete_update_overwrite(tmp_path: Path, stable: bool) -> None:
    table = made(tmp_path, numbers(100), stable_row_ids=stable)
    table.append(numbers(50, 100))
    columns = ["a", "b", *METADATA]
    check(tmp_path, columns)
    done = table.delete("a < 10")
    assert (done.rows_deleted, done.delete_files_added) == (10, 1)
    check(tmp_path, columns)
    assert table.delete("a < 10").snapshot is None
    done = table.update({"b": "b || '!'", "a": "a + 1000"}, "a >= 95 AND a < 105")
    assert done.rows_updated == 10
    found = check(tmp_path, columns)
    assert sorted(found.column("b").to_pylist())[:2] == ["10", "100!"]
    if stable:
        moved = {row["a"]: row for row in found.to_pylist()}[1095]
        assert (moved["_rowid"], moved["_row_created_at_version"], moved["_row_last_updated_at_version"]) == (95, 1, 4)
    lance.dataset(tmp_path).update({"b": "'theirs'"}, where="a = 1095")
    table = opened(tmp_path)
    check(tmp_path, columns)
    done = table.delete("a < 100")
    assert done.data_files_removed == 1
    check(tmp_path, columns)
    table.compact()
    found = check(tmp_path, columns)
    if stable:
        assert {row["a"]: row["_rowid"] for row in found.to_pylist()}[1095] == 95
    assert len(lance.dataset(tmp_path).get_fragments()) == 1
    table.overwrite(numbers(3))
    check(tmp_path, columns)
    table.overwrite(pa.table({"z": [1.5]}), schema=pa.schema({"z": pa.float64()}))
    assert check(tmp_path).to_pydict() == {"z": [1.5]}
    table.overwrite(pa.table({"z": [2.5, 3.5]}), "z = 1.5")
    assert check(tmp_path).to_pydict() == {"z": [2.5, 3.5]}
    table.delete("TRUE")
    assert check(tmp_path).num_rows == 0
    lance.write_dataset(pa.table({"z": [9.0]}), tmp_path, mode="append")
    check(tmp_path)


@pytest.mark.parametrize("file_version", FILE_VERSIONS)
def test_columns_come_and_go(tmp_path: Path, file_version: str) -> None:
    rows = numbers(100).append_column("s", pa.array([{"x": n, "y": str(n)} for n in range(100)]))
    table = made(tmp_path, rows.slice(0, 60), file_version=file_version)
    table.append(rows.slice(60))
    table.delete("a < 5")
    before = {file.name for file in (tmp_path / "data").iterdir()}
    table.add_columns({"c": "a * 2", "d": "CASE WHEN a > 50 THEN 'big' ELSE b END"})
    assert before < {file.name for file in (tmp_path / "data").iterdir()}
    found = check(tmp_path)
    assert found.column("c").to_pylist() == [n * 2 for n in range(5, 100)]
    assert found.column("d").to_pylist() == [str(n) if n <= 50 else "big" for n in range(5, 100)]
    table.add_columns(pa.table({"v": pa.array([[float(n), 0.0] for n in range(95)], pa.list_(pa.float32(), 2))}))
    assert check(tmp_path).column("v").to_pylist()[94] == [94.0, 0.0]
    place = table.scan("a = 70", ["_rowaddr"]).to_arrow().column(0)
    table.add_columns(pa.table({"w": ["here"], "_rowaddr": place}))
    assert table.scan("w = 'here'", ["a"]).to_arrow().to_pydict() == {"a": [70]}
    table.add_columns(pa.schema({"n": pa.list_(pa.int32())}))
    check(tmp_path)
    table.rename_column("a", "id")
    table.rename_column("s.x", "x2")
    table.drop_columns("b", "s.y")
    check(tmp_path)
    table.change_column_type("c", pa.int32())
    found = check(tmp_path)
    assert found.schema.names == ["id", "s", "c", "d", "v", "w", "n"]
    assert found.schema.field("c").type == pa.int32()
    lance.write_dataset(found.slice(0, 3), tmp_path, mode="append")
    lance.dataset(tmp_path).add_columns({"e": "id + 1"})
    table = opened(tmp_path)
    check(tmp_path)
    table.update({"e": 7}, "id = 70")
    check(tmp_path)
    table.compact()
    check(tmp_path)
    with pytest.raises(InvalidEvolution):
        table.add_columns({"e": "id"})
    with pytest.raises(InvalidEvolution):
        table.rename_column("e", "id")
    with pytest.raises(InvalidArgument):
        table.add_columns(pa.table({"q": [1]}))
    with pytest.raises(InvalidEvolution):
        table.drop_columns(*table.arrow_schema.names)
    assert opened(tmp_path).version == table.version


def test_time_travel_restore_and_tags(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    table.append(numbers(10, 10))
    first, second = table.snapshots
    table.delete("a < 5")
    assert table.scan(version=1).count() == 10
    assert table.scan(as_of=second.timestamp_ms).count() == 20
    assert table.scan(as_of=first.timestamp_ms).count() in (10, 20)
    table.create_tag("before", 2)
    assert table.scan(ref="before").count() == lance.dataset(tmp_path).checkout_version("before").count_rows() == 20
    assert lance.dataset(tmp_path).tags.list()["before"]["version"] == 2
    lance.dataset(tmp_path).tags.create("theirs", 1)
    assert table.scan(ref="theirs").count() == 10
    with pytest.raises(AlreadyExists):
        table.create_tag("before")
    table.create_tag("before", 3, replace=True)
    assert table.scan(ref="before").count() == 15
    table.drop_tag("theirs")
    assert sorted(lance.dataset(tmp_path).tags.list()) == ["before"]
    table.restore(2)
    assert check(tmp_path).num_rows == 20
    lance.dataset(tmp_path).checkout_version(1).restore()
    assert check(tmp_path).num_rows == 10
    table = opened(tmp_path)
    table.append(numbers(1, 99))
    assert check(tmp_path).num_rows == 11
    for call in (
        lambda: table.scan(version=99),
        lambda: table.scan(ref="none"),
        lambda: table.scan(as_of=5),
        lambda: table.scan(version=1, ref="before"),
        lambda: table.create_tag("a/b"),
        lambda: table.create_branch("main"),
        lambda: table.restore(77),
    ):
        with pytest.raises(FrazilError):
            call()


def test_branches(tmp_path: Path) -> None:
    table = made(tmp_path / "t", numbers(10))
    table.delete("a = 1")
    branch = table.create_branch("exp/one")
    assert branch.version == table.version == 2
    branch.append(numbers(5, 100))
    branch.delete("a = 0")
    assert (branch.scan().count(), table.refresh().scan().count()) == (13, 9)
    dataset = lance.dataset(tmp_path / "t")
    assert dataset.branches.list()["exp/one"]["parent_version"] == 2
    theirs = dataset.checkout_version(("exp/one", None))
    assert theirs.to_table().combine_chunks() == branch.scan().to_arrow().combine_chunks()
    lance.write_dataset(numbers(2, 200), theirs, mode="append")
    assert table.scan(ref="exp/one").count() == 15
    assert branch.refresh().scan().to_arrow().column("a").to_pylist()[-1] == 201
    second = branch.create_branch("two")
    second.append(numbers(1, 300))
    assert table.scan(ref="two").count() == 16
    assert lance.dataset(tmp_path / "t").checkout_version(("two", None)).count_rows() == 16
    made_by_pylance = dataset.create_branch("theirs")
    lance.write_dataset(numbers(3, 400), made_by_pylance, mode="append")
    assert table.scan(ref="theirs").count() == 12
    table.branch("theirs").delete("a >= 400")
    assert lance.dataset(tmp_path / "t").checkout_version(("theirs", None)).count_rows() == 9
    branch.create_tag("b-tag")
    assert table.scan(ref="b-tag").count() == 15
    with pytest.raises(InvalidArgument):
        table.drop_branch("exp/one")
    table.drop_branch("two")
    table.drop_tag("b-tag")
    table.drop_branch("exp/one")
    assert sorted(table.refs) == ["theirs"]
    check(tmp_path / "t")


def test_a_shallow_clone(tmp_path: Path) -> None:
    table = made(tmp_path / "t", numbers(10))
    table.delete("a = 1")
    clone = table.shallow_clone(str(tmp_path / "c"))
    assert check(tmp_path / "c").num_rows == 9
    clone.append(numbers(5, 100))
    clone.delete("a = 2")
    assert check(tmp_path / "c").num_rows == 13
    lance.write_dataset(numbers(5, 200), tmp_path / "c", mode="append")
    assert check(tmp_path / "c").num_rows == 18
    assert check(tmp_path / "t").num_rows == 9
    lance.dataset(tmp_path / "t").shallow_clone(str(tmp_path / "d"), 2)
    assert check(tmp_path / "d").num_rows == 9


def test_settings(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(3))
    table.update_properties({"a": "1", "b": "2"})
    table.update_properties({"a": None})
    table.update_metadata({"m": "n"})
    table.update_metadata({"c": "d"}, column="a")
    table.update_metadata({"e": "f"}, of_schema=True)
    dataset = lance.dataset(tmp_path)
    assert dataset.config() == table.properties == {"b": "2"}
    assert dataset.metadata == table.metadata == {"m": "n"}
    assert dataset.schema.field("a").metadata == {b"c": b"d"}
    assert dataset.schema.metadata == table.arrow_schema.metadata == {b"e": b"f"}
    dataset.update_config({"z": "9"})
    table.update_properties({"y": "8"})  # on top of a version that we have not seen
    assert lance.dataset(tmp_path).config() == {"b": "2", "z": "9", "y": "8"}
    with pytest.raises(InvalidArgument):
        table.update_properties({})
    assert "LanceTable(" in repr(table)
    assert "<table>" in table._repr_html_()
    check(tmp_path)


@pytest.mark.parametrize("v2_names", [True, False])
def test_the_naming_scheme_stays(tmp_path: Path, v2_names: bool) -> None:
    lance.write_dataset(numbers(3), tmp_path, enable_v2_manifest_paths=v2_names)
    table = opened(tmp_path)
    table.append(numbers(3))
    names = {file.name for file in (tmp_path / "_versions").glob("*.manifest")}
    assert names == (
        {"18446744073709551614.manifest", "18446744073709551613.manifest"} if v2_names else {"1.manifest", "2.manifest"}
    )
    assert check(tmp_path).num_rows == 6
    lance.dataset(tmp_path).delete("a = 1")
    assert opened(tmp_path).scan().count() == 4


def test_files_in_another_folder(tmp_path: Path) -> None:
    """A base path that is no table has its files right in it; a relative one is where pylance ran."""
    folder, other = tmp_path / "t", tmp_path / "other"
    lance.write_dataset(numbers(3), folder)
    other.mkdir()
    (file,) = (folder / "data").iterdir()
    file.rename(other / file.name)
    (manifest,) = (folder / "_versions").glob("*.manifest")
    found = parse_manifest_file(manifest.read_bytes(), "")
    found.manifest.base_paths.add(id=5, path=str(other))
    found.manifest.fragments[0].files[0].base_id = 5
    found.manifest.reader_feature_flags = found.manifest.writer_feature_flags = 16
    assert found.transaction is not None
    manifest.write_bytes(render_manifest_file(found.manifest, found.indices, found.transaction))
    check(folder)
    table = opened(folder)
    table.append(numbers(3, 10))
    table.delete("a = 1")
    table.clean_up(older_than=1 << 50, delete_unverified=True)
    assert check(folder).column("a").to_pylist() == [0, 2, 10, 11, 12]
    assert [one.name for one in other.iterdir()] == [file.name]


def test_a_manifest_that_does_not_count_rows(tmp_path: Path) -> None:
    """As the first releases wrote them."""
    lance.write_dataset(numbers(10), tmp_path, max_rows_per_file=6)
    (manifest,) = (tmp_path / "_versions").glob("*.manifest")
    found = parse_manifest_file(manifest.read_bytes(), "")
    for fragment in found.manifest.fragments:
        fragment.physical_rows = 0
    assert found.transaction is not None
    manifest.write_bytes(render_manifest_file(found.manifest, found.indices, found.transaction))
    table = opened(tmp_path)
    assert table.scan().to_arrow() == numbers(10)
    assert table.scan().count() == 10
    assert table.take([7, 2]).column("a").to_pylist() == [7, 2]
    table.update({"b": "'x'"}, "a = 7")
    table.delete("a < 3")
    assert sorted(lance.dataset(tmp_path).to_table().column("a").to_pylist()) == list(range(3, 10))
    assert table.update({"b": "'all'"}).rows_updated == 7
    assert set(check(tmp_path).column("b").to_pylist()) == {"all"}


@pytest.mark.parametrize("file_version", ["2.1", "2.2"])
def test_rows_cut_out_of_others(tmp_path: Path, file_version: str) -> None:
    """pylance itself dies of structs in structs that begin inside of their buffers."""
    rows = pa.table({
        "s": [{"i": {"b": "x"}}, None, {"i": None}, {"i": {"b": None}}, {"i": {"b": "y"}}],
        "l": [[{"q": {"r": 1}}], None, [], [None, {"q": None}], [{"q": {"r": 2}}]],
    })  # fmt: skip
    table = LanceTable.create(Stores(), str(tmp_path), rows.schema, file_version=file_version)
    for start, count in ((2, 3), (1, 2), (4, 1), (0, 5)):
        table.append(rows.slice(start, count))
    expected = pa.concat_tables([rows.slice(2, 3), rows.slice(1, 2), rows.slice(4, 1), rows])
    assert table.scan().to_arrow().to_pylist() == expected.to_pylist()
    assert lance.dataset(tmp_path).to_table().to_pylist() == expected.to_pylist()
