"""Maps of which only some keys are wanted: the metrics of the few columns that a filter looks at."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import MalformedMetadata
from frazil.io import avro


def pairs(name: str, value: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
    items = {"type": "record", "name": f"{name}_entry", "fields": fields}
    return {"name": name, "type": ["null", {"type": "array", "items": items, "logicalType": "map"}]}


SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "long"}, pairs("counts", "long"), pairs("bounds", "bytes")],
}
COUNTS, BOUNDS = pa.map_(pa.int32(), pa.int64()), pa.map_(pa.int32(), pa.binary())


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.dictionaries(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 9), values).map(
        lambda found: list(found.items())
    )


ROWS = st.lists(st.tuples(maps(st.integers(-(2**63), 2**63 - 1)), maps(st.binary(max_size=200))), max_size=200)


def encoded(rows: list[tuple[Any, Any]]) -> bytes:
    counts, bounds = [row[0] for row in rows], [row[1] for row in rows]
    columns = {"id": pa.array(range(len(rows))), "counts": pa.array(counts, COUNTS), "bounds": pa.array(bounds, BOUNDS)}
    return avro.encode(pa.table(columns), SCHEMA, block_bytes=1000)


@given(ROWS, st.frozensets(st.integers(0, 9) | st.just(2**31 - 1), max_size=5))
def test_only_the_wanted_keys_are_given_and_everything_else_is_as_it_was(
    rows: list[tuple[Any, Any]], keys: frozenset[int]
) -> None:
    table = avro.decode(avro.read_container(encoded(rows)), keys=keys)
    table.validate(full=True)
    assert table["id"].to_pylist() == list(range(len(rows)))
    for place, name in enumerate(("counts", "bounds")):
        kept = [None if row[place] is None else [pair for pair in row[place] if pair[0] in keys] for row in rows]
        assert table[name].to_pylist() == kept


def test_an_instance_of_the_sandbox_forgets_the_keys_of_the_call_before() -> None:
    container = avro.read_container(encoded([([(1, 10), (2, 20)], [(1, b"a")])]))
    assert avro.decode(container, keys=[2])["counts"].to_pylist() == [[(2, 20)]]
    assert avro.decode(container)["counts"].to_pylist() == [[(1, 10), (2, 20)]]
    assert avro.decode(container, keys=[])["bounds"].to_pylist() == [[]]


def test_damage_in_an_unwanted_entry_is_still_found() -> None:
    data = bytearray(avro.encode(pa.table({"bounds": pa.array([[(1, b"abcd")]], BOUNDS)}), {
        "type": "record", "name": "r", "fields": [pairs("bounds", "bytes")]
    }, codec="null"))  # fmt: skip
    data[data.index(b"abcd") - 1] = 126  # a length of 63 bytes
    with pytest.raises(MalformedMetadata, match="bounds"):
        avro.decode(avro.read_container(bytes(data)), keys=[2])
