"""Branches and tags: created, moved, renamed, removed, and how long they are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from frazil.errors import AlreadyExists, CommitConflict, InvalidArgument
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.refs import BRANCH, MAIN, TAG, SnapshotRef, checked_ref_name
from frazil.iceberg.requirements import AssertRefSnapshotId
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import RemoveSnapshotRef, SetSnapshotRef, Update

_Step = Callable[[Context, TableMetadata], dict[str, SnapshotRef]]


class ManageRefs(Action):
    """Changes to refs, in the order they are given; a later one sees what an earlier one did."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._steps: list[_Step] = []

    def create_branch(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
    ) -> Self:
        """A new branch at a snapshot, the current one if none is given."""
        return self._create(
            name,
            snapshot_id,
            kind=BRANCH,
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )

    def create_tag(self, name: str, snapshot_id: int | None = None, *, max_ref_age_ms: int | None = None) -> Self:
        """A new tag at a snapshot, the current one if none is given."""
        return self._create(name, snapshot_id, kind=TAG, max_ref_age_ms=max_ref_age_ms)

    def replace_branch(self, name: str, to: int | str) -> Self:
        """Move a branch to any snapshot, given by id or by the name of another ref. Its retention stays."""
        return self._change(name, BRANCH, lambda metadata, ref: replace(ref, snapshot_id=_snapshot_id(metadata, to)))

    def replace_tag(self, name: str, snapshot_id: int) -> Self:
        """Move a tag to another snapshot."""
        return self._change(
            name, TAG, lambda metadata, ref: replace(ref, snapshot_id=_snapshot_id(metadata, snapshot_id))
        )

    def fast_forward(self, branch: str, to: str) -> Self:
        """Move a branch on to where another ref is, if nothing of the branch is lost by that.

        A branch that does not exist is created there.
        """

        def step(context: Context, metadata: TableMetadata) -> dict[str, SnapshotRef]:
            target = metadata.ref(to).snapshot_id
            if branch not in metadata.refs:
                return {**metadata.refs, checked_ref_name(branch): SnapshotRef(target)}
            ref = _existing(metadata, branch, BRANCH)
            if not metadata.is_ancestor(ref.snapshot_id, target):
                message = f"{branch} cannot be fast-forwarded: its snapshot is not an ancestor of that of {to}"
                hint = "cherry-pick what is missing, or replace the branch and lose what only it has"
                raise InvalidArgument(message, hint=hint) if not context.attempt else CommitConflict(message, hint=hint)
            return {**metadata.refs, branch: replace(ref, snapshot_id=target)}

        return self._step(step)

    def rename_branch(self, name: str, new_name: str) -> Self:
        """Give a branch another name."""
        checked_ref_name(new_name)
        if name == MAIN:
            raise InvalidArgument("main cannot be renamed", hint="create a branch at the same snapshot")

        def step(_: Context, metadata: TableMetadata) -> dict[str, SnapshotRef]:
            ref = _existing(metadata, name, BRANCH)
            _check_free(metadata, new_name)
            return {new_name if key == name else key: ref if key == name else old for key, old in metadata.refs.items()}

        return self._step(step)

    def remove_branch(self, name: str) -> Self:
        """Remove a branch; its snapshots stay until they expire."""
        if name == MAIN:
            raise InvalidArgument("main cannot be removed", hint="drop the table, or delete its rows")
        return self._remove(name, BRANCH)

    def remove_tag(self, name: str) -> Self:
        """Remove a tag; its snapshot stays until it expires."""
        return self._remove(name, TAG)

    def set_min_snapshots_to_keep(self, branch: str, count: int | None) -> Self:
        """How many snapshots of a branch are kept at least; None: as the table's properties say."""
        return self._change(branch, BRANCH, lambda _, ref: replace(ref, min_snapshots_to_keep=count))

    def set_max_snapshot_age_ms(self, branch: str, age_ms: int | None) -> Self:
        """How old snapshots of a branch may become; None: as the table's properties say."""
        return self._change(branch, BRANCH, lambda _, ref: replace(ref, max_snapshot_age_ms=age_ms))

    def set_max_ref_age_ms(self, name: str, age_ms: int | None) -> Self:
        """How old a branch or tag may become before it is removed; None: as the table's properties say."""
        return self._change(name, None, lambda _, ref: replace(ref, max_ref_age_ms=age_ms))

    def _create(self, name: str, snapshot_id: int | None, **members: Any) -> Self:
        checked_ref_name(name)
        SnapshotRef(0, **members)  # refuse impossible retention at once

        def step(_: Context, metadata: TableMetadata) -> dict[str, SnapshotRef]:
            _check_free(metadata, name)
            target = metadata.current_snapshot_id if snapshot_id is None else _snapshot_id(metadata, snapshot_id)
            if target is None:
                raise InvalidArgument(
                    f"{name!r} cannot be created: the table has no snapshot yet", hint="write to it first"
                )
            return {**metadata.refs, name: SnapshotRef(target, **members)}

        return self._step(step)

    def _change(self, name: str, kind: str | None, change: Callable[[TableMetadata, SnapshotRef], SnapshotRef]) -> Self:
        def step(_: Context, metadata: TableMetadata) -> dict[str, SnapshotRef]:
            return {**metadata.refs, name: change(metadata, _existing(metadata, name, kind))}

        return self._step(step)

    def _remove(self, name: str, kind: str) -> Self:
        def step(_: Context, metadata: TableMetadata) -> dict[str, SnapshotRef]:
            _existing(metadata, name, kind)
            return {key: ref for key, ref in metadata.refs.items() if key != name}

        return self._step(step)

    def _step(self, step: _Step) -> Self:
        self._steps.append(step)
        return self

    def stage(self, context: Context) -> Staged:
        before, metadata = context.metadata.refs, context.metadata
        for step in self._steps:
            refs = step(context, metadata)
            current = refs[MAIN].snapshot_id if MAIN in refs else None
            metadata = replace(metadata, refs=refs, current_snapshot_id=current)
        after = metadata.refs
        removed = [name for name in before if name not in after]
        changed = [name for name, ref in after.items() if before.get(name) != ref]
        updates: list[Update] = [RemoveSnapshotRef(name) for name in removed]
        updates += [SetSnapshotRef(name, after[name]) for name in changed]
        requirements = [
            AssertRefSnapshotId(name, before[name].snapshot_id if name in before else None)
            for name in (*removed, *changed)
        ]
        return Staged(tuple(updates), tuple(requirements))


def _check_free(metadata: TableMetadata, name: str) -> None:
    found = metadata.refs.get(name)
    if found is not None:
        raise AlreadyExists(f"{found.kind} {name!r} exists already", hint="replace it, or choose another name")


def _existing(metadata: TableMetadata, name: str, kind: str | None) -> SnapshotRef:
    ref = metadata.ref(name)
    if kind is not None and ref.kind != kind:
        raise InvalidArgument(f"{name!r} is a {ref.kind}, not a {kind}", hint=f"use the calls for a {ref.kind}")
    return ref


def _snapshot_id(metadata: TableMetadata, target: int | str) -> int:
    snapshot_id = metadata.ref(target).snapshot_id if isinstance(target, str) else target
    return metadata.snapshot(snapshot_id).snapshot_id
