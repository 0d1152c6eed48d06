"""Our messages are what pylance writes, byte for byte where nothing is unknown to us, and what protoc makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pyarrow as pa

from frazil.lance.manifest_file import parse_manifest_file
from frazil.lance.proto import generate
from frazil.lance.proto import messages as m


def test_generating_again_gives_the_same() -> None:
    descriptors, _ = generate.generated()
    assert descriptors == Path(generate.FOLDER, "messages.binpb").read_bytes()


def test_the_stub_has_every_message_and_field() -> None:
    stub = Path(generate.FOLDER, "messages.pyi").read_text()
    source = Path(generate.FOLDER, "messages.proto").read_text()
    for name in re.findall(r"^message (\w+)", source, re.MULTILINE):
        assert f"class {name}(" in stub
        for field in getattr(m, name).DESCRIPTOR.fields:
            assert re.search(rf"\b{field.name}\b", stub)


def test_pylance_manifests_survive_a_round_trip(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path / "t")
    dataset.delete("a = 2")
    dataset.create_scalar_index("a", "BTREE")
    dataset.update_config({"k": "v"})
    files = sorted((tmp_path / "t/_versions").glob("*.manifest"))
    assert len(files) == 4
    for file in files:
        found = parse_manifest_file(file.read_bytes(), str(file))
        for message in (found.manifest, found.indices, found.transaction):
            again = type(message).FromString(message.SerializeToString())
            assert again == message
        assert found.transaction is not None
        written = Path(tmp_path, "t/_transactions", found.manifest.transaction_file).read_bytes()
        assert m.Transaction.FromString(written) == found.transaction
