"""Optimizing of tables of any format, one or all of a lake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from frazil.errors import FrazilError
from frazil.iceberg.table import IcebergTable
from frazil.mixed.table import MixedTable
from frazil.optimize.result import LakeResult, OptimizeResult
from frazil.optimize.run import Request, optimize_table

if TYPE_CHECKING:
    from frazil.lance.table import LanceTable


def optimize_any(table: IcebergTable | MixedTable | LanceTable, request: Request) -> OptimizeResult:
    """Optimize a table, whatever its format."""
    if isinstance(table, IcebergTable | MixedTable):
        return optimize_table(table, request)
    from frazil.optimize.lance_tables import optimize_lance

    return optimize_lance(table, request)


def optimize_tables(names: Iterable[str], open_table: Callable[[str], Any], request: Request) -> LakeResult:
    """Optimize tables one after the other. One that cannot be does not keep the others from it."""
    done: list[OptimizeResult] = []
    problems: list[tuple[str, str]] = []
    for name in names:
        try:
            done.append(optimize_any(open_table(name), request))
        except FrazilError as error:
            problems.append((name, str(error)))
    done.sort(key=lambda one: one.health.score)
    return LakeResult(tuple(done), tuple(problems))
