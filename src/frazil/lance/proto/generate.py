"""Make `messages.binpb` and `messages.pyi` from `messages.proto`: `python -m frazil.lance.proto.generate`.

It needs grpcio-tools, which nothing else does; any release makes the same descriptors.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
_HEADER = "# Made by generate.py from messages.proto.\n"


def generated() -> tuple[bytes, str]:
    """The descriptor set and the type stub."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as made:
        arguments = ["protoc", f"-I{FOLDER}", f"--descriptor_set_out={made}/set", f"--pyi_out={made}", "messages.proto"]
        if protoc.main(arguments) != 0:
            raise RuntimeError("protoc refused messages.proto")
        descriptors = Path(made, "set").read_bytes()
        stub = next(Path(made).glob("*.pyi")).read_text()
    return descriptors, _HEADER + "from google.protobuf.message import DecodeError as DecodeError\n" + stub


if __name__ == "__main__":
    descriptors, stub = generated()
    Path(FOLDER, "messages.binpb").write_bytes(descriptors)
    Path(FOLDER, "messages.pyi").write_text(stub)
