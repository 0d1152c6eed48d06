"""Feature flags: what a reader or a writer must understand before it touches a table."""

from __future__ import annotations

from frazil.errors import Unsupported, UnsupportedVersion
from frazil.lance.proto.messages import Manifest

DELETION_FILES = 1
STABLE_ROW_IDS = 2
OLD_V2_FILES = 4
TABLE_CONFIG = 8
BASE_PATHS = 16
NO_TRANSACTION_FILES = 32
COVERING_INDICES = 128

SEALED = 1 << 62
"""Ours, and only for writers: the table is elsewhere now, and this is the last version of what it was."""
MOVED_TO = "frazil.moved-to"
"""The metadata of a sealed table that says where it is."""

UNDERSTOOD = (
    DELETION_FILES | STABLE_ROW_IDS | OLD_V2_FILES | TABLE_CONFIG | BASE_PATHS | NO_TRANSACTION_FILES | COVERING_INDICES
)
NAMES = {
    64: "data overlays",
    256: "data files of mixed versions",
    512: "fragment reuse with stable row ids",
    1024: "tagged fragment reuse",
}


def check_readable(manifest: Manifest) -> None:
    """Refuse a table with something in it that we could misread."""
    _check(manifest.reader_feature_flags, "read")


def check_writable(manifest: Manifest) -> None:
    """Refuse to write to a table that we could damage."""
    check_readable(manifest)
    if is_sealed(manifest):
        raise Unsupported(
            f"the Lance table was converted, and is {manifest.table_metadata.get(MOVED_TO, 'elsewhere')} now",
            hint="open it again by its name; if the conversion did not end, converting it to lance makes it as before",
        )
    _check(manifest.writer_feature_flags, "write")


def _check(flags: int, verb: str) -> None:
    unknown = flags & ~UNDERSTOOD
    if unknown:
        bits = [1 << bit for bit in range(unknown.bit_length()) if unknown >> bit & 1]
        named = ", ".join(f"{bit} ({NAMES[bit]})" if bit in NAMES else str(bit) for bit in bits)
        raise UnsupportedVersion(
            f"the Lance table has feature flags that are not understood, so we must not {verb} it: {named}",
            hint="a newer release of frazil may know them; pylance can take the feature out of the table",
            flags=bits,
        )


def is_sealed(manifest: Manifest) -> bool:
    """Whether this is the last version of a table that is elsewhere now."""
    return bool(manifest.writer_feature_flags & SEALED)


def set_flags(manifest: Manifest) -> None:
    """Set the flags that the contents ask for, and drop those of deletion files when there are none."""
    reader = manifest.reader_feature_flags & ~(DELETION_FILES | BASE_PATHS)
    writer = manifest.writer_feature_flags & ~(DELETION_FILES | BASE_PATHS | TABLE_CONFIG | NO_TRANSACTION_FILES)
    both = 0
    if any(fragment.HasField("deletion_file") for fragment in manifest.fragments):
        both |= DELETION_FILES
    if manifest.base_paths:
        both |= BASE_PATHS
    manifest.reader_feature_flags = reader | both
    manifest.writer_feature_flags = writer | both | (TABLE_CONFIG if manifest.config else 0)


def has_stable_row_ids(manifest: Manifest) -> bool:
    """Whether rows keep their ids when they move."""
    return bool(manifest.reader_feature_flags & STABLE_ROW_IDS)
