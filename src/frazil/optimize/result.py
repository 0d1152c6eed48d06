"""What optimizing did to a table, or to a lake, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from frazil.optimize.evaluate import Health, Kind, as_size, counted
from frazil.optimize.outcome import COUNTS, Outcome
from frazil.optimize.upkeep import Upkeep

_SHOWN = 20


@dataclass(frozen=True)
class OptimizeResult:
    """One table. With `dry_run` nothing was changed, and `plan` says what would be done first."""

    table: str
    health: Health
    """As it was before."""
    runs: tuple[Outcome, ...] = ()
    upkeep: tuple[Upkeep, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why there was, or is, something to do; or why not."""
    problems: tuple[str, ...] = ()
    dry_run: bool = False
    planned: Kind | None = None
    planned_tasks: int = 0
    planned_files: int = 0
    planned_bytes: int = 0

    @property
    def kind(self) -> Kind | None:
        """The most that was done, or is to be."""
        return max((run.kind for run in self.runs if run.kind is not None), default=self.planned)

    def count(self, name: str) -> int:
        """Files of all runs together, by name: `data_files_added` and so on."""
        return sum(int(getattr(run, name)) for run in self.runs)

    def __bool__(self) -> bool:
        return self.kind is not None or any(one.count for one in self.upkeep)

    def lines(self) -> Iterator[str]:
        """All of it in words."""
        told = "would be" if self.dry_run else "was"
        kind = "nothing" if self.kind is None else f"a {self.kind.name.lower()} optimizing"
        yield f"health {self.health.score} of 100; {kind} {told} done"
        if self.dry_run and self.planned is not None:
            files, size = counted(self.planned_files, "file"), as_size(self.planned_bytes)
            yield f"{counted(self.planned_tasks, 'task')} to read {files} of {size}"
        counts = [f"{self.count(name)} {name.replace('_', ' ')}" for name in COUNTS if self.count(name)]
        if counts:
            yield ", ".join(counts)
        yield from self._some(self.reasons)
        yield from self._some(self.health.reasons)
        yield from map(str, self.upkeep)
        yield from self.problems

    def _some(self, lines: Sequence[str]) -> Iterator[str]:
        yield from lines[:_SHOWN]
        if len(lines) > _SHOWN:
            yield f"and {len(lines) - _SHOWN} more"

    def __repr__(self) -> str:
        return f"OptimizeResult({self.table}: {'; '.join(self.lines())})"

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.lines())
        return f"<b>{escape(self.table)}</b><ul>{lines}</ul>"


@dataclass(frozen=True)
class LakeResult:
    """All tables of a lake, those in the worst health first."""

    tables: tuple[OptimizeResult, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    """Tables that could not be optimized, and why."""

    def __iter__(self) -> Iterator[OptimizeResult]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __bool__(self) -> bool:
        return any(self.tables)

    def __getitem__(self, name: str) -> OptimizeResult:
        return next(one for one in self.tables if one.table == name)

    def __repr__(self) -> str:
        done = sum(map(bool, self.tables))
        failed = f", {len(self.problems)} failed" if self.problems else ""
        return f"LakeResult({counted(len(self), 'table')}, {done} with something to do{failed})"

    def _repr_html_(self) -> str:
        told = [(one.table, str(one.health.score), _word(one.kind), "; ".join(one.lines())) for one in self.tables]
        told += [(name, "", "failed", why) for name, why in self.problems]
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in told)
        head = "<tr><th>table</th><th>health</th><th>kind</th><th>what and why</th></tr>"
        return f"<b>{escape(repr(self))}</b><table>{head}{rows}</table>"


def _word(kind: Kind | None) -> str:
    return "" if kind is None else kind.name.lower()
