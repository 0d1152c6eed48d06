"""Every table that Amoro's library wrote gives its rows through Spark's reader, by a join, and through workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyspark
import pytest

from frazil.errors import Unsupported
from frazil.spark.mixed.handle import MixedHandle, current
from tests.mixed.goldens import cases, expected, golden
from tests.mixed.test_goldens import DOUBTFUL, KEYED, UNREADABLE
from tests.spark.mixed.conftest import WAYS
from tests.spark.scan.golden_rows import columns_spark_lacks, rows_in_process, rows_of

READ = [case for case in cases() if case not in DOUBTFUL]
ONLY_BY_WORKERS = {"k_orc"}


def refused(handle: Any, read: Callable[..., Any]) -> bool:
    """Whether the table has types that this Spark lacks: it says so then."""
    lacking = columns_spark_lacks(pyspark.__version__, handle.schema)
    if lacking:
        with pytest.raises(Unsupported, match=f"column '{lacking[0]}' has type .* cannot hold"):
            read(handle)
    return bool(lacking)


@pytest.mark.parametrize("case", READ)
def test_rows_are_those_of_the_kernel_which_are_those_of_amoro(case: str, read: Callable[..., Any]) -> None:
    table = golden(case)
    handle = current(table)
    if refused(handle, read):
        return
    names = [*handle.schema.columns, "_file", "_pos"]
    wanted = rows_in_process(table.scan(columns=names))
    if case not in UNREADABLE:
        assert wanted.total() == len(expected(case)["rows"])
    for way, options in WAYS.items():
        assert rows_of(read(handle, names, **options)) == wanted, way


@pytest.mark.parametrize("case", [case for case in READ if "/" not in case and case not in ONLY_BY_WORKERS])
def test_spark_reads_them_itself(case: str, read: Callable[..., Any]) -> None:
    handle = current(golden(case))
    if refused(handle, read):
        return
    plan = read(handle, handle.schema.columns)._jdf.queryExecution().optimizedPlan().toString()
    assert "Frazil by Arrow" not in plan


def test_files_that_spark_cannot_read_are_refused_when_its_reader_is_asked_for(read: Callable[..., Any]) -> None:
    with pytest.raises(Unsupported, match="another format"):
        read(current(golden("k_orc")), **{"frazil.scan": "native"})


@pytest.mark.parametrize("case", sorted(DOUBTFUL))
def test_an_optimized_sequence_that_names_no_partition_is_refused(case: str, read: Callable[..., Any]) -> None:
    for options in WAYS.values():
        with pytest.raises(Unsupported, match="optimized sequence"):
            read(current(golden(case)), **options).collect()


@pytest.mark.parametrize("case", [case for case in KEYED if "/" not in case])
def test_change_rows_are_those_of_the_kernel(case: str, read: Callable[..., Any]) -> None:
    table = golden(case)
    handle = current(table)
    assert isinstance(handle, MixedHandle)
    change = handle.metadata_table("change")
    assert change is not None
    if refused(change, read):
        return
    names = change.schema.columns
    wanted = rows_in_process(table.change.scan(columns=names))  # type: ignore[arg-type]
    assert wanted.total() == len(expected(case)["change_rows"])
    for options in ({}, {"frazil.scan": "arrow"}):
        assert rows_of(read(change, names, **options)) == wanted
