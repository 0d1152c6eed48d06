"""Tables that Amoro's library wrote, optimized on Spark: they keep the rows that it reads, and come to rest."""

from __future__ import annotations

import shutil

import pytest

import frazil
from tests.golden_values import encode_rows
from tests.mixed.goldens import GOLDENS, expected
from tests.mixed.test_goldens import READ, counted

ENDS = [case for case in READ if (GOLDENS / case / "warehouse/gs" / case).is_dir() and "/" not in case]
AT_REST = {"k_empty", "k_optimize", "k_schema", "u_append"}


@pytest.mark.parametrize("case", ENDS)
def test_rows_are_those_amoro_reads(spark, tmp_path, case):
    shutil.copytree(GOLDENS / case / "warehouse", tmp_path / "w")
    told = expected(case)
    key = told.get("primary_key") if case.startswith("c_") else None
    table = frazil.open(tmp_path / "w/gs" / case, relocate=True, primary_key=key)
    done = [table.optimize(kind, upkeep=False, spark=spark) for kind in ("minor", "full")]
    assert any(one.runs for one in done) == (case not in AT_REST)
    assert not any(one.problems for one in done)
    scan = table.scan()
    assert counted(encode_rows(scan.to_arrow(), scan.output)) == counted(told["rows"])
    assert not table.optimize("full", upkeep=False).runs
