"""Older releases of pylance work on our tables, and we on theirs."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from frazil.io.store import Stores
from frazil.lance.table import LanceTable
from tests.interop.pylance.conftest import PYTHONS
from tests.lance.test_table import made, numbers

pytestmark = pytest.mark.interop


def asked(python: str, folder: Path, code: str) -> Any:
    """Run code with pylance's `ds` of a folder; what it leaves in `answer` comes back."""
    lines = [
        "import json, sys, lance, pyarrow as pa",
        "folder = sys.argv[1]",
        "rows = lambda n, s=0: pa.table({'a': pa.array(range(s, s + n)), 'b': [str(k) for k in range(s, s + n)]})",
        "answer = None",
        textwrap.dedent(code),
        "print(json.dumps(answer))",
    ]
    run = subprocess.run([python, "-c", "\n".join(lines), str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("file_version", ["2.0", "2.1"])
@pytest.mark.parametrize("stable", [False, True])
def test_on_our_table(python: str, tmp_path: Path, file_version: str, stable: bool) -> None:
    table = made(tmp_path, numbers(100), file_version=file_version, stable_row_ids=stable)
    table.append(numbers(100, 100))
    table.delete("a < 10")
    table.update({"b": "'u'"}, "a = 50")
    table.add_columns({"c": "a * 2"})
    table.drop_columns("b")
    table.create_tag("ours")
    found = asked(
        python,
        tmp_path,
        """
        ds = lance.dataset(folder)
        ds.validate()
        lance.write_dataset(ds.to_table().slice(0, 5), folder, mode='append')
        ds = lance.dataset(folder)
        ds.delete('a = 150')
        ds.optimize.compact_files()
        ds.tags.create('theirs', ds.latest_version)
        ds = lance.dataset(folder)
        ds.validate()
        answer = [ds.version, ds.count_rows(), sorted(ds.tags.list()), sorted(ds.to_table()['a'].to_pylist())]
        """,
    )
    table.refresh()
    assert found[:3] == [table.version, 194, ["ours", "theirs"]]
    assert sorted(table.scan().to_arrow().column("a").to_pylist()) == found[3]
    assert table.scan(ref="theirs").count() == 194
    table.append(table.scan(limit=3).to_arrow())
    table.delete("a = 199")
    table.compact()
    read = "ds = lance.dataset(folder); ds.validate(); answer = sorted(ds.to_table()['a'].to_pylist())"
    assert asked(python, tmp_path, read) == sorted(table.scan().to_arrow().column("a").to_pylist())


@pytest.mark.parametrize("python", PYTHONS)
def test_on_their_table(python: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    asked(
        python,
        folder,
        """
        ds = lance.write_dataset(rows(100), folder, max_rows_per_file=40, data_storage_version='2.0')
        ds.delete('a % 3 = 0')
        ds = lance.dataset(folder)
        ds.add_columns({'c': 'a * 2'})
        ds.update({'b': "'x'"}, where='a = 50')
        ds.tags.create('first', 1)
        """,
    )
    table = LanceTable.open(Stores(), str(folder))
    assert table.scan(ref="first").count() == 100
    assert table.scan("b = 'x'", ["a", "c"]).to_arrow().to_pylist() == [{"a": 50, "c": 100}]
    names = [file.name for file in (folder / "_versions").glob("*.manifest")]
    table.append(table.scan(limit=2).to_arrow())
    table.delete("a < 10")
    table.update({"b": "'y'"}, "a = 61")
    table.compact()
    new = [file.name for file in (folder / "_versions").glob("*.manifest") if file.name not in names]
    assert {len(name) > 20 for name in new} == {len(name) > 20 for name in names}  # in their naming
    read = "ds = lance.dataset(folder); ds.validate(); answer = sorted(ds.to_table()['a'].to_pylist())"
    assert asked(python, folder, read) == sorted(table.scan().to_arrow().column("a").to_pylist())
