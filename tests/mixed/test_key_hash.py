"""Keys hash as in Java: every vector that Amoro's classes gave, alone and among other values."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.errors import Unsupported
from frazil.mixed.key_hash import key_hashes
from frazil.mixed.tree import nodes
from frazil.model.arrow import array_from_canonical
from frazil.model.types import BinaryType, FixedType, IntegerType, ListType, NestedField, StringType, Type, parse_type
from frazil.model.values import from_json
from tests.mixed.goldens import GOLDENS

VECTORS: list[dict[str, Any]] = json.loads((GOLDENS / "key_hashes.json").read_text())["vectors"]


def canonical(type_: Type, value: Any) -> Any:
    if value is None or str(type_) in ("float", "double"):
        return None if value is None else float(str(value).replace("Infinity", "inf"))
    if isinstance(type_, BinaryType | FixedType):
        return bytes.fromhex(value)
    return from_json(type_, value)


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_a_key_has_the_hash_and_the_nodes_that_amoro_gives_it(number: int) -> None:
    vector = VECTORS[number]
    types = [parse_type(text) for text in vector["types"]]
    values = [[canonical(type_, value)] for type_, value in zip(types, vector["key"], strict=True)]
    hashes = key_hashes([array_from_canonical(*pair) for pair in zip(types, values, strict=True)], types)
    assert hashes.tolist() == [vector["hash"]]
    for buckets, node in vector["node_by_buckets"].items():
        assert nodes(hashes, int(buckets)).tolist() == [node]


def kinds() -> list[str]:
    return sorted({json.dumps(vector["types"]) for vector in VECTORS})


@pytest.mark.parametrize("kind", kinds())
def test_many_keys_at_once_hash_as_each_alone(kind: str) -> None:
    """Also in a slice of an array, whose buffers begin elsewhere."""
    types = [parse_type(text) for text in json.loads(kind)]
    vectors = [vector for vector in VECTORS if json.dumps(vector["types"]) == kind]
    columns = []
    for place, type_ in enumerate(types):
        values = [canonical(type_, vector["key"][place]) for vector in vectors]
        columns.append(array_from_canonical(type_, [values[0], None, *values, values[0]]).slice(2, len(values)))
    assert key_hashes(columns, types).tolist() == [vector["hash"] for vector in vectors]


def test_no_keys_have_no_hashes() -> None:
    for type_ in (IntegerType(), StringType(), BinaryType(), FixedType(3), parse_type("decimal(9,2)")):
        assert len(key_hashes([array_from_canonical(type_, [])], [type_])) == 0


def test_texts_hash_as_java_would_one_by_one() -> None:
    texts = ["", "a", "ab", "é", "日本", "😀x", "x" * 1000, "\x00"]

    def java(text: str) -> int:
        units = np.frombuffer(text.encode("utf-16-le"), dtype="<u2")
        result = 0
        for unit in units.tolist():
            result = (31 * result + unit) & 0xFFFFFFFF
        whole = (31 + result) & 0xFFFFFFFF
        signed = whole - (1 << 32) if whole >= 1 << 31 else whole
        return min(abs(signed), 2**31 - 1)

    assert key_hashes([pa.array(texts)], [StringType()]).tolist() == [java(text) for text in texts]


def test_lists_are_no_keys() -> None:
    type_ = ListType(NestedField(1, "element", IntegerType()))
    with pytest.raises(Unsupported, match="primary key"):
        key_hashes([pa.array([[1]])], [type_])
