"""Transactions that came too late for their ids, committed under others.

Of which transaction a file is stands in its name only. So its rows need not be made again: the file is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from frazil.errors import MAY_BE_COMMITTED, CommitConflict, FrazilError
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.write import remove_files
from frazil.io.store import Store
from frazil.mixed.file_names import with_transaction

_T = TypeVar("_T")
_PIECE = 8 << 20
_WORKERS = 8


@dataclass(frozen=True)
class Renewal:
    """How transactions of a kind begin and end, and where their files are."""

    store: Store
    begin: Callable[[], int]
    abandon: Callable[[int], None]
    most: int
    """How often a transaction may begin anew."""

    def committed(self, transaction_id: int, files: list[DataFile], attempt: Callable[[int, list[DataFile]], _T]) -> _T:
        """What an attempt to commit files gives, at last. If they are definitely not committed, none is left.

        An attempt that ends in a conflict is made again with a new id, and files of that id.
        """
        for left in range(self.most, -1, -1):
            try:
                return attempt(transaction_id, files)
            except MAY_BE_COMMITTED:
                raise  # the files may be live
            except FrazilError as error:
                if not left or not isinstance(error, CommitConflict):
                    self._give_up(transaction_id, files)
                    raise
            except Exception:  # whatever it is, it may have come after the commit: the files stay
                self._give_up(transaction_id, [])
                raise
            transaction_id, files = self._renewed(transaction_id, files)
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    def _renewed(self, transaction_id: int, files: list[DataFile]) -> tuple[int, list[DataFile]]:
        newer = None
        try:
            newer = self.begin()
            copies = copied(self.store, files, newer)
        except FrazilError:
            if newer is not None:
                self._give_up(newer, [])
            raise
        finally:
            self._give_up(transaction_id, files)
        return newer, copies

    def _give_up(self, transaction_id: int, files: list[DataFile]) -> None:
        remove_files(self.store, files)
        with suppress(FrazilError):
            self.abandon(transaction_id)


def copied(store: Store, files: Sequence[DataFile], transaction_id: int) -> list[DataFile]:
    """The same files under names of another transaction; if one cannot be copied, none is left."""
    new = [replace(file, file_path=with_transaction(file.file_path, transaction_id)) for file in files]
    try:
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="frazil-copy") as pool:
            list(
                pool.map(lambda pair: _copy(store, pair[0].file_path, pair[1].file_path), zip(files, new, strict=True))
            )
    except BaseException:
        remove_files(store, new)
        raise
    return new


def _copy(store: Store, old: str, new: str) -> None:
    with store.open_input(old) as source, store.open_output(new) as sink:
        while piece := source.read(_PIECE):
            sink.write(piece)
