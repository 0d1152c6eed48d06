"""Writes to keyed tables: what is read after them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, InvalidArgument, InvalidValue, Unsupported
from frazil.mixed.file_names import FileType
from frazil.mixed.keys import columns_of_changes
from frazil.mixed.transactions import (
    BATCH,
    SIGNATURE,
    TRANSACTION,
    ReadPoint,
    told_by_changes,
)
from frazil.model.binding import bind
from frazil.model.expression_parser import parse_expression
from tests.mixed.tables import ids_of, new_table, row, rows_of

BY_REGION = {"partition_by": ("region",)}
BY_KEY = {"partition_by": ("bucket(2, id)",)}
PARTITIONINGS = [{}, BY_KEY, BY_REGION]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_rows_that_are_appended_are_there(how: Any) -> None:
    table = new_table(**how)
    assert rows_of(table) == []
    done = table.append([row(1), row(2, region="us")])
    assert (done.rows_inserted, done.rows_deleted) == (2, 0)
    table.append(pa.table({"id": [3], "name": [None], "region": ["ap"]}))
    assert rows_of(table) == [row(1), row(2, region="us"), row(3, None, "ap")]


def test_an_append_of_a_key_that_is_there_gives_two_rows() -> None:
    """As in Amoro: only deletes make keys unique."""
    table = new_table()
    table.append([row(1), row(1, "b")])
    table.append([row(1, "c")])
    assert ids_of(table) == [1, 1, 1]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_an_upsert_replaces_rows_by_key_wherever_they_are(how: Any) -> None:
    table = new_table(**how)
    table.append([row(n) for n in range(6)])
    done = table.upsert([row(1, "new", "us"), row(9, "new", "us")])
    assert rows_of(table) == [row(0), row(1, "new", "us"), *map(row, range(2, 6)), row(9, "new", "us")]
    assert done.rows_inserted == 2
    table.upsert([row(1, "newer", "eu")])
    assert [one for one in rows_of(table) if one["id"] == 1] == [row(1, "newer", "eu")]


def test_a_table_that_upserts_does_so_when_rows_are_appended() -> None:
    table = new_table(properties={"write.upsert.enabled": "true"})
    table.append([row(1), row(2)])
    table.append([row(2, "b")])
    assert rows_of(table) == [row(1), row(2, "b")]


def test_an_upsert_of_one_key_twice_is_refused() -> None:
    table = new_table()
    with pytest.raises(InvalidValue, match="several rows have the key id = 1"):
        table.upsert([row(1), row(1, "b")])
    assert table.change_store is not None
    assert table.change_store.snapshots == ()


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_rows_are_deleted_by_filter_and_by_key(how: Any) -> None:
    table = new_table(**how)
    table.append([row(n, str(n % 3), "eu" if n % 2 else "us") for n in range(10)])
    assert table.delete("name = '1' AND region = 'eu'").rows_deleted == 2
    assert ids_of(table) == [0, 2, 3, 4, 5, 6, 8, 9]
    before = table.current_snapshot
    assert table.delete("name = 'x'").snapshot is None
    assert table.current_snapshot == before
    table.delete_keys([{"id": 0}, {"id": 9}, {"id": 77}])
    assert ids_of(table) == [2, 3, 4, 5, 6, 8]


def test_keys_are_deleted_also_where_other_columns_are_required() -> None:
    table = new_table("id BIGINT NOT NULL, name STRING NOT NULL")
    table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    assert table.delete_keys(pa.table({"id": [2]})).rows_deleted == 1
    assert rows_of(table) == [{"id": 1, "name": "a"}]


def test_a_deleted_key_can_come_back() -> None:
    table = new_table()
    for name in "abc":
        table.upsert([row(1, name)])
        assert rows_of(table) == [row(1, name)]
        table.delete("id = 1")
        assert rows_of(table) == []


def changes(*told: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"op": operation, **values} for operation, values in told]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_change_data_is_applied_in_its_order(how: Any) -> None:
    table = new_table(**how)
    done = table.ingest(
        changes(
            ("insert", row(1)),
            ("insert", row(2)),
            ("update_before", row(1)),
            ("update_after", row(1, "b")),
            ("delete", row(2)),
            ("insert", row(2, "again")),
            ("insert", row(3)),
            ("delete", row(3)),
        )
    )
    # where the key does not tell the partition, only the last change of each key is written
    assert (done.rows_inserted, done.rows_deleted) == ((2, 0) if how == BY_REGION else (5, 3))
    assert rows_of(table) == [row(1, "b"), row(2, "again")]
    moved = changes(("-U", row(1, "b")), ("+U", row(1, "c", "us")), ("+I", row(4)), ("-D", row(2, "again")))
    table.ingest(pa.Table.from_pylist(moved))
    assert rows_of(table) == [row(1, "c", "us"), row(4)]


def test_an_update_without_its_old_row_takes_the_place_of_what_has_the_key() -> None:
    table = new_table()
    table.ingest(changes(("update_after", row(1, "a")), ("update_after", row(1, "b")), ("update_after", row(2))))
    assert rows_of(table) == [row(1, "b"), row(2)]
    # an old row of another key is none of it
    table.ingest(changes(("update_before", row(2)), ("update_after", row(1, "c"))))
    assert rows_of(table) == [row(1, "c")]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_an_update_tells_the_row_whole(how: Any) -> None:
    table = new_table(**how)
    table.append([row(1), row(2)])
    table.ingest([{"op": "u", "id": 1, "region": "eu"}])
    assert rows_of(table) == [row(1, None), row(2)]


def test_an_old_row_that_is_not_told_is_found_in_any_partition() -> None:
    table = new_table(**BY_REGION)
    table.append([row(1), row(2), row(3)])
    table.ingest(changes(("update_after", row(1, "b", "us")), ("-U", row(2)), ("+U", row(2, "c", "us"))))
    assert rows_of(table) == [row(1, "b", "us"), row(2, "c", "us"), row(3)]
    # an update of the key: the old row has one, the new row another
    table.ingest(changes(("update_before", row(3)), ("update_after", row(4, "d", "us"))))
    assert rows_of(table) == [row(1, "b", "us"), row(2, "c", "us"), row(4, "d", "us")]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_changes_that_come_twice_make_no_row_twice_in_a_table_that_upserts(how: Any) -> None:
    """An old row that is told may be none any more: it went when the change came first."""
    table = new_table(properties={"write.upsert.enabled": "true"}, **how)
    table.append([row(8), row(9)])
    told = changes(("-U", row(8)), ("+U", row(8, "b", "us")))
    for _ in range(2):
        table.ingest(told)
        assert rows_of(table) == [row(8, "b", "us"), row(9)]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_a_delete_may_tell_the_key_alone(how: Any) -> None:
    table = new_table(**how)
    table.append([row(1), row(2, region="us"), row(3, region=None), row(4)])
    table.ingest([{"op": "d", "id": 1, "name": None, "region": None}, {"op": "d", "id": 3}])
    assert rows_of(table) == [row(2, region="us"), row(4)]
    back = changes(("d", {"id": 2}), ("c", row(2, "back")), ("c", row(5)), ("d", {"id": 5}))
    table.ingest(back, batch_id="x")
    assert rows_of(table) == [row(2, "back"), row(4)]
    table.ingest([{"op": "d", "id": 4}, {"op": "d", "id": 99}])
    table.ingest(back, batch_id="x")
    assert rows_of(table) == [row(2, "back")]


REQUIRED = "id BIGINT NOT NULL, name STRING NOT NULL, region STRING NOT NULL"


@pytest.mark.parametrize("upserts", ["false", "true"])
@pytest.mark.parametrize("how", PARTITIONINGS)
@pytest.mark.parametrize("given", [list, pa.Table.from_pylist])
def test_a_delete_may_tell_the_key_alone_where_other_columns_are_required(
    how: Any, upserts: str, given: Callable[[Any], Any]
) -> None:
    table = new_table(REQUIRED, properties={"write.upsert.enabled": upserts}, **how)
    table.append([row(1), row(2, region="us"), row(3), row(4)])
    assert table.ingest([{"op": "d", "id": 1}]).rows_deleted == 1
    assert rows_of(table) == [row(2, region="us"), row(3), row(4)]
    told = changes(
        ("d", {"id": 2, "name": None, "region": None}),
        ("c", row(2, "back")),
        ("c", row(5)),
        ("-U", row(5)),
        ("+U", row(5, "b", "us")),
        ("u", row(3, "c", "us")),
        ("c", row(6)),
        ("d", {"id": 6}),
        ("d", {"id": 4}),
        ("-U", row(7)),
        ("+U", row(8, "moved")),
    )
    table.ingest(given(told), batch_id="x")
    assert rows_of(table) == [row(2, "back"), row(3, "c", "us"), row(5, "b", "us"), row(8, "moved")]
    table.upsert([row(2, "later"), row(4, "later")])
    table.ingest(given(told), batch_id="x")
    assert rows_of(table) == [
        row(2, "later"),
        row(3, "c", "us"),
        row(4, "later"),
        row(5, "b", "us"),
        row(8, "moved"),
    ]
    gone = table.change.scan("_change_action = 'DELETE'", columns=["name", "region"]).to_arrow()
    assert [column.null_count for column in gone.columns] == [0, 0]
    table.optimize("full", upkeep=False)
    assert ids_of(table) == [2, 3, 4, 5, 8]


def test_what_is_required_inside_a_column_is_not_required_of_deletes() -> None:
    table = new_table(
        "id BIGINT NOT NULL, s STRUCT<a: INT NOT NULL, b: INT>, l ARRAY<STRUCT<c: INT NOT NULL>> NOT NULL"
    )
    one = {"s": {"a": 1, "b": None}, "l": [{"c": 1}]}
    table.append([{"id": number, **one} for number in range(4)])
    schema = pa.schema(
        {
            "op": pa.string(),
            "id": pa.int64(),
            "s": pa.struct({"a": pa.int32(), "b": pa.int32()}),
            "l": pa.list_(pa.struct({"c": pa.int32()})),
        }
    )
    told = [
        {"op": "d", "id": 1, "s": {"a": None, "b": None}, "l": [{"c": 1}]},
        {"op": "d", "id": 2, "s": {"a": 1, "b": None}, "l": [{"c": None}]},
    ]
    table.ingest(pa.Table.from_pylist(told, schema))
    assert rows_of(table) == [{"id": number, **one} for number in (0, 3)]
    for change in told:
        with pytest.raises(InvalidValue, match=r"column '(s\.a|l\.element\.c)' is required"):
            table.ingest(pa.Table.from_pylist([{**change, "op": "u"}, {"op": "d", "id": 3}], schema))
    assert rows_of(table) == [{"id": number, **one} for number in (0, 3)]


@pytest.mark.parametrize("how", PARTITIONINGS)
@pytest.mark.parametrize("operation", ["c", "u", "-U", "+U"])
def test_a_row_but_a_deleted_one_that_lacks_what_is_required_is_refused(how: Any, operation: str) -> None:
    """Also if a later change takes it."""
    table = new_table(REQUIRED, **how)
    table.append([row(1), row(2)])
    before = table.snapshots
    for lacking in ({"id": 1, "region": "eu"}, row(1, None)):
        for others in ([], [("d", {"id": 2})], [("d", {"id": 1})]):
            told = changes((operation, lacking), *others)
            with pytest.raises(InvalidValue, match="column 'name'"):
                table.ingest(told)
            with pytest.raises(InvalidValue, match="column 'name'"):
                table.ingest(pa.Table.from_pylist(told))
    with pytest.raises(InvalidValue, match=r"primary key|column 'id'"):
        table.ingest([{"op": "d", "id": None}])
    assert table.refresh().snapshots == before
    assert rows_of(table) == [row(1), row(2)]


@pytest.mark.parametrize("schema", [REQUIRED, "id BIGINT NOT NULL, name STRING, region STRING"])
@pytest.mark.parametrize("how", PARTITIONINGS)
def test_a_batch_that_found_nothing_to_delete_is_not_applied_later(how: Any, schema: str) -> None:
    table = new_table(schema, **how)
    table.append([row(1)])

    def delete() -> None:
        table.ingest([{"op": "d", "id": 5}], batch_id="gone")
        table.delete_keys([{"id": 6}], batch_id="gone, too")

    delete()
    table.upsert([row(5), row(6)])
    delete()
    assert rows_of(table) == [row(1), row(5), row(6)]


def test_inserts_of_change_data_replace_where_the_table_says_so() -> None:
    table = new_table(properties={"write.upsert.enabled": "true"})
    for name in "ab":
        table.ingest(changes(("insert", row(1, name)), ("insert", row(2, name))))
    assert rows_of(table) == [row(1, "b"), row(2, "b")]


@pytest.mark.parametrize("operation", ["upsert", "", None, "t"])
def test_an_unknown_operation_is_refused(operation: str | None) -> None:
    table = new_table()
    with pytest.raises(InvalidValue, match="operation"):
        table.ingest([{"op": "insert", **row(1)}, {"op": operation, **row(2)}])
    with pytest.raises(InvalidArgument, match="no column 'op'"):
        table.ingest(pa.table({"id": [1]}))
    with pytest.raises(InvalidArgument, match="operations are of type"):
        table.ingest(pa.table({"id": [1], "op": [1]}))
    for word in (1, 1.5, b"insert", ["insert"]):
        with pytest.raises(InvalidValue, match="operation"):
            table.ingest([{"op": "insert", **row(1)}, {"op": word, **row(2)}])
    assert table.change_store is not None
    assert table.change_store.snapshots == ()


def test_a_row_without_a_key_is_refused() -> None:
    table = new_table("id BIGINT, name STRING")
    for write in (table.append, table.upsert, table.overwrite_partitions, table.delete_keys):
        with pytest.raises(InvalidValue, match="primary key"):
            write([{"id": None}])
    with pytest.raises(InvalidValue, match="primary key"):
        table.ingest([{"op": "insert", "id": None}])
    assert rows_of(table) == []


def test_a_batch_is_applied_once() -> None:
    table = new_table()
    for _ in range(3):
        table.ingest(changes(("insert", row(1))), batch_id="q/1")
        table.append([row(2)], batch_id="q/2")
        table.upsert([row(3)], batch_id="q/3")
    assert ids_of(table) == [1, 2, 3]
    assert table.change_store is not None
    told = [one.summary.get(BATCH) for one in table.change_store.snapshots if TRANSACTION in one.summary]
    assert told == ["q/1", "q/2", "q/3"]


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_batch_that_another_process_commits_meanwhile_is_not_applied_twice(key: tuple[str, ...]) -> None:
    table = new_table(primary_key=key)
    store = table.base_store if table.change_store is None else table.change_store
    other = type(table)("other", table.base_store, table.change_store, table.primary_key)

    class Late:
        """Rows that let another writer of the same batch come first."""

        def __init__(self) -> None:
            self.schema = pa.schema({"id": pa.int64()})

        def __iter__(self) -> Any:
            other.append([row(1)], batch_id="b")
            yield pa.RecordBatch.from_pydict({"id": [1]}, schema=self.schema)

    done = table.append(Late(), batch_id="b")
    assert ids_of(table) == [1]
    assert done.rows_inserted == 0
    live = {task.file.file_path for task in store.scan().plan().tasks()}
    files = {file.location for file in table.store.list(f"{store.location}/data")}
    assert {file.rpartition("/")[2] for file in files} == {file.rpartition("/")[2] for file in live}


@pytest.mark.parametrize("times", [1, 100])
def test_what_was_worked_out_from_rows_that_changed_since_is_worked_out_again(times: int) -> None:
    table = new_table(**BY_REGION, properties={"commit.retry.num-retries": "2"})
    table.append([row(1)])
    other = new_view(table)
    scan = type(table).scan
    left = times

    class Racing(type(table)):
        def scan(self, *args: Any, **options: Any) -> Any:
            nonlocal left
            found = scan(self, *args, **options)
            if left:
                left -= 1
                other.append([row(1, "b", "us")])
            return found

    table.__class__ = Racing
    if times == 1:
        table.upsert([row(1, "c", "ap")])
    else:
        with pytest.raises(CommitConflict, match="after its rows were read"):
            table.upsert([row(1, "c", "ap")])
    table.__class__ = Racing.__mro__[1]
    assert rows_of(table.refresh()) == ([row(1, "c", "ap")] if times == 1 else [row(1), *[row(1, "b", "us")] * 3])


def test_what_was_read_before_snapshots_expired_is_refused() -> None:
    """Nobody knows then whether rows changed since."""
    table = new_table(**BY_REGION)
    table.append([row(1)])
    base, change = table.base_store, table._change_store
    point = ReadPoint.of(base.metadata, change.metadata)
    for number in range(3):
        table.append([row(2 + number)])
    point_after = ReadPoint.of(base.metadata, change.metadata)
    change.expire_snapshots().older_than(10**15).retain_last(2).commit()
    with pytest.raises(CommitConflict, match="expired"):
        point.check(base.metadata, change.metadata, change.store)
    point_after.check(base.metadata, change.metadata, change.store)


def test_changes_of_other_keys_and_partitions_are_no_conflict() -> None:
    table = new_table(**BY_REGION)
    table.append([row(1), row(2, region="us")])
    base, change = table.base_store, table._change_store
    start = ReadPoint.of(base.metadata, change.metadata)
    ids = columns_of_changes(change.spec, [1])

    def looked_at(text: str) -> ReadPoint:
        where = bind(table.schema, parse_expression(text))
        return replace(start, where=told_by_changes(where, ids))

    table.upsert([row(2, "b", "us"), row(9, "b", "us")])
    for text in ("region = 'eu'", "id < 2", "id = 1 AND name = 'a'", "region = 'eu' AND name = 'b'"):
        looked_at(text).check(base.metadata, change.metadata, change.store)
    for text in ("region = 'us'", "id < 3", "name = 'z'", "id = 9 AND name = 'z'", "id = 1 OR name = 'z'"):
        with pytest.raises(CommitConflict, match="after its rows were read"):
            looked_at(text).check(base.metadata, change.metadata, change.store)
    table.overwrite_partitions([row(5, "o", "ap")])
    with pytest.raises(CommitConflict, match="after its rows were read"):
        looked_at("id = 1").check(base.metadata, change.metadata, change.store)


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_columns_are_updated(how: Any) -> None:
    table = new_table(**how)
    table.append([row(n, f"{n}") for n in range(5)])
    done = table.update({"name": "name || '!'", "region": "'us'"}, "id >= 3")
    assert (done.rows_inserted, done.rows_deleted) == (2, 2)
    assert rows_of(table) == [row(n, f"{n}") for n in range(3)] + [row(n, f"{n}!", "us") for n in (3, 4)]
    assert table.update({"name": None}).rows_inserted == 5
    assert {one["name"] for one in rows_of(table)} == {None}
    assert table.update({"name": "'x'"}, "id = 77").snapshot is None
    actions = table.change.scan("_transaction_id > 2", columns=["_change_action", "_file_offset"]).to_arrow()
    assert len(actions) == 14


def test_what_cannot_be_updated_is_refused() -> None:
    table = new_table("id BIGINT NOT NULL, n INT NOT NULL")
    table.append([{"id": 1, "n": 1}])
    with pytest.raises(Unsupported, match="primary key"):
        table.update({"id": "id + 1"})
    with pytest.raises(InvalidArgument, match="'m'"):
        table.update({"m": 1})
    with pytest.raises(InvalidArgument, match="do not fit column 'n'"):
        table.update({"n": "3000000000"})
    with pytest.raises(InvalidArgument):
        table.update({"n": None})
    assert rows_of(table) == [{"id": 1, "n": 1}]


def test_an_update_that_makes_several_rows_of_a_key_is_refused() -> None:
    """Both would be deleted by their key, and come again."""
    table = new_table()
    table.append([row(1), row(2)])
    table.append([row(1, "b")])
    with pytest.raises(InvalidValue, match="several rows of the key id = 1"):
        table.update({"name": "'c'"})
    assert table.update({"name": "'c'"}, "id = 2").rows_inserted == 1
    table.upsert([row(1, "one")])
    table.update({"name": "name || '!'"})
    assert rows_of(table) == [row(1, "one!"), row(2, "c!")]


@pytest.mark.parametrize("how", PARTITIONINGS)
def test_rows_are_merged_by_key(how: Any) -> None:
    table = new_table(**how)
    table.append([row(1), row(2)])
    new = [row(2, "b", "us"), row(3, "b", "us")]
    table.merge(new).when_not_matched_insert_all().execute()
    assert rows_of(table) == [row(1), row(2), row(3, "b", "us")]
    table.merge(new, "id").when_matched_update_all().execute()
    assert rows_of(table) == [row(1), *new]
    table.merge([row(1, "c"), row(4, "c")], ["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_of(table) == [row(1, "c"), *new, row(4, "c")]
    done = table.merge([row(2), row(9)]).when_matched_delete().execute()
    assert done.rows_deleted == 1
    assert ids_of(table) == [1, 3, 4]


def test_what_cannot_be_merged_is_refused() -> None:
    table = new_table()
    with pytest.raises(Unsupported, match="primary key"):
        table.merge([row(1)], "name")
    with pytest.raises(InvalidArgument, match="does nothing"):
        table.merge([row(1)]).execute()
    with pytest.raises(InvalidArgument, match="not both"):
        table.merge([row(1)]).when_matched_delete().when_matched_update_all()
    with pytest.raises(InvalidValue, match="several rows"):
        table.merge([row(1), row(1, "b")]).when_matched_update_all().execute()


def new_view(table: Any) -> Any:
    """The same table as another process has it."""
    from frazil.catalog.mixed_folder import as_mixed
    from frazil.opening import open_in

    stores = [open_in(table.store, one.location, alone=True) for one in (table.base_store, table.change_store)]
    return as_mixed("other", stores[0], stores[1], None)


def test_transactions_are_ordered_by_their_beginning_and_seen_from_their_commit() -> None:
    """A transaction that began first is older, however late it is committed."""
    from frazil.mixed.commit import commit_changes
    from frazil.mixed.keys import key_fields
    from frazil.mixed.operations import Operation, all_of
    from frazil.mixed.writer import ChangeWriter
    from frazil.model.conform import conform

    table = new_table()
    change = table.change_store
    assert change is not None
    early = table.begin_transaction("early")
    table.upsert([row(1, "late")])
    keys = key_fields(table.schema, table.primary_key)
    batch = next(iter(conform([row(1, "early")], table.schema)))
    files = ChangeWriter(change.metadata, change.store, keys, early).write([(batch, all_of(Operation.INSERT, 1))])
    commit_changes(table.base_store, change, files, early)
    assert rows_of(table.refresh()) == [row(1, "late")]
    assert [one.summary.get(SIGNATURE) for one in change.snapshots if SIGNATURE in one.summary] == ["early", ""]


def test_filters_do_not_bring_deleted_rows_back() -> None:
    """A delete is seen although its row, or the row it was before, does not match."""
    table = new_table()
    table.append([row(1, "a"), row(2, "b")])
    table.ingest(changes(("update_before", row(1, "other")), ("update_after", row(1, "z"))))
    assert rows_of(table, where="name = 'a'") == []
    assert rows_of(table, where="name = 'z'") == [row(1, "z")]
    assert rows_of(table, where="name >= 'b'", columns=["id"]) == [{"id": 1}, {"id": 2}]
    assert rows_of(table, where="id = 1 AND name = 'a'") == []


def test_what_a_filter_says_of_the_key_holds_for_deletes_too() -> None:
    table = new_table()
    table.append([row(n) for n in range(20)])
    table.upsert([row(n, "b") for n in range(20)])
    plan = table.scan("id = 7 AND name = 'a' AND (id < 9 OR name = 'z')").plan()
    told = {str(one.task.residual) for task in plan.tasks for one in task.deletes}
    assert told == {"id = 7"}
    assert rows_of(table, where="id = 7") == [row(7, "b")]
    assert rows_of(table, where="id = 7 AND name = 'a'") == []
    assert ids_of(table, where="id = 7 OR name = 'b'") == list(range(20))
    assert ids_of(table, where="NOT (id = 7)") == [n for n in range(20) if n != 7]


def test_partition_filters_prune_the_change_store() -> None:
    table = new_table(**BY_REGION)
    table.append([row(n, region=region) for n, region in enumerate(["eu", "us", "ap"])])
    plan = table.scan("region = 'us'").plan()
    assert {task.partition_path for task in plan.tasks} == {"region=us"}
    assert {one.place.type for one in plan.files()} == {FileType.INSERT}
    assert ids_of(table, where="region = 'us'") == [1]


def test_a_text_that_cannot_be_told_from_null_is_no_partition() -> None:
    table = new_table(**BY_REGION)
    for text in ("null", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(InvalidValue, match="told from null"):
            table.append([row(1, region=text)])
    table.append([row(1, region=None), row(2, region="")])
    assert ids_of(table) == [1, 2]


def test_columns_and_limits_are_as_for_any_table() -> None:
    table = new_table()
    table.append([row(n) for n in range(5)])
    table.delete("id = 3")
    assert table.scan(columns=["name"], limit=2).to_arrow().to_pylist() == [{"name": "a"}] * 2
    assert table.scan().select("region", "id").to_arrow().column_names == ["region", "id"]
    assert table.scan(columns=[]).to_arrow().num_rows == 4
    assert table.scan(limit=3).count() == 3
    assert table.scan().to_arrow_batch_reader().read_all().num_rows == 4
    assert len(set(table.scan(columns=["_file"]).to_arrow().column(0).to_pylist())) > 1


def test_what_needs_a_key_is_refused_with_another_way_to_do_it() -> None:
    table = new_table(primary_key=())
    table.append([row(1)])
    ways: dict[str, Callable[[], object]] = {
        "give spark=": lambda: table.update({"name": "'b'"}, "id = 1"),
        "give spark=, and": lambda: table.merge([row(1)], "id"),
        "append them": lambda: table.upsert([row(1)]),
        "merge them on Spark": lambda: table.ingest([{"op": "i", **row(1)}]),
        "use delete": lambda: table.delete_keys([{"id": 1}]),
    }
    for hint, way in ways.items():
        with pytest.raises(Unsupported, match=rf"has no primary key, by which .*{hint}"):
            way()
    assert rows_of(table) == [row(1)]
