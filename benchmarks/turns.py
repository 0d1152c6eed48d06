"""Sides that take turns in one session, so that a busy moment of the machine hits all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from benchmarks.probe import Job, Measured, measure
from benchmarks.report import Line, seconds

J = TypeVar("J")


def in_turns(
    jobs: Mapping[str, Job],
    rounds: int,
    *,
    calls: int = 1,
    warm: int = 1,
    warming: Mapping[str, Job] | None = None,
) -> dict[str, Measured]:
    """The least of each side over rounds, in which sides go first in turns.

    Before them there are rounds that warm up and do not count; they may have jobs of their own, on less.
    """
    return in_turns_by(measure, jobs, rounds, calls=calls, warm=warm, warming=warming)


def in_turns_by(
    how: Callable[[J, int], Measured],
    jobs: Mapping[str, J],
    rounds: int,
    *,
    calls: int = 1,
    warm: int = 1,
    warming: Mapping[str, J] | None = None,
) -> dict[str, Measured]:
    """The same where something else measures a job, so many calls of it."""
    best: dict[str, Measured] = {}
    for number in range(-warm, rounds):
        for side in jobs if number % 2 == 0 else reversed(list(jobs)):
            if number < 0:
                how((warming or jobs)[side], calls)
                continue
            one = how(jobs[side], calls)
            best[side] = one.better(best.get(side, one))
    return best


def compared(
    question: str, ours: Measured, theirs: Measured, at_most: float | None, *, by_cpu: bool = True
) -> Iterator[Line]:
    """Wall and CPU time, ours to theirs; the target, if there is one, is met by either, or by wall time alone."""
    wall, cpu = ours.wall / theirs.wall, ours.cpu / theirs.cpu
    line = Line(question, seconds(ours.wall), seconds(theirs.wall), f"{wall:.2f}")
    if at_most is not None:
        met = (min(wall, cpu) if by_cpu else wall) <= at_most
        line = replace(line, target=f"<= {at_most:.3g}", met=met)
    yield line
    yield Line(f"{question}: CPU", seconds(ours.cpu), seconds(theirs.cpu), f"{cpu:.2f}")
