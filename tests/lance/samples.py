"""Columns of every type, and tables made by pylance and read back at the level of files."""

from __future__ import annotations

import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

from frazil.lance.manifest_file import ManifestFile, parse_manifest_file

FILE_VERSIONS = ("2.0", "2.1", "2.2")
_ITEM = pa.field("item", pa.struct({"a": pa.int32()}))

COLUMNS: dict[str, pa.Array] = {
    "b": pa.array([True, None, False]),
    "i8": pa.array([1, None, -3], pa.int8()),
    "i16": pa.array([1, None, -3], pa.int16()),
    "i32": pa.array([1, None, -3], pa.int32()),
    "i64": pa.array([1, None, -3], pa.int64()),
    "u8": pa.array([1, None, 3], pa.uint8()),
    "u16": pa.array([1, None, 3], pa.uint16()),
    "u32": pa.array([1, None, 2**32 - 1], pa.uint32()),
    "u64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "f16": pa.array(np.array([1, 2, 3], np.float16)),
    "f32": pa.array([1, None, 3], pa.float32()),
    "f64": pa.array([1, None, 3], pa.float64()),
    "s": pa.array(["a", None, "ccc"]),
    "ls": pa.array(["a", None, "ccc"], pa.large_string()),
    "bin": pa.array([b"a", None, b""]),
    "lbin": pa.array([b"a", None, b""], pa.large_binary()),
    "fsb": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
    "d128": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(10, 2)),
    "d256": pa.array([decimal.Decimal("1.50")] * 3, pa.decimal256(50, 2)),
    "date": pa.array([1, None, 2], pa.date32()),
    "date64": pa.array([86_400_000, None, 0], pa.date64()),
    "ts_s": pa.array([1, None, 2], pa.timestamp("s")),
    "ts_us": pa.array([1, None, 2], pa.timestamp("us")),
    "ts_tz": pa.array([1, None, 2], pa.timestamp("ns", "Europe/Paris")),
    "t32": pa.array([1, None, 2], pa.time32("s")),
    "t64": pa.array([1, None, 2], pa.time64("ns")),
    "dur": pa.array([1, None, 2], pa.duration("ms")),
    "dict": pa.array(["x", None, "x"]).dictionary_encode(),
    "fsl": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
    "fsl_i8": pa.array([[1, 2]] * 3, pa.list_(pa.int8(), 2)),
    "fsl_fsl": pa.array([[[1, 2], [3, 4]]] * 3, pa.list_(pa.list_(pa.int32(), 2), 2)),
    "list": pa.array([[1], [], None]),
    "large_list": pa.array([[1], [], None], pa.large_list(pa.int32())),
    "list_element": pa.array([[1], [], None], pa.list_(pa.field("element", pa.int64(), nullable=False))),
    "list_struct": pa.array([[{"p": 1, "q": "a"}], [], [{"p": None, "q": "b"}]]),
    "struct": pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": {"z": None}}, {"x": 3, "y": {"z": "c"}}]),
    "null": pa.nulls(3),
    "uuid": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid()),
}
ONLY_2_2: dict[str, pa.Array] = {
    "map": pa.array([[("a", 1)], [], [("b", None)]], pa.map_(pa.string(), pa.int32())),
    "fsl_struct": pa.array([[{"a": 1}], [{"a": None}], [{"a": 3}]], pa.list_(_ITEM, 1)),
}


def every_type(file_version: str) -> pa.Table:
    """A table of all types that files of a version can hold."""
    return pa.table({**COLUMNS, **ONLY_2_2} if file_version == "2.2" else COLUMNS)


def newest_manifest(folder: Path) -> ManifestFile:
    """What the newest V2 manifest of a table says."""
    file = min((folder / "_versions").glob("*.manifest"))
    return parse_manifest_file(file.read_bytes(), str(file))
