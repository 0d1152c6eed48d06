"""The metadata tables of golden tables say what Java's metadata and manifests say."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from frazil.iceberg.data_file import Content, Status
from frazil.iceberg.metadata_tables import METADATA_TABLES, metadata_table_schema
from frazil.iceberg.partition_types import partition_type
from frazil.iceberg.table import IcebergTable
from frazil.io import location as locations
from frazil.model.arrow import schema_to_arrow
from frazil.model.types import (
    BinaryType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    StructType,
    Type,
)
from frazil.model.values import from_json
from tests.golden_tables import WRITTEN_AT
from tests.golden_values import encode
from tests.iceberg.test_goldens import TABLES, file_numbers, golden

PARTITIONED = [case for case in TABLES if any(spec.fields for spec in golden(case)[0].metadata.partition_specs)]
CONTENT = {"data": 0, "position_deletes": 1, "equality_deletes": 2}
COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")


@cache
def rows_of(table: IcebergTable, name: str) -> list[dict[str, Any]]:
    """The rows of a metadata table, in the encoding of the goldens."""
    found, schema = table.inspect(name), metadata_table_schema(table.metadata, name)
    columns = [[encode(field.type, value) for value in found[field.name]] for field in schema.fields]
    return [dict(zip(schema.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def instant(milliseconds: int) -> str:
    moment = pa.scalar(milliseconds * 1000, pa.timestamp("us", "UTC")).as_py()
    return moment.isoformat(timespec="microseconds")


def bag(rows: list[Any]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("case", TABLES)
def test_every_table_has_its_schema_and_no_nulls_where_there_may_be_none(case: str) -> None:
    table, _ = golden(case)
    for name in METADATA_TABLES:
        found = table.inspect(name)
        found.validate(full=True)
        assert found.schema.equals(schema_to_arrow(metadata_table_schema(table.metadata, name)), check_metadata=True)
        assert [field.name for field in found.schema if not field.nullable and found[field.name].null_count] == []


@pytest.mark.parametrize("case", TABLES)
def test_snapshots_are_those_java_has(case: str) -> None:
    table, told = golden(case)
    keys = ("committed_at", "snapshot_id", "parent_id", "operation")
    found = [tuple(row[key] for key in keys) for row in rows_of(table, "snapshots")]
    assert found == [
        (instant(one["timestamp_ms"]), one["snapshot_id"], one["parent_id"], one["operation"])
        for one in told["snapshots"]
    ]


@pytest.mark.parametrize("case", TABLES)
def test_history_is_javas_log(case: str) -> None:
    table, told = golden(case)
    parents = {one["snapshot_id"]: one["parent_id"] for one in told["snapshots"]}
    ancestors, number = set(), told.get("current_snapshot_id")
    while number in parents:
        ancestors.add(number)
        number = parents[number]
    assert rows_of(table, "history") == [
        {
            "made_current_at": instant(entry["timestamp_ms"]),
            "snapshot_id": entry["snapshot_id"],
            "parent_id": parents.get(entry["snapshot_id"]),
            "is_current_ancestor": entry["snapshot_id"] in ancestors,
        }
        for entry in told["history"]
    ]


@pytest.mark.parametrize("case", TABLES)
def test_refs_are_those_java_has(case: str) -> None:
    table, told = golden(case)
    wanted = {
        name: {
            "name": name,
            "type": ref["type"].upper(),
            "snapshot_id": ref["snapshot_id"],
            "max_reference_age_in_ms": ref["max_ref_age_ms"],
            "min_snapshots_to_keep": ref["min_snapshots_to_keep"],
            "max_snapshot_age_in_ms": ref["max_snapshot_age_ms"],
        }
        for name, ref in told["refs"].items()
    }
    assert {row["name"]: row for row in rows_of(table, "refs")} == wanted


@pytest.mark.parametrize("case", TABLES)
def test_manifests_are_those_of_javas_list(case: str) -> None:
    table, told = golden(case)
    names = ("path", "length", "partition_spec_id", "added_snapshot_id")
    changes = ("added", "existing", "deleted")
    found = []
    for row in rows_of(table, "manifests"):
        kind, other = ("data", "delete") if row["content"] == 0 else ("delete", "data")
        assert [row[f"{change}_{other}_files_count"] for change in changes] == [0, 0, 0]
        counts = [row[f"{change}_{kind}_files_count"] for change in changes]
        parts = [
            (part["contains_null"], part["contains_nan"], part["lower_bound"], part["upper_bound"])
            for part in row["partition_summaries"]
        ]
        row = {**row, "path": locations.relative_to(row["path"], WRITTEN_AT)}
        found.append(([row[name] for name in names], counts, parts))
    wanted = []
    for one in told["manifests"]:
        counts = [one[f"{change}_files_count"] for change in changes]
        fields = table.metadata.spec(one["partition_spec_id"]).fields
        types = [
            field.type for field in partition_type(table.metadata, table.metadata.spec(one["partition_spec_id"])).fields
        ]
        parts = []
        for part, field, type_ in zip(one["partitions"], fields, types, strict=True):
            texts = [
                None if part[side] is None else field.transform.to_human_string(type_, from_golden(type_, part[side]))
                for side in ("lower", "upper")
            ]
            parts.append((part["contains_null"], part["contains_nan"], *texts))
        wanted.append(([one[name] for name in names], counts, parts))
    assert found == wanted


def from_golden(type_: Type, value: Any) -> Any:
    """A canonical value from the goldens' encoding."""
    if isinstance(type_, BinaryType | FixedType):
        return bytes.fromhex(value)
    return float(value) if isinstance(type_, FloatType | DoubleType) else from_json(type_, value)


@pytest.mark.parametrize("case", TABLES)
def test_entries_are_those_java_reads(case: str) -> None:
    table, told = golden(case)
    found = []
    for row in rows_of(table, "entries"):
        file = row["data_file"]
        counts = {name: {str(key): value for key, value in file[name] or ()} for name in COUNTS}
        found.append(
            {
                "status": Status(row["status"]).name.lower(),
                "file": file_numbers(told, [file["file_path"]])[0],
                **{key: row[key] for key in ("snapshot_id", "file_sequence_number")},
                "data_sequence_number": row["sequence_number"],
                **{key: file[key] for key in ("spec_id", "content", "record_count", "file_size_in_bytes")},
                **{key: file[key] for key in ("sort_order_id", "first_row_id")},
                "file_format": file["file_format"].lower(),
                "has_key_metadata": file["key_metadata"] is not None,
                **counts,
            }
        )
    wanted = [
        {
            key: CONTENT[entry[key]]
            if key == "content"
            else entry.get(key) or ({} if key in COUNTS else entry.get(key))
            for key in found[0]
        }
        for entry in told["entries"]
    ]
    assert bag(found) == bag(wanted)


@pytest.mark.parametrize("case", TABLES)
def test_readable_metrics_are_the_bounds_and_counts_java_decodes(case: str) -> None:
    table, told = golden(case)
    by_file = {(entry["file"], entry["status"]): entry for entry in told["entries"]}
    checked = 0
    for row in rows_of(table, "entries"):
        entry = by_file[file_numbers(told, [row["data_file"]["file_path"]])[0], Status(row["status"]).name.lower()]
        if entry["content"] != "data":
            continue  # vectors share a file
        for name, metrics in row["readable_metrics"].items():
            column = table.schema.find(name)
            number = str(column.id)
            for metric in ("value_count", "null_value_count", "nan_value_count"):
                assert metrics[metric] == (entry[f"{metric}s"] or {}).get(number)
            for side in ("lower_bound", "upper_bound"):
                bound = (entry[f"{side}s"] or {}).get(number)
                assert (metrics[side] is None) == (bound is None)
                assert bound is None or same_bound(metrics[side], bound, column.type)
                checked += bound is not None
    assert checked or not any(entry["lower_bounds"] for entry in told["entries"])


def same_bound(found: Any, told: Any, type_: Any) -> bool:
    if isinstance(type_, GeometryType | GeographyType):
        return found.endswith(told["hex"])
    if isinstance(told, dict):  # decoded with another type than the column has now
        return True
    if isinstance(type_, BinaryType | FixedType):
        return found.lower() == told.lower() or (isinstance(type_, FixedType) and found.startswith(told.lower()))
    # times are told without zeros at their end
    return found == told or from_json(type_, found) == from_json(type_, told)


@pytest.mark.parametrize("case", PARTITIONED)
def test_files_have_the_partition_values_java_has(case: str) -> None:
    table, told = golden(case)
    struct = metadata_table_schema(table.metadata, "files").find("partition").type
    assert isinstance(struct, StructType)
    wanted = {entry["file"]: entry for entry in told["entries"]}
    specs = {
        spec.spec_id: {field.field_id: field.name for field in spec.fields} for spec in table.metadata.partition_specs
    }
    for row in rows_of(table, "data_files"):  # vectors of several partitions share a file
        entry = wanted[file_numbers(told, [row["file_path"]])[0]]
        assert row["spec_id"] == entry["spec_id"]
        for field in struct.fields:
            value = entry["partition"].get(specs[row["spec_id"]].get(field.id))
            found = row["partition"][field.name]
            assert (found is None) == (value is None)
            assert value is None or same_bound(found, value, field.type), field


@pytest.mark.parametrize("case", TABLES)
def test_partitions_add_up_to_the_files(case: str) -> None:
    table, told = golden(case)
    live = [entry for entry in told["entries"] if entry["status"] != "deleted"]
    found = table.inspect("partitions")
    sums = {name: sum(found[name].to_pylist()) for name in found.column_names if name.endswith(("_count", "_bytes"))}
    wanted = dict.fromkeys(sums, 0)
    for entry in live:
        kind = {"data": "", "position_deletes": "position_delete_", "equality_deletes": "equality_delete_"}
        wanted[f"{kind[entry['content']]}record_count"] += entry["record_count"]
        wanted[f"{kind[entry['content']]}file_count"] += 1
        if entry["content"] == "data":
            wanted["total_data_file_size_in_bytes"] += entry["file_size_in_bytes"]
    assert sums == wanted
    if len(table.metadata.partition_specs) == 1:
        assert found.num_rows == len({json.dumps(entry["partition"]) for entry in live})


@pytest.mark.parametrize("case", TABLES)
def test_position_deletes_are_as_many_as_the_delete_files_say(case: str) -> None:
    table, told = golden(case)
    found = table.inspect("position_deletes")
    live = [one for one in told["entries"] if one["status"] != "deleted" and one["content"] == "position_deletes"]
    assert found.num_rows == sum(one["record_count"] for one in live)


@pytest.mark.parametrize(
    "case", ["dv_history", "dv_orc", "pos_deletes_file", "pos_deletes_partition", "dv_many_positions"]
)
def test_position_deletes_are_what_the_rows_of_the_data_files_lack(case: str) -> None:
    table, _ = golden(case)
    files = table.inspect("data_files")
    counts = dict(zip(files["file_path"].to_pylist(), files["record_count"].to_pylist(), strict=True))
    kept = table.scan(columns=["_file", "_pos"]).to_arrow()
    alive = set(zip(kept["_file"].to_pylist(), kept["_pos"].to_pylist(), strict=True))
    deletes = table.inspect("position_deletes")
    deleted = set(zip(deletes["file_path"].to_pylist(), deletes["pos"].to_pylist(), strict=True))
    everything = {(path, position) for path, rows in counts.items() for position in range(rows)}
    assert everything - alive == deleted & everything


@pytest.mark.parametrize("case", ["refs_wap", "v1_to_v3", "partition_evolution_v3", "expired_snapshots", "empty_v3"])
def test_the_tables_of_all_snapshots_are_those_of_each_together(case: str) -> None:
    table, _ = golden(case)
    for kind in ("files", "data_files", "delete_files"):
        every: set[str] = set()
        for snapshot in table.snapshots:
            every.update(table.inspect(kind, version=snapshot.snapshot_id)["file_path"].to_pylist())
        assert set(table.inspect(f"all_{kind}")["file_path"].to_pylist()) == every
    entries = table.inspect("all_entries").to_pylist()
    live = [row["data_file"]["file_path"] for row in entries if row["status"] != Status.DELETED]
    assert sorted(live) == sorted(table.inspect("all_files")["file_path"].to_pylist())
    found = table.inspect("all_manifests")
    for snapshot in table.snapshots:
        mine = found.filter(pc.equal(found["reference_snapshot_id"], snapshot.snapshot_id))
        alone = table.inspect("manifests", version=snapshot.snapshot_id)
        assert mine.select(alone.column_names).to_pylist() == alone.to_pylist()


def test_the_kinds_of_content_are_numbered_as_in_manifests() -> None:
    assert {kind.name.lower(): int(kind) for kind in Content} == CONTENT
