"""The Python blocks of the README and of docs/ do what the text around them says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages(*, spark: bool) -> list[Path]:
    """The pages with code that starts Spark, or those without."""
    found = [(page, "\n".join(BLOCK.findall(page.read_text()))) for page in PAGES]
    return [page for page, code in found if code and ((".spark(" in code) == spark)]


def blocks(page: Path) -> list[str]:
    """The blocks of a page, each after as many empty lines as stand before it: a traceback shows the page's lines."""
    text = page.read_text()
    return ["\n" * (text.count("\n", 0, block.start()) + 1) + block[1] for block in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", pages(spark=False), ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for source in blocks(page):
        exec(compile(source, str(page), "exec"), names)  # the point of this test


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("page", pages(spark=True), ids=lambda page: page.name)
def test_the_code_of_a_page_runs_with_spark(page: Path, tmp_path: Path) -> None:
    """In a process of its own, as a reader's."""
    program = "import sys\nnames = {}\nfor source in sys.argv[2:]:\n"
    program += "    exec(compile(source, sys.argv[1], 'exec'), names)\n"
    done = subprocess.run(
        [sys.executable, "-c", program, str(page), *blocks(page)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
