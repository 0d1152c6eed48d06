"""The conflict matrix of the format, cell by cell: our rules, our commits, and pylance's own on top of ours.

Rows are what was committed first, columns what comes second and does not know of it. R: may be tried again, X: never.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from frazil.errors import CommitConflict, CommitFailed
from frazil.io.roaring import serialize32
from frazil.io.store import Stores
from frazil.lance.commit import commit, new_transaction
from frazil.lance.conflicts import verdict
from frazil.lance.deletions import write_deletions
from frazil.lance.history import History
from frazil.lance.proto import messages as m
from frazil.lance.rebase import Change
from frazil.lance.schema import fields_of
from frazil.lance.table import LanceTable
from frazil.lance.version import LanceVersion
from frazil.lance.write import FileTarget, write_fragments

MATRIX = """
first   |Append|DelF0|DelF1|DelAllF0|Overwr|Project|Merge|Restore|CfgSame|CfgOther|ReplF0|RewrF0|RewrF1|UpdF0|Index
Append  |      |     |     |        |      |R      |R    |       |       |        |      |      |      |     |
DelF0   |      |R    |     |R       |      |       |R    |       |       |        |      |R     |      |R    |
DelF1   |      |     |R    |        |      |       |R    |       |       |        |      |      |R     |     |
DelAllF0|      |R    |     |R       |      |       |R    |       |       |        |X     |R     |      |R    |
Overwr  |X     |X    |X    |X       |R     |X      |X    |       |       |        |X     |X     |X     |X    |X
Project |R     |     |     |        |      |R      |X    |       |       |        |R     |      |      |R    |
Merge   |R     |R    |R    |R       |      |R      |R    |       |       |        |R     |R     |R     |R    |
Restore |X     |X    |X    |X       |      |X      |X    |       |       |        |X     |X     |X     |X    |X
CfgSame |      |     |     |        |      |       |     |       |X      |        |      |      |      |     |
ReplF0  |      |R    |     |R       |      |R      |R    |       |       |        |R     |R     |      |R    |R
RewrF0  |      |R    |     |R       |      |       |R    |       |       |        |R     |R     |      |R    |R
RewrF1  |      |     |R    |        |      |       |R    |       |       |        |      |      |R     |     |R
UpdF0   |      |R    |     |R       |      |R      |R    |       |       |        |R     |R     |      |R    |
Index   |      |     |     |        |      |       |     |       |       |        |R     |R     |R     |     |R
"""


def _cells() -> list[tuple[str, str, str]]:
    header, *rows = [[part.strip() for part in line.split("|")] for line in MATRIX.strip().splitlines()]
    found = []
    for first, *outcomes in rows:
        found += [(first, second, outcome) for second, outcome in zip(header[1:], outcomes, strict=True)]
    return found


CELLS = _cells()


def base(folder: Path) -> tuple[History, LanceVersion]:
    """A table of two fragments, at version 2."""
    rows = pa.table({"x": pa.array(range(10)), "y": [str(n) for n in range(10)]})
    table = LanceTable.create(Stores(), str(folder), rows.schema, rows)
    table.append(rows)
    return History(Stores(), str(folder)), table.current_snapshot


def written(history: History, at: LanceVersion, count: int = 10) -> list[m.DataFragment]:
    rows = pa.table({"x": pa.array(range(count)), "y": ["n"] * count})
    return write_fragments(history.store, FileTarget.of(at), rows.to_batches())


def deleted(history: History, at: LanceVersion, number: int) -> m.DataFragment:
    made = m.DataFragment()
    made.CopyFrom(at.manifest.fragments[number])
    made.deletion_file.CopyFrom(write_deletions(history.store, at.folder, number, at.version, np.array([number + 1])))
    return made


def operation(kind: str, history: History, at: LanceVersion) -> dict[str, Any]:
    """One shape of each operation, as the matrix was measured."""
    fragments = at.manifest.fragments
    match kind:
        case "Append":
            return {"append": m.Append(fragments=written(history, at))}
        case "DelF0" | "DelF1":
            return {"delete": m.Delete(updated_fragments=[deleted(history, at, int(kind[-1]))])}
        case "DelAllF0":
            return {"delete": m.Delete(deleted_fragment_ids=[0])}
        case "Overwr":
            return {"overwrite": m.Overwrite(fragments=written(history, at), schema=at.manifest.fields)}
        case "Project":
            return {"project": m.Project(schema=list(at.manifest.fields)[:1])}
        case "Merge":
            more = fields_of(pa.schema({"z": pa.int32()}), 2)
            return {"merge": m.Merge(fragments=fragments, schema=[*at.manifest.fields, *more])}
        case "Restore":
            return {"restore": m.Restore(version=1)}
        case "CfgSame" | "CfgOther":
            entry = m.UpdateMapEntry(key=kind, value="v")
            return {"update_config": m.UpdateConfig(config_updates=m.UpdateMap(update_entries=[entry]))}
        case "ReplF0":
            (file,) = written(history, at)[0].files
            group = m.DataReplacementGroup(fragment_id=0, new_file=file)
            return {"data_replacement": m.DataReplacement(replacements=[group])}
        case "RewrF0" | "RewrF1":
            new = written(history, at)
            group = m.RewriteGroup(old_fragments=[fragments[int(kind[-1])]], new_fragments=new)
            return {"rewrite": m.Rewrite(groups=[group])}
        case "UpdF0":
            new = written(history, at, 1)
            return {"update": m.Update(updated_fragments=[deleted(history, at, 0)], new_fragments=new)}
        case "Index":
            bitmap = serialize32(np.array([0, 1]))
            details = m.Any(type_url="/lance.table.BTreeIndexDetails")
            index = m.IndexMetadata(
                fields=[0], name="x_idx", dataset_version=2, fragment_bitmap=bitmap, index_details=details
            )
            index.uuid.uuid = bytes(range(16))
            return {"create_index": m.CreateIndex(new_indices=[index])}
    raise AssertionError(kind)


def change(kind: str, history: History, at: LanceVersion) -> Change:
    return Change(new_transaction(at.version, **operation(kind, history, at)), at)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table that each cell begins with, to be copied."""
    folder = tmp_path_factory.mktemp("matrix") / "t"
    base(folder)
    return folder


def copied(template: Path, folder: Path) -> tuple[History, LanceVersion]:
    shutil.copytree(template, folder)
    history = History(Stores(), str(folder))
    return history, history.load(2)


@pytest.mark.parametrize("first", dict.fromkeys(cell[0] for cell in CELLS))
def test_our_rules(template: Path, tmp_path: Path, first: str) -> None:
    history, at = copied(template, tmp_path / "t")
    before = change(first, history, at).transaction
    expected = {second: outcome for one, second, outcome in CELLS if one == first}
    found = {second: verdict(before, change(second, history, at).transaction).value for second in expected}
    assert found == expected


@pytest.mark.parametrize("first", dict.fromkeys(cell[0] for cell in CELLS))
def test_our_commits(template: Path, tmp_path: Path, first: str) -> None:
    expected = {second: outcome for one, second, outcome in CELLS if one == first}
    found = {}
    for second in expected:
        history, at = copied(template, tmp_path / second)
        late = change(second, history, at)
        assert commit(history, change(first, history, at)).version == 3
        try:
            made = commit(history, late)
        except (CommitFailed, CommitConflict) as error:
            found[second] = "R" if error.retryable else "X"
            assert history.latest().version == 3
        else:
            found[second] = ""
            assert made.version == 4
            lance.dataset(tmp_path / second).validate()
    assert found == expected


def theirs(kind: str, folder: Path) -> Any:
    """The same operation in pylance's words, on its own view of version 2."""
    dataset = lance.dataset(folder, version=2)
    operations = lance.LanceOperation
    old = [fragment.metadata for fragment in dataset.get_fragments()]

    def new(count: int = 10) -> Any:
        rows = pa.table({"x": pa.array(range(count)), "y": ["n"] * count})
        return lance.fragment.write_fragments(rows, dataset, schema=dataset.schema, mode="append")

    def with_deletes(number: int) -> Any:
        return dataset.get_fragments()[number].delete(f"x = {number + 1}")

    match kind:
        case "Append":
            return operations.Append(new())
        case "DelF0" | "DelF1":
            return operations.Delete([with_deletes(int(kind[-1]))], [], "x = 1")
        case "DelAllF0":
            return operations.Delete([], [0], "true")
        case "Overwr":
            return operations.Overwrite(dataset.schema, new())
        case "Project":
            return operations.Project(lance.schema.LanceSchema.from_pyarrow(pa.schema([dataset.schema.field("x")])))
        case "Merge":
            schema = dataset.schema.append(pa.field("z", pa.int32()))
            return operations.Merge(old, lance.schema.LanceSchema.from_pyarrow(schema))
        case "Restore":
            return operations.Restore(1)
        case "CfgSame" | "CfgOther":
            return operations.UpdateConfig(config_updates=operations.UpdateMap({kind: "v"}))
        case "RewrF0" | "RewrF1":
            group = operations.RewriteGroup([old[int(kind[-1])]], new())
            return operations.Rewrite([group], [])
        case "UpdF0":
            return operations.Update([], [with_deletes(0)], new(1), [])
    raise AssertionError(f"{kind} has no form of its own in pylance's API")


ORACLE = ["Append", "DelF0", "DelF1", "DelAllF0", "Overwr", "Project", "Merge", "Restore", "CfgSame", "CfgOther",
          "RewrF0", "RewrF1", "UpdF0"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("first", dict.fromkeys(cell[0] for cell in CELLS))
def test_pylance_on_top_of_ours(template: Path, tmp_path: Path, first: str) -> None:
    expected = {second: bool(outcome) for one, second, outcome in CELLS if one == first and second in ORACLE}
    found = {}
    for second in expected:
        history, at = copied(template, tmp_path / second)
        late = theirs(second, tmp_path / second)
        commit(history, change(first, history, at))
        try:
            lance.LanceDataset.commit(tmp_path / second, late, read_version=2)
        except (OSError, ValueError, RuntimeError):
            found[second] = True
        else:
            found[second] = False
            assert history.latest().version == 4
    assert found == expected
