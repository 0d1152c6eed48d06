"""What tables say about their optimizing, under Amoro's names and with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from frazil.errors import InvalidArgument
from frazil.iceberg.properties import Property, PropertyReader, boolean, integer
from frazil.mixed.properties import BASE_BUCKETS

_LONG = 2**63 - 1


def _ratio(least: float, most: float) -> Callable[[str, str], float]:
    def parse(name: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise InvalidArgument(
                f"property {name} is {text!r}, not a number from {least:g} to {most:g}", hint="change or remove it"
            )
        return number

    return parse


ENABLED = Property("self-optimizing.enabled", True, boolean)
TARGET_SIZE = Property("self-optimizing.target-size", 134_217_728, integer(1, _LONG))
MAX_TASK_SIZE = Property("self-optimizing.max-task-size-bytes", 134_217_728, integer(1, _LONG))
MAX_FILE_COUNT = Property("self-optimizing.max-file-count", 10_000, integer(1, _LONG))
FRAGMENT_RATIO = Property("self-optimizing.fragment-ratio", 8, integer(1, _LONG))
MIN_TARGET_SIZE_RATIO = Property("self-optimizing.min-target-size-ratio", 0.75, _ratio(0, 1))
MINOR_FILES = Property("self-optimizing.minor.trigger.file-count", 12, integer(1, _LONG))
MINOR_INTERVAL_MS = Property("self-optimizing.minor.trigger.interval", 3_600_000, integer(-1, _LONG))
DUPLICATE_RATIO = Property("self-optimizing.major.trigger.duplicate-ratio", 0.1, _ratio(0, 1))
FULL_INTERVAL_MS = Property("self-optimizing.full.trigger.interval", -1, integer(-1, _LONG))
FULL_REWRITES_ALL = Property("self-optimizing.full.rewrite-all-files", True, boolean)
BASE_REFRESH_MS = Property("base.refresh-interval", -1, integer(-1, _LONG))
FILTER: Property[str | None] = Property("self-optimizing.filter", None, lambda _, text: text)
"""Only partitions that may have matching rows are optimized."""
SORT_ORDER: Property[str | None] = Property("self-optimizing.sort-order", None, lambda _, text: text)
"""Ours: the order of rows in files that optimizing writes, such as `ts DESC, id` or `zorder(a, b)`."""
OPEN_FILE_COST = Property("read.split.open-file-cost", 4_194_304, integer(0, _LONG))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one table."""

    enabled: bool = True
    target_size: int = TARGET_SIZE.default
    max_task_size: int = MAX_TASK_SIZE.default
    max_file_count: int = MAX_FILE_COUNT.default
    fragment_ratio: int = FRAGMENT_RATIO.default
    min_target_size_ratio: float = MIN_TARGET_SIZE_RATIO.default
    minor_files: int = MINOR_FILES.default
    minor_interval_ms: int = MINOR_INTERVAL_MS.default
    duplicate_ratio: float = DUPLICATE_RATIO.default
    full_interval_ms: int = FULL_INTERVAL_MS.default
    full_rewrites_all: bool = True
    base_refresh_ms: int = BASE_REFRESH_MS.default
    open_file_cost: int = OPEN_FILE_COST.default
    base_buckets: int = BASE_BUCKETS.default
    order_id: int | None = None
    """A full optimizing rewrites files of other sort orders than this one; if None, orders do not count."""
    is_arranged: bool = False
    """Whether rows get an order in what is written."""
    merges_early: bool = False
    """Whether undersized files are merged also where they make no whole file together."""
    full_is_asked: bool = False
    """Whether somebody asked for a full optimizing, at whatever time."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Settings:
        """The settings that properties stand for."""
        read = PropertyReader(properties)
        return cls(
            read.get(ENABLED),
            read.get(TARGET_SIZE),
            read.get(MAX_TASK_SIZE),
            read.get(MAX_FILE_COUNT),
            read.get(FRAGMENT_RATIO),
            read.get(MIN_TARGET_SIZE_RATIO),
            read.get(MINOR_FILES),
            read.get(MINOR_INTERVAL_MS),
            read.get(DUPLICATE_RATIO),
            read.get(FULL_INTERVAL_MS),
            read.get(FULL_REWRITES_ALL),
            read.get(BASE_REFRESH_MS),
            read.get(OPEN_FILE_COST),
            read.get(BASE_BUCKETS),
        )

    @property
    def fragment_size(self) -> int:
        """Files up to this size are fragments."""
        return self.target_size // self.fragment_ratio

    @property
    def min_target_size(self) -> int:
        """Files up to this size, and above that of fragments, are undersized."""
        return int(self.target_size * self.min_target_size_ratio)

    @property
    def small_size(self) -> int:
        """Files up to this size are fragments or undersized."""
        return max(self.fragment_size, self.min_target_size)
