"""Two commands that see the same snapshot: what is left is what one after the other leaves, or the later is refused.

The later command has read the table and written its files when the other one commits. With `serializable`, rows are
those of one of the two orders. With `snapshot` they may also be those that snapshot isolation allows: the later command
has not seen what the other one did, but no row was changed by both (so an insertion may have been overlooked, or two
commands may each have changed what the other looked at, but no change is lost).
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from frazil.errors import CommitConflict
from frazil.iceberg.transaction import Transaction
from tests.spark.changes.conftest import left_behind
from tests.spark.changes.layouts import COPY, MERGE, modes
from tests.spark.changes.model import append, counted, delete, merge, numbered, replace_where, truncate, update

_ROWS = [(1, 10, 0), (2, 20, 0), (5, 5, 0), (3, 30, 1), (4, 40, 1), (6, 6, 1)]
"""A file for each partition. No command but of a whole partition takes all rows of one: then the file would go, which
others notice anyhow.
"""
COMMANDS = {
    "append": append((7, 35, 1), (8, 25, 0)),
    "delete": delete("v >= 20 AND v % 20 = 0", lambda row: row[1] >= 20 and row[1] % 20 == 0),
    "delete part": delete("part = 1", lambda row: row[2] == 1),
    "update": update("v = v + 1000", "v >= 20", lambda row: row[1] >= 20, lambda row: (row[0], row[1] + 1000, row[2])),
    "update moves": update(
        "part = 1 - part", "id IN (2, 3, 7)", lambda row: row[0] in (2, 3, 7), lambda row: (*row[:2], 1 - row[2])
    ),
    "merge": merge((2, 100, 0), (7, 500, 1)),
    "merge inserts": merge((7, 300, 1), (9, 1, 0)),
    "overwrite part": replace_where("part = 1", lambda row: row[2] == 1, (50, 25, 1)),
    "overwrite": replace_where("v >= 30", lambda row: row[1] >= 30, (60, 65, 0)),
    "truncate": truncate(),
}
_ALWAYS = {("update", "delete"), ("merge inserts", "merge inserts")}
"""Pairs that are tried on both versions, in all modes and levels, also in a hurry: the first is anomaly I1."""


def _cases():
    kinds = list(product((2, 3), (COPY, MERGE), ("serializable", "snapshot")))
    for number, (first, second) in enumerate(product(COMMANDS, repeat=2)):
        long = {"append", "truncate", "overwrite part", "delete part", "update moves", "merge inserts"}
        for index, (version, mode, level) in enumerate(kinds):
            now = (first, second) in _ALWAYS or (not long & {first, second} and number * 3 % len(kinds) == index)
            case = f"{first}-{second}-v{version}-{mode}-{level}"
            yield pytest.param(first, second, version, mode, level, id=case, marks=() if now else pytest.mark.slow)


@pytest.fixture
def interrupted(monkeypatch):
    """Let something happen just before the next commit."""
    plain = Transaction.commit

    def before(what):
        def commit(self):
            monkeypatch.setattr(Transaction, "commit", plain)
            what()
            return plain(self)

        monkeypatch.setattr(Transaction, "commit", commit)

    yield before
    assert Transaction.commit is plain, "nothing was committed"


@pytest.fixture
def made(lake, name):
    def make(version, mode, level, files=1):
        properties = {**modes(mode, level), "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}
        table = lake.create_table(
            name.removeprefix("lake."),
            "id BIGINT, v BIGINT, part INT",
            partition_by=["part"],
            format_version=version,
            properties=properties,
        )
        table.append([dict(zip(("id", "v", "part"), row, strict=True)) for row in _ROWS])

    return make


def _found(table):
    return Counter(tuple(row.values()) for row in table().scan().to_arrow().to_pylist())


def _snapshot_isolated(first, second, rows):
    """What is left if the second did not see the first; None if both changed one row."""
    one, other = first.delta(rows), second.delta(rows)
    return None if one.gone & other.gone else counted(other.on(one.on(rows)))


@pytest.mark.parametrize(("first", "second", "version", "mode", "level"), list(_cases()))
def test_two_commands(spark, name, table, made, interrupted, first, second, version, mode, level):
    made(version, mode, level)
    rows, one, other = numbered(_ROWS), COMMANDS[first], COMMANDS[second]
    interrupted(lambda: spark.sql(one.text.format(t=name)))
    try:
        spark.sql(other.text.format(t=name))
    except CommitConflict:
        assert second != "append", "an append depends on nothing"
        assert _found(table) == counted(one.after(rows))
    else:
        allowed = [counted(other.after(one.after(rows))), counted(one.after(other.after(rows)))]
        if level == "snapshot":
            allowed.append(_snapshot_isolated(one, other, rows))
        assert _found(table) in allowed
    assert left_behind(table()) == []


_NEAR = {
    "delete": delete("part = 0 AND v % 20 = 0", lambda row: row[2] == 0 and row[1] % 20 == 0),
    "update": update(
        "v = -v", "part = 0 AND id > 1", lambda row: row[2] == 0 and row[0] > 1, lambda row: (row[0], -row[1], row[2])
    ),
    "merge": merge((2, 100, 0), (9, 900, 0), on="t.id = s.id AND t.part = 0", part=0),
}
_FAR = {
    "append": append((7, 35, 1)),
    "delete": delete("part = 1 AND id % 2 = 0", lambda row: row[2] == 1 and row[0] % 2 == 0),
    "update": update(
        "v = v + 1", "part = 1 AND id = 3", lambda row: row[0] == 3, lambda row: (row[0], row[1] + 1, row[2])
    ),
    "merge": merge((3, 1, 1), (11, 1, 1), on="t.id = s.id AND t.part = 1", part=1),
    "overwrite": replace_where("part = 1", lambda row: row[2] == 1, (50, 25, 1)),
}


def _apart():
    kinds = list(product((2, 3), (COPY, MERGE)))
    for number, (first, second) in enumerate(product(_FAR, _NEAR)):
        for index, (version, mode) in enumerate(kinds):
            case = f"{first}-{second}-v{version}-{mode}"
            marks = () if (number * 3 + 1) % len(kinds) == index else pytest.mark.slow
            yield pytest.param(first, second, version, mode, id=case, marks=marks)


@pytest.mark.parametrize(("first", "second", "version", "mode"), list(_apart()))
def test_commands_on_other_partitions_do_not_hinder_each_other(
    spark, name, table, made, interrupted, first, second, version, mode
):
    made(version, mode, "serializable")
    rows, one, other = numbered(_ROWS), _FAR[first], _NEAR[second]
    interrupted(lambda: spark.sql(one.text.format(t=name)))
    spark.sql(other.text.format(t=name))
    assert _found(table) == counted(other.after(one.after(rows)))
    assert left_behind(table()) == []


_THIS = {
    "delete": delete("id BETWEEN 1 AND 2 AND v % 20 = 0", lambda row: row[0] == 2),
    "update": update("v = 0", "id < 2", lambda row: row[0] < 2, lambda row: (row[0], 0, row[2])),
    "merge": merge((1, 5, 0), (2, 6, 0)),
}
_THAT = {
    "delete": delete("id = 3", lambda row: row[0] == 3),
    "update": update("v = v + 1", "id = 3", lambda row: row[0] == 3, lambda row: (row[0], row[1] + 1, row[2])),
    "merge": merge((4, 1, 1), (7, 1, 1)),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("second", _THIS)
@pytest.mark.parametrize("first", _THAT)
def test_marks_in_other_files_of_a_partition_do_not_hinder_each_other(
    spark, lake, name, table, interrupted, first, second, version
):
    made = lake.create_table(
        name.removeprefix("lake."), "id BIGINT, v BIGINT, part INT", format_version=version, properties=modes(MERGE)
    )
    for some in (_ROWS[:2], _ROWS[3:5]):
        made.append([dict(zip(("id", "v", "part"), row, strict=True)) for row in some])
    rows, one, other = numbered([*_ROWS[:2], *_ROWS[3:5]]), _THAT[first], _THIS[second]
    interrupted(lambda: spark.sql(one.text.format(t=name)))
    spark.sql(other.text.format(t=name))
    assert _found(table) == counted(other.after(one.after(rows)))
    assert left_behind(table()) == []


@pytest.mark.parametrize(
    "second",
    [
        delete("id BETWEEN 1 AND 2 AND v % 20 = 0", lambda row: row[0] == 2),
        update("v = 0", "id < 2", lambda row: row[0] < 2, lambda row: (row[0], 0, row[2])),
        merge((1, 5, 0), (2, 6, 0)),
    ],
    ids=["delete", "update", "merge"],
)
def test_commands_on_other_ranges_of_keys_do_not_hinder_each_other(spark, lake, name, table, interrupted, second):
    """Files whose bounds say that they hold no such keys: those of the rows that were appended meanwhile, too."""
    made = lake.create_table(name.removeprefix("lake."), "id BIGINT, v BIGINT, part INT", properties=modes(COPY))
    made.append([dict(zip(("id", "v", "part"), row, strict=True)) for row in _ROWS[:3]])
    made.append([dict(zip(("id", "v", "part"), row, strict=True)) for row in _ROWS[3:]])
    rows = numbered(_ROWS)
    first = update("v = v + 1", "id = 3", lambda row: row[0] == 3, lambda row: (row[0], row[1] + 1, row[2]))
    more = append((100, 1, 0))

    def meanwhile():
        spark.sql(first.text.format(t=name))
        spark.sql(more.text.format(t=name))

    interrupted(meanwhile)
    spark.sql(second.text.format(t=name))
    assert _found(table) == counted(second.after(more.after(first.after(rows))))
