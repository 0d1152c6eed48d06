"""Lance tables beside pylance's own dataset: random access, and what a commit costs when there were many.

The two take turns on the same files. Beside them, for random access, is Parquet as it can be tuned for it: small row
groups, no dictionary for the vector, and only the groups that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.probe import Job
from benchmarks.report import Line, seconds
from benchmarks.turns import compared, in_turns
from frazil.io.store import Stores
from frazil.lance.table import LanceTable

ASKED = (1, 100, 1_000)
_VECTOR = 32
_GROUP = 1_000
_OURS, _PYLANCE, _PARQUET = "frazil", "pylance", "parquet"


def rows(count: int) -> pa.Table:
    """Numbers, words and an embedding."""
    chance = np.random.default_rng(7)
    vectors = pa.array(chance.random(count * _VECTOR, np.float32))
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "score": pa.array(chance.random(count)),
            "word": pa.array([f"word {number % 5003}" for number in range(count)]),
            "embedding": pa.FixedSizeListArray.from_arrays(vectors, _VECTOR),
        }
    )


def lines(folder: Path, count: int, versions: tuple[int, int], rounds: int) -> Iterator[Line]:
    """`count` rows for random access; commits on tables of so many versions, few and many."""
    yield from taking(folder / "take", count, rounds)
    yield from committing(folder / "commit", versions, rounds)


def taking(folder: Path, count: int, rounds: int) -> Iterator[Line]:
    import lance

    made = rows(count)
    table = LanceTable.create(Stores(), str(folder / "t"), made.schema, made)
    dataset = lance.dataset(str(folder / "t"))
    parquet = folder / "t.parquet"
    pq.write_table(made, parquet, row_group_size=_GROUP, use_dictionary=["word"], write_page_index=True)
    tuned = pq.ParquetFile(parquet, pre_buffer=False)
    chance = np.random.default_rng(11)
    for asked in ASKED:
        wanted = np.sort(chance.choice(count, min(asked, count), replace=False))
        places = wanted.tolist()
        jobs = {
            _OURS: _sum_of(lambda places=places: table.take(places)),
            _PYLANCE: _sum_of(lambda places=places: dataset.take(places)),
            _PARQUET: _sum_of(lambda wanted=wanted: _from_groups(tuned, wanted)),
        }
        best = in_turns(jobs, rounds, calls=20)
        if len({one.answer for one in best.values()}) != 1:
            raise RuntimeError(f"take {asked}: the sides disagree: {best}")
        name = f"take {asked:,} of {count:,} rows of a Lance table (to pylance)"
        yield from compared(name, best[_OURS], best[_PYLANCE], 1.3)
        yield Line(f"  the same from tuned Parquet, groups of {_GROUP:,} rows", "", seconds(best[_PARQUET].wall))


def _sum_of(take: Callable[[], pa.Table]) -> Job:
    return Job(lambda: int(np.sum(take().column("id").to_numpy())))


def _from_groups(file: pq.ParquetFile, wanted: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    groups = np.unique(wanted // _GROUP)
    found = file.read_row_groups(groups.tolist())
    return found.take(np.searchsorted(groups, wanted // _GROUP) * _GROUP + wanted % _GROUP)


def committing(folder: Path, versions: tuple[int, int], rounds: int) -> Iterator[Line]:
    few, many = versions
    tables = {number: _with_versions(folder / str(number), number) for number in versions}
    jobs = {str(number): Job(lambda table=table: _append(table)) for number, table in tables.items()}
    best = in_turns(jobs, rounds, calls=3)
    yield from compared(
        f"append to a Lance table of {many:,} versions (to one of {few:,})", best[str(many)], best[str(few)], 1.5
    )


def _with_versions(folder: Path, count: int) -> LanceTable:
    """A table with so many versions, and few fragments: it is the history that is long."""
    table = LanceTable.create(Stores(), str(folder), pa.schema([("id", pa.int64())]), [{"id": 0}])
    for number in range(count - 1):
        table.update_properties({"note": str(number)})
    return table


def _append(table: LanceTable) -> int:
    table.append([{"id": 1}])
    return 1
