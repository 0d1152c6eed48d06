"""Changes that an engine worked out, committed by address; and what metadata tables tell."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, CommitFailed, InvalidArgument
from frazil.io.store import Stores
from frazil.lance.operations.column_values import add_column_files
from frazil.lance.operations.row_changes import commit_row_changes, with_lineage
from frazil.lance.plan import schema_bytes
from frazil.lance.proto.messages import Manifest
from frazil.lance.schema import fields_of
from frazil.lance.write import FileTarget, write_column_files, write_fragments
from tests.lance.test_table import METADATA, check, made, numbers, opened


def rows_by_fragment(addresses):
    """Row addresses (`_rowaddr`) as ascending offsets, by fragment."""
    ordered = np.unique(addresses)
    fragments = (ordered >> np.uint64(32)).astype(np.int64)
    offsets = (ordered & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return {int(number): offsets[fragments == number] for number in np.unique(fragments)}


@pytest.mark.parametrize("stable", [False, True])
def test_a_merge_from_elsewhere(tmp_path: Path, stable: bool) -> None:
    table = made(tmp_path, numbers(10), stable_row_ids=stable)
    table.append(numbers(10, 10))
    at, history = table.current_snapshot, table._history()
    matched = table.scan("a IN (3, 12)", ["a", "_rowaddr", "_rowid", "_row_created_at_version"]).to_arrow()
    gone = table.scan("a = 5", ["_rowaddr"]).to_arrow()
    addresses = np.concatenate([matched["_rowaddr"].to_numpy(), gone["_rowaddr"].to_numpy()])
    target = FileTarget.of(at)
    new = pa.table({"a": matched["a"], "b": ["merged"] * 2})
    updated = write_fragments(Stores(), target, new.to_batches())
    inserted = write_fragments(Stores(), target, numbers(3, 100).to_batches())
    if stable:
        with pytest.raises(InvalidArgument):
            commit_row_changes(history, at, rows_by_fragment(addresses), updated=updated)
        with_lineage(updated[0], matched["_rowid"].to_numpy(), matched["_row_created_at_version"].to_numpy())
    late = table._history(), table.current_snapshot, rows_by_fragment(addresses[:1])
    done = commit_row_changes(
        history, at, rows_by_fragment(addresses), updated=updated, inserted=inserted, columns=["b"]
    )
    assert (done.rows_updated, done.rows_deleted, done.rows_inserted) == (2, 1, 3)
    found = {row["a"]: row for row in check(tmp_path, ["a", "b", *METADATA]).to_pylist()}
    assert sorted(found) == sorted([*(n for n in range(20) if n != 5), 100, 101, 102])
    assert found[12]["b"] == "merged"
    if stable:
        assert (found[12]["_rowid"], found[12]["_row_created_at_version"]) == (12, 2)
        assert (found[12]["_row_last_updated_at_version"], found[100]["_rowid"]) == (3, 20)
    with pytest.raises(CommitFailed):
        commit_row_changes(*late)
    assert commit_row_changes(history, at, {}).snapshot is None


def test_columns_from_elsewhere(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10))
    table.append(numbers(10, 10))
    at = table.current_snapshot
    fields = fields_of(pa.schema({"c": pa.int64()}), 2)
    target = FileTarget(at.folder, schema_bytes(Manifest(fields=fields)), at.file_version)
    files = {}
    for number in (0, 1):
        values = pa.record_batch({"c": pa.array(range(number * 10, number * 10 + 10))})
        file, _ = write_column_files(Stores(), target, [values])
        assert file is not None
        files[number] = file
    add_column_files(table._history(), at, fields, files)
    found = check(tmp_path)
    assert found["c"].to_pylist() == found["a"].to_pylist()
    opened(tmp_path).append(found.slice(0, 1))
    with pytest.raises(CommitConflict):  # a row more since then
        add_column_files(
            table._history(), opened(tmp_path).at(version=3), fields_of(pa.schema({"d": pa.int64()}), 3), {}
        )


def test_metadata_tables(tmp_path: Path) -> None:
    table = made(tmp_path, numbers(10), properties={"p": "q"})
    table.delete("a = 1")
    table.create_tag("t", 1)
    table.create_branch("b")
    lance.dataset(tmp_path).create_scalar_index("a", "BTREE")
    table.refresh()
    snapshots = table.inspect("snapshots").to_pylist()
    assert [(row["version"], row["operation"]) for row in snapshots] == [(1, "overwrite"), (2, "delete"), (3, "index")]
    theirs = lance.dataset(tmp_path).versions()
    assert [dict(row["summary"])["total-records"] for row in snapshots] == [
        row["metadata"]["total_rows"] for row in theirs
    ]
    (fragment,) = table.inspect("fragments").to_pylist()
    assert (fragment["record_count"], fragment["physical_rows"], fragment["deleted_rows"]) == (9, 10, 1)
    assert table.inspect("fragments", version=1).to_pylist()[0]["record_count"] == 10
    (file,) = table.inspect("files").to_pylist()
    assert Path(file["file_path"]).stat().st_size == file["file_size_in_bytes"]
    refs = {row["name"]: (row["type"], row["version"]) for row in table.inspect("refs").to_pylist()}
    assert refs == {"t": ("TAG", 1), "b": ("BRANCH", 2)}
    (index,) = table.inspect("indices").to_pylist()
    assert (index["name"], index["columns"], index["type"], index["fragments"]) == ("a_idx", ["a"], "BTree", [0])
    assert table.inspect("properties").to_pylist() == [{"key": "p", "value": "q"}]
    with pytest.raises(InvalidArgument, match="snapshots"):
        table.inspect("nothing")
