"""Two committers at every pair of commands: one has planned and written, and is about to commit when the other does.

What is left is what one after the other leaves, or the later got a conflict. Every file that a snapshot needs is there,
every snapshot that was kept reads as before, and no other file is left.
"""

from __future__ import annotations

from itertools import product
from pkgutil import resolve_name

import pytest

from frazil.errors import CommitConflict, FrazilError
from tests.spark.changes.conftest import left_behind
from tests.spark.changes.model import numbered
from tests.spark.changes.pairs import COMMANDS, HEAD, Refused, State, rows_at, scene
from tests.spark.write.disk import path_of

_LAYOUTS = {"v1": (1, False), "v2": (2, False), "v2 by partition": (2, True), "v3": (3, False)}
_ABOUT_DELETES = {"overwrite dynamic", "delete marks", "update marks", "merge marks", "upsert"}
_ABOUT_DELETES |= {"rewrite data", "rewrite deletes", "convert"}
_TELLING = {
    ("update marks", "delete marks", "v2"),
    ("merge inserts marks", "delete marks", "v2"),
    ("merge inserts copies", "delete marks", "v3"),
    ("merge inserts copies", "delete part", "v2"),
    ("delete below", "delete above", "v2"),
    ("delete marks", "rewrite deletes", "v3"),
    ("rewrite data", "upsert", "v3"),
    ("convert", "rewrite data", "v2"),
    ("expire", "merge copies", "v2"),
    ("expire files", "rollback", "v3"),
    ("orphans", "append", "v2"),
    ("merge marks", "repartition", "v2"),
    ("upsert", "repartition", "v2"),
    ("overwrite dynamic", "unpartition", "v3"),
    ("rewrite data", "unpartition", "v2"),
    ("update copies", "add column", "v3"),
    ("merge copies", "widen column", "v2"),
}


def _makes_sense(first, second, layout):
    version = _LAYOUTS[layout][0]
    if layout == "v2 by partition":
        return {first, second} <= _ABOUT_DELETES
    return all(COMMANDS[name].least_version <= version for name in (first, second))


def _cases():
    names = list(COMMANDS)
    for layout, (one, first), (two, second) in product(_LAYOUTS, enumerate(names), enumerate(names)):
        if not _makes_sense(first, second, layout) or second == "expire files":
            continue
        turn = one % 2 == 0 and (one * 7 + 3) % len(names) == two and layout == ("v2", "v3")[one // 2 % 2]
        now = turn or (first, second, layout) in _TELLING
        case = f"{first}-{second}-{layout}"
        yield pytest.param(first, second, layout, id=case, marks=() if now else pytest.mark.slow)


def _in_order(version, *names):
    """The rows after one command and then the other, and who is refused."""
    state, refused = State(numbered(HEAD), version=version), set()
    for place, name in names:
        try:
            state = COMMANDS[name].after(state)
        except Refused:
            refused.add(place)
    return sorted(state.rows.values()), refused


def _once_before(monkeypatch, what, happens):
    """Let something happen just before something else is done for the first time."""
    plain = resolve_name(what)
    waiting = [happens]

    def done(*arguments, **named):
        if waiting:
            waiting.pop()()
        return plain(*arguments, **named)

    monkeypatch.setattr(what, done)
    return waiting


@pytest.mark.parametrize(("first", "second", "layout"), list(_cases()))
def test_two_committers(spark, lake, name, monkeypatch, first, second, layout):
    """`first` is about to commit when `second` comes."""
    at = scene(spark, lake, name, *_LAYOUTS[layout])
    failed = {}

    def attempt(place, command):
        try:
            command.run(at)
        except FrazilError as error:
            failed[place] = error

    def meanwhile():
        at.prepare(COMMANDS[second])
        attempt("second", COMMANDS[second])

    at.prepare(COMMANDS[first])
    waiting = _once_before(monkeypatch, COMMANDS[first].before, meanwhile)
    attempt("first", COMMANDS[first])
    assert not waiting, "the first did nothing"
    orders = [(("first", first), ("second", second)), (("second", second), ("first", first))]
    version = _LAYOUTS[layout][0]
    allowed = [_in_order(version, *order) for order in orders]
    conflicts = {place for place, error in failed.items() if isinstance(error, CommitConflict)}
    if conflicts == {"first"} == failed.keys():
        allowed.append((_in_order(version, ("second", second))[0], {"first"}))
    assert (rows_at(at.table), failed.keys()) in allowed, failed
    _check_files(at, {first, second})


def _check_files(at, names):
    table = at.table
    for snapshot in table.snapshots:
        found = rows_at(table, snapshot.snapshot_id)
        assert at.known.get(snapshot.snapshot_id, found) == found
    for kind in ("all_data_files", "all_delete_files", "all_manifests"):
        column = "path" if kind == "all_manifests" else "file_path"
        gone = [path for path in table.inspect(kind).column(column).to_pylist() if not path_of(path).exists()]
        assert gone == []
    assert at.orphan.exists() == ("orphans" not in names)
    assert left_behind(table) == [str(at.orphan)] * at.orphan.exists()
    if table.format_version >= 3:
        ids = table.scan(columns=["_row_id"]).to_arrow().column(0)
        given = ids.drop_null()
        assert len(given) == (0 if table.current_snapshot.first_row_id is None else len(ids))
        assert len(given.unique()) == len(given)
