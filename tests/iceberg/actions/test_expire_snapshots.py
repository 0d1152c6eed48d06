"""Snapshot expiry: what goes, and above all what stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil import ambient
from frazil.errors import InvalidArgument, SnapshotNotFound, StoreError
from frazil.iceberg.actions.action import Context
from frazil.iceberg.actions.append import FastAppend
from frazil.iceberg.actions.delete_files import DeleteFiles
from frazil.iceberg.actions.expire_snapshots import ExpireSnapshots
from frazil.iceberg.actions.manage_refs import ManageRefs
from frazil.iceberg.actions.rewrite_manifests import RewriteManifests
from frazil.iceberg.actions.rollback import Rollback
from frazil.iceberg.actions.row_delta import RowDelta
from frazil.iceberg.actions.update_properties import UpdateProperties
from frazil.iceberg.actions.update_schema import UpdateSchema
from frazil.iceberg.actions.update_spec import UpdateSpec
from frazil.iceberg.actions.update_statistics import UpdateStatistics
from frazil.iceberg.committer import TableState
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.manifest import CORE_COLUMNS
from frazil.iceberg.statistics import PartitionStatisticsFile, StatisticsFile
from tests.faults import Fault, FaultyStore
from tests.iceberg.memory_committer import Table


def expire(table: Table) -> ExpireSnapshots:
    return ExpireSnapshots(table.transaction())


def delete(table: Table, *names: str, branch: str = "main") -> int:
    action = DeleteFiles(table.transaction()).to_branch(branch)
    for name in names:
        action.delete_file(f"{table.location}/data/{name}")
    return action.commit().snapshot_id


def snapshot_ids(table: Table) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.metadata.snapshots}


def reached(table: Table) -> set[str]:
    """Every file that any snapshot of the table needs, found the slow way; each must exist."""
    context = Context(table.metadata, table.store)
    needed: set[str] = {file.statistics_path for file in table.metadata.statistics}
    for snapshot in table.metadata.snapshots:
        assert snapshot.manifest_list is not None
        needed.add(snapshot.manifest_list)
        for manifest in context.manifests(snapshot):
            needed.add(manifest.manifest_path)
            entries = context.reader.read_one(manifest, CORE_COLUMNS)
            needed.update(file.file_path for file in entries.filter(entries.live).iter_files())
    return needed


def stored(table: Table) -> set[str]:
    return {file.location for file in table.store.list(table.location)}


def test_files_that_only_expired_snapshots_had_are_deleted():
    table = Table()
    first = table.append("a", "b")
    second = delete(table, "a")
    table.append("c")
    result = expire(table).expire_ids([first]).commit().result
    assert result.expired_snapshot_ids == (first,)
    assert (result.deleted_data_files_count, result.deleted_manifest_files_count) == (1, 1)
    assert (result.deleted_manifest_lists_count, result.failed_files, result.problems) == (1, (), ())
    assert table.data_names() == {"b", "c"}
    assert second in snapshot_ids(table)
    assert stored(table) == reached(table)


def test_a_dry_run_tells_what_would_go_and_changes_nothing():
    table = Table()
    first = table.append("a", "b")
    delete(table, "a")
    before, files = table.metadata, stored(table)
    action = expire(table).expire_ids([first])
    told = action.dry_run()
    assert told.files is not None
    assert told.files.paths(Content.DATA).to_pylist() == [f"{table.location}/data/a"]
    assert (table.metadata, stored(table)) == (before, files)
    with pytest.raises(InvalidArgument, match="not committed"):
        _ = action.result
    done = action.commit().result
    assert replace(told, files=None) == done


def test_age_and_number_decide_what_goes():
    with ambient.replaced(ambient.Ambient(seed=3, start_ms=1_700_000_000_000)):
        table = Table()
        made = [table.append(name) for name in "abcde"]
        limit = table.metadata.snapshot(made[3]).timestamp_ms
        assert expire(table).older_than(limit).dry_run().expired_snapshot_ids == tuple(made[:3])
        as_date = datetime.fromtimestamp(limit / 1000, UTC)
        assert expire(table).older_than(as_date).dry_run().expired_snapshot_ids == tuple(made[:3])
        assert expire(table).older_than(limit).retain_last(4).dry_run().expired_snapshot_ids == tuple(made[:1])
        expire(table).older_than(2**62).retain_last(2).commit()
        assert snapshot_ids(table) == set(made[3:])
        assert table.data_names() == set("abcde")  # all files are still part of the table
        assert stored(table) == reached(table)


def test_the_tables_properties_are_the_default():
    with ambient.replaced(ambient.Ambient(seed=3, start_ms=1_700_000_000_000)) as clock:
        table = Table(properties={"history.expire.max-snapshot-age-ms": "60000"})
        old = table.append("a")
        clock.sleep(3600)
        table.append("b")
        assert expire(table).commit().result.expired_snapshot_ids == (old,)
        default = Table()
        default.append("a")
        clock.sleep(4 * 24 * 3600)
        default.append("b")
        action = expire(default).commit()
        assert action.result.expired_snapshot_ids == ()
        assert default.committer.commits == 2


@pytest.mark.parametrize("bad", [0, -1])
def test_at_least_one_snapshot_is_retained(bad: int):
    with pytest.raises(InvalidArgument):
        expire(Table()).retain_last(bad)


def test_times_without_a_zone_and_unknown_ids_are_refused():
    with pytest.raises(InvalidArgument, match="time zone"):
        expire(Table()).older_than(datetime(2024, 1, 1))
    with pytest.raises(SnapshotNotFound):
        expire(Table()).expire_ids([1]).commit()
    with pytest.raises(InvalidArgument, match="cannot clean"):
        expire(Table()).clean_expired_files("everything")  # type: ignore[arg-type]


def test_a_snapshot_that_a_ref_names_cannot_be_expired_by_id():
    table = Table()
    first = table.append("a")
    second = table.append("b")
    ManageRefs(table.transaction()).create_tag("keep", first).commit()
    with pytest.raises(InvalidArgument, match="keep refers to it"):
        expire(table).expire_ids([first]).commit()
    with pytest.raises(InvalidArgument, match="main refers to it"):
        expire(table).expire_ids([second]).commit()


def test_a_table_whose_files_are_not_its_own_expires_nothing():
    table = Table()
    first = table.append("a")
    table.append("b")
    UpdateProperties(table.transaction()).set("gc.enabled", False).commit()
    with pytest.raises(InvalidArgument, match=r"gc\.enabled"):
        expire(table).expire_ids([first]).commit()


def test_several_refs_before_and_one_after_keep_what_the_one_needs():
    """Incident 6, apache/iceberg#13568."""
    with ambient.replaced(ambient.Ambient(seed=5, start_ms=1_700_000_000_000)):
        table = Table()
        table.append("a")
        ManageRefs(table.transaction()).create_branch("dev").create_tag("v1", max_ref_age_ms=1).commit()
        table.append("d", branch="dev")
        delete(table, "a", branch="dev")
        table.append("b")
        ManageRefs(table.transaction()).remove_branch("dev").commit()
        result = expire(table).older_than(2**62).commit().result
        assert result.removed_refs == ("v1",)
        assert list(table.metadata.refs) == ["main"]
        assert table.data_names() == {"a", "b"}
        assert stored(table) == reached(table)


def test_expiring_a_middle_snapshot_keeps_what_older_ones_need():
    """Incident 7, apache/iceberg#10982."""
    table = Table()
    first = table.append("a", "b")
    middle = delete(table, "a")
    table.append("c")
    ManageRefs(table.transaction()).create_tag("old", first).commit()
    expire(table).expire_ids([middle]).commit()
    assert table.data_names() == {"a", "b", "c"}
    assert stored(table) == reached(table)


def test_a_file_that_was_deleted_and_added_again_stays():
    """Incident 7, apache/iceberg#2131."""
    table = Table()
    table.append("a", "b")
    delete(table, "a")
    table.append("a")
    expire(table).older_than(2**62).commit()
    assert table.data_names() == {"a", "b"}
    assert stored(table) == reached(table)


def test_staged_snapshots_keep_their_files_until_they_expire():
    table = Table()
    first = table.append("a")
    staged = table.append("w", staged=True)
    table.append("b")
    expire(table).expire_ids([first]).commit()
    assert table.data_names() == {"a", "b", "w"}
    result = expire(table).expire_ids([staged]).commit().result
    assert result.deleted_data_files_count == 1
    assert table.data_names() == {"a", "b"}
    assert stored(table) == reached(table)


def test_a_puffin_file_stays_while_one_of_its_vectors_lives():
    table = Table(3)
    first_append = table.append("a", "b")

    def vector(name: str, target: str, offset: int) -> DataFile:
        return table.file(
            name,
            content=Content.POSITION_DELETES,
            file_format="puffin",
            record_count=1,
            referenced_data_file=f"{table.location}/data/{target}",
            content_offset=offset,
            content_size_in_bytes=10,
        )

    def replace_vector(seen: int, old: DataFile, new: DataFile) -> int:
        action = RowDelta(table.transaction()).validate_from(seen).remove_deletes(old).add_deletes(new)
        return action.commit().snapshot_id

    of_a, of_b = vector("d.puffin", "a", 4), vector("d.puffin", "b", 14)
    both = RowDelta(table.transaction()).add_deletes(of_a).add_deletes(of_b).commit().snapshot_id
    new = replace_vector(both, of_a, vector("e.puffin", "a", 4))
    result = expire(table).expire_ids([first_append, both]).commit().result
    assert result.deleted_position_delete_files_count == 0
    assert {"d.puffin", "e.puffin"} <= table.data_names()
    replace_vector(new, of_b, vector("f.puffin", "b", 4))
    result = expire(table).expire_ids([new]).commit().result
    assert result.deleted_position_delete_files_count == 1
    assert table.data_names() == {"a", "b", "e.puffin", "f.puffin"}
    assert stored(table) == reached(table)


def test_delete_files_are_counted_by_kind():
    table = Table()
    table.append("a")
    equality = table.file("eq", content=Content.EQUALITY_DELETES, equality_ids=(1,))
    position = table.file("pos", content=Content.POSITION_DELETES)
    delta = RowDelta(table.transaction()).add_deletes(equality).add_deletes(position).commit().snapshot_id
    Rollback(table.transaction()).to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    result = expire(table).expire_ids([delta]).commit().result
    assert (result.deleted_position_delete_files_count, result.deleted_equality_delete_files_count) == (1, 1)
    assert table.data_names() == {"a"}


def test_statistics_go_with_their_snapshot_unless_another_shares_them():
    table = Table()
    first, second = table.append("a"), table.append("b")
    third = table.append("c")
    paths = [f"{table.location}/metadata/{name}" for name in ("s1", "shared", "p1")]
    for path in paths:
        table.store.write(path, b"stats")
    (
        UpdateStatistics(table.transaction())
        .set_statistics(StatisticsFile(first, paths[0], 5, 1))
        .set_statistics(StatisticsFile(second, paths[1], 5, 1))
        .set_statistics(StatisticsFile(third, paths[1].replace("memory://", "MEMORY://"), 5, 1))
        .set_partition_statistics(PartitionStatisticsFile(first, paths[2], 5))
        .commit()
    )
    result = expire(table).expire_ids([first, second]).commit().result
    assert result.deleted_statistics_files_count == 2
    assert [table.store.exists(path) for path in paths] == [False, True, False]


def test_files_can_be_left_or_only_metadata_be_cleaned():
    for level, counts, left in ((False, (0, 0, 0), {"a", "b"}), ("metadata", (0, 1, 1), {"a", "b"})):
        table = Table()
        first = table.append("a", "b")
        delete(table, "a")
        result = expire(table).expire_ids([first]).clean_expired_files(level).commit().result  # type: ignore[arg-type]
        assert (
            result.deleted_data_files_count,
            result.deleted_manifest_files_count,
            result.deleted_manifest_lists_count,
        ) == counts
        assert table.data_names() == left


def test_a_file_named_in_another_spelling_is_the_same_file():
    table = Table()
    first = table.append("a", "b")
    delete(table, "a")
    again = table.file("a")
    other = replace(again, file_path=again.file_path.replace("memory://", "Memory://").replace("/data/", "//data/./"))
    FastAppend(table.transaction()).append_file(other).commit()
    result = expire(table).expire_ids([first]).commit().result
    assert result.deleted_data_files_count == 0
    assert table.data_names() == {"a", "b"}


def test_a_file_that_cannot_be_deleted_is_told_and_the_commit_stands():
    table = Table()
    first = table.append("a", "b", "c")
    delete(table, "a", "b")
    table.store = FaultyStore(table.store, [Fault("delete", "before", StoreError("no"), match="/data/a")])
    result = expire(table).expire_ids([first]).commit().result
    assert result.failed_files == (f"{table.location}/data/a",)
    assert result.deleted_data_files_count == 1
    assert first not in snapshot_ids(table)
    assert table.data_names() == {"a", "c"}


def test_nothing_is_deleted_if_what_is_still_needed_cannot_be_read():
    table = Table()
    first = table.append("a", "b")
    delete(table, "a")
    kept = table.metadata.current_snapshot
    assert kept is not None
    before = stored(table)
    table.store = FaultyStore(table.store, [Fault("read", "before", StoreError("no"), match=str(kept.manifest_list))])
    result = expire(table).expire_ids([first]).commit().result
    assert first not in snapshot_ids(table)
    assert "no" in result.problems[0]
    assert result.deleted_manifest_lists_count == 0
    table.store = table.store.inner
    assert stored(table) == before


def test_missing_metadata_of_expired_snapshots_does_not_stop_the_rest():
    table = Table()
    first = table.append("a", "b")
    second = delete(table, "a")
    third = delete(table, "b")
    table.append("c")
    context = Context(table.metadata, table.store)
    for manifest in context.manifests(table.metadata.snapshot(first)):
        table.store.delete(manifest.manifest_path)
    table.store.delete(table.metadata.snapshot(third).manifest_list or "")
    result = expire(table).expire_ids([first, second, third]).commit().result
    assert len(result.problems) == 2
    assert table.data_names() == {"a", "c"}  # what the lost manifest told of is left, not guessed


def test_metadata_that_could_not_be_read_is_left_with_what_it_tells_of():
    table = Table()
    first = table.append("a", "b")
    delete(table, "a", "b")
    gone = str(table.metadata.snapshot(first).manifest_list)
    before = stored(table)
    table.store = FaultyStore(table.store, [Fault("read", "before", StoreError("no"), match=gone)])
    result = expire(table).expire_ids([first]).commit().result
    assert len(result.problems) == 1
    table.store = table.store.inner
    assert stored(table) == before


def test_schemas_and_specs_that_nobody_uses_are_removed():
    table = Table()
    first = table.append("a")
    UpdateSchema(table.transaction()).add_column("one", "long").commit()
    UpdateSchema(table.transaction()).add_column("two", "long").commit()
    UpdateSpec(table.transaction()).add_field("days(ts)").commit()
    UpdateSpec(table.transaction()).remove_field("id_bucket").commit()
    FastAppend(table.transaction()).append_file(table.file("b", spec_id=2, partition=(1,))).commit()
    expire(table).clean_expired_metadata().commit()
    assert [schema.schema_id for schema in table.metadata.schemas] == [0, 2]
    assert [spec.spec_id for spec in table.metadata.partition_specs] == [0, 2]
    expire(table).expire_ids([first]).clean_expired_metadata().commit()
    # the manifest of the first snapshot lives on in the second, and so does its spec
    assert [schema.schema_id for schema in table.metadata.schemas] == [2]
    assert [spec.spec_id for spec in table.metadata.partition_specs] == [0, 2]
    delete(table, "a")
    current = table.metadata.current_snapshot_id
    expire(table).older_than(2**62).clean_expired_metadata().commit()
    assert snapshot_ids(table) == {current}
    assert stored(table) == reached(table)


def test_a_schema_that_still_tells_the_type_of_a_partition_stays():
    table = Table()
    table.append("a")
    UpdateSpec(table.transaction()).remove_field("id_bucket").commit()
    UpdateSchema(table.transaction()).drop_column("id").commit()
    FastAppend(table.transaction()).append_file(table.file("b", spec_id=1, partition=())).commit()
    expire(table).older_than(2**62).clean_expired_metadata().commit()
    assert [schema.schema_id for schema in table.metadata.schemas] == [0, 1]
    assert stored(table) == reached(table)


@pytest.mark.parametrize("version", [2, 3])
def test_a_schema_that_has_a_key_of_equality_deletes_stays(version):
    lake = frazil.connect("memory:")
    table = lake.create_table("db.t", "id INT, k STRING", format_version=version)
    table.append([{"id": number, "k": f"k{number}"} for number in range(4)])
    table.upsert([{"id": 100, "k": "k3"}], keys=["k"])
    table.update_schema().drop_column("k").commit()
    table.append([{"id": 200}])
    table.expire_snapshots().older_than(2**61).retain_last(1).clean_expired_metadata().commit()
    assert len(table.snapshots) == 1
    assert sorted(lake.table("db.t").scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 100, 200]


def test_a_ref_set_meanwhile_saves_its_snapshot():
    table = Table()
    first = table.append("a", "b")
    second = delete(table, "a")
    table.append("c")
    ManageRefs(table.transaction()).create_branch("dev", second).commit()
    change = expire(table).expire_ids([first])
    table.in_between(lambda: ManageRefs(table.transaction()).replace_branch("dev", first).commit())
    with pytest.raises(InvalidArgument, match="dev refers to it"):
        change.commit()
    assert table.data_names() == {"a", "b", "c"}
    assert first in snapshot_ids(table)


def test_commits_that_come_between_keep_all_their_files():
    table = Table()
    table.append("a", "b")
    delete(table, "a")
    change = expire(table).older_than(2**62)
    table.in_between(lambda: table.append("c"))
    change.commit()
    assert table.data_names() == {"b", "c"}
    assert len(table.metadata.snapshots) == 1
    assert stored(table) == reached(table)


def test_a_lost_commit_deletes_nothing():
    table = Table()
    first = table.append("a", "b")
    delete(table, "a")
    before = stored(table)

    def lost(*_: object) -> TableState:
        raise StoreError("time-out")

    table.committer.commit = lost  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        expire(table).expire_ids([first]).commit()
    assert stored(table) == before


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "delete", "again", "branch", "tag", "untag", "rollback", "stage", "merge"]
        ),
        st.integers(0, 7),
    ),
    min_size=2,
    max_size=9,
)


@settings(max_examples=40)
@given(changes=CHANGES, choice=st.lists(st.booleans(), min_size=24, max_size=24), version=st.sampled_from([2, 3]))
def test_whatever_expires_all_files_of_the_rest_exist_and_no_others(
    changes: list[tuple[str, int]], choice: list[bool], version: int
):
    table = Table(version)
    table.append("f0", "f1")
    for number, (kind, which) in enumerate(changes):
        branches = [name for name, ref in table.metadata.refs.items() if ref.is_branch]
        branch = branches[which % len(branches)]
        head = table.metadata.refs[branch].snapshot_id
        context = Context(table.metadata, table.store)
        live: list[str] = []
        for entries in context.reader.read(context.manifests(table.metadata.snapshot(head)), CORE_COLUMNS):
            live += [file.file_path.rpartition("/")[2] for file in entries.filter(entries.live).iter_files()]
        gone = sorted(table.data_names().difference(live))
        if kind == "append":
            table.append(f"g{number}", branch=branch)
        elif kind == "stage":
            table.append(f"s{number}", staged=True)
        elif kind == "delete" and live:
            delete(table, live[which % len(live)], branch=branch)
        elif kind == "again" and gone:
            table.append(gone[which % len(gone)], branch=branch)
        elif kind in ("branch", "tag"):
            action = ManageRefs(table.transaction())
            (action.create_branch if kind == "branch" else action.create_tag)(f"{kind}{number}").commit()
        elif kind == "untag" and len(table.metadata.refs) > 1:
            others = [pair for pair in table.metadata.refs.items() if pair[0] != "main"]
            name, ref = others[which % len(others)]
            action = ManageRefs(table.transaction())
            (action.remove_tag if ref.is_tag else action.remove_branch)(name).commit()
        elif kind == "rollback":
            line = list(table.metadata.ancestors_of(table.metadata.current_snapshot_id))
            Rollback(table.transaction()).to_snapshot(line[which % len(line)].snapshot_id).commit()
        elif kind == "merge":
            RewriteManifests(table.transaction()).to_branch(branch).commit()
    for take in (slice(0, 12), slice(12, 24)):  # a second expiry finds a history with holes
        held = {ref.snapshot_id for ref in table.metadata.refs.values()}
        chosen = [
            snapshot.snapshot_id
            for snapshot, wanted in zip(table.metadata.snapshots, choice[take], strict=False)
            if wanted and snapshot.snapshot_id not in held
        ]
        told = expire(table).expire_ids(chosen).dry_run()
        result = expire(table).expire_ids(chosen).commit().result
        assert replace(told, files=None) == result
        assert set(chosen).isdisjoint(snapshot_ids(table))
        assert result.problems == result.failed_files == ()
        needed = reached(table)
        assert needed - stored(table) == set()
        assert stored(table) - needed == set()


def test_times_are_text_too_and_other_things_are_refused():
    table = Table()
    table.append("a")
    table.append("b")
    assert expire(table).older_than("1990-01-01").retain_last(1).dry_run().expired_snapshot_ids == ()
    assert len(expire(table).older_than("9000-01-01T00:00:00+01:00").retain_last(1).dry_run().expired_snapshot_ids) == 1
    for bad in ("yesterday", None, 1.5, True):
        with pytest.raises(InvalidArgument, match="time"):
            expire(table).older_than(bad)  # type: ignore[arg-type]
    for bad in ("2", None, 1.5, True):
        with pytest.raises(InvalidArgument, match="retain the last"):
            expire(table).retain_last(bad)  # type: ignore[arg-type]
    for bad in ("12", ["12"], [None]):
        with pytest.raises(InvalidArgument, match="not a snapshot id"):
            expire(table).expire_ids(bad)  # type: ignore[arg-type]


def test_an_action_tells_whether_it_is_committed():
    table = Table()
    table.append("a")
    action = expire(table)
    assert repr(action) == "ExpireSnapshots(not committed until commit() is called)"
    assert repr(action.commit()) == "ExpireSnapshots(committed)"
    transaction = table.transaction(autocommit=False)
    inner = UpdateProperties(transaction).set("a", "b").commit()
    assert repr(inner) == "UpdateProperties(not committed until its transaction is)"
    transaction.commit()
    assert repr(inner) == "UpdateProperties(committed)"


def test_an_action_that_failed_is_not_called_committed():
    table = Table()
    table.append("a")
    action = expire(table).expire_ids([99])
    with pytest.raises(SnapshotNotFound):
        action.commit()
    assert "not committed" in repr(action)


def test_results_are_short():
    table = Table()
    first = table.append("a", "b")
    delete(table, "a")
    action = expire(table).expire_ids([first])
    kinds = ("data_files", "manifest_files", "manifest_lists")
    counts = ", ".join(["expired_snapshots=1", *(f"deleted_{kind}_count=1" for kind in kinds)])
    dry = action.dry_run()
    assert repr(dry) == f"ExpireResult(dry run, {counts})"
    result = action.commit().result
    assert repr(result) == f"ExpireResult({counts})"
    assert "<th>deleted_data_files_count</th><td>1</td>" in result._repr_html_()
    assert "&lt;gone&gt;" in replace(result, problems=("<gone>",))._repr_html_()
    assert repr(expire(table).commit().result) == "ExpireResult()"
