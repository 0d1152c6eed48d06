"""What is refused, each with an error of ours, before it can do harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from frazil.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidName,
    InvalidSchema,
    MalformedData,
    MalformedMetadata,
)
from frazil.io.store import Stores
from frazil.lance.manifest_file import parse_manifest_file, render_manifest_file
from frazil.lance.table import LanceTable
from frazil.lance.vectors import with_vectors
from tests.lance.test_table import made, numbers, opened


def test_a_tag_and_a_branch_have_names_of_their_own(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(2))
    table.create_branch("dev")
    table.create_tag("v1")
    with pytest.raises(AlreadyExists):
        table.create_tag("dev")
    with pytest.raises(AlreadyExists):
        table.create_tag("dev", replace=True)
    with pytest.raises(AlreadyExists):
        table.create_branch("v1")
    with pytest.raises(InvalidName):
        table.create_tag("main")
    assert sorted(table.refs) == ["dev", "v1"]


def test_a_branch_is_found_though_a_tag_is_called_like_it(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(2))
    table.create_branch("dev").append(numbers(1, 9))
    folder = tmp_path / "_refs" / "tags"
    table.create_tag("other")
    (folder / "other.json").rename(folder / "dev.json")  # as another writer may have it
    assert table.branch("dev").scan().count() == 3


@pytest.mark.parametrize(
    "rows", [[1.9], ["1"], [True], [0, True], np.array([1.0]), np.array([True]), [None], [[0, 1]], "01", {0, 1}, 1]
)
@pytest.mark.parametrize("by_address", [False, True])
def test_positions_are_whole_numbers(tmp_path: Path, rows: Any, by_address: bool) -> None:
    with pytest.raises(InvalidArgument):
        made(tmp_path, numbers(3)).take(rows, by_address=by_address)


@pytest.mark.parametrize("rows", [[1, 0], (1, 0), np.array([1, 0], np.uint8), pa.array([1, 0]), range(1, -1, -1)])
def test_whole_numbers_are_positions(tmp_path: Path, rows: Any) -> None:
    assert made(tmp_path, numbers(3)).take(rows)["a"].to_pylist() == [1, 0]
    assert opened(tmp_path).take([]).num_rows == 0


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema({"x`y": pa.int64()}),
        pa.schema({"x.y": pa.int64()}),
        pa.schema({"": pa.int64()}),
        pa.schema({"v": pa.list_(pa.string(), 2)}),
        pa.schema({"v": pa.struct({"w": pa.list_(pa.binary(), 2)})}),
        pa.schema({"v": pa.list_(pa.list_(pa.list_(pa.int32()), 2))}),
        pa.schema({"v": pa.list_(pa.dictionary(pa.int8(), pa.string()), 2)}),
    ],
)
def test_columns_that_could_not_be_read_again_are_not_made(tmp_path: Path, schema: pa.Schema) -> None:
    with pytest.raises(InvalidSchema):
        LanceTable.create(Stores(), str(tmp_path / "new"), schema)
    table = made(tmp_path / "t", numbers(2))
    with pytest.raises(InvalidSchema):
        table.add_columns(schema)
    with pytest.raises(InvalidSchema):
        table.overwrite(pa.table({}), schema=schema)
    if schema.names != ["v"]:
        with pytest.raises(InvalidSchema):
            table.rename_column("a", schema.names[0])
    assert opened(tmp_path / "t").version == 1


def test_vectors_are_of_values_of_one_length() -> None:
    with pytest.raises(InvalidArgument):
        with_vectors(pa.schema({"v": pa.list_(pa.string())}), {"v.arrow.fixed-size-list.size": "2"})


def test_a_property_for_vectors_is_not_stored_where_it_would_do_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))}))
    with pytest.raises(InvalidArgument):
        table.update_properties({"v.arrow.fixed-size-list.size": "2"})
    table.update_properties({"v.arrow.fixed-size-list.size": None})
    table.change_column_type("v", pa.list_(pa.float32(), 2))
    assert lance.dataset(tmp_path).schema.field("v").type == pa.list_(pa.float32(), 2)


@pytest.mark.parametrize("kind", ["struct", "timestamp:us:-", "list"])
def test_a_file_of_another_type_than_the_tables_is_told(tmp_path: Path, kind: str) -> None:
    made(tmp_path, pa.table({"a": ["x", "2"], "l": [[1], [2]], "n": [1, 2]}))
    [place] = (tmp_path / "_versions").glob("*.manifest")
    file = parse_manifest_file(place.read_bytes(), "")
    assert file.transaction is not None
    wanted = "n" if kind != "timestamp:us:-" else "a"
    field = next(one for one in file.manifest.fields if one.name == wanted)
    field.logical_type = kind
    if kind in ("struct", "list"):
        child = file.manifest.fields.add()
        child.CopyFrom(field)
        child.id, child.parent_id, child.name, child.logical_type = 77, field.id, "x", "int64"
    place.write_bytes(render_manifest_file(file.manifest, file.indices, file.transaction))
    with pytest.raises((MalformedData, MalformedMetadata)):
        opened(tmp_path).scan().to_arrow()


def test_deleting_all_rows_tells_the_files_that_go(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(3))
    table.append(numbers(3))
    table.add_columns({"c": "a"})
    done = table.delete("TRUE")
    assert (done.rows_deleted, done.data_files_removed) == (6, 4)
