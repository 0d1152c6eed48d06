"""Random sequences of actions, with other writers in between: what must always hold of a table (RELIABILITY.md C3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from frazil.ambient import Ambient, now_ms, replaced
from frazil.errors import CommitConflict, CommitStateUnknown, InvalidArgument
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_index import is_vector, target_paths
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable, TableTransaction
from frazil.iceberg.write import RowWriter
from frazil.io.deletion_vector import DeletionVector
from frazil.model.conform import conform
from frazil.model.expressions import AlwaysTrue, col
from frazil.model.partition import parse_partition_by
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, Schema
from frazil.model.types import LongType, NestedField, StringType
from tests.properties.memory_table import another_handle, forget, new_table
from tests.properties.row_deletes import deletion_vectors, equality_deletes, old_positions, position_deletes

SCHEMA = Schema(
    (
        NestedField(1, "n", LongType(), required=True),
        NestedField(2, "cat", StringType()),
        NestedField(3, "v", LongType()),
    )
)
CATS = ["a", "b", None]
SPECS: dict[str, list[str]] = {"none": [], "cat": ["cat"], "bucket": ["bucket(2, n)"]}
PROPERTIES = {"commit.manifest.min-count-to-merge": "3", "commit.retry.num-retries": "10"}
BRANCHES = st.sampled_from(["main", "main", "b"])


@dataclass(frozen=True)
class Row:
    """A row of the model: its values by field id, and the partition it was written to."""

    values: dict[int, Any]
    place: tuple[int, tuple[Any, ...]]


Rows = dict[int, Row]
"""By `n`, which is never used twice."""


@dataclass(frozen=True)
class Change:
    """A change that is ready to be committed, and what it does to the rows it finds then."""

    commit: Callable[[], Any]
    effect: Callable[[Rows], Rows]


class Inside(IcebergTable):
    """A table as one of its transactions sees it: changes go into the transaction."""

    def __init__(self, table: IcebergTable, transaction: TableTransaction) -> None:
        super().__init__(table.identifier, table.store, table._committer, table._state)
        self._inside = transaction

    @property
    def metadata(self) -> TableMetadata:
        return self._inside.metadata

    def _transaction(self) -> TableTransaction:
        return self._inside


class Tables(RuleBasedStateMachine):
    """One table of one format version, and all its snapshots as they must be."""

    version = 2

    def __init__(self) -> None:
        super().__init__()
        self._ambient = replaced(Ambient(seed=5, start_ms=1_700_000_000_000))
        self._ambient.__enter__()
        spec = parse_partition_by(SCHEMA, SPECS["cat"])
        self.table, self.pointer = new_table(SCHEMA, spec, format_version=self.version, properties=PROPERTIES)
        self.snapshots: dict[int, Rows] = {}
        self.lineage: dict[int, dict[int, tuple[int | None, int | None]]] = {}
        self.refs: dict[str, int] = {}
        self.staged: dict[int, Rows] = {}
        self.next_n = 0
        self.names = 0
        self.checked_states = 1
        self.may_be_left: set[str] = set()

    def teardown(self) -> None:
        try:
            for snapshot in self.table.metadata.snapshots:
                self.check_rows(snapshot)
        finally:
            forget(self.table)
            self._ambient.__exit__(None, None, None)

    # What the table has

    def head(self, branch: str) -> int | None:
        return self.refs.get(branch, self.refs.get("main"))

    def rows(self, branch: str) -> Rows:
        head = self.head(branch)
        return {} if head is None else self.snapshots[head]

    def tasks(self, table: IcebergTable, branch: str) -> list[FileScanTask]:
        head = self.head(branch)
        if head is None:
            return []
        return sorted(table.scan(version=head).plan().tasks(), key=lambda task: task.file.file_path)

    def places(self, table: IcebergTable, branch: str) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        head = self.head(branch)
        if head is not None:
            name = _name_of(table.metadata.schema_of(table.metadata.snapshot(head)), 1)
            for row in table.scan(version=head, columns=[name, "_file", "_pos"]).to_arrow().to_pylist():
                found.setdefault(row["_file"], {})[row[name]] = row["_pos"]
        return found

    def new_rows(self, data: st.DataObject, least: int = 1) -> list[Row]:
        spec = self.table.spec
        made = []
        for cat, v in data.draw(
            st.lists(st.tuples(st.sampled_from(CATS), st.integers(0, 3)), min_size=least, max_size=4)
        ):
            values = {1: self.next_n, 2: cat, 3: v}
            values = {column.id: values.get(column.id, v) for column in self.table.schema.fields}
            types = {column.id: column.type for column in self.table.schema.fields}
            partition = tuple(
                part.transform.apply(types[part.source_id], values[part.source_id]) if part.source_id in types else None
                for part in spec.fields
            )
            made.append(Row(values, (spec.spec_id, partition)))
            self.next_n += 1
        return made

    def arrow(self, made: list[Row]) -> list[dict[str, Any]]:
        return [{column.name: row.values[column.id] for column in self.table.schema.fields} for row in made]

    def write(self, table: IcebergTable, made: list[Row]) -> list[DataFile]:
        return RowWriter(table.metadata, table.store).write(conform(self.arrow(made), table.schema))

    # Changes of rows

    def change(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        kinds = [self.append, self.append, self.overwrite, self.delete, self.replace_partitions, self.compact]
        kinds += [self.rewrite_manifests]
        if table.format_version > 1:
            kinds += [self.delete_positions, self.delete_positions, self.delete_equal]
        return data.draw(st.sampled_from(kinds))(data, table, branch)

    def change_of_rows(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        """A change of rows that are there: two of them often meet."""
        kinds = [self.delete, self.compact]
        if table.format_version > 1:
            kinds += [self.delete_positions, self.delete_positions, self.delete_equal]
        return data.draw(st.sampled_from(kinds))(data, table, branch)

    def append(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        made = self.new_rows(data)
        files = self.write(table, made)
        fast = data.draw(st.booleans())

        def commit() -> None:
            action = table.new_fast_append() if fast else table.new_append()
            action.append_files(files).to_branch(branch).commit()

        return Change(commit, lambda rows: rows | {row.values[1]: row for row in made})

    def delete(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        where, matches = self.filter(data)
        return Change(
            lambda: table.delete(where, branch=branch),
            lambda rows: {n: row for n, row in rows.items() if not matches(row)},
        )

    def overwrite(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        where, matches = self.filter(data)
        made = self.new_rows(data)
        return Change(
            lambda: table.overwrite(self.arrow(made), where, branch=branch),
            lambda rows: {n: row for n, row in rows.items() if not matches(row)} | {row.values[1]: row for row in made},
        )

    def filter(self, data: st.DataObject) -> tuple[Any, Callable[[Row], bool]]:
        kind = data.draw(st.sampled_from(["cat", "v", "n"]))
        if kind == "cat":
            cat = data.draw(st.sampled_from(["a", "b"]))
            return col(_name_of(self.table.schema, 2)) == cat, lambda row: row.values[2] == cat
        if kind == "v" and self.table.schema.field_by_id(3) is not None:
            least = data.draw(st.integers(0, 3))
            return col(_name_of(self.table.schema, 3)) >= least, lambda row: row.values.get(3, -1) >= least
        below = data.draw(st.integers(0, self.next_n))
        return col("n") < below, lambda row: row.values[1] < below

    def replace_partitions(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        made = self.new_rows(data)
        files, gone, base = self.write(table, made), {row.place for row in made}, self.head(branch)
        validates = data.draw(st.booleans())

        def commit() -> None:
            action = table.new_replace_partitions().add_files(files).to_branch(branch)
            if validates:
                action.validate_from(base).validate_no_conflicting_data().validate_no_conflicting_deletes()
            action.commit()

        return Change(
            commit,
            lambda rows: (
                {n: row for n, row in rows.items() if row.place not in gone} | {row.values[1]: row for row in made}
            ),
        )

    def delete_positions(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        rows, base = self.rows(branch), self.head(branch)
        if not rows:
            return None
        gone = data.draw(st.sets(st.sampled_from(sorted(rows)), min_size=1, max_size=4))
        places = self.places(table, branch)
        hit = [
            (task, [at for n, at in places.get(task.file.file_path, {}).items() if n in gone])
            for task in self.tasks(table, branch)
        ]
        hit = [(task, positions) for task, positions in hit if positions]
        added: list[DataFile] = []
        removed: dict[Any, DataFile] = {}
        if table.format_version >= 3:
            vectors = []
            for task, positions in hit:
                old = old_positions(table, task.file, task.deletes)
                vectors.append((task.file, old.union(DeletionVector.from_positions(positions))))
                removed.update((delete.key, delete) for delete in task.deletes if delete.is_deletion_vector)
            added = deletion_vectors(table, vectors)
        else:
            names_file = data.draw(st.booleans())
            for task, positions in hit:
                pair = [(task.file, positions)]
                added.append(position_deletes(table, pair, names_file=names_file, full_bounds=names_file))
        checks = data.draw(st.booleans())

        def commit() -> None:
            delta = table.new_row_delta().to_branch(branch).validate_from(base)
            delta.validate_data_files_exist(task.file.file_path for task, _ in hit)
            if checks:
                delta.validate_deleted_files().validate_no_conflicting_deletes()
            for file in added:
                delta.add_deletes(file)
            for file in removed.values():
                delta.remove_deletes(file)
            delta.commit()

        return Change(commit, lambda found: {n: row for n, row in found.items() if n not in gone})

    def delete_equal(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        rows = self.rows(branch)
        if not rows:
            return None
        victim = rows[data.draw(st.sampled_from(sorted(rows)))]
        number = data.draw(st.sampled_from([1, 2]))
        wanted, place = victim.values[number], victim.place
        spec = table.metadata.spec(place[0])
        unpartitioned = [one for one in table.metadata.partition_specs if one.is_unpartitioned]
        if unpartitioned and data.draw(st.booleans()):
            place = (unpartitioned[0].spec_id, (None,) * len(unpartitioned[0].fields))  # all void, in version 1
            spec = table.metadata.spec(place[0])
        schema = Schema((replace(table.schema.field_by_id(number), required=False),))  # type: ignore[type-var]
        file = equality_deletes(table, schema, [[wanted]], *place)

        def commit() -> None:
            table.new_row_delta().to_branch(branch).add_deletes(file).commit()

        def effect(found: Rows) -> Rows:
            return {
                n: row
                for n, row in found.items()
                if row.values[number] != wanted or not (spec.is_unpartitioned or row.place == place)
            }

        return Change(commit, effect)

    def compact(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        """Some files of one partition become one file, of which rows keep their ids, and their age for deletes."""
        tasks = self.tasks(table, branch)
        if not tasks:
            return None
        first = data.draw(st.sampled_from(range(len(tasks))))
        place = (tasks[first].file.spec_id, tasks[first].file.partition)
        chosen = [task for task in tasks if (task.file.spec_id, task.file.partition) == place]
        head = table.metadata.snapshot(self.head(branch))  # type: ignore[arg-type]
        schema = table.schema
        lineage = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER) if table.format_version >= 3 else ()
        output = Schema((*schema.fields, *lineage), schema.schema_id)
        reader = TaskReader(
            table.store, table.metadata, output, schema, DeleteReader(table.store, table.metadata), 1000
        )
        batches = [batch for task in chosen for batch in reader.read(replace(task, residual=AlwaysTrue()))]
        writer = RowWriter(table.metadata, table.store, schema=output, spec=table.metadata.spec(place[0]))
        new = writer.write(batches)
        keeps_age = data.draw(st.booleans())

        def commit() -> None:
            action = table.new_rewrite().to_branch(branch).validate_from(head.snapshot_id)
            action.rewrite([task.file for task in chosen], new)
            if keeps_age:
                action.data_sequence_number(head.sequence_number)
            action.commit()

        return Change(commit, lambda rows: rows)

    def rewrite_manifests(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        if self.head(branch) is None:
            return None
        return Change(lambda: table.rewrite_manifests().to_branch(branch).commit(), lambda rows: rows)

    # Rules

    @rule(data=st.data(), branch=BRANCHES)
    def one_writer(self, data: st.DataObject, branch: str) -> None:
        made = self.change(data, self.table, branch)
        if made is not None:
            before = self.rows(branch)
            made.commit()
            self.took_place(branch, made.effect(before))

    @rule(data=st.data(), branch=BRANCHES)
    def two_writers(self, data: st.DataObject, branch: str) -> None:
        """Both began at the same state; the other one is first. Ours comes after it, or is refused."""
        other_table = another_handle(self.table)
        ours, others = self.change(data, self.table, branch), self.change(data, other_table, branch)
        self.race(branch, ours, others, other_table)

    @precondition(lambda self: self.rows("main"))
    @rule(data=st.data())
    def two_writers_after_the_same_rows(self, data: st.DataObject) -> None:
        other_table = another_handle(self.table)
        ours = self.change_of_rows(data, self.table, "main")
        others = self.change_of_rows(data, other_table, "main")
        self.race("main", ours, others, other_table)

    def race(self, branch: str, ours: Change | None, others: Change | None, other_table: IcebergTable) -> None:
        if ours is None or others is None:
            return
        before = self.rows(branch)

        def first() -> None:
            others.commit()
            self.took_place(branch, others.effect(before), other_table)

        self.pointer.before_swap = first
        try:
            ours.commit()
        except CommitConflict:
            self.table.refresh()
            assert self.pointer.before_swap is None
        else:
            if self.pointer.before_swap is not None:  # ours changed nothing, so it had nothing to commit
                self.pointer.before_swap = None
                assert ours.effect(before) == before
                return
            self.took_place(branch, ours.effect(self.rows(branch)))

    @rule(data=st.data(), branch=BRANCHES, alone=st.booleans())
    def transaction(self, data: st.DataObject, branch: str, alone: bool) -> None:
        """Several changes that are one; another writer may come between staging and commit."""
        other_table = another_handle(self.table)
        others = None if alone else self.change(data, other_table, branch)
        kinds = [self.change] * data.draw(st.integers(2, 3))
        self.transact(data, branch, kinds, others, other_table)

    def transact(
        self,
        data: st.DataObject,
        branch: str,
        kinds: list[Callable[[st.DataObject, IcebergTable, str], Change | None]],
        others: Change | None,
        other_table: IcebergTable,
    ) -> None:
        inside = Inside(self.table, self.table.transaction())
        refs, snapshots = dict(self.refs), dict(self.snapshots)
        effects: dict[int, Callable[[Rows], Rows]] = {}
        for kind in kinds:
            made = kind(data, inside, branch)
            before = self.rows(branch)
            if made is None:
                continue
            made.commit()
            head = inside.metadata.refs.get(branch)
            if head is None or head.snapshot_id == self.refs.get(branch):
                assert made.effect(before) == before
                continue
            # the next change is made from what this one left
            self.refs[branch] = head.snapshot_id
            self.snapshots[head.snapshot_id] = self.placed(inside, head.snapshot_id, made.effect(before))
            effects[head.snapshot_id] = made.effect
        self.refs, self.snapshots = refs, snapshots

        def first() -> None:
            if others is not None:
                before = self.rows(branch)
                others.commit()
                self.took_place(branch, others.effect(before), other_table)

        self.pointer.before_swap = first if effects else None
        try:
            inside._transaction().commit()
        except CommitConflict:
            assert others is not None
            self.table.refresh()
            return
        rows = self.rows(branch)
        for snapshot_id, effect in effects.items():
            rows = self.snapshots[snapshot_id] = self.placed(self.table, snapshot_id, effect(rows))
            self.refs[branch] = snapshot_id
        self.learn(self.table)

    @rule(data=st.data(), branch=BRANCHES)
    def lost_answer(self, data: st.DataObject, branch: str) -> None:
        """The change is in, but its writer does not know: it must not remove anything."""
        made = self.change(data, self.table, branch)
        if made is None:
            return
        before, files = self.rows(branch), self.stored()
        self.pointer.lose_answer = True
        try:
            made.commit()
        except CommitStateUnknown:
            self.table.refresh()
            assert files <= self.stored()
            self.may_be_left |= self.stored() - files
            self.took_place(branch, made.effect(before))
        else:
            self.pointer.lose_answer = False  # nothing to commit
            assert made.effect(before) == before

    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        made = self.new_rows(data)
        action = self.table.new_append().append_files(self.write(self.table, made)).stage_only().commit()
        rows = {row.values[1]: row for row in made}
        self.snapshots[action.snapshot_id] = self.rows("main") | rows
        self.staged[action.snapshot_id] = rows
        self.learn(self.table)

    @precondition(lambda self: self.staged)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        picked = data.draw(st.sampled_from(sorted(self.staged)))
        rows = self.rows("main") | self.staged.pop(picked)
        action = self.table.cherry_pick(picked).commit()
        self.refs["main"] = action.snapshot_id
        self.snapshots[action.snapshot_id] = rows
        self.learn(self.table)

    @precondition(lambda self: "main" in self.refs)
    @rule(data=st.data(), kind=st.sampled_from(["branch", "tag"]))
    def new_ref(self, data: st.DataObject, kind: str) -> None:
        target = data.draw(st.sampled_from(sorted(self.snapshots)))
        name = "b" if kind == "branch" else f"tag{self.names}"
        if name in self.refs:
            self.table.manage_refs().remove_branch(name).commit()
            del self.refs[name]
            return
        self.names += 1
        change = self.table.manage_refs()
        (change.create_branch if kind == "branch" else change.create_tag)(name, target).commit()
        self.refs[name] = target

    @precondition(lambda self: any(name.startswith("tag") for name in self.refs))
    @rule(data=st.data())
    def drop_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(name for name in self.refs if name.startswith("tag"))))
        self.table.manage_refs().remove_tag(name).commit()
        del self.refs[name]

    @precondition(lambda self: "b" in self.refs and "main" in self.refs)
    @rule()
    def fast_forward(self) -> None:
        ahead = self.table.metadata.is_ancestor(self.refs["main"], self.refs["b"])
        change = self.table.manage_refs().fast_forward("main", "b")
        if not ahead:
            with pytest.raises(InvalidArgument):
                change.commit()
            return
        change.commit()
        self.refs["main"] = self.refs["b"]

    @precondition(lambda self: "main" in self.refs)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        history = [snapshot.snapshot_id for snapshot in self.table.history]
        target = data.draw(st.sampled_from(history))
        self.table.rollback().to_snapshot(target).commit()
        self.refs["main"] = target

    @precondition(lambda self: len(self.snapshots) > 2)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        action = self.table.expire_snapshots()
        times = sorted(snapshot.timestamp_ms for snapshot in self.table.snapshots)
        action.older_than(data.draw(st.sampled_from([times[0], times[len(times) // 2], now_ms()])))
        action.retain_last(data.draw(st.integers(1, 3)))
        loose = sorted(set(self.snapshots) - set(self.refs.values()))
        if loose:
            action.expire_ids(data.draw(st.sets(st.sampled_from(loose), max_size=2)))
        promised = action.dry_run()
        action.commit()
        assert action.result.expired_snapshot_ids == promised.expired_snapshot_ids
        assert not action.result.failed_files
        assert not action.result.problems
        gone = set(action.result.expired_snapshot_ids)
        assert not gone & set(self.refs.values())
        for snapshot_id in gone:
            del self.snapshots[snapshot_id]
            self.staged.pop(snapshot_id, None)
            self.lineage.pop(snapshot_id, None)

    @rule(data=st.data())
    def evolve_schema(self, data: st.DataObject) -> None:
        schema = self.table.schema
        kind = data.draw(st.sampled_from(["add", "rename", "drop"]))
        self.names += 1
        change = self.table.update_schema()
        if kind == "add":
            change.add_column(f"x{self.names}", "long").commit()
        elif kind == "rename":
            change.rename_column(_name_of(schema, data.draw(st.sampled_from([2, 3]))), f"y{self.names}").commit()
        else:
            droppable = [column.name for column in schema.fields if column.id > 3]
            if droppable:
                change.drop_column(data.draw(st.sampled_from(droppable))).commit()

    @rule(data=st.data())
    def evolve_spec(self, data: st.DataObject) -> None:
        change = self.table.update_spec()
        for part in self.table.spec.fields:
            if str(part.transform) != "void":
                change.remove_field(part.name)
        change.commit()
        self.names += 1
        change = self.table.update_spec()
        for term in data.draw(st.sampled_from(list(SPECS.values()))):
            term = term.replace("cat", f"`{_name_of(self.table.schema, 2)}`")
            change.add_field(term, f"p{self.names}")
        change.commit()

    @precondition(lambda self: self.table.format_version < 3)
    @rule(data=st.data())
    def upgrade(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 3)) == 0:
            self.table.upgrade_format_version().to(self.table.format_version + 1).commit()

    # What must hold

    def took_place(self, branch: str, rows: Rows, table: IcebergTable | None = None) -> None:
        """The branch is now at a snapshot with these rows; at the same one if nothing changed."""
        table = table or self.table
        ref = table.metadata.refs.get(branch)
        if ref is None:
            assert self.rows(branch) == rows
            return
        if ref.snapshot_id in self.snapshots:
            assert self.snapshots[ref.snapshot_id] == rows
        self.refs[branch] = ref.snapshot_id
        self.snapshots[ref.snapshot_id] = self.placed(table, ref.snapshot_id, rows)
        self.learn(table)

    def placed(self, table: IcebergTable, snapshot_id: int, rows: Rows) -> Rows:
        """The rows with the partitions they are in: rewriting a file moves what stays of it to today's spec."""
        name = _name_of(table.metadata.schema_of(table.metadata.snapshot(snapshot_id)), 1)
        scan = table.scan(version=snapshot_id, columns=[name, "_file"])
        places = {task.file.file_path: (task.file.spec_id, task.file.partition) for task in scan.plan().tasks()}
        found = {row[name]: places[row["_file"]] for row in scan.to_arrow().to_pylist()}
        return {n: replace(row, place=found.get(n, row.place)) for n, row in rows.items()}

    def learn(self, table: IcebergTable) -> None:
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id not in self.lineage and snapshot.snapshot_id in self.snapshots:
                self.check_rows(snapshot, table)

    def stored(self) -> set[str]:
        return {file.location for file in self.table.store.list(self.table.location)}

    def check_rows(self, snapshot: Snapshot, table: IcebergTable | None = None) -> None:
        """A snapshot reads as it did when it was made: its rows, and in v3 their ids."""
        table = table or self.table
        schema = table.metadata.schema_of(snapshot)
        expected = self.snapshots[snapshot.snapshot_id]
        scan = table.scan(version=snapshot.snapshot_id)
        columns = {column.id: scan.to_arrow().column(column.name).to_pylist() for column in schema.fields}
        found = dict(zip(columns[1], zip(*columns.values(), strict=True), strict=True))
        assert len(found) == len(columns[1]), "a row is there twice"
        assert found == {n: tuple(row.values.get(number) for number in columns) for n, row in expected.items()}
        assert scan.count() == len(expected)
        lineage: dict[int, tuple[int | None, int | None]] = {}
        if snapshot.first_row_id is not None:
            names = ["n", "_row_id", "_last_updated_sequence_number"]
            listed = table.scan(version=snapshot.snapshot_id, columns=names).to_arrow().to_pydict()
            lineage = dict(zip(listed["n"], zip(listed["_row_id"], listed[names[2]], strict=True), strict=True))
            numbers = [row_id for row_id, _ in lineage.values()]
            assert None not in numbers
            assert len(set(numbers)) == len(numbers)
            assert all(number < table.metadata.next_row_id for number in numbers)
        known = self.lineage.setdefault(snapshot.snapshot_id, lineage)
        assert lineage == known
        earlier = self.lineage.get(snapshot.parent_snapshot_id or -1, {})
        for n in lineage.keys() & earlier.keys():
            assert lineage[n] == earlier[n], "a row that nobody changed has another id or age"

    @invariant()
    def history_is_one_line(self) -> None:
        for before, after in pairwise(self.pointer.states[self.checked_states - 1 :]):
            old, new = before.metadata, after.metadata
            assert new.last_sequence_number >= old.last_sequence_number
            assert new.next_row_id >= old.next_row_id
            assert new.last_updated_ms >= old.last_updated_ms
            known = {snapshot.snapshot_id for snapshot in old.snapshots}
            numbers = [one.sequence_number for one in new.snapshots if one.snapshot_id not in known]
            if new.format_version > 1:
                assert numbers == [old.last_sequence_number + 1 + index for index in range(len(numbers))]
        self.checked_states = len(self.pointer.states)
        metadata = self.table.metadata
        assert metadata == self.pointer.load().metadata
        assert {name: ref.snapshot_id for name, ref in metadata.refs.items()} == self.refs
        assert {snapshot.snapshot_id for snapshot in metadata.snapshots} == set(self.snapshots)

    @invariant()
    def files_are_what_snapshots_need(self) -> None:
        metadata, stored = self.table.metadata, self.stored()
        used: set[str] = set()
        for snapshot in metadata.snapshots:
            used |= self.check_files(metadata, snapshot)
        assert used <= stored, "a file that a snapshot needs is not there"
        left = {location for location in stored - used - self.may_be_left if location.endswith(".avro")}
        assert not left, "a manifest or list was left behind"

    def check_files(self, metadata: TableMetadata, snapshot: Snapshot) -> set[str]:
        context = Context(metadata, self.table.store)
        manifests = context.manifests(snapshot)
        used = {manifest.manifest_path for manifest in manifests} | {snapshot.manifest_list or ""}
        live: dict[str, int] = {}
        targets: list[str] = []
        vectors: list[str] = []
        for entries in _entries(context, manifests):
            assert (entries.numpy(ids.SEQUENCE_NUMBER) <= snapshot.sequence_number).all()
            paths = entries.column(ids.FILE_PATH).to_pylist()
            used.update(paths)
            data = entries.numpy(ids.CONTENT) == Content.DATA
            for path, is_data, rows in zip(paths, data, entries.numpy(ids.RECORD_COUNT), strict=True):
                if is_data:
                    assert path not in live, "a data file is listed twice"
                    live[path] = int(rows)
            vectors += entries.filter(is_vector(entries)).column(ids.REFERENCED_DATA_FILE).to_pylist()
            targets += [path for path in target_paths(entries).to_pylist() if path is not None]
        assert len(set(vectors)) == len(vectors), "two vectors for one data file"
        assert set(vectors) <= set(live), "a vector outlived its data file"
        if snapshot.summary.get("total-data-files") is not None:
            assert snapshot.summary["total-data-files"] == str(len(live))
            assert snapshot.summary["total-records"] == str(sum(live.values()))
        return used


def _entries(context: Context, manifests: list[Any]) -> Iterator[Any]:
    for entries in context.reader.read(manifests, ALL_COLUMNS):
        yield entries.filter(entries.live)


def _name_of(schema: Schema, number: int) -> str:
    name = schema.name_of(number)
    assert name is not None
    return name


def machine_of(version: int) -> type[Tables]:
    return type(f"TablesV{version}", (Tables,), {"version": version})


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=max(1, settings().max_examples // 4))
@given(data=st.data())
def test_a_transaction_comes_as_a_whole_after_what_others_did_to_the_same_rows(
    version: int, data: st.DataObject
) -> None:
    tables = machine_of(version)()
    try:
        for _ in range(2):
            made, before = tables.append(data, tables.table, "main"), tables.rows("main")
            made.commit()
            tables.took_place("main", made.effect(before))
        other_table = another_handle(tables.table)
        others = tables.change_of_rows(data, other_table, "main")
        tables.transact(data, "main", [tables.append, tables.change_of_rows], others, other_table)
        tables.history_is_one_line()
        tables.files_are_what_snapshots_need()
    finally:
        tables.teardown()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_random_actions_keep_what_must_hold(version: int) -> None:
    machine = machine_of(version)
    examples = max(1, settings().max_examples // 4)
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=15))
