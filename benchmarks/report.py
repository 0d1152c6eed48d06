"""The result of a run: one line for each question, with its target beside it."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One question. `met` is None where there is no target."""

    question: str
    frazil: str
    peer: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None

    @property
    def verdict(self) -> str:
        return "" if self.met is None else "met" if self.met else "MISSED"

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.question, self.frazil, self.peer, self.ratio, self.target, self.verdict)


HEAD = ("", "Frazil", "peer", "ratio", "target", "")


def as_text(lines: Sequence[Line], peer: str = HEAD[2]) -> str:
    """The lines in columns, for a terminal."""
    table = [(*HEAD[:2], peer, *HEAD[3:]), *(line.cells for line in lines)]
    widths = [max(len(row[place]) for row in table) for place in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def as_page(parts: Mapping[str, Sequence[Line]], before: str = "") -> str:
    """A page for the documentation. Parts of the page `before` that were not measured now stay as they are."""
    told = dict(part.split("\n", 1) for part in before.split("\n## ")[1:])
    told.update((title, _as_table(lines)) for title, lines in parts.items())
    tables = "\n".join(f"## {title}\n\n{text.strip()}\n" for title, text in told.items())
    return f"""# Benchmarks

Written by `python -m benchmarks --write`; run it yourself, as only the ratios travel. {machine()}.

The peer of plans, commits, upserts and rows without Spark is PyIceberg. Elsewhere the question names it.

Both sides plan the same tables: 500 files to a manifest, 12 columns with full metrics, partitioned by `d` (one value to
a manifest) and `b` (500 values in every manifest). Each side runs in a fresh process, the two taking turns; a time is
the least of several, after a warm-up on a table of one manifest. A target is met by wall or by CPU time, since other
work on the machine makes the former long. Before each plan the caches of both are emptied, except where it says
"again". Memory is the peak of the first run above what the process had before. PyIceberg's plan is a list of objects;
Frazil's is columns, and a line of its own says what objects cost.

A stream of upserts goes into two mixed tables, of which one is optimized between commits and the other, in the column
of the peer, never is.

What Spark writes is compared with Spark's own writer, which is named in the question: the same rows, codec and kind of
timestamps, in one session, the two taking turns. Its target is met by wall time alone.

Scans of tables with deleted rows are compared with the same scan of the same files without deletes, MERGE in one mode
with the other; the question names it. Deleted and merged rows are everywhere in each file. What keys of equality
deletes take is found by the first scan and remembered by those that come "again". Commands get a new table
before each call, which has the data files of one that was made before; what they did is read and checked. Upserts are
compared by rows in a second, as PyIceberg's takes long on large tables.

Random access to Lance tables is compared with pylance's own, on the same files; Spark's scans of them with those of the
same rows in an Iceberg table, both read by Python workers through Arrow.

{tables}"""


def _as_table(lines: Sequence[Line]) -> str:
    rows = (f"| {' | '.join(cells)} |" for cells in (HEAD, *(line.cells for line in lines)))
    head = next(rows)
    return "\n".join([head, "|" + "---|" * len(HEAD), *rows])


def machine() -> str:
    """What the figures were measured on, without the names of hosts."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyiceberg", "pyarrow", "numpy", "pyspark"))
    return f"{os.cpu_count()} CPUs ({model}), {memory} GiB, Python {platform.python_version()}, {packages}"


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def seconds(value: float) -> str:
    return f"{value * 1000:.2g} ms" if value < 0.0995 else f"{value:.2f} s"


def megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB"


def from_json(answer: str) -> Iterator[Line]:
    """The lines of what a process answered that was asked for JSON."""
    for line in answer.splitlines():
        yield Line(**json.loads(line))


def tell(lines: Iterable[Line], form: str) -> int:
    """Print lines, as they come to stderr and then all; the exit code says whether targets were met."""
    found = []
    for line in lines:
        found.append(line)
        sys.stderr.write(f"{line.question}: {line.frazil} {line.peer} {line.ratio} {line.verdict}\n")
    if form == "--json":
        print(*(json.dumps(asdict(line)) for line in found), sep="\n")
        return 0
    print(machine(), as_text(found), sep="\n\n")
    return 0 if all(line.met is not False for line in found) else 1
