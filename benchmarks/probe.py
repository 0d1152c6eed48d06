"""One measurement in a process of its own: `python -m benchmarks.probe SIDE JOB PATH SIZE REPEAT`, answered as JSON.

A job is a context manager. It makes itself ready, also by running once on something small, so that what a library loads
at its first use is not measured; then it gives the function to measure, and what to do before each call.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """What to measure, and what to do before each time; `run` returns a number that both sides must agree on."""

    run: Callable[[], int]
    before: Callable[[], None] = lambda: None
    cpu: Callable[[], float] = time.process_time


MakeJob = Callable[[Path, int], AbstractContextManager[Job]]


@dataclass(frozen=True)
class Measured:
    """Seconds are the least of all calls; bytes are those of the first, above what the process had before."""

    wall: float
    cpu: float
    memory: int
    total_memory: int
    answer: int

    def better(self, other: Measured) -> Measured:
        """The least of both."""
        return Measured(
            min(self.wall, other.wall),
            min(self.cpu, other.cpu),
            min(self.memory, other.memory),
            min(self.total_memory, other.total_memory),
            other.answer,
        )


def measure(job: Job, repeat: int) -> Measured:
    gc.collect()
    reset_peak()
    before = resident()
    walls, cpus, peak, answer = [], [], 0, 0
    for number in range(repeat):
        job.before()
        wall, cpu = time.perf_counter(), job.cpu()
        answer = job.run()
        cpus.append(job.cpu() - cpu)
        walls.append(time.perf_counter() - wall)
        if number == 0:
            peak = peak_resident()
    return Measured(min(walls), min(cpus), max(0, peak - before), peak, answer)


def resident() -> int:
    return _status("VmRSS")


def peak_resident() -> int:
    return _status("VmHWM")


def reset_peak() -> None:
    """Let the peak begin anew; a process starts with that of its start-up."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def probe(side: str, job: str, path: Path, size: int, repeat: int) -> Measured:
    """Measure a job of one side in this process."""
    make: MakeJob = import_module(f"benchmarks.{side}_jobs").JOBS[job]
    with make(path, size) as ready:
        return measure(ready, repeat)


def main(side: str, job: str, path: str, size: str, repeat: str) -> None:
    json.dump(asdict(probe(side, job, Path(path), int(size), int(repeat))), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
