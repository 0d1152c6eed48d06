"""Avro data files: the schema others find in them, and reading what others write."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from frazil.errors import MalformedData
from frazil.io.avro import read_container
from frazil.io.avro_schema import avro_name, avro_schema, decimal_bytes
from frazil.io.data_files import read_data_file
from frazil.io.written_file import stored_schema
from frazil.model.arrow import schema_from_anything
from frazil.model.name_mapping import NameMapping
from tests.io.data_file_samples import EVERYTHING, ROWS, batch_of, memory, read, write


def fields() -> dict[str, dict[str, object]]:
    return {field["name"]: field for field in avro_schema(stored_schema(EVERYTHING))["fields"]}


def test_types_are_those_of_the_specification() -> None:
    found = fields()
    assert found["id"] == {"name": "id", "type": "long", "field-id": 1}
    assert found["bool"]["type"] == ["null", "boolean"]
    assert found["bool"]["default"] is None
    decimal = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    assert found["dec9"]["type"][1] == decimal
    assert found["ts"]["type"][1] == {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
    assert found["nstz"]["type"][1] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}
    assert found["uuid"]["type"][1]["logicalType"] == "uuid"
    assert found["l"]["type"][1]["element-id"] == 41
    assert (found["m"]["type"][1]["key-id"], found["m"]["type"][1]["value-id"]) == (51, 52)
    by_date = found["k"]["type"][1]
    assert by_date["logicalType"] == "map"
    assert by_date["items"]["name"] == "k61_v62"
    assert [part["field-id"] for part in by_date["items"]["fields"]] == [61, 62]
    assert [part["name"] for part in found["variant"]["type"][1]["fields"]] == ["metadata", "value"]
    assert "unknown" not in found


def test_a_named_type_is_defined_once() -> None:
    text = json.dumps(avro_schema(stored_schema(EVERYTHING)))
    assert text.count('"name": "uuid_fixed"') == 1
    fastavro.parse_schema(avro_schema(stored_schema(EVERYTHING)))


@pytest.mark.parametrize(("precision", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (18, 8), (19, 9), (38, 16)])
def test_decimals_take_the_fewest_bytes(precision: int, size: int) -> None:
    assert decimal_bytes(precision) == size


def test_names_that_avro_forbids_are_replaced_as_java_does() -> None:
    assert [avro_name(name) for name in ("a.b", "9x", "x9", "\U0001f600")] == ["a_x2Eb", "_9x", "x9", "_xD83D_xDE00"]


def test_fastavro_reads_what_we_write() -> None:
    schema = schema_from_anything("id BIGINT NOT NULL, name STRING, l ARRAY<INT>, d DECIMAL(5,2)")
    written = write("fastavro", batch_of(schema, [{1: 1, 2: "a", 3: [1, None]}, {1: 2}]), schema, "avro")
    rows = list(fastavro.reader(io.BytesIO(memory().read(written.location))))
    assert rows == [
        {"id": 1, "name": "a", "l": [1, None], "d": None},
        {"id": 2, "name": None, "l": None, "d": None},
    ]


def test_blocks_are_split_without_losing_positions() -> None:
    schema = schema_from_anything("id BIGINT, name STRING")
    want = batch_of(schema, [{1: n, 2: f"name {n}"} for n in range(20_000)])
    location = write("blocks", want, schema, "avro").location
    blocks = read_container(memory().read(location)).blocks
    assert len(blocks) > 2
    middle = blocks[1].offset
    seen = []
    for split in ((0, middle), (middle, 1 << 40)):
        for first, batch in read_data_file(memory(), location, "avro", schema.select(["id"]), split=split):
            assert batch.column("id").to_pylist() == list(range(first, first + batch.num_rows))
            seen += batch.column("id").to_pylist()
    assert seen == list(range(20_000))


def others(name: str, schema: dict[str, object], rows: list[dict[str, object]]) -> str:
    data = io.BytesIO()
    fastavro.writer(data, fastavro.parse_schema(schema), rows)
    location = f"memory://samples/data/{name}.avro"
    memory().write(location, data.getvalue())
    return location


def test_files_without_ids_go_by_the_name_mapping_or_are_refused() -> None:
    plain = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}
    location = others("plain", plain, [{"a": 1, "b": "x"}])
    schema = schema_from_anything("a BIGINT, b STRING")
    got = read(location, schema, "avro", name_mapping=NameMapping.of_schema(schema))
    assert got.to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(MalformedData, match="no field ids"):
        read(location, schema, "avro")


def test_a_file_that_is_not_avro_is_malformed_data() -> None:
    memory().write("memory://samples/data/not.avro", b"PAR1")
    with pytest.raises(MalformedData, match=r"not\.avro"):
        list(read_data_file(memory(), "memory://samples/data/not.avro", "avro", EVERYTHING))


def test_rows_keep_their_metadata_columns() -> None:
    written = write("again", batch_of(EVERYTHING, ROWS), EVERYTHING, "avro")
    assert b"iceberg.schema" in {key.encode() for key in read_container(memory().read(written.location)).metadata}
