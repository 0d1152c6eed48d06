"""Schemas are those that pylance writes for the same Arrow schema, and lead back to it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from frazil.errors import FrazilError, InvalidSchema, MalformedMetadata, Unsupported
from frazil.lance.logical_types import arrow_type
from frazil.lance.proto.messages import Field
from frazil.lance.schema import arrow_schema, column_entries, fields_of, model_schema, tree
from tests.lance.samples import FILE_VERSIONS, every_type, newest_manifest


@pytest.mark.parametrize("file_version", FILE_VERSIONS)
def test_fields_and_columns_are_pylances(tmp_path: Path, file_version: str) -> None:
    rows = every_type(file_version)
    dataset = lance.write_dataset(rows, tmp_path / "t", data_storage_version=file_version)
    manifest = newest_manifest(tmp_path / "t").manifest
    assert fields_of(rows.schema) == list(manifest.fields)
    nodes = tree(manifest.fields)
    assert arrow_schema(nodes) == rows.schema == dataset.schema
    (file,) = manifest.fragments[0].files
    major, minor = map(int, file_version.split("."))
    assert column_entries(nodes, (major, minor)) == list(file.fields)
    assert list(file.column_indices) == list(range(len(file.fields)))


def test_packed_structs_and_blobs_have_one_column(tmp_path: Path) -> None:
    packed = pa.field("p", pa.struct({"x": pa.int32(), "y": pa.int32()}), metadata={"packed": "true"})
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([packed, blob, pa.field("i", pa.int64(), nullable=False)], metadata={"k": "v"})
    rows = pa.table([[{"x": 1, "y": 2}], [b"abc"], [1]], schema=schema)
    for file_version in ("2.0", "2.1"):
        lance.write_dataset(rows, tmp_path / file_version, data_storage_version=file_version)
        manifest = newest_manifest(tmp_path / file_version).manifest
        assert fields_of(schema) == list(manifest.fields)
        major, minor = map(int, file_version.split("."))
        assert column_entries(tree(manifest.fields), (major, minor)) == list(manifest.fragments[0].files[0].fields)
        assert arrow_schema(tree(manifest.fields), manifest.schema_metadata).equals(schema, check_metadata=True)


def test_the_nearest_types_of_the_model() -> None:
    found = model_schema(tree(fields_of(every_type("2.2").schema)))
    types = {column.name: str(column.type) for column in found.fields}
    assert {types[name] for name in ("i8", "i16", "i32", "u8", "u16")} == {"int"}
    assert (types["u32"], types["u64"], types["f16"], types["dur"]) == ("long", "decimal(20, 0)", "float", "long")
    assert (types["fsl"], types["fsl_fsl"]) == ("list<float>", "list<list<int>>")
    assert (types["dict"], types["uuid"], types["map"]) == ("string", "uuid", "map<string, int>")
    (p,) = [field for field in fields_of(every_type("2.2").schema) if field.name == "p"]
    assert found.find("list_struct.element.p").id == p.id


def test_new_fields_get_the_ids_after_the_last() -> None:
    fields = fields_of(pa.schema({"a": pa.list_(pa.int32()), "b": pa.int8()}), first_id=5)
    assert [(field.id, field.parent_id) for field in fields] == [(5, -1), (6, 5), (7, -1)]


@pytest.mark.parametrize("name", ["decimal:128:x:1", "timestamp:h:-", "time32:ns", "what", "dict:string", "list.map"])
def test_unknown_types_are_refused(name: str) -> None:
    with pytest.raises(Unsupported):
        arrow_type(name)


@pytest.mark.parametrize(
    "fields",
    [
        [Field(id=0, parent_id=-1), Field(id=0, parent_id=-1)],
        [Field(id=0, parent_id=3)],
        [Field(id=0, parent_id=-1, logical_type="list")],
        [Field(id=0, parent_id=-1, logical_type="int32"), Field(id=1, parent_id=0, logical_type="int32")],
        [Field(id=0, parent_id=-1, logical_type="list")]
        + [Field(id=n, parent_id=n - 1, logical_type="list") for n in range(1, 99)],
    ],
)
def test_fields_that_make_no_schema(fields: list[Field]) -> None:
    with pytest.raises(MalformedMetadata):
        arrow_schema(tree(fields))


def test_columns_that_lance_cannot_hold() -> None:
    for schema in (
        pa.schema({"a.b": pa.int32()}),
        pa.schema({"": pa.int32()}),
        pa.schema({"m": pa.month_day_nano_interval()}),
    ):
        with pytest.raises(InvalidSchema):
            fields_of(schema)
    with pytest.raises(FrazilError):
        column_entries(tree(fields_of(pa.schema({"x": pa.list_(pa.struct({"a": pa.int32()}), 1)}))), (2, 0))
