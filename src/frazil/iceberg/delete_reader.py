"""The contents of delete files: positions by data file, and equality keys, each loaded once per scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import MalformedData, MalformedMetadata
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.scan_columns import leaf, schema_with
from frazil.io.data_files import read_data_file
from frazil.io.deletion_vector import DeletionVector, sorted_unique
from frazil.io.store import Store
from frazil.model.schema import DELETE_FILE_PATH, DELETE_POS, Schema

_POSITION_SCHEMA = Schema((DELETE_FILE_PATH, DELETE_POS))
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EqualityKeys:
    """Keys of deleted rows: one column per equality field, plain storage types."""

    field_ids: tuple[int, ...]
    columns: tuple[pa.Array, ...]


class DeleteReader:
    """Loads the deletes of a scan's tasks. Safe to share between threads."""

    def __init__(self, store: Store, metadata: TableMetadata) -> None:
        self._store = store
        self._metadata = metadata
        self._positions: dict[tuple[str, int | None], dict[str, Ints]] = {}
        self._keys: dict[tuple[str, int | None], EqualityKeys] = {}
        self._lock = Lock()

    def positions(self, data_file: DataFile, deletes: Iterable[DataFile]) -> DeletionVector | None:
        """All deleted positions of a data file, from its vector and its position delete files."""
        found: DeletionVector | None = None
        for delete in deletes:
            if delete.content != Content.POSITION_DELETES:
                continue
            vector = self._vector(delete) if delete.is_deletion_vector else self._from_file(data_file, delete)
            if vector is not None:
                found = vector if found is None else found.union(vector)
        return found

    def _vector(self, delete: DataFile) -> DeletionVector:
        offset, size = delete.content_offset, delete.content_size_in_bytes
        if offset is None or size is None or offset < 0 or size < 0:
            raise MalformedMetadata(
                f"deletion vector in {delete.file_path} has offset {offset} and size {size}",
                hint="the manifest entry is damaged",
            )
        data = self._store.read_range(delete.file_path, offset, size)
        return DeletionVector.from_blob(data, cardinality=delete.record_count)

    def _from_file(self, data_file: DataFile, delete: DataFile) -> DeletionVector | None:
        by_path = self._positions.get(delete.key)
        if by_path is None:
            by_path = self._load_positions(delete)
            with self._lock:
                self._positions[delete.key] = by_path
        positions = by_path.get(data_file.file_path)
        return None if positions is None else DeletionVector.from_positions(positions)

    def _load_positions(self, delete: DataFile) -> dict[str, Ints]:
        paths, positions = [], []
        for _, batch in read_data_file(self._store, delete.file_path, delete.file_format, _POSITION_SCHEMA):
            paths.append(batch.column(0))
            positions.append(batch.column(1).to_numpy(zero_copy_only=False))
        if not paths:
            return {}
        encoded = pa.chunked_array(paths).combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        values = np.concatenate(positions)
        if len(values) and values.min() < 0:
            raise MalformedData(f"negative position in {delete.file_path}", hint="the delete file is damaged")
        order = np.argsort(codes, kind="stable")
        borders = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
        names = encoded.dictionary.to_pylist()
        return {name: values[order[borders[i] : borders[i + 1]]] for i, name in enumerate(names)}

    def keys(self, deletes: Iterable[DataFile]) -> list[EqualityKeys]:
        """The equality keys of the delete files among `deletes`, those of equal fields joined."""
        grouped: dict[tuple[int, ...], list[EqualityKeys]] = {}
        for delete in deletes:
            if delete.content == Content.EQUALITY_DELETES:
                loaded = self._equality(delete)
                grouped.setdefault(loaded.field_ids, []).append(loaded)
        return [_joined(field_ids, parts) for field_ids, parts in grouped.items()]

    def _equality(self, delete: DataFile) -> EqualityKeys:
        known = self._keys.get(delete.key)
        if known is not None:
            return known
        if not delete.equality_ids:
            raise MalformedMetadata(
                f"equality delete file {delete.file_path} names no columns", hint="the manifest entry is damaged"
            )
        field_ids = tuple(sorted(delete.equality_ids))
        schema = schema_with(self._metadata, field_ids)
        batches = [batch for _, batch in read_data_file(self._store, delete.file_path, delete.file_format, schema)]
        columns = tuple(
            pa.chunked_array([leaf(batch, schema, number) for batch in batches]).combine_chunks()
            if batches
            else pa.array([])
            for number in field_ids
        )
        loaded = EqualityKeys(field_ids, columns)
        with self._lock:
            self._keys[delete.key] = loaded
        return loaded


def _joined(field_ids: tuple[int, ...], parts: Sequence[EqualityKeys]) -> EqualityKeys:
    full = [part for part in parts if len(part.columns[0])]
    if not full:
        return parts[0]
    columns = zip(*(part.columns for part in full), strict=True)
    return EqualityKeys(field_ids, tuple(pa.concat_arrays(list(arrays)) for arrays in columns))


def matches_keys(columns: Sequence[pa.Array], keys: EqualityKeys) -> npt.NDArray[np.bool_]:
    """True where a row equals one of the keys; null equals null."""
    rows = len(columns[0])
    if not len(keys.columns[0]):
        return np.zeros(rows, dtype=bool)
    present = np.ones(rows, dtype=bool)
    mine = np.zeros(rows, dtype=np.int64)
    theirs = np.zeros(len(keys.columns[0]), dtype=np.int64)
    for values, deleted in zip(columns, keys.columns, strict=True):
        deleted = deleted.cast(values.type) if deleted.type != values.type else deleted
        distinct = pc.unique(deleted)
        codes = pc.index_in(values, value_set=distinct)
        present &= codes.is_valid().to_numpy(zero_copy_only=False)
        width = len(distinct)
        mine = mine * width + pc.fill_null(codes, 0).to_numpy(zero_copy_only=False)
        theirs = theirs * width + pc.index_in(deleted, value_set=distinct).to_numpy(zero_copy_only=False)
        # renumber: products of cardinalities must not overflow
        kept = sorted_unique(theirs)
        theirs = np.searchsorted(kept, theirs)
        position = np.minimum(np.searchsorted(kept, mine), len(kept) - 1)
        present &= kept[position] == mine
        mine = np.where(present, position, 0)
    return present
