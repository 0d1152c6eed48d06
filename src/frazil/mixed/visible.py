"""Which change files are still to be merged: those above the optimized sequence of their partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frazil.errors import Unsupported
from frazil.iceberg.data_file import DataFile, partition_key
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.partition_types import partition_type
from frazil.mixed.optimized import Optimized
from frazil.model.partition import PartitionSpec
from frazil.model.transforms import IdentityTransform, YearTransform
from frazil.model.types import StringType, Type

AMBIGUOUS_TEXTS = frozenset({"null", "__HIVE_DEFAULT_PARTITION__"})
"""Values of a partition that Amoro takes for null; the first one's path is also that of null."""


class PartitionPaths:
    """The paths of partitions of the one spec that a mixed table has, each worked out once."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.spec = metadata.default_spec
        self.types: Sequence[Type] = [column.type for column in partition_type(metadata, self.spec).fields]
        self._known: dict[tuple[Any, ...], str] = {}

    def of(self, file: DataFile) -> str:
        """The path of a file's partition."""
        if file.spec_id != self.spec.spec_id:
            raise Unsupported(
                f"{file.file_path} is of partition spec {file.spec_id}, and the table's is {self.spec.spec_id}",
                hint="mixed tables keep the partitioning they were made with; rewrite the file",
            )
        key = partition_key(file.partition)
        path = self._known.get(key)
        if path is None:
            path = self._known[key] = self.spec.path_of(self.types, file.partition)
        return path


def is_visible(file: DataFile, path: str, optimized: Optimized) -> bool:
    """Whether a change file is not in the base store yet."""
    sequence = optimized.sequence.get(path)
    assert file.data_sequence_number is not None
    return sequence is None or file.data_sequence_number > sequence


def check_paths(files: Iterable[DataFile], paths: PartitionPaths, optimized: Optimized) -> None:
    """Refuse where the map does not tell which partitions it means: rows would be lost, or come twice."""
    if not optimized.sequence:
        return
    spec, types = paths.spec, paths.types
    if not optimized.is_ours and any(isinstance(part.transform, YearTransform) for part in spec.fields):
        raise Unsupported(
            "Amoro stores the optimized sequence of partitions by year under other years: which changes are in the "
            "base store cannot be told",
            hint="read the base store or the change store on its own",
        )
    partitions: dict[str, tuple[Any, ...]] = {}
    for file in files:
        path, key = paths.of(file), partition_key(file.partition)
        doubtful = not optimized.is_ours and has_ambiguous_text(spec, types, file.partition)
        if doubtful or (partitions.setdefault(path, key) != key and path in optimized.sequence):
            raise Unsupported(
                f"the optimized sequence does not tell partition {path} from another one of that name",
                hint="texts such as 'null' cannot be told from null in it; read a store on its own",
            )


def has_ambiguous_text(spec: PartitionSpec, types: Sequence[Type], values: Sequence[Any]) -> bool:
    """Whether a partition has a text that a path, or Amoro, does not tell from null."""
    return any(
        isinstance(part.transform, IdentityTransform) and isinstance(type_, StringType) and value in AMBIGUOUS_TEXTS
        for part, type_, value in zip(spec.fields, types, values, strict=True)
    )


def hidden_and_visible(
    files: Iterable[DataFile], paths: PartitionPaths, optimized: Optimized
) -> Mapping[bool, list[DataFile]]:
    """The files by whether they are still to be merged."""
    listed = list(files)
    check_paths(listed, paths, optimized)
    result: dict[bool, list[DataFile]] = {True: [], False: []}
    for file in listed:
        result[is_visible(file, paths.of(file), optimized)].append(file)
    return result
