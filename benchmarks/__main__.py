"""`python -m benchmarks [--quick] [--write]`: measure, print the table; the exit code says if a target was missed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from benchmarks import lance_tables, spark_scan, spark_write
from benchmarks.probe import Measured, probe
from benchmarks.report import Line, as_page, as_text, from_json, machine, megabytes, seconds
from benchmarks.tables import FILES_PER_MANIFEST, SMALL, write_table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
FRAZIL, PYICEBERG = "frazil", "pyiceberg"
Part = Callable[[], Iterator[Line]]


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    manifests: int = 200
    many_manifests: int = 2_000
    added_files: int = 50_000
    rows: int = 5_000_000
    rounds: int = 3
    imports: int = 10
    spark_rows: int = 20_000_000
    spark_files: tuple[int, ...] = (10_000, 100_000)
    small_files: int = 2_000
    lance_rows: int = 1_000_000
    lance_versions: tuple[int, int] = (10, 1_000)
    mixed_stream: tuple[int, int, int] = (10_000_000, 1_000_000, 100)
    """Rows of a mixed table, changes that stream into it, and commits that bring them."""
    lance_scanned: int = 10_000_000
    fresh: bool = True
    """Whether each measurement has a process of its own."""


QUICK = Sizes(
    manifests=10,
    many_manifests=20,
    added_files=500,
    rows=10_000,
    rounds=1,
    imports=1,
    spark_rows=8_000,
    spark_files=(20, 40),
    small_files=20,
    lance_rows=2_000,
    lance_versions=(2, 4),
    mixed_stream=(4_000, 400, 4),
    lance_scanned=8_000,
    fresh=False,
)


class Bench:
    """Measures in fresh processes, the sides taking turns, so that a busy moment of the machine hits both."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.folder, self.sizes = folder, sizes
        write_table(folder / SMALL, 1)

    @cached_property
    def medium(self) -> Path:
        return self._table("medium", self.sizes.manifests)

    @cached_property
    def large(self) -> Path:
        return self._table("large", self.sizes.many_manifests)

    def _table(self, name: str, manifests: int) -> Path:
        write_table(self.folder / name, manifests)
        return self.folder / name

    def measure(self, job: str, path: Path, *sides: str, size: int = 0, repeat: int = 7) -> list[Measured]:
        best: dict[str, Measured] = {}
        for _ in range(self.sizes.rounds):
            for side in sides:
                # PyIceberg takes seconds where we take milliseconds: one call in each round is enough to be fair to it
                calls = repeat if side == FRAZIL else 1
                found = self._probe(side, job, path, size, calls)
                best[side] = found.better(best.get(side, found))
        answers = {one.answer for one in best.values()}
        if len(answers) != 1:
            raise RuntimeError(f"{job}: the sides disagree: {best}")
        return [best[side] for side in sides]

    def _probe(self, side: str, job: str, path: Path, size: int, calls: int) -> Measured:
        if not self.sizes.fresh:
            return probe(side, job, path, size, calls)
        return Measured(**json.loads(_python("-m", "benchmarks.probe", side, job, path, size, calls)))

    def parts(self) -> dict[str, Part]:
        """What is measured, by the titles of the page."""
        return {
            "Planning": self.planning,
            "Large tables": self.growth,
            "Commits": self.appending,
            "Import": self.importing,
            "Rows without Spark": self.rows,
            "Lance tables without Spark": self.lance,
            "Writes": self.writing_from_spark,
            "Row-level changes": self.changing_on_spark,
            "Optimizing": self.optimizing_on_spark,
            "Merged reads of mixed tables": self.merging_on_spark,
            "A stream of changes": self.streaming_changes,
            "Scans of Lance tables": self.scanning_lance,
            "Scans": self.scanning,
        }

    def planning(self) -> Iterator[Line]:
        files = f"{self.sizes.manifests * FILES_PER_MANIFEST:,} files"
        plans = (
            ("all", "no filter", 20),
            ("c1", "filter on metrics", 20),
            ("b", "filter on partitions, none pruned", None),
            ("d", "filter on partitions, all but one pruned", None),
        )
        for job, name, target in plans:
            ours, theirs = self.measure(f"plan-{job}", self.medium, FRAZIL, PYICEBERG)
            yield from _times(f"plan {files}, {name}", ours, theirs, target)
            share = ours.memory / max(theirs.memory, 1)
            line = Line(
                f"plan {files}, {name}: memory", megabytes(ours.memory), megabytes(theirs.memory), f"{share:.2f}"
            )
            yield replace(line, target="< 1/3", met=share < 1 / 3) if job == "all" else line
        ours, theirs = self.measure("plan-again", self.medium, FRAZIL, PYICEBERG, repeat=10)
        yield from _times(f"plan {files}, no filter, again", ours, theirs, 100)
        (ours,) = self.measure("plan-tasks", self.medium, FRAZIL, repeat=3)
        yield from _times(f"plan {files}, no filter, an object for each", ours, theirs)

    def growth(self) -> Iterator[Line]:
        files = f"{self.sizes.many_manifests * FILES_PER_MANIFEST:,} files"
        for job, name in (("all", "no filter"), ("c1", "filter on metrics")):
            (ours,) = self.measure(f"plan-{job}", self.large, FRAZIL, repeat=1)
            yield Line(f"plan {files}, {name}", seconds(ours.wall))
            met = ours.total_memory < 4 << 30
            yield Line(f"plan {files}, {name}: memory in all", megabytes(ours.total_memory), "", "", "< 4 GiB", met)
        (pruned,) = self.measure("plan-d", self.medium, FRAZIL)
        (same,) = self.measure("plan-d", self.large, FRAZIL)
        (listed,) = self.measure("manifest-list", self.large, FRAZIL)
        (short,) = self.measure("manifest-list", self.medium, FRAZIL)
        growth = (same.wall - listed.wall) / max(pruned.wall - short.wall, 1e-9)
        yield Line(f"plan {files}, all but one manifest pruned", seconds(same.wall))
        yield Line("  of that, the manifest list", seconds(listed.wall))
        name = f"  the rest, to that of {self.sizes.manifests * FILES_PER_MANIFEST:,} files"
        yield Line(name, seconds(same.wall - listed.wall), "", f"{growth:.1f}", "< 2", growth < 2)

    def appending(self) -> Iterator[Line]:
        size = self.sizes.added_files
        ours, theirs = self.measure("append-files", self.folder, FRAZIL, PYICEBERG, size=size, repeat=3)
        yield from _times(f"append {size:,} files (PyIceberg: fast_append)", ours, theirs, 10)

    def importing(self) -> Iterator[Line]:
        code = (
            "import sys, time; start = time.perf_counter(); import frazil; took = time.perf_counter() - start;"
            "print(took, *({'pyspark', 'pandas', 'lance'} & set(sys.modules)))"
        )
        found = [_python("-c", code).split() for _ in range(self.sizes.imports)]
        took = min(float(first) for first, *_ in found)
        loaded = sorted({name for _, *names in found for name in names})
        yield Line("import frazil", seconds(took), "", "", "< 0.3 s", took < 0.3)
        yield Line("  loads of pyspark, pandas, pylance", ", ".join(loaded) or "none", "", "", "none", not loaded)

    def rows(self) -> Iterator[Line]:
        size = self.sizes.rows
        for job, name in (("write-rows", "append"), ("read-rows", "read")):
            ours, theirs = self.measure(job, self.folder, FRAZIL, PYICEBERG, size=size, repeat=1)
            yield from _times(f"{name} {size:,} rows", ours, theirs)

    def lance(self) -> Iterator[Line]:
        sizes = self.sizes
        yield from lance_tables.lines(self.folder / "lance", sizes.lance_rows, sizes.lance_versions, sizes.rounds)

    def scanning(self) -> Iterator[Line]:
        sizes, repeat = self.sizes, 5 if self.sizes.fresh else 1
        yield from spark_scan.lines(self.folder / "scan", sizes.spark_rows, sizes.spark_files, sizes.rounds, repeat)

    def writing_from_spark(self) -> Iterator[Line]:
        yield from spark_write.lines(_python("-m", "benchmarks.spark_write", self.sizes.spark_rows, self.sizes.rounds))

    def changing_on_spark(self) -> Iterator[Line]:
        told = _python("-m", "benchmarks.spark_changes", self.sizes.spark_rows, self.sizes.rounds, "--json")
        yield from from_json(told)

    def optimizing_on_spark(self) -> Iterator[Line]:
        told = _python("-m", "benchmarks.spark_optimize", self.sizes.small_files, self.sizes.rounds, "--json")
        yield from from_json(told)

    def streaming_changes(self) -> Iterator[Line]:
        told = _python("-m", "benchmarks.mixed_stream", *self.sizes.mixed_stream, "--json")
        yield from from_json(told)

    def merging_on_spark(self) -> Iterator[Line]:
        told = _python("-m", "benchmarks.mixed_spark", self.sizes.spark_rows // 2, self.sizes.rounds, "--json")
        yield from from_json(told)

    def scanning_lance(self) -> Iterator[Line]:
        told = _python("-m", "benchmarks.lance_scan", self.sizes.lance_scanned, self.sizes.rounds, "--json")
        yield from from_json(told)


def _times(question: str, ours: Measured, theirs: Measured, target: int | None = None) -> Iterator[Line]:
    """Wall and CPU time. Where others keep the machine busy, it is CPU time that tells: either may meet a target."""
    wall, cpu = theirs.wall / ours.wall, theirs.cpu / ours.cpu
    line = Line(question, seconds(ours.wall), seconds(theirs.wall), f"{wall:.1f} x")
    yield line if target is None else replace(line, target=f">= {target} x", met=max(wall, cpu) >= target)
    yield Line(f"{question}: CPU", seconds(ours.cpu), seconds(theirs.cpu), f"{cpu:.1f} x")


def _python(*arguments: object) -> str:
    command = [sys.executable, *(str(argument) for argument in arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def run(sizes: Sizes, only: Collection[str] = ()) -> Iterator[tuple[str, Line]]:
    """All lines of the report, or of some parts of it, as they are found; each with the title of its part."""
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        parts = Bench(Path(folder), sizes).parts()
        unknown = set(only) - set(parts)
        if unknown:
            raise SystemExit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
        for title, part in parts.items():
            if not only or title in only:
                yield from ((title, line) for line in part())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: to see that everything runs")
    parser.add_argument("--write", action="store_true", help=f"write the result to {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--only", action="append", default=[], help="a part, by its title there; others stay as they are"
    )
    options = parser.parse_args()
    parts: dict[str, list[Line]] = {}
    for title, line in run(QUICK if options.quick else Sizes(), options.only):
        parts.setdefault(title, []).append(line)
        sys.stderr.write(f"{line.question}: {line.frazil} {line.peer} {line.ratio} {line.verdict}\n")
    lines = [line for found in parts.values() for line in found]
    print(machine(), as_text(lines), sep="\n\n")
    if options.write:
        PAGE.write_text(as_page(parts, PAGE.read_text() if options.only else ""))
    return 0 if options.quick or all(line.met is not False for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
