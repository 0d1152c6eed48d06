"""Flags that we do not understand keep us from reading, or from writing."""

from __future__ import annotations

import pytest

from frazil.errors import UnsupportedVersion
from frazil.lance.feature_flags import check_readable, check_writable, set_flags
from frazil.lance.proto.messages import DataFragment, DeletionFile, Manifest


@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 128])
def test_understood(bit: int) -> None:
    check_writable(Manifest(reader_feature_flags=bit, writer_feature_flags=bit))


@pytest.mark.parametrize("bit", [64, 256, 512, 1024, 2048, 4096, 1 << 63])
def test_refused(bit: int) -> None:
    with pytest.raises(UnsupportedVersion, match=str(bit)):
        check_readable(Manifest(reader_feature_flags=bit | 1))
    check_readable(Manifest(writer_feature_flags=bit))
    with pytest.raises(UnsupportedVersion, match="write"):
        check_writable(Manifest(writer_feature_flags=bit))


def test_flags_follow_the_contents_and_others_stay() -> None:
    manifest = Manifest(reader_feature_flags=2 | 128, writer_feature_flags=2 | 128)
    manifest.fragments.append(DataFragment(deletion_file=DeletionFile(num_deleted_rows=1)))
    manifest.config["a"] = "b"
    set_flags(manifest)
    assert (manifest.reader_feature_flags, manifest.writer_feature_flags) == (1 | 2 | 128, 1 | 2 | 8 | 128)
    manifest.fragments[0].ClearField("deletion_file")
    manifest.config.clear()
    set_flags(manifest)
    assert (manifest.reader_feature_flags, manifest.writer_feature_flags) == (2 | 128, 2 | 128)
