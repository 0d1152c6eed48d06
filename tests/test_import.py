"""`import frazil` is light, and offers what the README shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import frazil

SOURCE = str(Path(frazil.__file__).parent.parent)


def run(code: str) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_loads_nothing_heavy() -> None:
    heavy = "('pyarrow', 'numpy', 'sqlalchemy', 'obstore', 'wasmtime', 'pyspark', 'pandas', 'lance')"
    assert run(f"import frazil\nprint([name for name in {heavy} if name in sys.modules])") == "[]"


def test_working_with_a_table_loads_no_engine() -> None:
    code = (
        "import frazil\n"
        "table = frazil.connect('memory:').create_table('db.t', 'id BIGINT')\n"
        "assert table.scan().plan() is not None\n"
        "print([name for name in ('pyspark', 'lance', 'sqlalchemy') if name in sys.modules])"
    )
    assert run(code) == "[]"


def test_importing_takes_less_than_three_tenths_of_a_second() -> None:
    code = "import time\nstart = time.perf_counter()\nimport frazil\nprint(time.perf_counter() - start)"
    assert min(float(run(code)) for _ in range(3)) < 0.3


def test_every_public_name_can_be_had_and_is_listed() -> None:
    for name in frazil.__all__:
        assert getattr(frazil, name) is not None
        assert name in dir(frazil)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = frazil.nothing_of_that_name
