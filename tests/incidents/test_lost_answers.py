"""The answer to a commit is lost: what was written may be live, so nothing of it may be deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from frazil.catalog.next_metadata import settle
from frazil.errors import CatalogError, CommitConflict, CommitFailed, CommitStateUnknown, FrazilError, StoreError
from frazil.iceberg.actions.action import Context
from frazil.iceberg.table import IcebergTable
from tests.faults import Fault
from tests.incidents.lakes import CATALOGS, Place, again, ids_in, new_table, place, rows_of

ALWAYS = 10_000


class Line:
    """The way to a catalog's atomic step: it can lose answers, fail altogether, or be cut by an error of its own."""

    def __init__(self, at: Place, kind: str) -> None:
        self._at = at
        self._kind = kind

    def lose_answer(
        self,
        *,
        applied: bool = True,
        dead_after: bool = False,
        error: BaseException | None = None,
        then: Callable[[], Any] = lambda: None,
    ) -> None:
        """Lose the answer to the next commit. `dead_after`: nothing can be asked after it either."""
        if self._kind == "folder":
            self._lose_in_store(applied, dead_after, error, then)
        else:
            self._lose_in_catalog(applied, dead_after, error, then)

    def _lose_in_store(
        self, applied: bool, dead_after: bool, error: BaseException | None, then: Callable[[], Any]
    ) -> None:
        def hook(_: str) -> None:
            self._at.plan(*later)
            then()
            raise StoreError("time-out", hint="-") if error is None else error

        later = []
        if dead_after:
            later = [Fault(verb, "before", StoreError("no route"), times=ALWAYS) for verb in ("put_if_absent", "read")]
        self._at.plan(
            Fault("put_if_absent", "after" if applied else "before", match="/metadata/v", hook=hook),
        )

    def _lose_in_catalog(
        self, applied: bool, dead_after: bool, error: BaseException | None, then: Callable[[], Any]
    ) -> None:
        catalog = self._at.catalog
        swap = catalog._swap

        def unreachable(*_: Any) -> Any:
            raise CatalogError("no route", hint="-")

        def once(name: Any, old: str | None, new: str) -> bool:
            if applied:
                assert swap(name, old, new)
            catalog._swap = unreachable if dead_after else swap
            if dead_after:
                catalog._pointer = unreachable
            then()
            raise CatalogError("time-out", hint="-") if error is None else error

        catalog._swap = once

    def mend(self) -> None:
        self._at.plan()
        for name in ("_swap", "_pointer"):
            vars(self._at.catalog).pop(name, None)


@pytest.fixture(params=CATALOGS)
def scene(request: pytest.FixtureRequest) -> tuple[Place, IcebergTable, Line]:
    at = place(request.param)
    table = new_table(at)
    table.append(rows_of(1))
    return at, table, Line(at, request.param)


def check_whole(at: Place, table: IcebergTable) -> None:
    """Every file that the table's metadata names is there."""
    for snapshot in table.snapshots:
        assert snapshot.manifest_list in at.contents()
        for manifest in Context(table.metadata, at.store).manifests(snapshot):
            assert manifest.manifest_path in at.contents()
        assert all(path in at.contents() for path in table.scan(version=snapshot.snapshot_id).plan().file_paths)


Scene = tuple[Place, IcebergTable, Line]


def test_an_unknown_outcome_is_told_as_such_and_deletes_nothing(scene: Scene):
    """C4 #1 (iceberg#2317, #2328, #3717; Nessie#8413): the swap was done, the answer lost, nobody can be asked."""
    at, table, line = scene
    line.lose_answer(dead_after=True)
    with pytest.raises(CommitStateUnknown) as error:
        table.append(rows_of(2))
    assert (error.value.code, error.value.retryable) == ("COMMIT_STATE_UNKNOWN", False)
    assert error.value.hint
    assert not isinstance(error.value, CommitFailed)
    assert at.deleted() == []
    line.mend()
    assert ids_in(at.table()) == [1, 2]
    check_whole(at, at.table())


def test_an_unknown_outcome_of_a_commit_that_was_not_applied_deletes_nothing_either(scene: Scene):
    """C4 #1: not applied looks the same from here, so it is treated the same."""
    at, table, line = scene
    line.lose_answer(applied=False, dead_after=True)
    with pytest.raises(CommitStateUnknown):
        table.append(rows_of(2))
    assert at.deleted() == []
    line.mend()
    assert ids_in(at.table()) == [1]
    table.refresh().append(rows_of(3))
    assert ids_in(at.table()) == [1, 3]


def test_a_conflict_with_our_own_first_success_is_a_success(scene: Scene):
    """C4 #2 and #3 (iceberg#12818, lance#8123): the retry finds the pointer moved, by the first try itself."""
    at, table, line = scene
    line.lose_answer()
    table.append(rows_of(2))
    assert ids_in(table) == ids_in(at.table()) == [1, 2]
    assert len(table.history) == 2
    assert at.deleted() == []
    check_whole(at, at.table())


def test_our_success_is_found_in_the_history_when_others_have_committed_since(scene: Scene):
    """C4 #2: between the lost answer and the question another writer commits on top of ours."""
    at, table, line = scene
    line.lose_answer(then=lambda: (line.mend(), at.table().append(rows_of(3))))
    table.append(rows_of(2))
    assert ids_in(at.table()) == [1, 2, 3]
    assert len(at.table().history) == 3
    check_whole(at, at.table())


def test_a_lost_request_that_another_writer_outran_is_worked_out_again(scene: Scene):
    """C4 #2, the other way: the request itself was lost, and somebody else was first. Rows come in once."""
    at, table, line = scene
    line.lose_answer(applied=False, then=lambda: (line.mend(), at.table().append(rows_of(3))))
    table.append(rows_of(2))
    assert ids_in(at.table()) == [1, 2, 3]
    assert len(at.table().history) == 3
    check_whole(at, at.table())


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), SystemExit(1), RecursionError()], ids=repr)
def test_an_error_between_the_swap_and_its_answer_deletes_nothing(scene: Scene, error: BaseException):
    """C4 #5 (duckdb-iceberg#1120, ClickHouse#1676, iceberg#12499, #4673): out of memory reading the success."""
    at, table, line = scene
    line.lose_answer(error=error)
    with pytest.raises(type(error)):
        table.append(rows_of(2))
    assert at.deleted() == []
    line.mend()
    assert ids_in(at.table()) == [1, 2]
    check_whole(at, at.table())


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=repr)
def test_an_error_after_the_swap_of_any_job_deletes_nothing(scene: Scene, error: BaseException):
    """C4 #5: the same for rewrites, overwrites and transactions, which have more to clean up."""
    at, table, line = scene

    def transaction() -> None:
        with table.transaction() as change:
            change.update_properties().set("a", "b").commit()
            change.rewrite_manifests().commit()

    jobs: list[Callable[[], Any]] = [
        lambda: table.delete("id = 1"),
        lambda: table.overwrite(rows_of(7, 8)),
        lambda: table.delete("id = 7"),
        transaction,
    ]
    for number, job in enumerate(jobs):
        table.refresh()
        line.lose_answer(error=error)
        with pytest.raises(type(error)):
            job()
        line.mend()
        assert at.deleted() == []
        assert len(at.table().snapshots) == number + 2
        check_whole(at, at.table())
    assert ids_in(at.table()) == [8]


def test_an_interrupt_while_tidying_up_after_a_commit_leaves_the_commit(scene: Scene):
    """C4 #5: the commit is in; what only tidies up may fail in any way."""
    at, table, line = scene
    other = again(table)
    other.append(rows_of(2))
    # table is behind: its first manifest list is left over after the retry, and deleting it is interrupted
    at.plan(Fault("delete", "before", KeyboardInterrupt(), match="snap-"))
    with pytest.raises(KeyboardInterrupt):
        table.append(rows_of(3))
    line.mend()
    assert ids_in(at.table()) == [1, 2, 3]
    check_whole(at, at.table())


def test_a_store_that_fails_while_tidying_up_does_not_fail_the_commit(scene: Scene):
    """C4 #1: failing to delete what is left over is no failure of the commit."""
    at, table, line = scene
    again(table).append(rows_of(2))
    at.plan(Fault("delete", "before", StoreError("no"), times=ALWAYS))
    table.append(rows_of(3))
    line.mend()
    assert ids_in(at.table()) == [1, 2, 3]


def test_a_definite_refusal_leaves_no_file_behind(scene: Scene):
    """C4 #1, the other side: when it is certain that nothing was applied, what was written goes again."""
    at, table, _ = scene
    again(table).append(rows_of(2))
    before = at.contents()
    with pytest.raises(CommitConflict):
        table.overwrite(rows_of(9))  # of all rows that it knew, which another writer has added to
    assert at.contents() == before
    assert ids_in(at.table()) == [1, 2]


class LossyCommit:
    """SQLite's COMMIT goes through, and then the connection is gone; later ones may fail to connect at all."""

    def __init__(self, catalog: Any, monkeypatch: pytest.MonkeyPatch, *, dead_after: bool) -> None:
        self._engine = catalog._engine
        self._patch = monkeypatch
        self._dead_after = dead_after
        self.commits = 0
        monkeypatch.setattr(self._engine.dialect, "do_commit", self._commit)

    def _commit(self, connection: Any) -> None:
        connection.commit()
        self.commits += 1
        if self._dead_after:
            self._patch.setattr(self._engine.dialect, "do_execute", self._dead)
            self._patch.setattr(self._engine.dialect, "do_execute_no_params", self._dead)
        else:
            self._patch.undo()
        raise sqlite3.OperationalError("server closed the connection unexpectedly")

    @staticmethod
    def _dead(*_: Any) -> None:
        raise sqlite3.OperationalError("could not connect to server")


@contextmanager
def sqlite_scene() -> Iterator[tuple[Place, IcebergTable]]:
    at = place("sqlite")
    table = new_table(at)
    table.append(rows_of(1))
    try:
        yield at, table
    finally:
        at.catalog.close()


def test_a_database_connection_lost_after_commit_is_found_out(monkeypatch: pytest.MonkeyPatch):
    """C4 #4 (polaris#5263, #5458): COMMIT was done, the connection dropped before its answer; then it is back."""
    with sqlite_scene() as (at, table):
        lossy = LossyCommit(at.catalog, monkeypatch, dead_after=False)
        table.append(rows_of(2))
        assert lossy.commits == 1
        assert ids_in(at.table()) == [1, 2]
        assert at.deleted() == []
        check_whole(at, at.table())


def test_a_database_that_stays_away_after_commit_leaves_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch):
    """C4 #4: the database stays away. Neither the metadata file nor a manifest is removed on the way out."""
    with sqlite_scene() as (at, table):
        LossyCommit(at.catalog, monkeypatch, dead_after=True)
        with pytest.raises(CommitStateUnknown):
            table.append(rows_of(2))
        monkeypatch.undo()
        assert at.deleted() == []
        assert ids_in(at.table()) == [1, 2]
        check_whole(at, at.table())


def test_a_new_table_whose_answer_was_lost_is_there(scene: Scene):
    """C4 #1 for creation: the first pointer was stored and the answer lost."""
    at, _, line = scene
    line.lose_answer()
    made = new_table(at, name="db.other")
    made.append(rows_of(5))
    assert ids_in(at.table("db.other")) == [5]
    line.lose_answer(dead_after=True)
    with pytest.raises(CommitStateUnknown):
        new_table(at, name="db.third")
    assert at.deleted() == []
    line.mend()
    assert ids_in(at.table("db.third")) == []


@pytest.mark.parametrize("kind", CATALOGS)
def test_newer_metadata_that_cannot_be_read_leaves_the_outcome_unknown(kind: str):
    """C4 #2: the answer is lost, and what others committed since is of a format version this library cannot read.

    Our commit may well be in that history: "cannot read" is not "was refused".
    """
    at = place(kind)
    table = new_table(at)
    table.append(rows_of(1))
    line = Line(at, kind)

    def others_upgrade() -> None:
        line.mend()
        newest = at.table()
        newest.append(rows_of(3))
        location = newest.metadata_location
        at.store.inner.write(
            location, at.store.inner.read(location).replace(b'"format-version":2', b'"format-version":9')
        )
        if kind == "folder":  # and the version that ours was based on is gone
            at.store.inner.delete(table.metadata_location)

    line.lose_answer(then=others_upgrade)
    with pytest.raises(CommitStateUnknown):
        table.append(rows_of(2))
    assert at.deleted() == []


def test_a_question_that_fails_in_an_unexpected_way_settles_nothing():
    """C4 #2: only "it was refused" may lead to cleaning up; any other error means that nobody knows."""
    table = new_table()

    def ask() -> Any:
        raise FrazilError("something else", hint="-")

    with pytest.raises(CommitStateUnknown):
        settle(table.metadata, "memory://x/y", StoreError("lost"), ask)
