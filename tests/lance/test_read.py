"""We read what pylance wrote, and get the rows that it gets."""

from __future__ import annotations

import pickle
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from frazil.errors import ColumnNotFound, FileMissing, FrazilError, MalformedData, MalformedMetadata, Unsupported
from frazil.io.store import Stores
from frazil.lance.history import History
from frazil.lance.read import read_task
from frazil.lance.scan import LanceScan
from frazil.lance.table import LanceTable
from frazil.lance.take import take_addresses, take_positions
from frazil.model.expression_parser import as_expression
from tests.lance.samples import FILE_VERSIONS, every_type

METADATA = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]


def scan(folder: Path, where: str | None = None, columns: list[str] | None = None) -> LanceScan:
    store = Stores()
    version = History(store, str(folder)).latest()
    return LanceScan(store, version, as_expression(where), None if columns is None else tuple(columns))


@pytest.mark.parametrize("v2_names", [True, False])
@pytest.mark.parametrize("file_version", FILE_VERSIONS)
def test_every_type(tmp_path: Path, file_version: str, v2_names: bool) -> None:
    rows = every_type(file_version)
    lance.write_dataset(rows, tmp_path, data_storage_version=file_version, enable_v2_manifest_paths=v2_names)
    dataset = lance.write_dataset(rows, tmp_path, mode="append")
    found = scan(tmp_path).to_arrow()
    found.validate(full=True)
    assert found.schema == rows.schema
    assert found.to_pylist() == pa.concat_tables([rows, rows]).to_pylist()
    assert found == dataset.to_table()
    for name in rows.schema.names:
        assert scan(tmp_path, columns=[name]).to_arrow().column(0) == found.column(name)


@pytest.mark.parametrize("file_version", FILE_VERSIONS)
def test_columns_that_came_went_and_changed_their_names(tmp_path: Path, file_version: str) -> None:
    rows = pa.table({
        "a": pa.array(range(100)),
        "s": pa.array([{"x": n, "y": {"z": str(n), "w": n * 2}} for n in range(100)]),
        "l": pa.array([[{"p": n, "q": str(n)}] * (n % 3) for n in range(100)]),
    })  # fmt: skip
    dataset = lance.write_dataset(rows, tmp_path, data_storage_version=file_version, max_rows_per_file=40)
    dataset.add_columns({"b": "a * 2"})
    dataset.alter_columns({"path": "a", "name": "old"}, {"path": "s.x", "name": "x2"})
    dataset.add_columns({"a": "old + 1000"})
    dataset.drop_columns(["s.y.w"])
    dataset.add_columns(pa.schema({"n": pa.list_(pa.int32())}))
    dataset.alter_columns({"path": "b", "data_type": pa.int32()})
    dataset = lance.dataset(tmp_path)
    found = scan(tmp_path).to_arrow()
    found.validate(full=True)
    assert found.schema == dataset.schema
    assert found.to_pylist() == dataset.to_table().to_pylist()
    part = scan(tmp_path, columns=["s.y", "a"]).to_arrow()
    assert part.column("s").to_pylist() == [{"y": {"z": str(n)}} for n in range(100)]
    assert part.column("a").to_pylist() == list(range(1000, 1100))
    assert scan(tmp_path, "s.x2 >= 50 AND a < 1060", ["old"]).to_arrow().to_pydict() == {"old": list(range(50, 60))}


def test_parts_of_structs(tmp_path: Path) -> None:
    rows = pa.table({"s": pa.array([{"x": 1, "y": {"z": "a", "w": 2}}, None, {"x": None, "y": None}]), "i": [1, 2, 3]})
    dataset = lance.write_dataset(rows, tmp_path, data_storage_version="2.1")
    assert dataset.to_table() == scan(tmp_path).to_arrow()
    found = scan(tmp_path, columns=["s.y.w", "i", "s.x"]).to_arrow()
    assert found.to_pylist() == [
        {"s": {"x": 1, "y": {"w": 2}}, "i": 1},
        {"s": None, "i": 2},
        {"s": {"x": None, "y": None}, "i": 3},
    ]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("file_version", FILE_VERSIONS)
def test_deletes_updates_and_metadata_columns(tmp_path: Path, file_version: str, stable: bool) -> None:
    rows = pa.table({"a": pa.array(range(20_000)), "b": pa.array([str(n) for n in range(20_000)])})
    dataset = lance.write_dataset(
        rows, tmp_path, data_storage_version=file_version, max_rows_per_file=7_000, enable_stable_row_ids=stable
    )
    dataset.delete("a % 3 = 0 AND a < 10000")
    dataset.delete("a IN (7001, 13000)")
    dataset.update({"b": "'changed'"}, where="a % 1000 = 1")
    if stable:
        dataset.optimize.compact_files(target_rows_per_fragment=9_000)
    dataset = lance.dataset(tmp_path)
    columns = ["a", "b", *METADATA]
    assert scan(tmp_path, columns=columns).to_arrow() == dataset.to_table(columns=columns)
    for where in ("a > 19990", "b = 'changed'", "a < 5", "a >= 0 AND b <> 'changed'", "_rowaddr < 5", "a > 1000000000"):
        expected = dataset.to_table(columns=columns, filter=where)
        found = scan(tmp_path, where, columns)
        assert found.to_arrow() == expected
        assert found.count() == expected.num_rows
    assert scan(tmp_path).count() == dataset.count_rows()
    assert scan(tmp_path).limit(7_001).to_arrow() == dataset.to_table(limit=7_001)
    assert scan(tmp_path, columns=[]).to_arrow().num_rows == dataset.count_rows()


def test_filters_on_every_type(tmp_path: Path) -> None:
    rows = every_type("2.2")
    lance.write_dataset(rows, tmp_path)
    tests = {
        "i8": "i8 = -3", "u8": "u8 IN (1, 3)", "u32": "u32 = 4294967295", "u64": "u64 = 18446744073709551615",
        "f16": "f16 >= 2", "dur": "dur = 2", "date64": "date64 = DATE '1970-01-02'", "ls": "ls = 'ccc'",
        "t32": "t32 = TIME '00:00:02'", "t64": "t64 IS NULL", "ts_s": "ts_s = TIMESTAMP '1970-01-01 00:00:02'",
        "dict": "dict = 'x'", "lbin": "lbin = X'61'", "d128": "d128 < 0", "fsb": "fsb > X'6200'",
        "struct": "struct.y.z = 'c'", "uuid": "uuid IS NULL", "fsl": "fsl IS NOT NULL", "map": "map IS NOT NULL",
        "b": "b = TRUE",
    }  # fmt: skip
    expected = {
        "i8": [2], "u8": [0, 2], "u32": [2], "u64": [2], "f16": [1, 2], "dur": [2], "date64": [0], "ls": [2],
        "t32": [2], "t64": [1], "ts_s": [2], "dict": [0, 2], "lbin": [0], "d128": [2], "fsb": [1, 2],
        "struct": [2], "uuid": [1], "fsl": [0, 1, 2], "map": [0, 1, 2], "b": [0],
    }  # fmt: skip
    found = {
        name: scan(tmp_path, where, ["_rowoffset"]).to_arrow().column(0).to_pylist() for name, where in tests.items()
    }
    assert found == expected


def test_take(tmp_path: Path) -> None:
    rows = pa.table(
        {"a": pa.array(range(1_000)), "v": pa.array([[n, 1.0] for n in range(1_000)], pa.list_(pa.float32(), 2))}
    )
    dataset = lance.write_dataset(rows, tmp_path, max_rows_per_file=300)
    dataset.delete("a % 7 = 0")
    random = np.random.default_rng(3)
    reader = scan(tmp_path).reader
    for size in (0, 1, 50):
        positions = random.integers(0, dataset.count_rows(), size).tolist()
        expected = dataset.take(positions) if positions else dataset.schema.empty_table()
        assert take_positions(reader, positions).combine_chunks() == expected.combine_chunks()
    places = dataset.to_table(columns=["_rowaddr", "a"])
    picked = random.integers(0, places.num_rows, 20)
    found = take_addresses(reader, places.column("_rowaddr").take(picked).to_pylist())
    assert found.column("a").to_pylist() == places.column("a").take(picked).to_pylist()
    for bad in ([dataset.count_rows()], [-1], ["x"]):
        with pytest.raises(FrazilError):
            take_positions(reader, bad)
    for bad in ([0], [300], [9 << 32]):  # deleted, beyond the fragment, no such fragment
        with pytest.raises(FrazilError):
            take_addresses(reader, bad)


def test_plans_travel(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array(range(1_000))})
    dataset = lance.write_dataset(rows, tmp_path, max_rows_per_file=300)
    dataset.delete("a = 5")
    plan = scan(tmp_path, "a < 600", ["a"]).plan()
    sent = pickle.dumps(plan)
    assert len(sent) < 4_000
    again = pickle.loads(sent)
    assert again == plan
    found = [batch for number in range(len(again)) for batch in read_task(Stores(), again, number)]
    assert pa.Table.from_batches(found).column("a").to_pylist() == [n for n in range(600) if n != 5]
    assert [task.fragment_id for task in plan.only(2, 3).tasks()] == [2, 3]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path)
    with pytest.raises(ColumnNotFound):
        scan(tmp_path, columns=["b"]).plan()
    with pytest.raises(ColumnNotFound):
        scan(tmp_path, "b = 1").plan()


def test_damaged_tables(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path)
    (file,) = (tmp_path / "data").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-7] + b"broken!")
    with pytest.raises((MalformedData, Unsupported)):
        scan(tmp_path).to_arrow()
    file.unlink()
    from frazil.lance import data_files, read

    data_files._readers.clear()
    read._schemas.clear()
    with pytest.raises(FileMissing):
        scan(tmp_path).to_arrow()


def test_manifests_that_say_what_cannot_be(tmp_path: Path) -> None:
    from frazil.lance.manifest_file import parse_manifest_file, render_manifest_file
    from frazil.lance.proto.messages import Manifest

    lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path)
    (file,) = (tmp_path / "_versions").glob("*.manifest")
    before = parse_manifest_file(file.read_bytes(), "")

    def told(change: str) -> Manifest:
        manifest = Manifest()
        manifest.CopyFrom(before.manifest)
        data = manifest.fragments[0].files[0]
        match change:
            case "no columns":
                del data.column_indices[:]
            case "column 9":
                data.column_indices[0] = 9
            case "other version":
                data.file_minor_version = 1
            case "legacy":
                data.file_major_version, data.file_minor_version = 0, 2
                manifest.data_format.version = "0.1"
            case "newer":
                manifest.data_format.version = "2.9"
            case "rows":
                manifest.fragments[0].physical_rows = 4
            case "flag":
                manifest.reader_feature_flags = 1 << 20
        return manifest

    for change, error in {
        "no columns": MalformedMetadata,
        "column 9": MalformedMetadata,
        "other version": MalformedMetadata,
        "legacy": Unsupported,
        "newer": Unsupported,
        "rows": MalformedData,
        "flag": Unsupported,
    }.items():
        assert before.transaction is not None
        file.write_bytes(render_manifest_file(told(change), before.indices, before.transaction))
        with pytest.raises(error):
            scan(tmp_path).to_arrow()


@pytest.mark.parametrize("where", [None, "a = 777", "a = 5 OR b IS NULL", "a < 2000", "_rowoffset = 1200", "a < 0"])
@pytest.mark.parametrize("rows", [1, 500, 999, 2500])
def test_parts_of_a_fragment_are_the_fragment(tmp_path: Path, where: str | None, rows: int) -> None:
    """Some of its rows at a time, from several files, whatever is deleted: together the same, in the same order."""
    made = pa.table({"a": pa.array(range(2500)), "b": pa.array([None if n % 7 == 0 else f"b{n}" for n in range(2500)])})
    lance.write_dataset(made, tmp_path)
    table = LanceTable.open(Stores(), str(tmp_path))
    table.delete("a IN (0, 498, 499, 500, 1998, 2499)")
    table.add_columns({"c": "a * 2"})
    found = table.scan(where, ["a", "b", "c", "_rowaddr", "_rowoffset"])
    plan = found.plan()
    (task,) = plan.fragments
    if rows == 1:
        parts = task.parts(1)[495:505]
        expected = [row for row in found.to_arrow().to_pylist() if 495 <= row["_rowaddr"] < 505]
    else:
        parts = task.parts(rows)
        expected = found.to_arrow().to_pylist()
    batches = [batch for part in parts for batch in found.reader.read(part)]
    assert pa.Table.from_batches(batches, found.output).to_pylist() == expected
    assert sum(found.reader.count(part) for part in parts) == len(expected)
    assert [int(at) for part in parts for at in found.reader.offsets(part)] == [row["_rowaddr"] for row in expected]
