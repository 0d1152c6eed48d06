"""Optimistic commits: work a change out, swap the metadata if nobody else was first, else work it out again.

Several actions may go into one transaction: they are applied one after the other and become visible together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from frazil import ambient
from frazil.errors import MAY_BE_COMMITTED, CommitConflict, CommitFailed, FileMissing, FrazilError, InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.actions.action import Action, Context, used_files
from frazil.iceberg.committer import Committer, TableState
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.readable import refuse_unreadable
from frazil.iceberg.requirements import AssertTableUuid, Requirement
from frazil.iceberg.updates import Update, apply_updates
from frazil.io.store import Store


class Transaction:
    """Actions that become visible together. As a context manager it commits at the end, unless the block raised.

    With `autocommit` every action is committed as it is added: that is how an action stands alone.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        base: TableState,
        *,
        autocommit: bool = False,
        on_commit: Callable[[TableState], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._committer = committer
        self._base = base
        self._autocommit = autocommit
        self._on_commit = on_commit
        self._actions: list[Action] = []
        self._working = base.metadata
        self._written: list[str] = []
        self._updates: list[Update] = []
        self._requirements: dict[tuple[type[Requirement], str | None], Requirement] = {}
        self._done = False
        self._committed = False

    @property
    def store(self) -> Store:
        return self._store

    @property
    def is_committed(self) -> bool:
        """Whether the actions are known to be applied."""
        return self._committed

    @property
    def metadata(self) -> TableMetadata:
        """The table as it will be: with the actions added so far."""
        return self._working

    @property
    def base(self) -> TableMetadata:
        """The table as it was when the transaction began."""
        return self._base.metadata

    def add(self, action: Action) -> None:
        """Add an action to the transaction; its effect shows in `metadata` at once."""
        if self._done:
            raise InvalidArgument("the transaction is finished", hint="start a new one")
        try:
            self._stage_added(action)
        except BaseException:
            if self._autocommit:
                self._abandon()
            raise
        self._actions.append(action)
        if self._autocommit:
            self.commit()

    def _stage_added(self, action: Action) -> None:
        try:
            self._stage(action, 0)
        except FileMissing:
            # others may have expired the snapshot this began on: then the newest one will do
            newest = self._committer.load()
            if newest.metadata_location == self._base.metadata_location:
                raise
            self._stage_all(newest, [*self._actions, action], 0)

    def _stage(self, action: Action, attempt: int) -> None:
        staged = action.stage(Context(self._working, self._store, attempt, self._written, self.base))
        self._working = apply_updates(self._working, staged.updates) if staged.updates else self._working
        self._updates.extend(staged.updates)
        for requirement in staged.requirements:
            # a later action sees what an earlier one of this transaction did: only the first knew the table as it is
            self._requirements.setdefault((type(requirement), getattr(requirement, "ref", None)), requirement)

    def commit(self) -> TableState:
        """Make all actions visible at once, trying again while other writers are first."""
        if self._done:
            raise InvalidArgument("the transaction is finished", hint="start a new one")
        self._done = True
        if not self._updates:
            self._committed = True
            return self._base
        retries = self._setting(props.COMMIT_NUM_RETRIES)
        wait_ms = self._setting(props.COMMIT_MIN_RETRY_WAIT_MS)
        longest_ms = self._setting(props.COMMIT_MAX_RETRY_WAIT_MS)
        deadline = ambient.now_ms() + self._setting(props.COMMIT_TOTAL_RETRY_TIME_MS)
        attempt = 0
        while True:
            try:
                state = self._swap()
            except CommitFailed:
                if attempt >= retries or ambient.now_ms() >= deadline:
                    self._abandon()
                    raise
            except MAY_BE_COMMITTED:
                raise  # what was written may be live: nothing is cleaned up
            except FrazilError:
                self._abandon()  # a definite refusal
                raise
            else:
                return self._succeeded(state)
            attempt += 1
            ambient.sleep(min(wait_ms * 2 ** (attempt - 1), longest_ms) / 1000 * (0.5 + ambient.jitter() / 2))
            self._restage(attempt)
            if not self._updates:
                return self._succeeded(self._base)  # the other writer did what was to be done

    def _setting(self, prop: props.Property[int]) -> int:
        try:
            return self._base.metadata.property_reader.get(prop)
        except InvalidArgument:
            return prop.default  # a broken setting must not keep anybody from mending it

    def _swap(self) -> TableState:
        refuse_unreadable(self._updates)
        uuid = self._base.metadata.table_uuid
        assertions = [] if uuid is None else [AssertTableUuid(uuid)]
        return self._committer.commit(self._base, self._updates, [*assertions, *self._requirements.values()])

    def _restage(self, attempt: int) -> None:
        try:
            self._stage_all(self._committer.load(), self._actions, attempt)
        except FrazilError:
            # the last attempt was definitely refused and no other was made
            self._abandon()
            raise

    def _stage_all(self, base: TableState, actions: Sequence[Action], attempt: int) -> None:
        # a table to be created has no metadata file yet: that it replaces another now is its committer's business
        if self._base.metadata_location and base.metadata.table_uuid != self._base.metadata.table_uuid:
            raise CommitConflict(
                "the table was dropped, and there is another one of its name now", hint="open the table again"
            )
        self._base, self._working = base, base.metadata
        self._updates, self._requirements = [], {}
        for action in actions:
            self._stage(action, attempt)

    def _succeeded(self, state: TableState) -> TableState:
        self._committed = True
        context = Context(state.metadata, self._store, written=self._written)
        self._on_commit(state)
        before = {snapshot.snapshot_id for snapshot in self._base.metadata.snapshots}
        added = [snapshot for snapshot in state.metadata.snapshots if snapshot.snapshot_id not in before]
        # the change is in: failing to tidy up must not look like failing to commit
        with suppress(FrazilError):
            used = used_files(context, added)
            self._store.delete_many([location for location in self._written if location not in used])
        for action in self._actions:
            action.finished(context, state)
        return state

    def _abandon(self) -> None:
        self._done = True
        with suppress(FrazilError):
            self._store.delete_many(self._written)
        self._written.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        elif not self._done:
            self._abandon()
