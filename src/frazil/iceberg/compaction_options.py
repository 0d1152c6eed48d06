"""The options of compaction: Iceberg's names, defaults and limits, and the sizes that follow from them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from frazil.errors import InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.properties import LONG_MAX, Property, PropertyReader, boolean, choice, integer
from frazil.model.property_text import property_texts

Strategy = Literal["binpack", "sort", "zorder", "position deletes"]
INT_MAX = 2**31 - 1
_GB = 1024**3
_LEAST_OF_TARGET = 0.75
_MOST_OF_TARGET = 1.8
_SPLIT_OVERHEAD = 5 * 1024
_TOLERATED = 1.1
_integer = partial(integer, kind="option")
_boolean = partial(boolean, kind="option")
_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")


def _number(least: float, most: float, *, above: bool = False) -> Callable[[str, str], float]:
    def parse(name: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number <= most or (above and number == least):
            start = "more than" if above else "at least"
            raise InvalidArgument(
                f"option {name} is {text!r}", hint=f"use a number of {start} {least:g} and at most {most:g}"
            )
        return number

    return parse


def _option(name: str, default: Any, parse: Callable[[str, str], Any]) -> Property[Any]:
    return Property(name, default, parse)


_SIZES = (
    _option("target-file-size-bytes", None, _integer(1, LONG_MAX)),
    _option("min-file-size-bytes", None, _integer(0, LONG_MAX)),
    _option("max-file-size-bytes", None, _integer(1, LONG_MAX)),
    _option("min-input-files", 5, _integer(1, INT_MAX)),
    _option("rewrite-all", False, _boolean),
    _option("max-file-group-size-bytes", 100 * _GB, _integer(1, LONG_MAX)),
    _option("max-file-group-input-files", LONG_MAX, _integer(1, LONG_MAX)),
    _option("rewrite-job-order", "none", choice(_ORDERS, "option")),
    _option("max-files-to-rewrite", None, _integer(1, INT_MAX)),
)
_RUN = (
    _option("max-concurrent-file-group-rewrites", 5, _integer(1, INT_MAX)),
    _option("partial-progress.enabled", False, _boolean),
    _option("partial-progress.max-commits", 10, _integer(1, INT_MAX)),
    _option("partial-progress.max-failed-commits", None, _integer(0, INT_MAX)),
)
_DATA = (
    _option("delete-file-threshold", INT_MAX, _integer(0, INT_MAX)),
    _option("delete-ratio-threshold", 0.3, _number(0, 1, above=True)),
    _option("use-starting-sequence-number", True, _boolean),
    _option("remove-dangling-deletes", False, _boolean),
    _option("output-spec-id", None, _integer(0, INT_MAX)),
)
_SORT = (
    _option("compression-factor", 1.0, _number(0, float(LONG_MAX), above=True)),
    _option("shuffle-partitions-per-file", 1, _integer(1, INT_MAX)),
)
_ZORDER = (
    _option("var-length-contribution", 8, _integer(1, INT_MAX)),
    _option("max-output-size", INT_MAX, _integer(1, INT_MAX)),
)
_ALL = (*_SIZES, *_RUN, *_DATA, *_SORT, *_ZORDER)
_OF_STRATEGY: Mapping[Strategy, tuple[Property[Any], ...]] = {
    "binpack": (*_SIZES, *_RUN, *_DATA),
    "sort": (*_SIZES, *_RUN, *_DATA, *_SORT),
    "zorder": _ALL,
    "position deletes": (*_SIZES, *_RUN),
}


@dataclass(frozen=True)
class CompactionOptions:
    """What `rewrite_data_files` and `rewrite_position_delete_files` can be told.

    The names are Iceberg's, with `_` for `-` and `.`.
    """

    target_file_size_bytes: int
    min_file_size_bytes: int
    max_file_size_bytes: int
    output_spec_id: int
    min_input_files: int = 5
    rewrite_all: bool = False
    max_file_group_size_bytes: int = 100 * _GB
    max_file_group_input_files: int = LONG_MAX
    rewrite_job_order: str = "none"
    max_files_to_rewrite: int | None = None
    max_concurrent_file_group_rewrites: int = 5
    partial_progress_enabled: bool = False
    partial_progress_max_commits: int = 10
    partial_progress_max_failed_commits: int = 10
    delete_file_threshold: int = INT_MAX
    delete_ratio_threshold: float = 0.3
    use_starting_sequence_number: bool = True
    remove_dangling_deletes: bool = False
    compression_factor: float = 1.0
    shuffle_partitions_per_file: int = 1
    var_length_contribution: int = 8
    max_output_size: int = INT_MAX

    @classmethod
    def parse(
        cls, given: Mapping[str, Any], metadata: TableMetadata, strategy: Strategy = "binpack"
    ) -> CompactionOptions:
        """Options from their texts; InvalidArgument for one that is unknown, or does not fit the others."""
        given = property_texts(given)
        known = {option.name: option for option in _OF_STRATEGY[strategy]}
        _refuse_unknown(given, known, strategy)
        reader = PropertyReader(given)
        values = {option.name.replace("-", "_").replace(".", "_"): reader.get(option) for option in _ALL}
        if values["target_file_size_bytes"] is None:
            of_deletes = strategy == "position deletes"
            usual = props.DELETE_TARGET_FILE_SIZE_BYTES if of_deletes else props.WRITE_TARGET_FILE_SIZE_BYTES
            values["target_file_size_bytes"] = metadata.property_reader.get(usual)
        target = values["target_file_size_bytes"]
        for name, share in (("min_file_size_bytes", _LEAST_OF_TARGET), ("max_file_size_bytes", _MOST_OF_TARGET)):
            if values[name] is None:
                values[name] = int(target * share)
        if values["partial_progress_max_failed_commits"] is None:
            values["partial_progress_max_failed_commits"] = values["partial_progress_max_commits"]
        if values["output_spec_id"] is None:
            values["output_spec_id"] = metadata.default_spec_id
        metadata.spec(values["output_spec_id"])
        made = cls(**values)
        made._check_sizes()
        return made

    def _check_sizes(self) -> None:
        target, least, most = self.target_file_size_bytes, self.min_file_size_bytes, self.max_file_size_bytes
        if target <= least:
            raise InvalidArgument(
                f"target-file-size-bytes ({target}) is not more than min-file-size-bytes ({least})",
                hint="all new files would be too small; lower min-file-size-bytes",
            )
        if target >= most:
            raise InvalidArgument(
                f"target-file-size-bytes ({target}) is not less than max-file-size-bytes ({most})",
                hint="all new files would be too large; raise max-file-size-bytes",
            )

    @property
    def write_max_file_size(self) -> int:
        """Where a writer begins another file: above the target, so that a little too much makes no tiny last file."""
        return int(self.target_file_size_bytes + (self.max_file_size_bytes - self.target_file_size_bytes) * 0.5)

    def expected_output_files(self, input_bytes: int) -> int:
        """How many files to make of so many bytes: the rest is a file of its own, unless the others can take it in."""
        target = self.target_file_size_bytes
        if input_bytes < target:
            return 1
        whole, rest = divmod(input_bytes, target)
        with_rest = whole + (rest > 0)
        if rest > self.min_file_size_bytes:
            return with_rest
        fits = input_bytes // whole < min(_TOLERATED * target, self.write_max_file_size)
        return whole if fits else with_rest

    def input_split_size(self, input_bytes: int) -> int:
        """How many bytes of input to give to each task, so that it writes one file."""
        even = input_bytes // self.expected_output_files(input_bytes) + _SPLIT_OVERHEAD
        return max(self.target_file_size_bytes, min(even, self.write_max_file_size))


def _refuse_unknown(given: Mapping[str, str], known: Mapping[str, Property[Any]], strategy: str) -> None:
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], known, n=2)
    others = any(option.name == unknown[0] for option in _ALL)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(known))}"
    raise InvalidArgument(
        f"unknown option {' and '.join(map(repr, unknown))} for strategy {strategy}",
        hint="it belongs to another strategy" if others else hint,
    )
