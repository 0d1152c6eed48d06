"""Random sequences of actions, with other writers in between: what must always hold of a table (RELIABILITY.md C3)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from frazil import ambient
from frazil.ambient import now_ms
from frazil.errors import CommitConflict, CommitStateUnknown, InvalidArgument
from frazil.iceberg.table import IcebergTable
from tests.properties.memory_table import another_handle
from tests.properties.modelled_table import SPECS, Change, Inside, ModelledTable, Rows, name_of

BRANCHES = st.sampled_from(["main", "main", "b"])


class Tables(ModelledTable, RuleBasedStateMachine):
    """What happens to one table, by its own writers and by others."""

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
            if self.table.metadata.snapshot_or_none(snapshot_id) is None:
                assert effect(rows) == rows  # after the other writer there was nothing left to do
                continue
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

    @rule(names=st.sets(st.sampled_from(["data/x.parquet", "data/cat=a/x.avro", "metadata/x.avro", "x"])))
    def remove_orphans(self, names: set[str]) -> None:
        """Exactly what no metadata tells of goes: what was planted, and what refused and lost commits left."""
        for name in names:
            self.table.store.write(f"{self.table.location}/{name}", b"stray")
        state = self.pointer.load()
        needed = {state.metadata_location, *(entry.metadata_file for entry in state.metadata.metadata_log)}
        for snapshot in state.metadata.snapshots:
            needed |= self.check_files(state.metadata, snapshot)
        before = self.stored()
        with ambient.replaced(ambient.Ambient(seed=1, start_ms=now_ms() + 4 * 24 * 3_600_000)):
            result = another_handle(self.table).remove_orphan_files()
        assert set(result.orphan_file_locations) == before - needed
        assert self.stored() == before & needed
        self.may_be_left &= needed

    @rule(data=st.data())
    def evolve_schema(self, data: st.DataObject) -> None:
        schema = self.table.schema
        kind = data.draw(st.sampled_from(["add", "rename", "drop"]))
        self.names += 1
        change = self.table.update_schema()
        if kind == "add":
            change.add_column(f"x{self.names}", "long").commit()
        elif kind == "rename":
            change.rename_column(name_of(schema, data.draw(st.sampled_from([2, 3]))), f"y{self.names}").commit()
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
            term = term.replace("cat", f"`{name_of(self.table.schema, 2)}`")
            change.add_field(term, f"p{self.names}")
        change.commit()

    @precondition(lambda self: self.table.format_version < 3)
    @rule(data=st.data())
    def upgrade(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 3)) == 0:
            self.table.upgrade_format_version().to(self.table.format_version + 1).commit()

    # What must hold

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
