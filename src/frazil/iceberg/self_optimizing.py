"""`table.optimize(...)`, for Iceberg tables and those that consist of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.model.expressions import Expression

if TYPE_CHECKING:
    from frazil.optimize.result import OptimizeResult
    from frazil.optimize.tasks import Executor


class SelfOptimizing:
    """Tables that can be optimized."""

    def optimize(
        self,
        kind: str | None = None,
        *,
        where: str | Expression | None = None,
        sort_by: str | None = None,
        dry_run: bool = False,
        upkeep: bool = True,
        executor: Executor | None = None,
        spark: Any = None,
    ) -> OptimizeResult:
        """Rewrite small files and files with many deletes, and move changes of a keyed table to its base store.

        By default what is due by the properties `self-optimizing.*`, which are Amoro's; with `kind` at least a `minor`,
        `major` or `full` one at once. `where` limits it to partitions that may have matching rows. `sort_by` rewrites
        what is not in that order yet: `"ts DESC, id"` or `"zorder(a, b)"`. Then `upkeep`: rows, changes, snapshots and
        deletes go that are old, and orphan files if the table says so. `dry_run` only says what would be done, and why.
        With `spark` files are rewritten there, else in this process.
        """
        from frazil.optimize.run import Request, optimize_table

        if spark is not None:
            from frazil.spark.optimize.executor import SparkExecutor

            executor = SparkExecutor(spark)
        told: dict[str, Any] = {} if executor is None else {"executor": executor}
        table: Any = self
        return optimize_table(table, Request(kind, where, sort_by, dry_run=dry_run, upkeep=upkeep, **told))
