"""What one run of optimizing came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.counts import Counts
from frazil.optimize.evaluate import Kind
from frazil.optimize.plan import OptimizingPlan


@dataclass(frozen=True, slots=True)
class Outcome(Counts):
    """One run: its kind, and the files that came and went. Without a kind there was nothing to do."""

    kind: Kind | None = None
    data_files_added: int = 0
    data_files_removed: int = 0
    delete_files_added: int = 0
    delete_files_removed: int = 0
    snapshot_id: int | None = None
    problems: tuple[str, ...] = ()
    """Of tasks that failed, each alone."""
    plan: OptimizingPlan | None = field(default=None, repr=False)

    def counts(self) -> dict[str, int]:
        """The counts of files by name."""
        return {name: getattr(self, name) for name in COUNTS}

    @property
    def has_gained(self) -> bool:
        """Whether it left fewer files than it took, or moved changes, or failed in part."""
        moved = self.plan is not None and bool(self.plan.to_sequence)
        fewer = self.data_files_added < self.data_files_removed or self.delete_files_removed > 0
        return moved or fewer or bool(self.problems)

    def __bool__(self) -> bool:
        return self.kind is not None


COUNTS = ("data_files_added", "data_files_removed", "delete_files_added", "delete_files_removed")
