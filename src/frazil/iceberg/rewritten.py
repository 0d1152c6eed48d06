"""What rewriting files came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class RewrittenDataFiles:
    """Counts of a compaction, by Iceberg's names."""

    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    rewritten_bytes_count: int = 0
    failed_data_files_count: int = 0
    removed_delete_files_count: int = 0

    def __add__(self, other: RewrittenDataFiles) -> RewrittenDataFiles:
        mine, theirs = asdict(self), asdict(other)
        return RewrittenDataFiles(**{name: mine[name] + theirs[name] for name in mine})

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{count:,}</td></tr>" for name, count in asdict(self).items())
        return f"<table>{cells}</table>"
