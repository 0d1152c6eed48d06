"""Equality deletes made into deletes by position: vectors (version 3) or position delete files (version 2).

Where an equality delete applies, the positions of the rows that are still alive are read; all others are deleted. An
equality delete file goes when every data file that it applies to is converted in the same commit. No row comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg import properties as props
from frazil.iceberg.actions.convert_deletes import ConvertDeletes
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_writer import DeleteWriter
from frazil.iceberg.file_filter import FileFilter
from frazil.iceberg.planning import FileScanTask, ScanPlan
from frazil.iceberg.read import TaskReader
from frazil.iceberg.rewrite import branch_head
from frazil.iceberg.rewritten import ConvertedDeleteFiles
from frazil.iceberg.scan import BATCH_ROWS, Scan
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.write import removing
from frazil.io.deletion_vector import DeletionVector
from frazil.model.expressions import Expression
from frazil.model.property_text import property_text
from frazil.model.schema import POS, Schema

if TYPE_CHECKING:
    from frazil.iceberg.entries import Mask
    from frazil.iceberg.table import IcebergTable

Deleted = Iterable[tuple[FileScanTask, DeletionVector]]
_TARGET = "target-file-size-bytes"


def convert_equality_deletes(
    table: IcebergTable, where: Expression, options: Mapping[str, str], branch: str
) -> ConvertedDeleteFiles:
    """Convert in this process what applies to data files that may hold matching rows."""
    work = Conversion.of(table, where, options, branch)
    return ConvertedDeleteFiles() if work is None else work.commit(work.read())


@dataclass(frozen=True)
class Conversion:
    """What is to be converted, of a table as it was at `base`."""

    table: IcebergTable
    base: Snapshot
    branch: str
    properties: Mapping[str, str]
    plan: ScanPlan
    """The data files that equality deletes apply to."""
    going: tuple[DataFile, ...]
    """Equality delete files that apply to no others."""

    @classmethod
    def of(cls, table: IcebergTable, where: Expression, options: Mapping[str, str], branch: str) -> Conversion | None:
        """None if there is nothing to do."""
        properties = _properties(options)
        base = branch_head(table.metadata, branch)
        if base is None:
            return None
        plan = Scan(table.metadata, table.store, base, table.schema).plan()
        chosen, going = _choose(plan, FileFilter(table.metadata, table.schema, where))
        if not (chosen.parts or going):
            return None
        return cls(table, base, branch, properties, chosen, going)

    def read(self) -> Iterator[tuple[FileScanTask, DeletionVector]]:
        """What is deleted of each data file, read in this process."""
        table = self.table
        deletes = DeleteReader(table.store, table.metadata)
        reader = TaskReader(table.store, table.metadata, Schema((POS,)), table.schema, deletes, BATCH_ROWS)
        for task in self.plan.tasks():
            yield task, dead(task, (batch.column(0).to_numpy() for batch in reader.read(task)))

    def commit(self, deleted: Deleted, action: ConvertDeletes | None = None) -> ConvertedDeleteFiles:
        """Write and commit. There is no snapshot if nothing changes: where the equality deletes must stay, and all
        that they delete is deleted by position too.
        """
        written = DeleteWriter(self.table.metadata, self.table.store, properties=self.properties).write(deleted)
        if not (self.going or written.added or written.emptied):
            return ConvertedDeleteFiles()
        made = self.table.convert_deletes() if action is None else action
        made.to_branch(self.branch).validate_from(self.base.snapshot_id).convert(self.going, written)
        with removing(self.table.store, written.added):
            made.commit()
        return ConvertedDeleteFiles(len(self.going), len(written.added))


def dead(task: FileScanTask, alive: Iterable[npt.NDArray[np.int64]]) -> DeletionVector:
    """All positions of a file but those that are alive."""
    gone: Mask = np.ones(task.file.record_count, dtype=bool)
    for positions in alive:
        if len(positions) and positions.max() >= len(gone):
            raise MalformedMetadata(
                f"{task.file.file_path} has more rows than the {len(gone)} that its manifest says",
                hint="the manifest entry is wrong; rewrite the file",
            )
        gone[positions] = False
    return DeletionVector(np.flatnonzero(gone))


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    unknown = [name for name in options if name != _TARGET]
    if unknown:
        raise InvalidArgument(f"unknown option {unknown[0]!r}", hint=f"there is {_TARGET}")
    return {props.DELETE_TARGET_FILE_SIZE_BYTES.name: property_text(_TARGET, options[_TARGET])} if options else {}


def _choose(plan: ScanPlan, matching: FileFilter) -> tuple[ScanPlan, tuple[DataFile, ...]]:
    """The data files to convert, and the equality delete files that can go then."""
    index = plan.delete_index
    equality = np.zeros(len(index), dtype=bool)
    meant = np.zeros(len(index), dtype=bool)
    for part, start in zip(index.parts, index.starts, strict=False):
        equality[start : start + len(part)] = part.numpy(ids.CONTENT) == Content.EQUALITY_DELETES
        meant[start : start + len(part)] = matching.some_partitions(part)
    if not equality.any():
        return replace(plan, parts=()), ()
    used, needed = np.zeros(len(index), dtype=bool), np.zeros(len(index), dtype=bool)
    chosen = []
    for files in plan.parts:
        numbers, offsets = files.deletes.numbers, files.deletes.offsets
        hits = np.concatenate([[0], np.cumsum(equality[numbers])])
        concerned = hits[offsets[1:]] > hits[offsets[:-1]]
        converted = concerned & matching.some(files.entries)
        stays = np.repeat(~converted, np.diff(offsets))
        needed[numbers[stays]] = True
        used[numbers] = True
        if converted.any():
            chosen.append(files.filter(converted))
    # one that applies to nothing is removed where its partition is meant, like those that apply to what is converted
    going = equality & ~needed & (used | meant)
    return replace(plan, parts=tuple(chosen)), tuple(plan.delete_files[number] for number in np.flatnonzero(going))
