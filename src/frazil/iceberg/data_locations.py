"""Where new data files go: by partition under the data folder, or spread by a hash for object stores."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from frazil.iceberg import properties as props
from frazil.iceberg.metadata import TableMetadata
from frazil.model.murmur3 import hash_bytes

_HASH_BITS = 20
_FOLDERS = (4, 4, 4)
_NAME_BYTES = 255
"""The longest name of a file or folder on most file systems."""
_CUT_ESCAPE = re.compile(r"%.?\Z")


def data_folder(metadata: TableMetadata) -> str:
    """The folder of data files: `write.data.path` and its older spellings, or `data` under the table's location."""
    settings = metadata.property_reader
    named = settings.get(props.WRITE_DATA_LOCATION)
    if named is None and settings.get(props.OBJECT_STORE_ENABLED):
        named = settings.get(props.OBJECT_STORE_PATH)
    if named is None:
        named = settings.get(props.WRITE_FOLDER_STORAGE_LOCATION)
    return (named or f"{metadata.location.rstrip('/')}/data").rstrip("/")


def data_location(metadata: TableMetadata, partition_path: str, name: str) -> str:
    """The location of a new data file. Folders whose names are too long for a disk are named shorter."""
    settings = metadata.property_reader
    partition_path = "/".join(map(_fitting, partition_path.split("/")))
    folder = data_folder(metadata)
    if not settings.get(props.OBJECT_STORE_ENABLED):
        return f"{folder}/{partition_path}/{name}" if partition_path else f"{folder}/{name}"
    if not settings.get(props.OBJECT_STORE_PARTITIONED_PATHS):
        return f"{folder}/{_spread(name)}-{name}"
    full = f"{partition_path}/{name}" if partition_path else name
    return f"{folder}/{_spread(full)}/{full}"


def writing_to(folder: str, metadata: TableMetadata) -> TableMetadata:
    """Metadata by which new files go into a folder, and nowhere else."""
    inside = {props.WRITE_DATA_LOCATION.name: folder, props.OBJECT_STORE_ENABLED.name: "false"}
    return replace(metadata, properties={**metadata.properties, **inside})


def _fitting(name: str) -> str:
    """The name, its end replaced by a digest of all of it where it is too long."""
    data = name.encode()
    if len(data) <= _NAME_BYTES:
        return name
    digest = hashlib.sha256(data).hexdigest()[:32]
    start = data[: _NAME_BYTES - 1 - len(digest)].decode(errors="ignore")
    return f"{_CUT_ESCAPE.sub('', start)}-{digest}"


def _spread(name: str) -> str:
    """Twenty bits of a hash as folders, so that no key prefix of the store gets hot."""
    bits = format(hash_bytes(name.encode()) & ((1 << _HASH_BITS) - 1), f"0{_HASH_BITS}b")
    parts, start = [], 0
    for width in _FOLDERS:
        parts.append(bits[start : start + width])
        start += width
    return "/".join([*parts, bits[start:]])
