"""Row ids are given once and stay, whatever happens to files and manifests."""

from __future__ import annotations

from frazil.iceberg.actions.action import Context
from frazil.iceberg.table import IcebergTable
from tests.incidents.lakes import again, data_files, new_table, rows_of, vector


def row_ids(table: IcebergTable) -> dict[int, int]:
    found = table.scan(columns=["id", "_row_id"]).to_arrow()
    result = dict(zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True))
    assert len(result) == found.num_rows
    assert len(set(result.values())) == found.num_rows, "a row id is used twice"
    assert None not in result.values()
    assert table.metadata.next_row_id > max(result.values(), default=-1)
    return result


def manifest_count(table: IcebergTable) -> int:
    return len(Context(table.metadata, table.store).manifests(table.current_snapshot))


def check_kept(before: dict[int, int], table: IcebergTable) -> dict[int, int]:
    after = row_ids(table)
    assert {key: value for key, value in after.items() if key in before} == {
        key: value for key, value in before.items() if key in after
    }
    return after


def test_row_ids_stay_when_appends_merge_manifests():
    """C4 #17 (iceberg#16263, #16699, #17039): every second append joins the manifests of those before."""
    table = new_table(version=3, commit__manifest__min_count_to_merge="2")
    seen: dict[int, int] = {}
    next_row_id = 0
    for number in range(6):
        table.append(rows_of(10 * number, 10 * number + 1))
        seen = check_kept(seen, again(table))
        assert table.metadata.next_row_id >= next_row_id + 2
        next_row_id = table.metadata.next_row_id
    assert len(seen) == 12
    assert manifest_count(table) < 6
    assert [seen[10 * number] for number in range(6)] == [one.first_row_id for one in reversed(table.history)]


def test_row_ids_stay_over_rewritten_manifests_deletes_and_compactions():
    """C4 #17: appends, manifests rewritten, files deleted, rows rewritten, each in turn and several times."""
    table = new_table(version=3, commit__manifest__min_count_to_merge="3")
    seen: dict[int, int] = {}
    for turn in range(3):
        start = 100 * turn
        table.append(rows_of(*range(start, start + 4)))
        seen = check_kept(seen, again(table))
        table.new_fast_append().append_files([]).commit()
        table.rewrite_manifests().commit()
        seen = check_kept(seen, again(table))
        table.delete(f"id = {start + 1}")  # rewrites a file: what stays keeps its ids
        seen = check_kept(seen, again(table))
        file = max(data_files(table), key=lambda one: one.data_sequence_number)
        table.new_row_delta().add_deletes(vector(table, file, [0])).commit()
        seen = check_kept(seen, again(table))
        table.rewrite_manifests().commit()
        seen = check_kept(seen, again(table))
    assert len(seen) == 6
    for snapshot in table.history:
        old = table.scan(columns=["id", "_row_id"], version=snapshot.snapshot_id).to_arrow().to_pylist()
        for row in old:
            assert seen.get(row["id"], row["_row_id"]) == row["_row_id"]


def test_rows_of_an_upgraded_table_get_ids_once():
    """C4 #17: files from before the upgrade get their ids with the first commit after it, and keep them."""
    table = new_table(version=2)
    table.append(rows_of(1, 2))
    table.append(rows_of(3))
    table.upgrade_format_version().to(3).commit()
    assert table.scan(columns=["_row_id"]).to_arrow()["_row_id"].to_pylist() == [None] * 3
    table.append(rows_of(4))
    seen = row_ids(again(table))
    table.rewrite_manifests().commit()
    seen = check_kept(seen, again(table))
    table.append(rows_of(5))
    assert len(check_kept(seen, again(table))) == 5
