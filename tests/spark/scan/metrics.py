"""What a query did, by the metrics of its plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def files_read(frame: DataFrame) -> list[int]:
    """How many files each scan of a query that ran once has read, by the metrics of its plan."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec" else plan
    return sorted(int(scan.metrics().apply("numFiles").value()) for scan in _scans(plan))


def _scans(plan: Any) -> Iterator[Any]:
    if plan.getClass().getSimpleName() == "FileSourceScanExec":
        yield plan
    children = plan.children()
    inner = [children.apply(index) for index in range(children.size())]
    if plan.getClass().getSimpleName().endswith("QueryStageExec"):
        inner.append(plan.plan())
    for one in inner:
        yield from _scans(one)
