"""Tables that pylance wrote, and something did to: each with the error that must come of reading it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from frazil.errors import FileMissing, FrazilError, MalformedData, MalformedMetadata, Unsupported, UnsupportedVersion
from frazil.lance.manifest_file import parse_manifest_file
from frazil.lance.proto.messages import Manifest

Damage = Callable[[Path], None]


def _manifest(folder: Path) -> Path:
    return min((folder / "_versions").glob("*.manifest"))


def _told(change: Callable[[Manifest], object]) -> Damage:
    """A manifest that says something else."""

    def damage(folder: Path) -> None:
        file = _manifest(folder)
        manifest = parse_manifest_file(file.read_bytes(), str(file)).manifest
        change(manifest)
        for name in ("transaction_section", "transaction_section_before_14", "index_section"):
            manifest.ClearField(name)
        body = manifest.SerializeToString()
        file.write_bytes(struct.pack("<I", len(body)) + body + struct.pack("<QHH4s", 0, 0, 2, b"LANC"))

    return damage


def _ending(find: Callable[[Path], Path], end: bytes) -> Damage:
    """A file with another end."""

    def damage(folder: Path) -> None:
        file = find(folder)
        file.write_bytes(file.read_bytes()[: -len(end)] + end)

    return damage


def _data(folder: Path) -> Path:
    return next((folder / "data").glob("*.lance"))


def _legacy(folder: Path) -> None:
    import shutil

    import lance

    shutil.rmtree(folder)
    lance.write_dataset(pa.table({"id": [1], "word": ["x"]}), folder, data_storage_version="legacy")


DAMAGES: dict[str, tuple[Damage, type[FrazilError], str]] = {
    "an unknown flag": (
        _told(lambda one: setattr(one, "reader_feature_flags", 1 << 20)),
        UnsupportedVersion,
        "feature flags",
    ),
    "an unknown version of data files": (
        _told(lambda one: setattr(one.data_format, "version", "2.9")),
        Unsupported,
        "version '2.9'",
    ),
    "a data file of an unknown version": (
        _ending(_data, struct.pack("<HH4s", 9, 9, b"LANC")),
        Unsupported,
        "storage version: 9.9",
    ),
    "a corrupt trailer": (_ending(_manifest, b"XXXX"), MalformedMetadata, "do not end in LANC"),
    "an empty manifest": (lambda folder: _cleared(_manifest(folder)), MalformedMetadata, "0 bytes"),
    "a data file with a corrupt trailer": (_ending(_data, b"XXXX"), MalformedData, "cannot be used"),
    "a missing data file": (lambda folder: _data(folder).unlink(), FileMissing, "is missing"),
    "no column indices": (
        _told(lambda one: one.fragments[0].files[0].ClearField("column_indices")),
        MalformedMetadata,
        "2 fields of .* and 0 columns",
    ),
    "a legacy table": (_legacy, Unsupported, "not supported"),
}


def _cleared(file: Path) -> None:
    file.write_bytes(b"")


def damaged(folder: Path, name: str) -> None:
    """Make a table, and do to it what the name says."""
    import lance

    lance.write_dataset(pa.table({"id": list(range(50)), "word": ["x"] * 50}), folder)
    DAMAGES[name][0](folder)
