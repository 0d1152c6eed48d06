"""Names of data files, which say where in the tree a file lies, what it holds, and of which transaction it is.

`{node}-{type}-{transaction}-{partition:05d}-{task}-{operation}-{count:05d}.parquet`

>>> name = FileName(6, FileType.EQ_DELETE, 3, 0, 0, 5520002764231059444, 4).text("parquet")
>>> name
'6-ED-3-00000-0-5520002764231059444-00004.parquet'
>>> parse_change(name, 4)
FilePlace(node=6, type=<FileType.EQ_DELETE: 'ED'>, transaction_id=3)
>>> parse_change("00000-0-7d2c4a30-00001.parquet", 4)
FilePlace(node=1, type=<FileType.INSERT: 'I'>, transaction_id=4)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from frazil.errors import InvalidArgument
from frazil.mixed.tree import ROOT

_NAME = re.compile(r"\.?(\d+)-(\w+)-(\d+)-(\d+)-(\d+)-.*", re.ASCII)
_LONG_DIGITS = 19


class FileType(Enum):
    """What a file holds, by the letters in its name."""

    BASE = "B"
    INSERT = "I"
    EQ_DELETE = "ED"
    POS_DELETE = "PD"
    ICEBERG_EQ_DELETE = "IED"
    LOG = "L"


_TYPES = {kind.value: kind for kind in FileType}


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a file lies in the tree, what it holds, and its transaction."""

    node: int
    type: FileType
    transaction_id: int


@dataclass(frozen=True, slots=True)
class FileName:
    """The parts of a new file's name."""

    node: int
    type: FileType
    transaction_id: int
    partition_id: int
    task_id: int
    operation_id: int
    count: int

    def text(self, file_format: str) -> str:
        """The name."""
        return (
            f"{self.node}-{self.type.value}-{self.transaction_id}-{self.partition_id:05d}-{self.task_id}-"
            f"{self.operation_id}-{self.count:05d}.{file_format}"
        )


def parse_change(path: str, data_sequence_number: int) -> FilePlace:
    """What the name of a file in the change store says.

    A transaction 0 stands for the sequence number of the commit; a name of another kind for rows inserted by it.
    """
    found = _parse(path)
    if found is None:
        return FilePlace(ROOT, FileType.INSERT, data_sequence_number)
    if found.transaction_id == 0:
        return FilePlace(found.node, found.type, data_sequence_number)
    return found


def parse_base(path: str) -> FilePlace:
    """What the name of a file in the base store says. Other names are of files older than every transaction."""
    found = _parse(path)
    if found is None:
        return FilePlace(ROOT, FileType.BASE, 0)
    if found.type is FileType.INSERT:
        return FilePlace(found.node, FileType.BASE, found.transaction_id)
    return found


def task_of(path: str) -> int | None:
    """The task in the name of a file; None if it is a name of another kind.

    >>> task_of("data/6-ED-3-00000-7-5520002764231059444-00004.parquet"), task_of("00000-0-7d2c4a30-00001.parquet")
    (7, None)
    """
    matched = _NAME.fullmatch(path.rpartition("/")[2])
    return None if matched is None else int(matched[5])


def transaction_of(path: str) -> int | None:
    """The transaction that the name of a file tells, None if it tells none."""
    found = _parse(path)
    return None if found is None else found.transaction_id


def with_transaction(path: str, transaction_id: int) -> str:
    """The place of a file of another transaction, by a name that is the same otherwise.

    >>> with_transaction("data/6-ED-3-00000-7-5520002764231059444-00004.parquet", 12)
    'data/6-ED-12-00000-7-5520002764231059444-00004.parquet'
    """
    folder, slash, name = path.rpartition("/")
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise InvalidArgument(f"the name of {path} tells no transaction", hint="name the file as a writer here does")
    return f"{folder}{slash}{name[: matched.start(3)]}{transaction_id}{name[matched.end(3) :]}"


def _parse(path: str) -> FilePlace | None:
    matched = _NAME.fullmatch(path.rpartition("/")[2])
    if matched is None or matched[2] not in _TYPES:
        return None
    node, transaction = matched[1], matched[3]
    if max(len(node), len(transaction)) > _LONG_DIGITS or int(node) < ROOT:
        return None  # no number of Amoro's: the root, where every delete looks, is right for any file
    return FilePlace(int(node), _TYPES[matched[2]], int(transaction))
