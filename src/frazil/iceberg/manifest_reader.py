"""Manifests read in groups, in parallel, each decoded once: they are immutable, so what was decoded stays true.

Many small manifests share one Avro schema and are decoded in one pass. The cache holds decoded groups up to a number
of bytes, and forgets the group that was not used for longest.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

from frazil.errors import MalformedMetadata
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.entries import Entries, concat
from frazil.iceberg.manifest import decode_manifests
from frazil.iceberg.manifest_list import ManifestFile, forget_lists
from frazil.io import avro
from frazil.io.damage import naming
from frazil.io.store import Store
from frazil.model.partition import PartitionSpec
from frazil.model.types import StructType

GROUP_BYTES = 4 << 20
"""The most compressed bytes decoded in one pass: large enough to forget the cost of a call, small enough for memory."""

_LEAST_GROUP_BYTES = 1 << 20

DEFAULT_CACHE_BYTES = 512 << 20

_MAPS = frozenset({*ids.METRICS, ids.COLUMN_SIZES})

SpecLookup = Callable[[int], tuple[PartitionSpec, StructType]]


@dataclass(eq=False)
class _Group:
    store: Store
    entries: Entries
    spans: dict[str, tuple[int, int]]
    columns: frozenset[int]
    metrics_of: frozenset[int] | None
    nbytes: int
    in_use: int
    """For how many manifests the cache has no newer group."""

    def has(self, type_: StructType, columns: frozenset[int], metrics_of: frozenset[int] | None) -> bool:
        enough = self.metrics_of is None or (metrics_of is not None and metrics_of <= self.metrics_of)
        # a column may be promoted after its partition values were decoded
        return columns <= self.columns and enough and type_ == self.entries.partition_type


class ManifestCache:
    """Decoded manifests by path, bounded in bytes, shared by all tables of a process."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self._groups: OrderedDict[int, _Group] = OrderedDict()
        self._by_path: dict[tuple[Store, str], _Group] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._bytes

    def get(self, store: Store, path: str) -> _Group | None:
        with self._lock:
            group = self._by_path.get((store, path))
            if group is not None:
                self._groups.move_to_end(id(group))
            return group

    def put(self, group: _Group) -> None:
        if group.nbytes > self.max_bytes:
            return
        with self._lock:
            for path in group.spans:
                replaced = self._by_path.get((group.store, path))
                self._by_path[(group.store, path)] = group
                if replaced is not None:
                    replaced.in_use -= 1
                    if not replaced.in_use:
                        self._drop(replaced)
            self._groups[id(group)] = group
            self._bytes += group.nbytes
            while self._bytes > self.max_bytes:
                self._drop(next(iter(self._groups.values())))

    def _drop(self, group: _Group) -> None:
        del self._groups[id(group)]
        self._bytes -= group.nbytes
        for path in group.spans:
            if self._by_path.get((group.store, path)) is group:
                del self._by_path[(group.store, path)]

    def clear(self) -> None:
        """Forget everything, manifest lists too."""
        with self._lock:
            self._groups.clear()
            self._by_path.clear()
            self._bytes = 0
        forget_lists()


SHARED_CACHE = ManifestCache()


class ManifestReader:
    """Reads manifests through one store, with the specs of one table."""

    def __init__(self, store: Store, specs: SpecLookup, cache: ManifestCache | None = None) -> None:
        self._store = store
        self._specs = specs
        self._cache = SHARED_CACHE if cache is None else cache

    def read(
        self, manifests: Sequence[ManifestFile], columns: frozenset[int], metrics_of: frozenset[int] | None = None
    ) -> Iterator[Entries]:
        """The entries of manifests, some group at a time, in no particular order; each group has one spec.

        A filter needs the metrics of few columns: `metrics_of` names them. None stands for all.
        """
        if not columns & _MAPS:
            metrics_of = frozenset()
        cached: dict[int, tuple[_Group, list[ManifestFile]]] = {}
        missing: list[ManifestFile] = []
        wider = metrics_of
        types = {spec_id: self._specs(spec_id)[1] for spec_id in {item.partition_spec_id for item in manifests}}
        for manifest in manifests:
            group = self._cache.get(self._store, self._key(manifest))
            if group is not None and group.has(types[manifest.partition_spec_id], columns, metrics_of):
                cached.setdefault(id(group), (group, []))[1].append(manifest)
                continue
            missing.append(manifest)
            if group is not None and wider is not None and group.metrics_of is not None:
                wider |= group.metrics_of  # so that filters that take turns find what they need from then on
        for group, wanted in cached.values():
            yield self._pick(group, wanted)
        yield from self._read_groups(missing, columns, wider)

    def read_one(self, manifest: ManifestFile, columns: frozenset[int]) -> Entries:
        """The entries of one manifest, in their order in the file."""
        parts = list(self.read([manifest], columns))
        return parts[0]

    def _key(self, manifest: ManifestFile) -> str:
        # what entries inherit is part of what was decoded
        return f"{manifest.manifest_path}\0{manifest.sequence_number}\0{manifest.first_row_id}"

    def _pick(self, group: _Group, wanted: Sequence[ManifestFile]) -> Entries:
        if len(wanted) == len(group.spans):
            return group.entries
        slices = [group.entries.slice(*group.spans[self._key(manifest)]) for manifest in wanted]
        return concat(slices)

    def _read_groups(
        self, manifests: Sequence[ManifestFile], columns: frozenset[int], metrics_of: frozenset[int] | None
    ) -> Iterator[Entries]:
        cores = os.cpu_count() or 1
        share = sum(manifest.manifest_length for manifest in manifests) // (2 * cores)
        batches = list(_batches(manifests, min(max(share, _LEAST_GROUP_BYTES), GROUP_BYTES)))
        if len(batches) <= 1:
            for batch in batches:
                yield from self._decode(batch, columns, metrics_of)
            return
        workers = min(len(batches), cores)
        # one group beyond the busy workers is ready at any time: memory stays bounded however many there are
        with ThreadPoolExecutor(workers, thread_name_prefix="frazil-plan") as pool:
            pending = [pool.submit(self._decode, batch, columns, metrics_of) for batch in batches[: workers + 1]]
            following = iter(batches[workers + 1 :])
            while pending:
                done = pending.pop(0).result()
                upcoming = next(following, None)
                if upcoming is not None:
                    pending.append(pool.submit(self._decode, upcoming, columns, metrics_of))
                yield from done

    def _decode(
        self, manifests: Sequence[ManifestFile], columns: frozenset[int], metrics_of: frozenset[int] | None
    ) -> list[Entries]:
        opened = []
        for manifest in manifests:
            data = self._store.read(manifest.manifest_path)
            if manifest.manifest_length and len(data) != manifest.manifest_length:
                raise MalformedMetadata(
                    f"manifest {manifest.manifest_path} has {len(data)} bytes, not {manifest.manifest_length}",
                    hint="the file was truncated or replaced",
                )
            with naming(manifest.manifest_path):
                container = avro.read_container(data)
            opened.append((container.schema.text, manifest.partition_spec_id, container, manifest))
        result = []
        opened.sort(key=lambda item: item[:2])
        for (_, spec_id), members in groupby(opened, key=lambda item: item[:2]):
            _, _, containers, owners = zip(*members, strict=True)
            spec, partition_type = self._specs(spec_id)
            try:
                entries, counts = decode_manifests(containers, owners, spec, partition_type, columns, metrics_of)
            except MalformedMetadata:
                for container, owner in zip(containers, owners, strict=True):  # which one of them?
                    with naming(owner.manifest_path):
                        decode_manifests([container], [owner], spec, partition_type, columns, metrics_of)
                raise
            spans, start = {}, 0
            for manifest, count in zip(owners, counts, strict=True):
                spans[self._key(manifest)] = (start, count)
                start += count
            self._cache.put(_Group(self._store, entries, spans, columns, metrics_of, entries.nbytes, len(spans)))
            result.append(entries)
        return result


def _batches(manifests: Sequence[ManifestFile], most_bytes: int) -> Iterator[list[ManifestFile]]:
    batch: list[ManifestFile] = []
    size = 0
    # neighbours that share a schema decode together
    for manifest in sorted(manifests, key=lambda item: (item.partition_spec_id, item.content)):
        if batch and size + manifest.manifest_length > most_bytes:
            yield batch
            batch, size = [], 0
        batch.append(manifest)
        size += manifest.manifest_length
    if batch:
        yield batch
