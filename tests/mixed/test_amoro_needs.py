"""What we write has what Amoro needs: names, columns with ids, summaries, Puffin files and properties, and a pair of
stores of the same history has the same shape as one that Amoro wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from frazil.iceberg.actions.action import Context
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.manifest_list import DATA
from frazil.iceberg.table import IcebergTable
from frazil.io.puffin import read_blob, read_metadata
from frazil.mixed.file_names import FileType, parse_base, parse_change
from frazil.mixed.key_hash import key_hashes
from frazil.mixed.table import MixedTable
from frazil.mixed.tree import node_id, node_of
from tests.mixed.goldens import GOLDENS, expected, golden
from tests.mixed.tables import new_table

NAME = re.compile(r"(\d+)-(B|I|ED|PD)-(\d+)-(\d{5})-(\d+)-(\d{1,19})-(\d{5})\.parquet")
PROPERTIES = {
    "table-format": "MIXED_ICEBERG",
    "mixed-format.primary-key-fields": "k",
    "write.metadata.delete-after-commit.enabled": "true",
    "flink.max-continuous-empty-commits": "2147483647",
    "write.parquet.compression-codec": "zstd",
}
SCHEMA = "k INT NOT NULL, name STRING, qty INT, region STRING"


def history(layout: str = "sibling") -> MixedTable:
    """What happened to the golden table `k_overwrite`: base rows, changes, both kinds of overwrite, changes again."""
    table = new_table(
        SCHEMA,
        partition_by=("region",),
        primary_key=("k",),
        layout=layout,
        properties={"base.file-index.hash-bucket": "2", "change.file-index.hash-bucket": "2"},
    )

    def rows(*keys: int, name: str = "a") -> list[dict[str, Any]]:
        return [{"k": key, "name": name, "qty": key, "region": ("eu", "us", "ap")[key % 3]} for key in keys]

    table.append(rows(*range(12)))
    table.ingest([{"op": op, **row} for row in rows(1, 2, 3) for op in ("update_before", "update_after")])
    table.delete("k = 5")
    table.overwrite_partitions(rows(1, 13, name="b"))
    table.overwrite(rows(2, name="c"), "region = 'ap'")
    table.ingest([{"op": "insert", **row} for row in rows(20, 21, 22)])
    return table


def optimized_history(layout: str = "sibling") -> Iterator[MixedTable]:
    """The same, and what comes after: the table after a minor optimizing, after one that keeps files and writes which
    of their rows are deleted, after another such one, and after a full one.
    """
    table = history(layout)
    table.update_properties().set("self-optimizing.target-size", 1000).commit()  # so that no base file is small
    more = [{"k": key, "name": "m", "qty": key, "region": "eu"} for key in range(100, 200)]
    table.append(more)
    table.optimize("minor", upkeep=False)
    yield table
    for gone in (110, 120):
        table.delete(f"k = {gone} OR k = {gone + 1}")
        table.upsert([{"k": gone + 5, "name": "u", "qty": 0, "region": "us"}])
        table.optimize("minor", upkeep=False)
        yield table
    table.optimize("full", upkeep=False)
    yield table


def entries(table: IcebergTable, *, deletes: bool = False) -> list[Any]:
    """Every file that any manifest of the current snapshot tells of, with all its metrics."""
    context = Context(table.metadata, table.store)
    found = []
    for manifest in context.manifests(table.current_snapshot):
        if (manifest.content == DATA) is not deletes:
            found += context.reader.read_one(manifest, ALL_COLUMNS).files()
    return found


def stores(table: MixedTable) -> tuple[IcebergTable, IcebergTable]:
    assert table.change_store is not None
    return table.base_store, table.change_store


@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_files_are_named_placed_and_filled_as_amoro_wants(layout: str) -> None:
    check_data_files(history(layout))


def check_data_files(table: MixedTable) -> None:
    for store in stores(table):
        is_change = store is table.change_store
        files = entries(store)
        assert files
        for file in files:
            name = file.file_path.rpartition("/")[2]
            matched = NAME.fullmatch(name)
            assert matched is not None, name
            node, kind, transaction, _, _, operation, count = matched.groups()
            assert kind in (("I", "ED") if is_change else ("B",))
            assert 1 <= int(transaction) <= (file.data_sequence_number if is_change else 10**6)
            assert int(operation) < 2**63
            assert int(count) >= 1
            assert file.file_path == f"{store.location}/data/region={file.partition[0]}/{name}"
            assert (file.spec_id, file.sort_order_id, file.content) == (0, 0, 0)
            footer = pq.ParquetFile(store.store.open_input(file.file_path))
            stored = {column.name: column for column in footer.schema_arrow}
            ids = {key: int(one.metadata[b"PARQUET:field_id"]) for key, one in stored.items()}
            wanted = {"k": 1, "name": 2, "qty": 3, "region": 4} | ({"_file_offset": 2147482645} if is_change else {})
            assert ids == wanted
            assert {footer.metadata.row_group(0).column(n).compression for n in range(len(ids))} == {"ZSTD"}
            assert set(file.value_counts or ()) == set(wanted.values())
            rows = footer.read()
            mask, index = node_of(int(node))
            hashes = key_hashes([rows.column("k").combine_chunks()], [store.schema.find("k").type])
            assert set((hashes & mask).tolist()) == {index}
            assert int(node) == node_id(1, index)
            if is_change:
                assert rows.column("_file_offset").null_count == 0


@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_files_of_optimizing_are_named_placed_and_filled_as_amoro_wants(layout: str) -> None:
    deletes = []
    for table in optimized_history(layout):
        check_data_files(table)
        deletes.append(check_position_deletes(table))
    assert deletes[1] > 0
    assert deletes[2] > 0
    assert (deletes[0], deletes[3]) == (0, 0)


def check_position_deletes(table: MixedTable) -> int:
    """How many files of deleted positions the base store has. They, and those that it had, are as they should be."""
    base, change = stores(table)
    data = {file.file_path: file for file in entries(base)}
    assert entries(change, deletes=True) == []
    for file in entries(base, deletes=True):
        matched = NAME.fullmatch(file.file_path.rpartition("/")[2])
        assert matched is not None, file.file_path
        node, kind, transaction, partition_id, task_id, operation, count = matched.groups()
        assert (kind, partition_id, task_id, count) == ("PD", "00000", "0", "00001")
        assert int(operation) < 2**63
        assert file.file_path.rpartition("/")[0] == f"{base.location}/data/region={file.partition[0]}"
        assert (file.content, file.spec_id, file.equality_ids) == (1, 0, None)
        rows = pq.ParquetFile(base.store.open_input(file.file_path)).read()
        ids = {column.name: int(column.metadata[b"PARQUET:field_id"]) for column in rows.schema}
        assert ids == {"file_path": 2147483546, "pos": 2147483545}
        places = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        assert places == sorted(set(places))
        assert len(places) == file.record_count
        for path, position in places:
            told = parse_base(path)
            assert (told.node, told.type) == (int(node), FileType.BASE)
            assert data[path].partition == file.partition
            assert 0 <= position < data[path].record_count
        assert int(transaction) == max(parse_base(path).transaction_id for path, _ in places)
        # metrics of the whole path, by which readers know the data file
        [path] = {path for path, _ in places}
        assert file.lower_bounds[2147483546] == file.upper_bounds[2147483546] == path.encode()
    return len({delete.file_path for task in base.scan().plan().tasks() for delete in task.deletes})


@pytest.mark.parametrize("layout", ["nested", "sibling"])
def test_properties_are_those_that_make_a_mixed_table(layout: str) -> None:
    table = history(layout)
    base, change = stores(table)
    for store, kind in ((base, "base"), (change, "change")):
        told = store.properties
        assert {key: told.get(key) for key in PROPERTIES} == PROPERTIES
        assert told["mixed-format.table-store"] == kind
        assert int(told["table.create-timestamp"]) > 0
        assert int(told["watermark.table"]) > 0
        assert "format-version" not in told
        assert store.format_version == 2
        assert store.sort_order.fields == ()
    assert base.properties["mixed-format.change.identifier"] == (
        "db.t_change_" if layout == "sibling" else "db.t@change"
    )
    assert "mixed-format.change.identifier" not in change.properties
    # besides, Amoro's own have only settings of the test
    ours = set(base.properties) - {"watermark.table"}
    theirs = set(expected("k_overwrite")["base_properties"]) - {"watermark.table"}
    assert ours == theirs - {"write.metadata.previous-versions-max"}


def test_summaries_say_what_amoro_looks_for() -> None:
    table = history()
    base, change = stores(table)
    begun = [one for one in change.snapshots if "tx.begin.signature" in one.summary]
    assert [one.operation for one in change.snapshots] == ["append"] * len(change.snapshots)
    assert len(begun) == 6
    for one in begun:
        assert not {"added-data-files", "deleted-data-files", "added-delete-files", "added-records"} & set(one.summary)
        assert one.summary.get("changed-partition-count", "0") == "0"
    dynamic, static = base.snapshots
    assert (dynamic.operation, static.operation) == ("overwrite", "overwrite")
    assert dynamic.summary["optimized-sequence.exist"] == "true"
    assert "base-optimized-time.exist" not in dynamic.summary
    assert {key: static.summary[key] for key in ("optimized-sequence.exist", "base-optimized-time.exist")} == {
        "optimized-sequence.exist": "true",
        "base-optimized-time.exist": "true",
    }
    assert static.summary["txId"] == str(begun[4].sequence_number)


def test_the_optimized_sequence_lies_where_and_as_amoro_reads_it() -> None:
    table = history()
    base, _ = stores(table)
    told = {file.snapshot_id: file for file in base.metadata.statistics}
    assert set(told) == {one.snapshot_id for one in base.snapshots}
    kinds = []
    for snapshot in base.snapshots:
        file = told[snapshot.snapshot_id]
        place = rf"{re.escape(base.location)}/data/puffin/{snapshot.snapshot_id}-[0-9a-f-]{{36}}\.puffin"
        assert re.fullmatch(place, file.statistics_path)
        data = base.store.read(file.statistics_path)
        assert len(data) == file.file_size_in_bytes
        footer = read_metadata(base.store, file.statistics_path)
        assert [blob.type for blob in footer.blobs] == [blob.type for blob in file.blob_metadata]
        for blob in footer.blobs:
            assert (blob.compression_codec, blob.fields) == (None, ())
            assert (blob.snapshot_id, blob.sequence_number) == (snapshot.snapshot_id, snapshot.sequence_number)
        kinds.append(
            {blob.type: json.loads(read_blob(base.store, file.statistics_path, blob)) for blob in footer.blobs}
        )
    assert kinds[0] == {"optimized-sequence": {"region=us": 7}}
    assert kinds[1]["optimized-sequence"] == {"region=us": 7, "region=ap": 9}
    assert set(kinds[1]["base-optimized-time"]) == {"region=ap"}


def test_summaries_and_puffin_files_of_optimizing_are_as_amoro_reads_them() -> None:
    before = 0
    for table in optimized_history():
        base, change = stores(table)
        told = {file.snapshot_id: file for file in base.metadata.statistics}
        flags = ("optimized-sequence.exist", "base-optimized-time.exist")
        new = [one for one in base.snapshots if one.summary.get("snapshot.producer") == "OPTIMIZE"][before:]
        assert new
        before += len(new)
        for one in new:
            assert one.operation in ("append", "overwrite", "delete", "replace")
            if flags[0] not in one.summary:
                assert one.snapshot_id not in told
                continue
            assert [one.summary[key] for key in flags] == ["true", "true"]
            file = told[one.snapshot_id]
            assert file.statistics_path.startswith(f"{base.location}/data/puffin/{one.snapshot_id}-")
            blobs = read_metadata(base.store, file.statistics_path).blobs
            assert [blob.type for blob in blobs] == ["optimized-sequence", "base-optimized-time"]
            assert [blob.type for blob in file.blob_metadata] == [blob.type for blob in blobs]
            sequence, time = (json.loads(read_blob(base.store, file.statistics_path, blob)) for blob in blobs)
            assert set(sequence) <= {"region=eu", "region=us", "region=ap"}
            assert set(time) <= set(sequence)
            assert all(0 < number <= change.metadata.last_sequence_number for number in sequence.values())
            assert all(0 < number <= one.timestamp_ms for number in time.values())
        assert table.optimized.sequence == sequence
        moved = change.metadata.last_sequence_number
        assert sequence["region=eu"] == max(sequence.values()) <= moved


def shape(table: MixedTable) -> dict[str, Any]:
    """What two pairs of stores of the same history have in common."""
    base, change = stores(table)
    files = []
    for store in (base, change):
        for file in entries(store):
            place = parse_base(file.file_path) if store is base else parse_change(file.file_path, 0)
            columns = sorted(file.value_counts or ())
            files.append((store is base, place.type, node_of(place.node)[0], columns, sorted(file.lower_bounds or ())))
    flags = ("optimized-sequence.exist", "base-optimized-time.exist")
    return {
        "kinds of files": {(where, kind, mask) for where, kind, mask, _, _ in files},
        "columns": {(where, tuple(columns)) for where, _, _, columns, _ in files},
        "base": [
            (one.operation, *(one.summary.get(key) for key in flags))
            for one in base.snapshots
            if flags[0] in one.summary
        ],
        "change": {(one.operation, "tx.begin.signature" in one.summary) for one in change.snapshots},
        "blobs": [[blob.type for blob in file.blob_metadata] for file in sorted_statistics(base)],
        "partitions": set(table.optimized.sequence),
        "times": set(table.optimized.time),
        "schemas": [one.to_json()["fields"] for one in (base.schema, change.schema)],
        "specs": [one.spec.to_json()["fields"] for one in (base, change)],
    }


def sorted_statistics(table: IcebergTable) -> list[Any]:
    order = {one.snapshot_id: one.sequence_number for one in table.snapshots}
    return sorted(table.metadata.statistics, key=lambda file: order[file.snapshot_id])


def test_a_pair_of_stores_has_the_shape_of_amoros_of_the_same_history() -> None:
    assert (GOLDENS / "k_overwrite").is_dir()
    ours, theirs = shape(history()), shape(golden("k_overwrite"))
    for key, value in theirs.items():
        assert ours[key] == value, key
    assert FileType.EQ_DELETE in {kind for _, kind, _ in ours["kinds of files"]}
