"""Deleting many files that nobody needs any more: in batches, past failures, by several threads if wished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pyarrow as pa

from frazil.errors import FrazilError, InvalidArgument
from frazil.io.store import Store
from frazil.progress import Progress

Locations: TypeAlias = "Sequence[str] | pa.ChunkedArray"
_BATCH = 5_000


def delete_files(store: Store, locations: Locations, *, threads: int | None = None) -> list[str]:
    """Delete them; those that could not be deleted are given back. Only a batch at a time becomes Python objects."""
    workers = checked_threads(threads) or 1

    def delete(batch: Sequence[str]) -> list[str]:
        try:
            store.delete_many(batch)
        except FrazilError as error:
            return list(error.context.get("failed", batch))
        return []

    def batches() -> Iterator[list[str]]:
        for start in range(0, len(locations), _BATCH):
            part = locations[start : start + _BATCH]
            yield part.to_pylist() if isinstance(part, pa.ChunkedArray) else list(part)

    failed: list[str] = []
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="frazil-delete") as pool,
        Progress("deleting files", len(locations)) as progress,
    ):
        for batch in batches():
            parts = [batch[index::workers] for index in range(workers)]
            for undeleted in pool.map(delete, parts) if workers > 1 else map(delete, parts):
                failed.extend(undeleted)
            progress.step(len(batch))
    return failed


def checked_threads(count: int | None) -> int | None:
    """InvalidArgument if that cannot be a number of threads."""
    if count is not None and count < 1:
        raise InvalidArgument(f"max_concurrent_deletes is {count}", hint="use 1 or more, or leave it out")
    return count
