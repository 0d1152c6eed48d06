"""What becomes of indices when fragments change: they are carried along, and cover fewer fragments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from frazil.io.roaring import deserialize32, serialize32
from frazil.lance.proto.messages import IndexMetadata, IndexSection

Cover = frozenset[int]


def covered(index: IndexMetadata) -> Cover | None:
    """The fragments that an index covers; None if it does not say."""
    if not index.HasField("fragment_bitmap"):
        return None
    return frozenset(deserialize32(index.fragment_bitmap).tolist())


def without_fragments(indices: Iterable[IndexMetadata], gone: Cover, fields: Cover | None = None) -> IndexSection:
    """Indices that do not cover some fragments any more; with `fields`, only those on one of these."""
    return _changed(indices, lambda cover: cover - gone, fields)


def of_fields(indices: Iterable[IndexMetadata], known: Cover) -> IndexSection:
    """The indices whose fields the table still has."""
    return IndexSection(indices=[index for index in indices if known.issuperset(index.fields)])


def _changed(indices: Iterable[IndexMetadata], change: Callable[[Cover], Cover], fields: Cover | None) -> IndexSection:
    section = IndexSection()
    for index in indices:
        made = section.indices.add()
        made.CopyFrom(index)
        cover = covered(index)
        if cover is not None and (fields is None or not fields.isdisjoint(index.fields)):
            left = change(cover)
            if left != cover:
                made.fragment_bitmap = serialize32(np.array(sorted(left), np.int64))
    return section
