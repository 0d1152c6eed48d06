"""Long work tells how far it is, on a terminal and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import StringIO
from typing import TextIO

import pyarrow as pa
import pytest

import frazil
from frazil import progress
from frazil.progress import Progress


class Terminal:
    """Both ends of a pseudo-terminal."""

    def __init__(self) -> None:
        self._near, far = os.openpty()
        self.out: TextIO = os.fdopen(far, "w")

    def shown(self) -> str:
        """What is on it."""
        self.out.write("$")
        self.out.flush()
        text = ""
        while not text.endswith("$"):
            text += os.read(self._near, 1 << 16).decode()
        return text[:-1]

    def close(self) -> None:
        self.out.close()
        os.close(self._near)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal on which even short work is shown."""
    monkeypatch.setattr(progress, "_AFTER", 0.0)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    found = Terminal()
    yield found
    found.close()


def test_steps_are_shown_as_a_bar(terminal: Terminal) -> None:
    with Progress("rewriting", 4, out=terminal.out) as steps:
        steps.step()
        steps.step(3)
    shown = terminal.shown()
    assert "rewriting [=======                       ] 1/4" in shown
    assert f"rewriting [{'=' * 30}] 4/4\r\n" in shown


def test_where_the_end_is_not_known_steps_are_counted(terminal: Terminal) -> None:
    with Progress("listing", out=terminal.out) as steps:
        steps.step(12_000)
    assert "\rlisting 12,000\r\n" in terminal.shown()


def test_what_is_done_soon_needs_no_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_AFTER", 60.0)
    with Progress("rewriting", 2, out=terminal.out) as steps:
        steps.step(2)
    assert terminal.shown() == ""


def test_nothing_is_shown_elsewhere_or_when_not_wanted(terminal: Terminal) -> None:
    out = StringIO()
    with Progress("rewriting", 1, out=out) as steps:
        steps.step()
    with Progress("rewriting", 1, shown=False, out=terminal.out) as steps:
        steps.step()
    assert (out.getvalue(), terminal.shown()) == ("", "")


def test_upkeep_shows_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal.out)
    table = frazil.connect("memory://progress").create_table("db.t", pa.schema({"a": pa.int64()}))
    for number in range(3):
        table.overwrite(pa.table({"a": [number]}))
    table.rewrite_manifests().commit()
    table.expire_snapshots().older_than(table.current_snapshot.timestamp_ms + 1).retain_last(1).commit()
    table.remove_orphan_files()
    shown = terminal.shown()
    for line in ("rewriting manifests", "reading manifests", "deleting files", "listing files"):
        assert line in shown, line
